"""Results: what the verbs return. Frozen data that can be pickled and hold no log."""

from __future__ import annotations

from deadweight._version import SCHEMA
from deadweight.results.estimate import FLAGS, About, Estimate, Interval, remark, remarks
from deadweight.results.evaluation import Evaluation, Verdict, headline_of

__all__ = [
    "FLAGS",
    "SCHEMA",
    "About",
    "Estimate",
    "Evaluation",
    "Interval",
    "Verdict",
    "headline_of",
    "remark",
    "remarks",
]
