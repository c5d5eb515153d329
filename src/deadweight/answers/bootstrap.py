r"""Bootstrap intervals: whole episodes resampled, with every normaliser recomputed in every resample.

A product estimator is a function of sums over episodes, and so is its resample: a matrix of copies times the
columns of weights and weighted values, block by block. Terms that come from a fitted model (doubly robust,
C-) keep that model. Estimators that are no such function are computed anew from each resampled log.
Percentile and bias-corrected accelerated intervals; Efron (1987), Chamandy et al. (2012) for the Poisson
weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from deadweight.answers.answering import Answers
from deadweight.answers.intervals import first_episodes, influences
from deadweight.answers.plans import Plan
from deadweight.errors import EstimationError
from deadweight.estimators.product import ProductFamily, Terms
from deadweight.question.drops import Drop
from deadweight.results.estimate import Interval
from deadweight.sums import kernel
from deadweight.sums.blocks import Block, powers
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import ColumnSums
from deadweight.tools.arithmetic import divide
from deadweight.typing import FloatArray, IntArray

# --- Poisson weights that belong to (seed, resample, episode): a bootstrap that merges
#
# Drawing n episodes with replacement gives each of them about Poisson(1) copies. Here the number of copies is
# a hash of the seed, the resample and the episode's number, so that it is the same however the log is cut
# into blocks or parts. One 64-bit word (Steele, Lea & Flood, 2014) serves four resamples, 16 bits each: the
# mean is exactly 1, the variance 1 - 2**-15, and no event is off by more than 4e-5 in probability; nine
# copies or more, which have probability 1e-6, do not occur.

WORDS = npt.NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LEVELS = 1 << 16


def poisson_weights(seed: int, episodes: IntArray, resamples: int) -> npt.NDArray[np.uint8]:
    """(m, resamples) numbers of copies, for the episodes with these numbers.

    >>> whole = poisson_weights(0, np.arange(6), 8)
    >>> bool((poisson_weights(0, np.array([4, 2]), 8) == whole[[4, 2]]).all())
    True
    """
    if kernel.KERNEL is None:
        return _by_numpy(seed, episodes, resamples)
    copies = np.empty((len(episodes), resamples), dtype=np.uint8)
    numbers, cuts = np.ascontiguousarray(episodes, dtype=np.int64), _CUTS.astype(np.int64)
    kernel.KERNEL.resample_copies(seed % 2**64, numbers, cuts, resamples, copies.reshape(-1))
    return copies


def _by_numpy(seed: int, episodes: IntArray, resamples: int) -> npt.NDArray[np.uint8]:
    """The same, without the kernel."""
    words = -(-resamples // 4)
    with np.errstate(over="ignore"):
        stream = mixed(mixed(np.array([seed % 2**64], dtype=np.uint64)) + episodes.astype(np.uint64) * GOLDEN)
        cells = stream[:, None] + np.arange(1, words + 1, dtype=np.uint64) * GOLDEN
    levels = mixed(cells).astype("<u8", copy=False).view("<u2")
    # Eight comparisons a cell, many cells at a time, are faster than one look-up in a table.
    reached = np.empty(levels.shape, dtype=bool)
    copies = np.zeros(levels.shape, dtype=np.uint8)
    for cut in _CUTS:
        copies += np.greater_equal(levels, cut, out=reached).view(np.uint8)
    return copies[:, :resamples]


def mixed(words: WORDS) -> WORDS:
    """The words with all their bits mixed, in place (the finaliser of SplitMix64)."""
    shifted = words >> np.uint64(30)
    for shift, factor in ((27, 0xBF58476D1CE4E5B9), (31, 0x94D049BB133111EB)):
        np.bitwise_xor(words, shifted, out=words)
        np.multiply(words, np.uint64(factor), out=words)
        np.right_shift(words, np.uint64(shift), out=shifted)
    np.bitwise_xor(words, shifted, out=words)
    return words


def _cuts() -> npt.NDArray[np.uint16]:
    """The levels from which on there is one copy, are two copies, ...: the distribution function, rounded."""
    below = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(20)])
    levels = np.round(below * LEVELS)
    return levels[levels < LEVELS].astype(np.uint16)


_CUTS = _cuts()


# Copies are made for so many (episode, resample) cells at a time: they stay in cache.
CHUNK_CELLS = 1 << 19
# BLAS (OpenBLAS, in the wheels of numpy) gives products of at most so many multiplications to one thread.
ONE_THREAD = 1 << 18
# Products with more columns than this are long enough to be worth several threads.
FEW_COLUMNS = 32


def percentile(answers: Answers, plan: Plan, level: float) -> Interval:
    """Quantiles of the resampled estimates."""
    values = resampled(answers, plan)
    return _interval(answers, plan, "bootstrap", values, np.array([0.5 - level / 2, 0.5 + level / 2]))


def bca(answers: Answers, plan: Plan, level: float) -> Interval:
    """Quantiles moved for the bias and the skewness of the resampled estimates."""
    values = resampled(answers, plan)
    shares = bca_levels(values, answers.fit(plan).value, influences(answers, plan), level)
    return _interval(answers, plan, "bca", values, shares)


def _interval(answers: Answers, plan: Plan, kind: str, values: FloatArray, shares: FloatArray) -> Interval:
    lower, upper = (float(end) for end in np.quantile(values, shares))
    if plan.question.n == 1:  # which is drawn every time, and tells nothing of its noise
        lower, upper = -math.inf, math.inf
    return Interval(
        *(lower, upper, (upper - lower) / 2, 0.0, kind, plan.estimand, answers.fit(plan).value),
        resamples=len(values),
    )


def bca_levels(values: FloatArray, value: float, influence: FloatArray, level: float) -> FloatArray:
    r"""The two quantile levels of BCa.

    .. math:: \Phi\left( z_0 + \frac{z_0 + z}{1 - a (z_0 + z)} \right), \qquad
       a = \frac{\sum l_i^3}{6 (\sum l_i^2)^{3/2}}

    z_0 is the normal quantile of the share of resamples below the estimate, l the influence of each episode.
    """
    from scipy.special import ndtr, ndtri

    share = (np.sum(values < value) + 0.5 * np.sum(values == value)) / len(values)
    # With all resamples on one side the share is only known to be beyond the last of them.
    edge = 0.5 / len(values)
    z0 = float(ndtri(np.clip(share, edge, 1 - edge)))
    squares = float(np.sum(influence**2))
    acceleration = float(np.sum(influence**3)) / (6 * squares**1.5) if squares > 0 else 0.0
    z = z0 + ndtri(np.array([0.5 - level / 2, 0.5 + level / 2]))
    shares: FloatArray = ndtr(z0 + z / np.maximum(1 - acceleration * z, 1e-6))
    return shares


def resampled(answers: Answers, plan: Plan) -> FloatArray:
    """The estimate in each resample that holds any episode at all."""
    family = plan.family
    terms = plan.plain_terms
    if terms is not None:
        copies, sums = _resample(plan, partial(_mean_columns, terms))
        values = divide(sums[0][:, 0], copies)
    elif isinstance(family, ProductFamily):
        groups = answers.sums(plan).groups
        copies, sums = _resample(plan, partial(_group_columns, family, groups))
        values = np.add.reduce([_value(row, copies, family) for row in sums])
    else:
        return _refitted(plan)
    return np.asarray(values[copies > 0])


class _Columns(Protocol):
    """Columns of a block whose sums over copies a resample needs."""

    @property
    def table(self) -> FloatArray:
        """(m, k)."""
        ...

    def spread(self, sums: FloatArray) -> FloatArray:
        """The (R, k) sums of the table in a form that is the same for all blocks, (R, K)."""
        ...


class _Means:
    """One column: the terms of a plain mean."""

    def __init__(self, terms: FloatArray) -> None:
        self.table = terms[:, None]

    def spread(self, sums: FloatArray) -> FloatArray:
        return sums


class _Group:
    """Weights, weighted values and members of the normaliser of a group of terms, one column a step."""

    def __init__(self, terms: Terms, sums: ColumnSums) -> None:
        self.own, self.all = terms.values.shape[1], len(sums.weight)
        self.stays = terms.counted is None
        weights = terms.weights.among(terms.counted)
        w = weights.relative_to(sums.shift[: self.own])
        tables = [w * terms.values, w]
        shift = sums.shift[self.own :]
        # After the end a weight that stays is its last one again; a column of its own only for another unit.
        self.scaled = self.stays and not (weights.exponents is None and (shift == 0).all())
        if self.scaled:
            tables.append(weights.last.relative_to(shift))
        if terms.counted is not None:
            tables.append(terms.counted.astype(np.float64))
        self.table = np.concatenate(tables, axis=1)

    def spread(self, sums: FloatArray) -> FloatArray:
        """(R, 3 C): weighted values, weights, and members where some leave."""
        full = np.zeros((len(sums), 3, self.all))
        full[:, 0, : self.own] = sums[:, : self.own]
        full[:, 1, : self.own] = sums[:, self.own : 2 * self.own]
        rest = sums[:, 2 * self.own :]
        if self.scaled:
            full[:, 1, self.own :] = rest
        elif self.stays:
            full[:, 1, self.own :] = full[:, 1, self.own - 1 : self.own]
        else:
            full[:, 2, : self.own] = rest
        return full.reshape(len(sums), -1)


def _mean_columns(terms: Callable[[Block], FloatArray], block: Block) -> list[_Means]:
    return [_Means(terms(block))]


def _group_columns(family: ProductFamily, groups: Sequence[ColumnSums], block: Block) -> list[_Group]:
    return [_Group(*pair) for pair in zip(family.terms(block), groups, strict=True)]


def _value(sums: FloatArray, copies: FloatArray, family: ProductFamily) -> FloatArray:
    """(R,) a group's part of the self-normalised estimate in each resample."""
    weighted, weights, members = np.moveaxis(sums.reshape(len(sums), 3, -1), 1, 0)
    ratio = divide(weighted, weights)
    if family.finished == "survivors" and members.any():
        ratio *= divide(members, copies[:, None])
    value: FloatArray = ratio @ powers(family.gamma, ratio.shape[1])
    return value


@dataclass(frozen=True, eq=False)
class _Resamples:
    """Number of copies, and sums over them, in each resample."""

    copies: FloatArray  # (R,)
    sums: list[FloatArray]  # each (R, K)

    def merge(self, other: _Resamples) -> _Resamples:
        pairs = zip(self.sums, other.sums, strict=True)
        return _Resamples(self.copies + other.copies, [a + b for a, b in pairs])


def _resample(
    plan: Plan, columns: Callable[[Block], Sequence[_Columns]]
) -> tuple[FloatArray, list[FloatArray]]:
    """Episodes in each resample, and sums of the columns over them."""
    question, options = plan.question, plan.question.options
    summarise = _Resampling(columns, first_episodes(question), options.seed, options.resamples)
    resamples: _Resamples = reduce_log(question.parts, summarise, question.workers)[0]
    return resamples.copies, resamples.sums


@dataclass(frozen=True, eq=False)
class _Resampling:
    """From a block to its part of every resample; `first` is the number of each part's first episode."""

    columns: Callable[[Block], Sequence[_Columns]]
    first: IntArray
    seed: int
    resamples: int

    def __call__(self, block: Block) -> list[_Resamples]:
        parts = self.columns(block)
        table = np.concatenate([np.ones((block.n, 1)), *(part.table for part in parts)], axis=1)
        numbers = self.first[block.part] + block.first + block.rows
        sums = np.zeros((self.resamples, table.shape[1]))
        size = max(1, CHUNK_CELLS // self.resamples)
        for lo in range(0, block.n, size):
            copies = poisson_weights(self.seed, numbers[lo : lo + size], self.resamples)
            _add_product(sums, copies, table[lo : lo + size])
        cuts = np.cumsum([1, *(part.table.shape[1] for part in parts)])[:-1]
        number, *each = np.split(sums, cuts, axis=1)
        return [_Resamples(number[:, 0], [part.spread(one) for part, one in zip(parts, each, strict=True)])]


def _add_product(sums: FloatArray, copies: npt.NDArray[np.uint8], table: FloatArray) -> None:
    """sums += copies.T @ table, for a narrow table in pieces that BLAS does not share out among threads.

    Such products take microseconds, and where other work occupies a core, threads wait milliseconds for each
    other.
    """
    columns = table.shape[1]
    if columns > FEW_COLUMNS:
        sums += copies.astype(np.float64).T @ table
        return
    rows = max(128, ONE_THREAD // (len(sums) * columns))
    width = ONE_THREAD // (rows * columns)
    for lo in range(0, len(table), rows):
        counts, cells = copies[lo : lo + rows].astype(np.float64), table[lo : lo + rows]
        for left in range(0, len(sums), width):
            sums[left : left + width] += counts[:, left : left + width].T @ cells


def _refitted(plan: Plan) -> FloatArray:
    """The estimate from each resampled log, model and choices included."""
    question = plan.question
    if len(question.parts) > 1:
        raise EstimationError(
            f"A bootstrap of {plan.name} needs a log in one piece.",
            fix='Read the log whole with deadweight.read (--no-stream), or use interval="auto".',
        )
    log, options = question.parts[0], question.options
    copies = poisson_weights(options.seed, np.arange(question.n), options.resamples).astype(np.int64)
    values = []
    for column in copies.T:
        episodes = np.repeat(np.arange(question.n), column)
        if episodes.size == 0:
            continue
        again = question.about(log.select(episodes))
        drop = plan.drop
        if drop.steps is not None:
            rows = [np.arange(log.offsets[i], log.offsets[i + 1]) for i in episodes]
            drop = Drop(steps=drop.steps[np.concatenate(rows)])
        again_plan = Plan(again, plan.estimator, drop)
        values.append(Answers(again, [again_plan]).fit(again_plan).value)
    return np.array(values)
