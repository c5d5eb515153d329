"""Timings against plain references, as ratios measured in pairs; `deadweight benchmark` prints them."""

from __future__ import annotations

from deadweight.benchmark.cases import CASES, Result
from deadweight.benchmark.paired import Ratio, ratio

__all__ = ["CASES", "Ratio", "Result", "ratio"]
