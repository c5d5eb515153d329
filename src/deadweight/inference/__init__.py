"""Inference: how far an estimate may be trusted. One entry point, `make_interval`, serves every kind."""

from deadweight.inference.intervals import KINDS, PAIRED, check_interval, clipped, make_interval
from deadweight.inference.sequence import ConfidenceSequence, confidence_sequence

__all__ = [
    "KINDS",
    "PAIRED",
    "ConfidenceSequence",
    "check_interval",
    "clipped",
    "confidence_sequence",
    "make_interval",
]
