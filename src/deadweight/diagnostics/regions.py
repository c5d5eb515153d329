"""A region of feature space in words: a shallow tree that tells some steps from the others.

A drop is one flag for each step; nobody can read that. A tree of two questions about single features
describes most drops well ("lactate below 2, and map at least 65"), and it says how well: the share of the
steps for which the words and the drop agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadweight.typing import BoolArray, FloatArray

DEPTH = 2
MOST_ROWS = 50_000
"""Questions are found on so many steps; how well they fit is said of all."""
LEAST = 0.02
"""A part with a smaller share of the steps is not split off: it would not be worth a clause."""


@dataclass(frozen=True)
class Region:
    """Some steps, in words.

    Attributes:
      words: clauses of which one holds; empty where the words are "all" or "none".
      share: of the steps, that the words describe.
      accuracy: share of the steps for which the words are right.
    """

    words: tuple[str, ...]
    share: float
    accuracy: float


def in_words(x: FloatArray, names: Sequence[str], flags: BoolArray) -> Region:
    """Which steps are flagged, in words about their features, (m, d).

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> in_words(x, ["lactate"], x[:, 0] < 2).words
    ('lactate below 2',)
    """
    leaves: list[tuple[tuple[_Question, ...], BoolArray]] = []
    _grow(x, flags, np.ones(len(x), dtype=bool), (), leaves)
    said = np.zeros(len(x), dtype=bool)
    words = []
    for questions, inside in leaves:
        if flags[inside].mean() > 0.5:
            said |= inside
            words.append(_clause(questions, names))
    words = [clause for clause in words if clause]
    return Region(tuple(words), float(said.mean()), float((said == flags).mean()))


@dataclass(frozen=True)
class _Question:
    """x[feature] < threshold, or its opposite."""

    feature: int
    threshold: float
    below: bool


def _grow(
    x: FloatArray,
    flags: BoolArray,
    inside: BoolArray,
    asked: tuple[_Question, ...],
    leaves: list[tuple[tuple[_Question, ...], BoolArray]],
) -> None:
    """Split as long as it tells flagged steps apart; halves that would say the same are one."""
    found = _best(x, flags, inside) if len(asked) < DEPTH else None
    if found is None:
        leaves.append((asked, inside))
        return
    below = inside & (x[:, found.feature] < found.threshold)
    above = inside & ~below
    grown: list[tuple[tuple[_Question, ...], BoolArray]] = []
    for part, is_below in ((below, True), (above, False)):
        question = _Question(found.feature, found.threshold, is_below)
        _grow(x, flags, part, (*asked, question), grown)
    answers = {bool(flags[part].mean() > 0.5) for _, part in grown}
    leaves.extend([(asked, inside)] if len(answers) == 1 else grown)


def _best(x: FloatArray, flags: BoolArray, inside: BoolArray) -> _Question | None:
    """The question after which least is unsaid, by Gini impurity; None where there is no use in any."""
    stride = -(-len(flags) // MOST_ROWS)
    rows = np.flatnonzero(inside)[::stride]
    y = flags[rows].astype(np.float64)
    if not y.size or not 0.0 < y.mean() < 1.0:
        return None
    least = max(1.0, LEAST * len(flags) / stride)
    best, lowest = None, len(y) * y.mean() * (1.0 - y.mean()) * (1.0 - 1e-9)
    for feature in range(x.shape[1]):
        column = x[rows, feature]
        order = np.argsort(column, kind="stable")
        sorted_column, hits = column[order], np.cumsum(y[order])
        cuts = np.flatnonzero(np.diff(sorted_column) > 0) + 1  # so many rows are below
        cuts = cuts[(cuts >= least) & (len(y) - cuts >= least)]
        if not cuts.size:
            continue
        inside_hits, total = hits[cuts - 1], hits[-1]
        impurity = inside_hits * (1 - inside_hits / cuts)
        impurity += (total - inside_hits) * (1 - (total - inside_hits) / (len(y) - cuts))
        k = int(impurity.argmin())
        if impurity[k] < lowest:
            lowest = float(impurity[k])
            between = sorted_column[cuts[k] - 1], sorted_column[cuts[k]]
            best = _Question(feature, round_between(*between), True)
    return best


def round_between(low: float, high: float) -> float:
    """The number with fewest digits above `low` and at most `high`.

    >>> round_between(1.96, 2.04), round_between(0.123, 0.127), round_between(64.2, 71.0)
    (2.0, 0.125, 70.0)
    """
    middle = (low + high) / 2
    for digits in range(-6, 16):
        for candidate in (round(middle, digits), round(high, digits)):
            if low < candidate <= high:
                return float(candidate)
    return float(high)


def _clause(questions: tuple[_Question, ...], names: Sequence[str]) -> str:
    """ "lactate from 1 to 2, map at least 65"."""
    ranges: dict[int, list[float]] = {}
    for question in questions:
        ends = ranges.setdefault(question.feature, [-np.inf, np.inf])
        if question.below:
            ends[1] = min(ends[1], question.threshold)
        else:
            ends[0] = max(ends[0], question.threshold)
    parts = []
    for feature, (low, high) in ranges.items():
        name = names[feature]
        if np.isinf(low):
            parts.append(f"{name} below {high:g}")
        elif np.isinf(high):
            parts.append(f"{name} at least {low:g}")
        else:
            parts.append(f"{name} from {low:g} to below {high:g}")
    return ", ".join(parts)
