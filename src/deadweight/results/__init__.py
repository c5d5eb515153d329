"""Results: what the verbs return. Frozen data that can be pickled and hold no log."""

from deadweight.results.estimate import FLAGS, Estimate, Interval

__all__ = ["FLAGS", "Estimate", "Interval"]
