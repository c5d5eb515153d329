"""What a case of the benchmark finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One line: what was measured, and what was aimed at ("" where nothing was)."""

    name: str
    measured: str
    aim: str = ""
