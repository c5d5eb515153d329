"""Timings against plain references, as ratios measured in pairs; `deadweight benchmark` prints them."""

from __future__ import annotations

from deadweight.studies.benchmark.cases import CASES, ONLY_IF_NAMED
from deadweight.studies.benchmark.paired import Ratio, ratio
from deadweight.studies.benchmark.result import Result

__all__ = ["CASES", "ONLY_IF_NAMED", "Ratio", "Result", "ratio"]
