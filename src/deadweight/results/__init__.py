"""Results: what the verbs return. Frozen data that can be pickled and hold no log."""

from deadweight.results.estimate_data import About, Estimate, Interval
from deadweight.results.evaluation import Evaluation, headline_of
from deadweight.results.flags import FLAGS, remark, remarks
from deadweight.results.shared import SCHEMA
from deadweight.results.verdict_data import Verdict

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
