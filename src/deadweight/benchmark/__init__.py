"""Timings against plain references, as ratios measured in pairs; `deadweight benchmark` prints them."""

from __future__ import annotations

from deadweight.benchmark.cases import CASES
from deadweight.benchmark.paired import Ratio, ratio
from deadweight.benchmark.result import Result

__all__ = ["CASES", "Ratio", "Result", "ratio"]
