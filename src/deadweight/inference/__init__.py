"""Inference: how far an estimate may be trusted. One entry point, `make_interval`, serves every kind."""

from deadweight.inference.intervals import (
    KINDS,
    PAIRED,
    ReturnExtent,
    check_interval,
    make_interval,
    settled_interval,
)
from deadweight.inference.sequence import ConfidenceSequence, confidence_sequence

__all__ = [
    "KINDS",
    "PAIRED",
    "ConfidenceSequence",
    "ReturnExtent",
    "check_interval",
    "confidence_sequence",
    "make_interval",
    "settled_interval",
]
