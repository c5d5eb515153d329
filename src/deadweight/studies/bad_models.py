"""Action values that are bad on purpose: fifty cells, something that means nothing, a random function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal

import numpy as np

from deadweight.basics.bumps import Bumps
from deadweight.log.trajectories import Trajectories
from deadweight.typing import FloatArray, IntArray
from deadweight.values.given import GivenQ
from deadweight.values.linear import LinearQ
from deadweight.values.row_values import RowLearner, Rows, RowValues

CELLS = 50
ROUNDS = 15


@dataclass(frozen=True, eq=False, kw_only=True)
class Redescribed(Rows):
    """Rows with other features than those of the log."""

    other: FloatArray

    @cached_property
    def x(self) -> FloatArray:
        """(n + episodes, d) the other features."""
        return self.other


@dataclass(frozen=True)
class OtherFeatures(RowLearner):
    """Linear action values in other columns than those of the log.

    Attributes:
      describe: from the features of all rows to other columns.
      basis: as in `LinearQ`.
    """

    describe: Callable[[FloatArray], FloatArray]
    basis: Literal["bumps", "linear"]

    def fit(self, rows: Rows) -> RowValues:
        """Action values of every row."""
        known = {one.name: getattr(rows, one.name) for one in fields(rows)}
        return LinearQ(basis=self.basis).fit(Redescribed(**known, other=self.describe(rows.x)))


def in_cells(log: Trajectories, seed: int) -> OtherFeatures:
    """Values that are constant in each of fifty cells, found by k-means."""

    def cells(x: FloatArray) -> FloatArray:
        z = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
        centres = z[np.random.default_rng(seed).choice(len(z), CELLS, replace=False)]
        for _ in range(ROUNDS):
            nearest = _nearest(z, centres)
            for cell in np.unique(nearest):
                centres[cell] = z[nearest == cell].mean(axis=0)
        found: FloatArray = np.eye(CELLS)[_nearest(z, centres)][:, 1:]
        return found

    return OtherFeatures(cells, "linear")


def _nearest(z: FloatArray, centres: FloatArray) -> IntArray:
    distance = np.square(centres).sum(axis=1) - 2.0 * z @ centres.T
    nearest: IntArray = distance.argmin(axis=1)
    return nearest


def irrelevant(log: Trajectories, seed: int) -> OtherFeatures:
    """Values learned from one feature that means nothing."""
    return OtherFeatures(lambda x: np.random.default_rng(seed).standard_normal((len(x), 1)), "bumps")


def noise_q(log: Trajectories, seed: int, size: float = 1.0) -> GivenQ:
    """Pure noise, `size` times as large as returns are."""
    q = size * _spread(log) * np.random.default_rng(seed).standard_normal((log.n_steps, log.n_actions))
    return GivenQ(q, last=np.zeros((log.n_episodes, log.n_actions)))


def little_noise(log: Trajectories, seed: int) -> GivenQ:
    """Noise of a tenth of the spread of returns."""
    return noise_q(log, seed, 0.1)


def much_noise(log: Trajectories, seed: int) -> GivenQ:
    """Noise of twice the spread of returns."""
    return noise_q(log, seed, 2.0)


def smooth_q(log: Trajectories, seed: int) -> GivenQ:
    """A smooth random function of the features, as large as returns are."""
    assert log.features is not None, "cells have features"
    assert log.last_features is not None, "they come with features"
    basis = Bumps.fitted(log.features, 30, seed)
    weights = np.random.default_rng(seed).standard_normal((basis.size, log.n_actions))
    weights[0] = 0.0
    scale = _spread(log) / (basis.of(log.features) @ weights).std()
    last = basis.of(np.nan_to_num(log.last_features)) @ weights
    return GivenQ(scale * (basis.of(log.features) @ weights), last=scale * last)


def _spread(log: Trajectories) -> float:
    return float(np.add.reduceat(log.rewards, log.offsets[:-1]).std())


BAD_MODELS: dict[str, Callable[[Trajectories, int], RowLearner]] = {
    "50 cells": in_cells,
    "irrelevant feature": irrelevant,
    "little noise": little_noise,
    "much noise": much_noise,
    "smooth": smooth_q,
}
