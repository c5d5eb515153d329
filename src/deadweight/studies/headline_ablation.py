"""What each part of the headline's rule is good for: the rule without it, on the evidence of runs.

Nothing is run again: the mix is arithmetic on estimates, their covariance and a few numbers more. Skewness
is not kept, so that intervals are the same on both sides here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from deadweight.blend.mixing import CROSS_FITTED, NORMAL, Evidence, Mixture
from deadweight.studies.coverage_tables import markdown

Change = Callable[[Evidence], Evidence]


def without(*names: str) -> Change:
    """The rule without some of the candidates."""
    return lambda one: replace(one, left_out=(*one.left_out, *names))


CHANGES: Mapping[str, Change] = {
    "the rule": lambda one: one,
    "without cross-fitted WDR": without(CROSS_FITTED, "WDR"),
    "without LIN": without("LIN"),
    "without WIN3 and WIN2": without("WIN3", "WIN2"),
    "without LIN and windows": without("LIN", "WIN3", "WIN2"),
    "v_u not counted": lambda one: replace(one, unseen_variance=0.0),
    "folds not heard": lambda one: replace(one, shared_bias=0.0),
    "every episode taken for an effective one": lambda one: replace(one, sizes=np.full(len(one.names), 1e12)),
    "a model that does not fit is kept": lambda one: replace(one, model=True),
}


def evidence_from(kept: Mapping[str, Any]) -> Evidence:
    """The evidence of a run as it was kept."""
    arrays = {name: np.array(kept[name]) for name in ("values", "covariance", "sizes")}
    words = {name: tuple(kept[name]) for name in ("names", "left_out")}
    return Evidence(**{**kept, **arrays, **words})


def ablation(runs: Mapping[str, tuple[float, list[dict[str, Any]]]]) -> str:
    """A line for each change.

    Args:
      runs: by cell, the truth and what was kept of each run.
    """
    heads = [
        "the rule, and without parts of it",
        "lowest coverage",
        "cells below .93",
        "width",
        "MSE",
        "worst",
    ]
    rows = [[name, *_line(change, runs)] for name, change in CHANGES.items()]
    return markdown(heads, rows)


def _line(change: Change, runs: Mapping[str, tuple[float, list[dict[str, Any]]]]) -> list[str]:
    """Coverage, width in units of its own error, and squared error over that of the whole rule."""
    coverage, width, error = [], [], []
    for truth, kept in runs.values():
        some = [evidence_from(one) for one in kept]
        whole = np.mean([(Mixture(one).at(0.95).value - truth) ** 2 for one in some])
        mixed = [Mixture(change(one)).at(0.95) for one in some]
        own = float(np.mean([(one.value - truth) ** 2 for one in mixed]))
        coverage.append(np.mean([abs(one.value - truth) <= one.half_width for one in mixed]))
        width.append(np.median([one.half_width for one in mixed]) / (NORMAL * math.sqrt(own)) if own else 1.0)
        error.append(own / whole if whole else 1.0)
    return [
        *(f"{min(coverage):.3f}", str(sum(one < 0.93 for one in coverage))),
        *(f"{_geometric(width):.2f}", f"{_geometric(error):.2f}", f"{max(error):.2f}"),
    ]


def _geometric(values: Any) -> float:
    return float(np.exp(np.mean(np.log(values))))
