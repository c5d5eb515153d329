r"""Estimators that weigh by products of ratios: one engine for IS, PDIS, DR and their variants.

Such an estimator is a list of *terms*, each a weight and a value for every episode:

.. math:: \hat G = \sum_c \gamma_c \, \frac{1}{N_c} \sum_i w_{ic} \, y_{ic}

IS has one term (the whole weight, the return), PDIS one a step, DR two a step. The prefix W only changes
the normaliser N_c from n to the sum of the weights; the prefix S only changes the ratios in the weights;
a correction only adds terms. A new estimator of this kind is a function that returns terms.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from deadweight.estimators.base import Fit
from deadweight.sums.blocks import Block, discounted_sum, powers
from deadweight.sums.running import Running, discounted, times
from deadweight.sums.summaries import ColumnSums, Moments
from deadweight.sums.walks import Walk
from deadweight.sums.weighted_block import WeightedBlock
from deadweight.sums.weighting import Weighting
from deadweight.typing import BoolArray, FloatArray


class Group(Protocol):
    """Some terms of a block, as something to sum."""

    def column_sums(self) -> ColumnSums:
        """Sums of each column."""
        ...

    def plain(self, gamma: float) -> FloatArray:
        """(m,) sum over the columns of weight times value, discounted."""
        ...

    def influence(self, on: Normalised) -> FloatArray:
        """(m,) influence of the episodes on the self-normalised sum, up to a constant."""
        ...


@dataclass(frozen=True, eq=False)
class Terms:
    """Weights and values of some terms of a block.

    `per_step` terms are discounted by their column; a single whole-episode term is not. `counted` is False
    where an episode has left the normaliser; None means that ended episodes stay in it.
    """

    weights: Running  # (m, C)
    values: FloatArray  # (m, C)
    per_step: bool = True
    counted: BoolArray | None = None  # (m, C)

    def column_sums(self) -> ColumnSums:
        """Sums of each column."""
        return ColumnSums.of(self.weights, self.values, self.counted)

    def plain(self, gamma: float) -> FloatArray:
        """(m,) sum over the columns of weight times value, discounted."""
        gamma = gamma if self.per_step else 1.0
        if self.weights.exponents is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # too large a sum is flagged in `finish`
                total: FloatArray = np.add.reduce(times(discounted(self.weights, gamma), self.values), axis=1)
            return total
        if gamma != 1.0:
            return discounted_sum(self.weights.values * self.values, gamma)
        total = np.einsum("ij,ij->i", self.weights.values, self.values)  # without a matrix of products
        return total

    def influence(self, on: Normalised) -> FloatArray:
        """(m,) influence of the episodes on the self-normalised sum, up to a constant."""
        return on.influence(self)


class TermMaker(Hashable, Protocol):
    """What is particular to one estimator: its terms on a block. A function will do.

    Makers that are equal make the same terms, so that their sums are made once; a function equals itself.
    """

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """The terms of a block.

        Args:
          block: rewards, weights and members of the normaliser, see `deadweight.sums.weighted_block`.
          gamma: discount; terms are not discounted yet.
          finished: what ended episodes do in per-step normalisers, for `block.members`.
        """
        ...


@runtime_checkable
class WalkedMaker(Protocol):
    """A maker whose terms can be summed on a walk along the episodes, without matrices (optional)."""

    def walked(self, walk: Walk) -> Group:
        """The terms of a block; ended episodes stay in the normaliser."""
        ...


@dataclass(frozen=True, eq=False)
class ProductSums:
    """Sums of each group of terms, and moments of the unnormalised estimate of each episode."""

    groups: tuple[ColumnSums, ...]
    plain: Moments

    def merge(self, other: ProductSums) -> ProductSums:
        """Sums over the episodes of both."""
        merged = (a.merge(b) for a, b in zip(self.groups, other.groups, strict=True))
        return ProductSums(tuple(merged), self.plain.merge(other.plain))


class ProductFamily:
    """A product estimator: the terms of `makers`, with the ratios of `weighting`.

    Args:
      makers: what to sum; several makers add up.
      weighting: the ratios, with the drop applied.
      gamma: discount.
      finished: what ended episodes do in per-step normalisers: "absorb", "leave" or "survivors".
    """

    def __init__(
        self, makers: Sequence[TermMaker], weighting: Weighting, gamma: float, finished: str = "absorb"
    ) -> None:
        self.makers = tuple(makers)
        # Makers that can use a walk, by place; asking once is quicker than for every block.
        self._walkers = tuple(maker if isinstance(maker, WalkedMaker) else None for maker in makers)
        self.weighting = weighting
        self.gamma = gamma
        self.finished = finished

    @property
    def key(self) -> Hashable:
        """Same makers, same ratios, same conventions: same sums."""
        return ("product", self.makers, self.weighting, self.gamma, self.finished)

    def terms(self, block: Block) -> list[Terms]:
        """All groups of terms of a block."""
        weighted = self.weighting.on(block)
        return [group for maker in self.makers for group in maker(weighted, self.gamma, self.finished)]

    def groups(self, block: Block) -> list[Group]:
        """The same as something to sum: from a walk where a maker can use one, which is faster."""
        weighted, walk = self.weighting.on(block), None
        if self.finished == "absorb" and any(self._walkers):
            walk = weighted.walk(self.gamma)
        if walk is None:
            return [*self.terms(block)]
        groups: list[Group] = []
        for maker, walker in zip(self.makers, self._walkers, strict=True):
            groups += maker(weighted, self.gamma, self.finished) if walker is None else [walker.walked(walk)]
        return groups

    def summarise(self, block: Block) -> ProductSums:
        """Column sums of each group; moments of the plain per-episode estimates."""
        groups, plain = [], np.zeros(block.n)
        for group in self.groups(block):
            groups.append(group.column_sums())
            part = group.plain(self.gamma)
            with np.errstate(over="ignore", invalid="ignore"):  # inf - inf is flagged in `finish`
                plain += part
        return ProductSums(tuple(groups), Moments.of(plain))

    def finish(self, summary: ProductSums, weighted: bool) -> Fit:
        """Mean of the plain per-episode estimates, or the self-normalised sum of the columns."""
        if not weighted:
            value = summary.plain.mean
            flags = () if np.isfinite(value) else ("overflow",)
            return Fit(value, std_error=summary.plain.std_error, flags=flags)
        groups = [Normalised(sums, self.gamma, self.finished) for sums in summary.groups]
        zero = any(group.has_zero_weights for group in groups)
        return Fit(
            float(sum(group.value for group in groups)),
            influence=_Influence(self, groups),
            flags=("zero-weights",) if zero else (),
        )


@dataclass(frozen=True, eq=False)
class _Influence:
    """Influence of a block's episodes on a self-normalised estimate."""

    family: ProductFamily
    groups: list[Normalised]

    def __call__(self, block: Block) -> FloatArray:
        in_range = all(group.in_range for group in self.groups)
        terms = self.family.groups(block) if in_range else self.family.terms(block)
        pairs = zip(self.groups, terms, strict=True)
        return sum((some.influence(group) for group, some in pairs), start=np.zeros(block.n))


class Normalised:
    """A group of terms divided by the sum of its weights, column by column.

    With m_c = sum w y / sum w, the influence of episode i on it is (w_ic / mean w_c) (y_ic - m_c).
    """

    def __init__(self, sums: ColumnSums, gamma: float, finished: str) -> None:
        self.sums = sums
        self.discount = powers(gamma, len(sums.weight))
        self.share = sums.counted / sums.n if finished == "survivors" else np.ones_like(sums.weight)
        self.has_zero_weights = bool((sums.weight == 0).any())
        per_weight = np.divide(
            self.discount * self.share * sums.n,
            sums.weight,
            out=np.zeros_like(sums.weight),
            where=sums.weight != 0,
        )
        self.slope = per_weight  # of the influence in w * y
        self.pull = per_weight * sums.ratio  # and, with a minus, in w
        self._survival = self.discount * sums.ratio if finished == "survivors" else None

    @property
    def in_range(self) -> bool:
        """Whether the sums are plain doubles, in units of 1."""
        return bool(((self.sums.shift == 0) | (self.sums.weight == 0)).all())

    @property
    def value(self) -> float:
        """Sum over the columns."""
        return float((self.discount * self.share * self.sums.ratio).sum())

    def influence(self, terms: Terms) -> FloatArray:
        """(m,) influence of a block's episodes, up to a constant."""
        columns = terms.values.shape[1]
        shift = self.sums.shift[:columns]
        w = terms.weights.among(terms.counted).relative_to(shift)
        result: FloatArray = np.add.reduce(
            w * (terms.values * self.slope[:columns] - self.pull[:columns]), axis=1
        )
        if terms.counted is None and columns < len(self.pull):
            result -= self._after_the_end(terms.weights.last, columns)
        if self._survival is not None and terms.counted is not None:
            result += np.add.reduce(terms.counted * self._survival[:columns], axis=1)
        return result

    def _after_the_end(self, last: Running, columns: int) -> FloatArray:
        """What ended episodes still pull while they stay in the normaliser."""
        shift, pull = self.sums.shift[columns:], self.pull[columns:]
        if last.exponents is None and (shift == 0).all():
            return np.asarray(last.values[:, 0] * pull.sum())
        return np.asarray(np.add.reduce(last.relative_to(shift) * pull, axis=1))
