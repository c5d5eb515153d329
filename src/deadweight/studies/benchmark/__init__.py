"""Timings against plain references, as ratios measured in pairs; `deadweight benchmark` prints them."""

from __future__ import annotations

from deadweight.studies.benchmark.cases import CASES
from deadweight.studies.benchmark.paired import Ratio, ratio
from deadweight.studies.benchmark.result import Result

__all__ = ["CASES", "Ratio", "Result", "ratio"]
