"""The columns of a path in two passes over the log, all levels at once.

What is summed at every level is in `level_walks`; here the sums of blocks are merged, divided by their
normalisers, and turned into estimates, biases, standard errors and effective sample sizes. Ended episodes
stay in the normalisers, the default convention; other conventions go level by level (`columns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadweight.basics.arithmetic import divide
from deadweight.estimators.estimator import Estimator
from deadweight.negligible.columns import Columns
from deadweight.negligible.levels import Levels
from deadweight.question.core import Question
from deadweight.sums.blocks import Block, powers
from deadweight.sums.fields import stacked
from deadweight.sums.level_walks import (
    LevelFactors,
    LevelInfluences,
    LevelSums,
    LevelValues,
    LevelWalk,
    NestedDrops,
)
from deadweight.sums.reduction import reduce_log
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray


@dataclass(frozen=True, eq=False)
class PathSums:
    """Sums of the first pass at every level; they merge. `declined` when a block was."""

    n: int
    declined: bool
    weight: FloatArray  # (T, L) with the last weights of ended episodes
    weighted: FloatArray
    lost: FloatArray
    before: FloatArray | None
    whole: FloatArray  # (3, L) sums of B, of B G and of B^2

    @classmethod
    def of(cls, sums: LevelSums) -> PathSums:
        """Of the walk along one block."""
        b, g = sums.final, sums.returns
        whole = np.stack([b.sum(axis=0), g @ b, np.einsum("ml,ml->l", b, b)])
        return cls(len(g), False, sums.weight, sums.weighted, sums.lost, sums.before, whole)

    @classmethod
    def none(cls, n: int) -> PathSums:
        """Of a block that was declined."""
        nothing = np.zeros((0, 0))
        return cls(n, True, nothing, nothing, nothing, None, nothing)

    def merge(self, other: PathSums) -> PathSums:
        """Sums over the episodes of both; nothing if either was declined."""
        if self.declined or other.declined:
            return PathSums.none(self.n + other.n)
        before = None
        if self.before is not None and other.before is not None:
            before = _added(self.before, other.before)
        return PathSums(
            self.n + other.n,
            False,
            _added(self.weight, other.weight, stays=True),
            _added(self.weighted, other.weighted),
            _added(self.lost, other.lost),
            before,
            self.whole + other.whole,
        )


def _added(a: FloatArray, b: FloatArray, stays: bool = False) -> FloatArray:
    """Sum of two tables of steps; the shorter one goes on with its last row, or with nothing."""
    if len(a) < len(b):
        a, b = b, a
    total = a.copy()
    total[: len(b)] += b
    if stays:
        total[len(b) :] += b[-1]
    return total


@dataclass(frozen=True, eq=False)
class LevelMoments:
    """Number of episodes, and mean and squared deviations of a number of each at every level; they merge."""

    n: int
    mean: FloatArray  # (L,)
    squares: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> LevelMoments:
        """Of (m, L) values."""
        mean = values.mean(axis=0)
        return cls(len(values), mean, np.square(values - mean).sum(axis=0))

    def merge(self, other: LevelMoments) -> LevelMoments:
        """Of the episodes of both (Chan, Golub & LeVeque, 1983)."""
        n, step = self.n + other.n, other.mean - self.mean
        squares = self.squares + other.squares + step * step * (self.n * other.n / n)
        return LevelMoments(n, self.mean + step * (other.n / n), squares)

    @property
    def std_error(self) -> FloatArray:
        """Standard error of the mean, ddof 1."""
        if self.n < 2:
            return np.full(len(self.mean), np.nan)
        return np.sqrt(self.squares / (self.n - 1) / self.n)


@dataclass(frozen=True, eq=False)
class _Walks:
    """How blocks are walked; travels to workers."""

    weighting: Weighting
    drops: NestedDrops
    values: LevelValues
    gamma: float

    def walk(self, block: Block) -> LevelWalk:
        return LevelWalk(block, self.weighting, self.drops, self.values)

    def sums(self, block: Block) -> list[PathSums]:
        found = self.walk(block).sums(self.gamma)
        return [PathSums.none(block.n) if found is None else PathSums.of(found)]


@dataclass(frozen=True, eq=False)
class _Influences:
    """Moments of the influences of a block's episodes on some names; travels to workers."""

    walks: _Walks
    factors: LevelFactors
    whole: tuple[FloatArray, FloatArray]  # (L,) slope and pull of whole-episode terms
    made: tuple[Estimator, ...]

    def __call__(self, block: Block) -> list[LevelMoments]:
        found = self.walks.walk(block).influences(self.factors)
        returns = block.returns(self.walks.gamma)[:, None]
        return [LevelMoments.of(self._of(one, found, returns)) for one in self.made]

    def _of(self, made: Estimator, found: LevelInfluences, returns: FloatArray) -> FloatArray:
        terms = found.terms
        if made.whole_episode:
            slope, pull = self.whole
            terms = found.final * (returns * slope - pull)
        if not made.is_corrected:
            return terms
        assert found.lost is not None
        return terms + found.lost


def all_levels(question: Question, made: Sequence[Estimator], levels: Levels) -> list[Columns] | None:
    """The columns of several names on the same levels; None where they must be found level by level.

    All are self-normalised or none is, and all are doubly robust or none is.
    """
    robust, weighted = made[0].contains_correction, made[0].is_weighted
    if question.options.finished != "absorb" or (robust and not question.options.drop_first):
        return None
    values = LevelValues(question.delta.values)
    if robust:
        fitted = question.cross_fitted_values
        (q, folds), (v, _) = stacked(fitted.q), stacked(fitted.v)
        if folds is not None and len(question.parts) > 1:
            return None  # the walks number episodes within their part
        fold_of = None if folds is None else np.arange(question.n) % folds.count
        values = LevelValues(question.delta.values, q, v, fold_of)
    walks = _Walks(Weighting(question.pair), NestedDrops(levels.entry, len(levels)), values, question.gamma)
    sums: PathSums = reduce_log(question.parts, walks.sums, question.workers)[0]
    if sums.declined:
        return None
    table = _Normalised.of(sums, question.gamma) if weighted else _Normalised.plain(sums, question.gamma)
    work = _Influences(walks, table.factors, table.whole_factors, tuple(made))
    moments = reduce_log(question.parts, work, question.workers)
    return [table.columns(one, moment) for one, moment in zip(made, moments, strict=True)]


@dataclass(frozen=True, eq=False)
class _Normalised:
    """The sums divided by their normalisers: estimates at every level, and factors of the second pass."""

    sums: PathSums
    discount: FloatArray  # (T, 1)
    normaliser: FloatArray  # (T, L) of weights after a step
    normaliser_before: FloatArray  # (T, L) of weights before it
    self_normalised: bool

    @classmethod
    def of(cls, sums: PathSums, gamma: float) -> _Normalised:
        """Self-normalised: divided by the sums of the weights."""
        first = np.full((1, sums.weight.shape[1]), float(sums.n))
        before = np.concatenate([first, sums.weight[:-1]])
        return cls(sums, powers(gamma, len(before))[:, None], sums.weight, before, True)

    @classmethod
    def plain(cls, sums: PathSums, gamma: float) -> _Normalised:
        """Divided by the number of episodes."""
        n = np.full_like(sums.weight, float(sums.n))
        return cls(sums, powers(gamma, len(n))[:, None], n, n, False)

    def _mean(self, weighted: FloatArray, normaliser: FloatArray) -> FloatArray:
        total: FloatArray = (self.discount * divide(weighted, normaliser)).sum(axis=0)
        return total

    @property
    def factors(self) -> LevelFactors:
        """Slope and pull of each kind of term: w (y slope - pull); the pull is the slope times the mean."""
        sums = self.sums
        slope = divide(self.discount * sums.n, self.normaliser)
        slope_before = divide(self.discount * sums.n, self.normaliser_before)

        def pull(factor: FloatArray, weighted: FloatArray, normaliser: FloatArray) -> FloatArray:
            return factor * divide(weighted, normaliser) * self.self_normalised

        return LevelFactors(
            slope,
            pull(slope, sums.weighted, self.normaliser),
            slope_before,
            pull(slope_before, sums.lost, self.normaliser_before),
            None if sums.before is None else pull(slope_before, sums.before, self.normaliser_before),
        )

    @property
    def whole_factors(self) -> tuple[FloatArray, FloatArray]:
        """The same of whole episodes, (L,) each."""
        normaliser = self.normaliser[-1]
        slope = divide(np.full(len(normaliser), float(self.sums.n)), normaliser)
        return slope, slope * divide(self.sums.whole[1], normaliser) * self.self_normalised

    def columns(self, made: Estimator, moments: LevelMoments) -> Columns:
        """What a path says of one name."""
        sums = self.sums
        if made.whole_episode:
            estimate = divide(sums.whole[1], self.normaliser[-1])
        else:
            estimate = self._mean(sums.weighted, self.normaliser)
        if sums.before is not None:
            estimate = estimate + self._mean(sums.before, self.normaliser_before)
        bias = 0.0 - self._mean(sums.lost, self.normaliser_before)
        ess = divide(sums.whole[0] ** 2, sums.whole[2])
        return Columns(estimate, moments.std_error, bias, ess)
