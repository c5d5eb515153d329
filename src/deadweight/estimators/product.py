r"""Estimators that weigh by products of ratios: one engine for IS, PDIS, DR and their variants.

A family sums the blocks of a log and makes a fit of the sums. The sums of a product estimator are those of
its *terms*, each a weight and a value for every episode:

.. math:: \hat G = \sum_c \gamma_c \, \frac{1}{N_c} \sum_i w_{ic} \, y_{ic}

IS has one term (the whole weight, the return), PDIS one a step, DR two a step. The prefix W only changes
the normaliser N_c from n to the sum of the weights; the prefix S only changes the ratios in the weights;
a correction only adds terms. So the variants of an estimator share one family and one pass over the data, and
a new estimator of this kind is a function that returns terms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

import numpy as np

from deadweight.sums.blocks import Block, Field, Table, discounted_sum, discounts
from deadweight.sums.summaries import ColumnSums, Moments, Running, discounted, times
from deadweight.sums.weighting import Walk, WeightedBlock, Weighting
from deadweight.tools.arithmetic import Key, once
from deadweight.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Fit:
    """An estimate from the sums of a family, before labels and an interval are added.

    The influence is that of a block's episodes, up to a constant; its standard error is that of the estimate.
    """

    value: float
    influence: Callable[[Block], FloatArray] | None = None  # None where `std_error` is known
    std_error: float | None = None  # where the first pass gives it
    flags: tuple[str, ...] = ()  # codes of what a reader must know
    details: dict[str, Any] = field(default_factory=dict)  # by-products, such as the windows of INCRIS


class Summed(Protocol):
    """A sum over a log."""

    @property
    def key(self) -> Hashable:
        """Equal keys: the same sums."""

    def summarise(self, block: Block) -> Any:
        """The mergeable sums of a block."""


class Family(Summed, Protocol):
    """One way to sum a log, and to finish an estimate."""

    def finish(self, summary: Any, weighted: bool) -> Fit:
        """The estimate from the sums of the whole log, self-normalised if `weighted`."""


class Group(Protocol):
    """Some terms of a block, as something to sum."""

    def column_sums(self) -> ColumnSums:
        """Sums of each column."""

    def plain(self, gamma: float) -> FloatArray:
        """(m,) sum over the columns of weight times value, discounted."""

    def influence(self, on: Normalised) -> FloatArray:
        """(m,) influence of the episodes on the self-normalised sum, up to a constant."""


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
                products = times(discounted(self.weights, gamma), self.values)
                return np.asarray(np.add.reduce(products, axis=1))
        if gamma != 1.0:
            return discounted_sum(self.weights.values * self.values, gamma)
        # Without a matrix of products.
        return np.asarray(np.einsum("ij,ij->i", self.weights.values, self.values))

    def influence(self, on: Normalised) -> FloatArray:
        """(m,) influence of the episodes on the self-normalised sum, up to a constant."""
        return on.influence(self)


class TermMaker(Hashable, Protocol):
    """The terms of one estimator on a block. A function will do.

    Makers that are equal make the same terms, so that their sums are made once; a function equals itself.
    """

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """The terms of a block.

        Args:
          block: rewards, weights and members of the normaliser, see `deadweight.sums.weighting`.
          gamma: discount; terms are not discounted yet.
          finished: what ended episodes do in per-step normalisers, for `block.members`.
        """


class WalkedMaker(Protocol):
    """A maker whose terms can be summed on a walk along the episodes, without matrices (optional)."""

    def walked(self, walk: Walk) -> Group:
        """The terms of a block; ended episodes stay in the normaliser."""


class SumsItself(Protocol):
    """A maker of one group of terms that has a walk of its own along a block (optional).

    Each answer is None where the walk does not take the block.
    """

    def summed(self, block: Block) -> ColumnSums | None:
        """The sums of its terms."""

    def influence(self, block: Block, on: Normalised) -> FloatArray | None:
        """(m,) the influence of the episodes on their self-normalised sum, up to a constant."""


# There are hundreds of makers, and looking for a method is far quicker than `isinstance` of a protocol.
def _walks(maker: object) -> TypeGuard[WalkedMaker]:
    return hasattr(maker, "walked")


def _sums_itself(maker: object) -> TypeGuard[SumsItself]:
    return hasattr(maker, "summed") and hasattr(maker, "influence")


@dataclass(frozen=True, eq=False)
class ProductSums:
    """Sums of each group of terms, and moments of the unnormalised estimate of each episode.

    `error`: the standard error of the self-normalised estimate, where whoever summed has found it as well.
    """

    groups: tuple[ColumnSums, ...]
    plain: Moments
    error: float | None = None

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
        self._walkers = tuple(maker if _walks(maker) else None for maker in makers)
        self.weighting = weighting
        self.gamma = gamma
        self.finished = finished

    @property
    def is_walked(self) -> bool:
        """Whether all its sums come from walks, where there is a kernel: it makes no matrices."""
        return self.finished == "absorb" and None not in self._walkers

    @once
    def key(self) -> Hashable:
        """Same makers, same ratios, same conventions: same sums."""
        return Key("product", self.makers, self.weighting, self.gamma, self.finished)

    def terms(self, block: Block) -> list[Terms]:
        """All groups of terms of a block."""
        weighted = self.weighting.on(block)
        return [group for maker in self.makers for group in maker(weighted, self.gamma, self.finished)]

    def groups(self, block: Block) -> list[Group]:
        """These groups, to be summed: from a walk where a maker can use one, which is faster."""
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
            std_error=summary.error,
            influence=ProductInfluence(self, groups),
            flags=("zero-weights",) if zero else (),
        )


@dataclass(frozen=True, eq=False)
class SelfNormalised:
    """The sums of a product estimator of which nobody wants the moments of its unnormalised terms."""

    family: ProductFamily

    @once
    def key(self) -> Hashable:
        """Other sums than those of the family itself."""
        return Key("self-normalised", self.family.key)

    def summarise(self, block: Block) -> ProductSums:
        """The sums of a block."""
        walked = [maker.summed(block) if _sums_itself(maker) else None for maker in self.family.makers]
        groups = tuple(sums for sums in walked if sums is not None)
        if len(groups) == len(walked):
            return ProductSums(groups, Moments(block.n, np.nan, np.nan))
        return self.family.summarise(block)


@dataclass(frozen=True, eq=False)
class ProductInfluence:
    """Influence of a block's episodes on a self-normalised estimate."""

    family: ProductFamily
    groups: list[Normalised]

    def __call__(self, block: Block) -> FloatArray:
        """(m,) influence, up to a constant."""
        maker = self.family.makers[0]
        if len(self.family.makers) == 1 and _sums_itself(maker):
            walked = maker.influence(block, self.groups[0])
            if walked is not None:
                return walked
        in_range = all(group.in_range for group in self.groups)
        terms = self.family.groups(block) if in_range else self.family.terms(block)
        pairs = zip(self.groups, terms, strict=True)
        return sum((group.influence(on) for on, group in pairs), start=np.zeros(block.n))


class Normalised:
    """A group of terms divided by the sum of its weights, column by column.

    With m_c = sum w y / sum w, the influence of episode i on it is (w_ic / mean w_c) (y_ic - m_c).
    """

    def __init__(self, sums: ColumnSums, gamma: float, finished: str) -> None:
        self.sums = sums
        self.has_zero_weights = sums.has_zero_weights
        self._ratio = sums.ratio
        discount = discounts(gamma, len(sums.weight))
        self._factor, self._survival = discount, None  # of each column; None for ones
        if finished == "survivors":
            discount = np.ones(len(sums.weight)) if discount is None else discount
            self._factor, self._survival = discount * (sums.counted / sums.n), discount * self._ratio

    @once
    def slope(self) -> FloatArray:
        """(C,) of the influence in w * y."""
        n = float(self.sums.n)
        return self.sums.per_weight(n if self._factor is None else self._factor * n)

    @once
    def pull(self) -> FloatArray:
        """(C,) and, with a minus, in w."""
        return self.slope * self._ratio

    @property
    def in_range(self) -> bool:
        """Whether the sums are plain doubles, in units of 1."""
        if not self.has_zero_weights:
            return not np.count_nonzero(self.sums.shift)
        return bool(((self.sums.shift == 0) | (self.sums.weight == 0)).all())

    @property
    def value(self) -> float:
        """Sum over the columns."""
        return float(np.add.reduce(self._ratio if self._factor is None else self._factor * self._ratio))

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
        """The influence of ended episodes that stay in the normaliser."""
        shift, pull = self.sums.shift[columns:], self.pull[columns:]
        if last.exponents is None and (shift == 0).all():
            return np.asarray(last.values[:, 0] * pull.sum())
        return np.asarray(np.add.reduce(last.relative_to(shift) * pull, axis=1))


# --- How terms use action values, for the influence of the model


@dataclass(frozen=True, eq=False)
class QUse:
    """One way in which the terms of a group use the action values.

    A term adds sum_a along(s, a) Q_t(s, a) or, without `along`, subtracts Q_t(s, a) itself.
    """

    group: int  # which group of terms of the maker, by number
    along: FloatArray | None = None  # (S, A)
    later: bool = False  # Q of the next step instead, times gamma


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a block in which a use happens: weights (m, C), state or pair (m, C), where."""

    weights: Running
    index: IntArray
    where: BoolArray | None

    def times(self, discount: FloatArray) -> Cells:
        """These cells with weights times the discount of each row."""
        weights = Running(self.weights.values * discount, self.weights.exponents)
        return Cells(weights, self.index, self.where)


# --- The terms of the built-in estimators


@dataclass(frozen=True)
class PerDecision:
    r"""Terms of per-decision importance sampling (PDIS): (W_t, r_t) for each step.

    .. math:: \hat G = \frac1n \sum_i \sum_t \gamma^t W^{(i)}_t r^{(i)}_t, \qquad W_t = \prod_{j \le t} k_j

    A reward is weighted by the ratios up to its own step only. Precup, Sutton & Singh (2000).
    """

    lane = "steps"

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term a step; after the end the weight stays and the reward is zero."""
        return [Terms(block.running, block.rewards, counted=block.members(finished))]

    def walked(self, walk: Walk) -> WalkedSteps:
        """These terms, summed by a walk."""
        return WalkedSteps(walk)


@dataclass(frozen=True, eq=False)
class WalkedSteps:
    """The terms of PDIS as far as a walk has summed them."""

    walk: Walk

    def column_sums(self) -> ColumnSums:
        """Sums of each step."""
        return ColumnSums.in_units_of_one(len(self.walk.final), self.walk.weight, self.walk.weighted)

    def plain(self, gamma: float) -> FloatArray:
        """(m,) sums over the steps, discounted: the walk has done that already."""
        return self.walk.plain

    def influence(self, on: Normalised) -> FloatArray:
        """(m,) influence of the episodes on the self-normalised sum, up to a constant."""
        return self.walk.influence(on.slope, on.pull)


@dataclass(frozen=True)
class WholeEpisode:
    r"""Terms of importance sampling of whole episodes (IS): (B_i, G_i).

    .. math:: \hat G = \frac1n \sum_i B_i G_i, \qquad B_i = \prod_t k^{(i)}_t

    One term an episode: the product of all its kept ratios, and its return. Precup, Sutton & Singh (2000);
    the state-based variant is the paper's Section IV.
    """

    lane = "whole"

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term; ended episodes are no matter here."""
        return [Terms(block.final, block.returns(gamma)[:, None], per_step=False)]

    def walked(self, walk: Walk) -> Terms:
        """This term, made by a walk."""
        return Terms(Running(walk.final[:, None]), walk.returns[:, None], per_step=False)


@dataclass(frozen=True, eq=False)
class Behaviour:
    """BEHAVIOUR: the mean return as logged, the naive average that any estimate should beat."""

    gamma: float

    @property
    def key(self) -> Hashable:
        """One for each discount."""
        return ("behaviour", self.gamma)

    def summarise(self, block: Block) -> Moments:
        """Moments of the returns."""
        return Moments.of(block.returns(self.gamma))

    def finish(self, summary: Moments, weighted: bool) -> Fit:
        """Their mean."""
        return Fit(summary.mean, std_error=summary.std_error)


@dataclass(frozen=True)
class DoublyRobust:
    r"""Terms of doubly robust estimation (DR): (W_t, r_t - Q_t) and (W_{t-1}, V_t) for each step.

    .. math:: \hat G = \sum_i \sum_t \gamma^t \left[ w_{it} (r_{it} - Q_t(s,a)) + w_{i,t-1} V_t(s) \right]

    with w_it = W_it / n, or W_it / sum_j W_jt when weighted, and w_{i,-1} = 1 / n. The model's value is the
    baseline and the ratios weigh only what it gets wrong. Jiang & Li (2016); Thomas & Brunskill (2016).
    """

    q: Field  # of the actions taken
    v: Field
    pi_e: FloatArray = field(compare=False)  # (S, A) whose values they are; equal values make equal terms
    n_groups = 2
    lane = "robust"

    def weights(self, block: WeightedBlock) -> Running:
        """(m, H) after each step."""
        return block.running

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """Two terms a step; the second's weight is carried one step past the end."""
        q, v = self.q.on(block.steps), self.v.on(block.steps)
        before = np.concatenate([v, np.zeros((block.n, 1))], axis=1)
        weights = self.weights(block)
        return [
            Terms(weights, block.rewards - q, counted=block.members(finished)),
            Terms(weights.lagged, before, counted=block.members(finished, lagged=True)),
        ]

    @property
    def has_tables(self) -> bool:
        """Whether all values are tables, which the walks along lanes need."""
        return all(isinstance(values, Table) for values in self._fields)

    @property
    def by_time(self) -> bool:
        """Whether these tables have a value for each step."""
        return all(isinstance(values, Table) and values.by_time for values in self._fields)

    @property
    def _fields(self) -> list[Field]:
        return [part for values in (self.q, self.v) for part in getattr(values, "fields", (values,))]

    @property
    def uses(self) -> tuple[QUse, QUse]:
        """Minus Q_t in the first term, V_t in the second."""
        return QUse(0), QUse(1, self.pi_e)

    def used(self, block: WeightedBlock) -> tuple[Cells, Cells]:
        """Every step, with the weight after it and with the one before."""
        steps, weights = block.steps, self.weights(block)
        before = weights.lagged.first(block.horizon)
        pairs = steps.pairs(self.pi_e.shape[1])
        return Cells(weights, pairs, steps.alive), Cells(before, steps.states, steps.alive)


@dataclass(frozen=True)
class Linear(DoublyRobust):
    r"""Terms of LIN: those of DR with weights to first order, all lags and one ratio at a time.

    With :math:`\delta_t = r_t + \gamma V_{t+1}(s_{t+1}) - Q_t(s_t, a_t)` the value is, whatever the model,

    .. math:: V(\pi_e) = \mathrm{DM} + \sum_t \gamma^t \, E_b \Big[ \prod_{u \le t} \rho_u \, \delta_t \Big]

    and :math:`\prod (1 + (\rho_u - 1))` to first order in what the policies differ by gives

    .. math:: \mathrm{LIN} = \mathrm{DM} + \frac1n \sum_i \sum_t \gamma^t
       \Big( 1 + \sum_{u \le t} (\rho_{iu} - 1) \Big) \, \delta_{it}

    It is right if the model is, or if what the model misses is additive in past actions. Its variance grows
    with the square of the horizon where that of products grows exponentially; so it sees what actions do many
    steps later. What only shows in two actions together (their parity, say) it does not see. The derivation
    and its relatives are in docs/headline.md.
    """

    lane = ""  # its weights are no products

    def weights(self, block: WeightedBlock) -> Running:
        """(m, H) after each step; after the end they keep their last value."""
        return block.summed


@dataclass(frozen=True)
class MissingAdvantage:
    r"""Terms of m, the correction of C- estimators and minus the bias of every state-based estimate.

    Dropping the ratios of a set D evaluates mu_D, the policy equal to pi_b on D and to pi_e elsewhere. By the
    performance-difference lemma the value that is lost is

    .. math:: m = \frac1n \sum_i \sum_t \gamma^t B_{1:t-1} \, 1\{s_t \in D\} \, \delta_t(s_t), \qquad
       \delta_t(s) = \sum_a (\pi_e(a|s) - \pi_b(a|s)) \, Q_t(s, a)

    With the fitted Q this is a low-noise estimate of -bias, where the empirical Cov(A, BG) carries all the
    noise that dropping was to avoid. The corrected estimators add m; weighted ones with self-normalised B.
    """

    delta: Field  # of each step
    gain: FloatArray = field(compare=False)  # (S, A) pi_e - pi_b; equal values of delta make equal terms
    n_groups = 1
    lane = "lost"

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term a step, zero where the ratio was kept; the weight goes on one step past the end."""
        values = np.zeros((block.n, block.horizon + 1))
        if block.dropped is not None:
            values[:, :-1] = np.where(block.dropped, self.delta.on(block.steps), 0.0)
        members = block.members(finished)
        if members is not None:
            members = np.concatenate([members, np.zeros((block.n, 1), dtype=bool)], axis=1)
        return [Terms(block.running.lagged, values, counted=members)]

    @property
    def uses(self) -> tuple[QUse]:
        """The advantage of a dropped step."""
        return (QUse(0, self.gain),)

    def used(self, block: WeightedBlock) -> tuple[Cells]:
        """The dropped steps, with the weight before them."""
        before, states = block.running.lagged.first(block.horizon), block.steps.states
        nowhere = np.zeros(states.shape, dtype=bool)
        return (Cells(before, states, nowhere if block.dropped is None else block.dropped),)
