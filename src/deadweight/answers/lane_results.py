"""What the sums of one lane say of a family: its groups of terms, its weights, what moves a model."""

from __future__ import annotations

import numpy as np

from deadweight.answers.laned import Laned
from deadweight.estimators.starts import Starts, StartSums
from deadweight.sums.fields import Table
from deadweight.sums.lanes import LaneSums
from deadweight.sums.summaries import ColumnSums, Kish
from deadweight.typing import FloatArray


def size_of_lane(found: LaneSums, lane: int) -> Kish:
    """Sums of whole weights and of their squares."""
    assert found.whole is not None
    weight = found.whole.weight[lane : lane + 1]
    shift = ColumnSums.in_units_of_one(found.n, weight, weight).shift
    return Kish(True, shift, weight, found.whole.squares[lane : lane + 1])


def error_of_lane(laned: Laned, found: LaneSums, lane: int) -> float | None:
    """The standard error of a self-normalised sum of whole episodes; others need a second pass.

    Without a drop it is left to that pass, by which a plain name has it: an empty drop changes no bit.
    """
    if laned.kinds != ("whole",) or found.whole is None or not laned.dropped.any():
        return None
    return float(found.whole.std_error(found.n)[lane])


def groups_of_lane(laned: Laned, found: LaneSums, lane: int) -> list[ColumnSums]:
    """The sums of each group of terms of a family."""
    n, groups = found.n, []
    weight = found.weight[:, lane]
    before = np.concatenate([[float(n)], weight])

    def sums(weights: FloatArray, weighted: FloatArray | None) -> ColumnSums:
        assert weighted is not None, "wanted by somebody"
        column = weighted[:, lane]
        if len(weights) > len(column):  # weights before a step go on one step past the end
            column = np.append(column, 0.0)
        return ColumnSums.in_units_of_one(n, weights, column)

    for kind in laned.kinds:
        if kind == "whole":
            assert found.whole is not None
            some = slice(lane, lane + 1)
            groups.append(ColumnSums.in_units_of_one(n, found.whole.weight[some], found.whole.weighted[some]))
        elif kind == "steps":
            groups.append(sums(weight, found.weighted))
        elif kind == "lost":
            groups.append(sums(before, found.lost))
        else:
            groups += [sums(weight, found.robust), sums(before, found.before)]
    return groups


def starts_of_lane(laned: Laned, found: LaneSums, lane: int) -> Starts:
    """The weights by step and place behind the influence of a model."""
    assert found.by_state is not None
    by_state = found.by_state[
        ..., lane
    ]  # (folds, T, S) of the walk, which may know more folds than its family
    one_model = laned.robust is not None and isinstance(laned.robust.q, Table)
    tables = []
    for kind in laned.kinds:
        if kind == "lost":
            tables.append(np.where(laned.dropped, by_state.sum(axis=0), 0.0))
        elif kind == "robust":
            assert found.by_pair is not None
            both = found.by_pair[..., lane], by_state
            tables += [one.sum(axis=0) if one_model else _side_by_side(one) for one in both]
    return Starts(tuple(StartSums(np.zeros(len(one), dtype=np.int64), one) for one in tables))


def _side_by_side(by_fold: FloatArray) -> FloatArray:
    """(T, folds * places), of (folds, T, places)."""
    return by_fold.transpose(1, 0, 2).reshape(by_fold.shape[1], -1)
