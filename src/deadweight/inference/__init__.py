"""Inference: how far an estimate may be trusted. One entry point, `interval_maker`, serves every kind."""

from deadweight.inference.intervals import KINDS, check_interval, interval_maker
from deadweight.inference.sequence import ConfidenceSequence, confidence_sequence

__all__ = ["KINDS", "ConfidenceSequence", "check_interval", "confidence_sequence", "interval_maker"]
