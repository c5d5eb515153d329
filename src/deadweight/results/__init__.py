"""Results: what the verbs return. Frozen data that can be pickled and hold no log."""

from deadweight.results.base import SCHEMA
from deadweight.results.estimate import About, Estimate, Interval
from deadweight.results.evaluation import Evaluation, headline_of
from deadweight.results.flags import FLAGS, remark, remarks
from deadweight.results.verdict import Verdict

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
