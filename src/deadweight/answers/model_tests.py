r"""Tests of action values against the log: what each of them sums, and what it makes of the sums.

None of them needs the truth, and one that finds nothing is no proof; `deadweight.answers.trust` says what
follows from them.

- `Misfit`: does the fitted model reproduce the mean return of the log?
- `CalibrationSlope`: do values of unseen episodes go with what these earned?
- `ResidualTest`: have values that were given mean Bellman residuals of 0?
- `labels_are_noise`: do labels of states tell anything of what follows, or of what is paid?
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from deadweight.estimators.direct import Direct, Episodes
from deadweight.estimators.influence import Influence, no_influence
from deadweight.estimators.product import Fit
from deadweight.estimators.windowed import ModelSteps, model_steps
from deadweight.mdp.tabular import policy_value
from deadweight.question.question import Question, Values
from deadweight.results.saved import saved
from deadweight.sums.blocks import Block, ByFold, Field, Folds, Table, powers
from deadweight.sums.reduction import in_log_order, numbered, reduce_log
from deadweight.sums.summaries import Moments, RowMoments, Total
from deadweight.sums.weighting import Weighting
from deadweight.tools import thresholds
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.typing import FloatArray, IntArray
from deadweight.values.model import FOLDS, Counts, mdp_from_counts
from deadweight.values.rows import MovedValues, OfEpisodes

# --- The mean return ----------------------------------------------------------------------------------------


@saved
@dataclass(frozen=True)
class Misfit:
    r"""The behaviour policy's value in the model, *over the T steps of the log*, against the mean return.

    Both come from the same episodes; the standard error of their difference is that of its influence
    function, which for the value in the model is that of the direct method:

    .. math:: z = \frac{\hat V_T(\pi_b) - \bar G}
       {\max\left( \mathrm{se}(\hat V_T(\pi_b) - \bar G),\; \mathrm{se}(\bar G) / 10 \right)}

    The floor is for tasks that end by themselves: there the two differ only by what comes after T steps,
    which is next to nothing and still many of its own standard errors. The behaviour policy is the one
    observed in the log, whatever was given or logged: wrong propensities are not the model's fault. With it
    all actions of a state are pooled, and the influence is complete.

    A model that takes a time limit for random endings, or states that hide what matters, show up here (solved
    until it settles, such a model returns the mean of the log identically: over T steps it does not).

    Attributes:
      value: of the behaviour policy in the model, over the steps of the log.
      mean: return in the log.
      z: their difference in standard errors.
      n: episodes.
      steps: T.
    """

    value: float
    mean: float
    z: float
    n: int
    steps: int

    @property
    def found(self) -> bool:
        """Whether the model does not fit; with few episodes by the equal of the threshold in Student's t."""
        from scipy.special import ndtr, stdtrit

        return self.n > 1 and abs(self.z) > float(stdtrit(self.n - 1, ndtr(thresholds.MISFIT)))

    @property
    def size(self) -> float:
        """By how much the model is off for the behaviour policy."""
        return abs(self.value - self.mean)

    @property
    def reason(self) -> str:
        """The finding in words."""
        far = f"{self.z:+.0f} standard errors" if math.isfinite(self.z) else "where nothing is left to chance"
        return (
            f"The model does not fit the log: over {self.steps:,} steps it puts the old policy at "
            f"{self.value:.4g}, and the logged episodes earned {self.mean:.4g} on average "
            f"({far})."
        )


class ModelCheck:
    """The test behind `Misfit`; it takes moments of an influence less the return, and of the return."""

    def __init__(self, question: Question) -> None:
        self.gamma, self.n = question.gamma, question.n
        self.steps = max(question.horizon, question.time_limit or 0)
        self.fit = _behaviour_fit(question, self.steps)

    @property
    def influence(self) -> Influence:
        """The influence of a block's episodes on the value in the model, up to a constant."""
        return self.fit.influence or no_influence

    def moments(self, block: Block) -> list[Moments]:
        """Moments of the influence less the return, and of the return, of a block's episodes."""
        returns = block.returns(self.gamma)
        return [Moments.of(self.influence(block) - returns), Moments.of(returns)]

    def finish(self, difference: Moments, returns: Moments) -> Misfit:
        """The finding from these moments of the whole log."""
        gap = self.fit.value - returns.mean
        size = max(abs(returns.mean), returns.std_error * math.sqrt(self.n) if self.n > 1 else 0.0)
        if abs(gap) <= thresholds.ROUNDING * size:
            z = 0.0
        else:
            error = max(difference.std_error, thresholds.LEAST_ERROR * returns.std_error)
            z = gap / error if error else math.copysign(math.inf, gap)
        return Misfit(self.fit.value, returns.mean, z, self.n, self.steps)


def can_check(question: Question) -> bool:
    """Whether returns are those of the T steps: an episode that was cut before has earned less.

    Unless rows that were seen stand for what was cut off.
    """
    fitted, whole = question.row_values, question.cut_early == 0 or question.cut_weights is not None
    return whole and (fitted is None or isinstance(fitted, MovedValues))


def check_model(question: Question) -> Misfit | None:
    """What the check finds, by a pass of its own; None where it cannot be made."""
    if not can_check(question):
        return None
    check = ModelCheck(question)
    return check.finish(*reduce_log(question.parts, check.moments, question.workers))


def _behaviour_fit(question: Question, steps: int) -> Fit:
    """The behaviour policy's value in the model over the steps of the log; the same for all new policies."""
    if question.row_values is not None:
        by_row = question.row_values.behaviour_value(steps)
        assert by_row is not None, "only values that episodes move are checked"
        return Fit(by_row[0], influence=by_row[1])
    if question.options.model is not None:
        return Fit(policy_value(question.model, question.pi_b, steps, question.gamma))
    key = (ModelCheck, question.shape, steps, question.gamma, question.options.unseen)
    fit: Fit = question.facts.shared(key, lambda: _observed_value(question, steps))
    return fit


def _observed_value(question: Question, steps: int) -> Fit:
    """The value of the policy that was observed, in the fitted model."""
    counts, unseen = question.counts.pooled(), question.options.unseen
    model = mdp_from_counts(counts, steps, unseen)
    only_action = np.ones((model.n_states, 1))
    direct = Direct(model, only_action, steps, question.gamma, counts, unseen)
    return direct.finish(Episodes(question.n), weighted=False)


# --- Rewards to go ------------------------------------------------------------------------------------------

# More episodes than the first so many change nothing about whether a model of labels is of any use.
ENOUGH = 10_000


@dataclass(frozen=True, eq=False)
class CalibrationSlope:
    r"""The regression of rewards to go on action values, by models that have not seen the episode.

    Over the logged steps, with y the reward to go and x = Q_t(s, a), each less its mean at the same step,

    .. math:: b = \frac{\sum x y}{\sum x^2}, \qquad u_i = \sum_{t \in i} x (y - b x), \qquad
       z = \frac{b \sum x^2}{\sqrt{\sum_i u_i^2}}

    Values that mean nothing have z around zero or below, however well they fit the log itself. The slope
    takes one pass over the log and its error another; both travel with passes that are made anyway.

    Attributes:
      q: values of the actions taken.
      first: (parts,) the number, in the whole log, of each part's first episode.
      gamma: discount.
      horizon: the longest episode.
      most: episodes from the first on that count.
      unit: a power of two of the size of the values, in which their fourth powers are numbers; z is the same
        in any.
    """

    q: Field
    first: IntArray
    gamma: float
    horizon: int
    most: int
    unit: float

    @classmethod
    def of(cls, question: Question, q: Field, most: int) -> CalibrationSlope:
        """Of the log of a question; q is a table, or one for each fold."""
        tables = [
            table for table in (q.fields if isinstance(q, ByFold) else (q,)) if isinstance(table, Table)
        ]
        largest = max(max(float(table.values.max()), -float(table.values.min())) for table in tables)
        unit = math.ldexp(1.0, max(-1000, -math.frexp(largest)[1]))
        first = Folds.of(1, question.sizes).first
        return cls(q, first, question.gamma, question.horizon, most, unit)

    @property
    def key(self) -> Hashable:
        """One for each model."""
        return ("calibration-slope", self)

    def summarise(self, block: Block) -> Total:
        """(5, T) of a block, by step: number of steps that count, and sums of x, y, x^2 and x y."""
        sums = np.zeros((5, self.horizon))
        cells = self.cells(block)
        if cells is not None:
            counted, x, y = cells
            steps = sums[:, : block.horizon]
            steps[0], steps[1], steps[2] = counted.sum(axis=0), x.sum(axis=0), y.sum(axis=0)
            steps[3], steps[4] = np.einsum("ij,ij->j", x, x), np.einsum("ij,ij->j", x, y)
        return Total(sums)

    def cells(self, block: Block) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """(m, H) 1 where a step counts, and its x and y, 0 where it does not; None where no step counts."""
        early = self.first[block.part] + block.first + block.rows < self.most
        if not early.any():
            return None
        counted = np.broadcast_to(early[:, None], (block.n, block.horizon)).astype(np.float64)
        if block.alive is not None:
            counted *= block.alive
        to_go = block.paid * self.unit
        for t in range(block.horizon - 2, -1, -1):
            discount = self.gamma if block.during is None else block.during[:, t]
            to_go[:, t] += discount * to_go[:, t + 1]
        return counted, counted * self.q.on(block) * self.unit, counted * to_go

    def residuals(self, sums: FloatArray) -> SlopeResiduals:
        """What the second pass sums, from the sums of the first."""
        count, x, y, xx, xy = sums
        means = divide(x, count), divide(y, count)
        squares, product = float((xx - x * means[0]).sum()), float((xy - x * means[1]).sum())
        alike = squares <= 1e-12 * float(xx.sum())
        return SlopeResiduals(self, *means, squares, 0.0 if alike else product / squares)


@dataclass(frozen=True, eq=False)
class SlopeResiduals:
    """The second pass of a `CalibrationSlope`: sum of the squares of u_i, in units of the squares of x.

    Attributes:
      slope: the first pass.
      mean_x, mean_y: (T,) by step.
      squares: of x, summed.
      b: the slope; 0 where all values are alike.
    """

    slope: CalibrationSlope
    mean_x: FloatArray
    mean_y: FloatArray
    squares: float
    b: float

    def __call__(self, values: FloatArray, block: Block) -> Total:
        """Of a block's episodes."""
        cells = self.slope.cells(block)
        if cells is None:
            return Total(0.0)
        counted, x, y = cells
        x -= counted * self.mean_x[: block.horizon]
        y -= counted * self.mean_y[: block.horizon]
        y -= self.b * x
        u = divide(np.einsum("ij,ij->i", x, y), self.squares)
        return Total(float(u @ u))

    def z(self, total: Total) -> float:
        """How surely values go with what was earned, in standard errors, from the sum over the whole log."""
        spread = math.sqrt(float(total.value))
        return self.b / spread if spread > 0 else math.copysign(math.inf, self.b) if self.b else 0.0


# --- Bellman residuals --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ResidualTest:
    r"""Mean Bellman residuals of action values that were given, episode by episode.

    If Q is that of pi_e, the residual of a step, :math:`\delta = r + \gamma V(x') - Q(x, a)`, has mean 0
    whatever was seen and done before. No weights are needed to see where it has not: with

    .. math:: S_i = \sum_t \gamma^t g_{it} \, \delta_{it}

    the mean of S over episodes is 0 for every g that does not look ahead. Four of them are tried: one; the
    ratio of the step; Q less its mean; and Q less V, how much better the action is held to be. Values that
    are noise, another policy's, at the wrong level or of the wrong sign are off by many standard errors.

    Values that pass are not taken for exact: with g the ratio they are corrected by what the log says,

    .. math:: \mathrm{WIN1} =
       \frac1n \sum_i \Bigl[ V(x_{i0}) + \sum_t \gamma^t \rho_{it} \, \delta_{it} \Bigr]

    doubly robust with the latest ratio only, whose standard error shows how far the log can tell.

    Attributes:
      moments: of the four S.
      rounding: means no larger than this are rounding.
      one_step: (n,) each episode's part of WIN1, where values are given row by row; None for a table, which
        windowed weights correct.
    """

    moments: RowMoments
    rounding: float
    one_step: FloatArray | None = None

    @cached_property
    def z(self) -> FloatArray:
        """(4,) the means of S, in standard errors."""
        n, mean = self.moments.n, self.moments.mean
        if n < 2:
            return np.zeros(4)
        error = np.sqrt(self.moments.squares / (n - 1) / n)
        z = np.where(error > 0.0, divide(mean, error), np.copysign(np.inf, mean))
        return np.where(np.abs(mean) <= self.rounding, 0.0, z)

    @property
    def fits(self) -> bool:
        """Whether none of the four speaks against the values."""
        return bool((np.abs(self.z) <= thresholds.RESIDUAL).all())

    @property
    def estimate(self) -> tuple[float, Influence]:
        """WIN1 and the influence of each episode on it."""
        assert self.one_step is not None, "of values row by row"
        return float(self.one_step.mean()), OfEpisodes(self.one_step)


def has_given_values(question: Question) -> bool:
    """Whether values are taken as known: a table that somebody else has made, or values row by row."""
    if question.row_values is not None:
        return not isinstance(question.row_values, MovedValues)
    return question.options.model is not None and question.can_solve_model


def residual_test(question: Question) -> ResidualTest | None:
    """The test of values that were given, by a pass of its own, made once; None for values fitted to the log.

    A model of another log is not exact either, and nobody says how far off it is; values row by row that a
    learner has made without a closed form are taken as known in the same way.
    """
    given = has_given_values(question)
    return question.made_once((ResidualTest,), lambda: _residual_test(question)) if given else None


def _residual_test(question: Question) -> ResidualTest:
    values = question.row_values
    residuals: TableResiduals | RowResiduals
    residuals = TableResiduals(model_steps(question)) if values is None else RowResiduals.of(question)
    summarise = partial(_residual_sums, residuals, values is not None)
    moments, *corrections = reduce_log(question.parts, summarise, question.workers)
    rounding = thresholds.ROUNDING * (1.0 + float(np.abs(question.values.q.values).max()))
    one_step = None if values is None else values.start + in_log_order(corrections[0])
    return ResidualTest(moments, rounding, one_step)


@dataclass(frozen=True, eq=False)
class TableResiduals:
    """Residuals, ratios and values of a block by a table, (m, H) each; travels to workers."""

    steps: ModelSteps

    @property
    def gamma(self) -> float:
        """The discount."""
        return self.steps.gamma

    def __call__(self, block: Block) -> tuple[FloatArray, ...]:
        """Residuals, ratios, Q less its mean at the start, and Q less V."""
        steps = self.steps
        q = steps.q[block.times, block.states, block.actions]
        usual = float(steps.d_e[0] @ steps.v[0, :-1])
        better = q - steps.v[block.times, block.states]
        return steps.errors(block).delta, steps.weighting.on(block).full, q - usual, better


@dataclass(frozen=True, eq=False)
class RowResiduals:
    """The same by values row by row.

    Attributes:
      values: Q and V of the rows.
      usual: mean Q of the logged rows.
      weighting: the ratios.
      gamma: discount.
      whole: length of an episode from which on it was not cut early.
    """

    values: Values[Table]
    usual: float
    weighting: Weighting
    gamma: float
    whole: int

    @classmethod
    def of(cls, question: Question) -> RowResiduals:
        """Of a question about rows."""
        values, log = question.values, question.parts[0]
        usual = float(values.q.along(log).mean())
        whole = question.time_limit or log.horizon
        return cls(values, usual, Weighting(question.pair), question.gamma, whole)

    def __call__(self, block: Block) -> tuple[FloatArray, ...]:
        """Residuals, ratios, Q less its mean, Q less V; residuals are 0 where nobody gave what came next."""
        q, v = self.values.q.on(block), self.values.v.on(block)
        after = np.zeros_like(v)
        after[:, :-1] = v[:, 1:]  # zero on padding: nothing after the end or at the time limit
        cut = ~block.log.terminated[block.rows] & (block.lengths < self.whole)
        unknown = (
            block.last & cut[:, None] if block.alive is None else ~block.alive | block.last & cut[:, None]
        )
        delta = np.where(unknown, 0.0, block.paid + self.gamma * after - q)
        return delta, self.weighting.on(block).full, q - self.usual, q - v


def _residual_sums(residuals: TableResiduals | RowResiduals, keeps: bool, block: Block) -> list[Any]:
    """Moments of each episode's S with the four multipliers, and where wanted S with the ratio by itself."""
    delta, *multipliers = residuals(block)
    delta = delta * (powers(residuals.gamma, block.horizon) if block.before is None else block.before)
    sums = np.stack([delta.sum(axis=1), *((delta * each).sum(axis=1) for each in multipliers)])
    return [RowMoments.of(sums), *([numbered(block, sums[1])] if keeps else [])]


# --- Labels of states ---------------------------------------------------------------------------------------


def memory(counts: Counts) -> tuple[float, float]:
    r"""How much labels tell of which label follows, and its standard error if they were by chance.

    Take two steps of one pair (s, a). Where labels mean nothing both lead to the same label as often as any
    two steps do, q_2 = sum of p(s')^2; where a pair decides its successor, always. So

    .. math:: m = \frac{C - N q_2}{N (1 - q_2)}

    with C the number of such twins among the N pairs of steps of one (s, a) is 0 for labels by chance and 1
    for a deterministic table. C less its mean is a U-statistic; what of it is linear in the steps is nearly
    all in the p that comes from the same steps, and cancels where pairs were seen equally often. Both numbers
    are infinite where no steps can be compared.
    """
    pairs, after = np.divmod(counts.transitions.keys, counts.n_states + 1)
    goes_on = after < counts.n_states
    number = counts.transitions.sums[0][goes_on]
    visits = sums_by(pairs[goes_on], number)
    compared = float((visits * (visits - 1)).sum()) / 2
    successors = sums_by(after[goes_on], number)
    if compared == 0.0:
        return math.inf, math.inf
    p = successors / successors.sum()
    twice, thrice = float((p**2).sum()), float((p**3).sum())
    most = compared * (1.0 - twice)
    if most <= 0.0:
        return math.inf, math.inf
    twins = float((number * (number - 1)).sum()) / 2
    uneven = visits - 1 - 2 * compared / visits.sum()
    linear = float((visits * np.square(uneven)).sum()) * (thrice - twice**2)
    variance = compared * (twice - 2 * thrice + twice**2) + linear
    return (twins - compared * twice) / most, math.sqrt(max(variance, 0.0)) / most


def is_forgetful(counts: Counts) -> bool:
    """Whether labels surely tell nothing of what follows them; a short log leaves that open."""
    share, error = memory(counts)
    return share + thresholds.SURE_OF_MEMORY * error < thresholds.NEXT_TO_NOTHING


def pay(counts: Counts, without: Sequence[Counts]) -> float:
    r"""How surely labels tell what is paid beyond what actions do, in standard errors.

    Contexts that come by chance have no memory, and yet they may decide what an action pays. Then rewards of
    one pair, less the mean of its action in the fold, are alike in episodes of different folds f and g:

    .. math:: z = \sum_{s,a} \sum_{f<g} D_f D_g \Big/ \sqrt{\sum_{s,a} \sum_{f<g} D_f^2 D_g^2}, \qquad
       D_f(s,a) = \sum_{i \in f} (r_i - \bar r_{f,a})

    Labels that mean nothing have z around 0, whatever the rewards are like.

    Args:
      counts: of all episodes.
      without: of all episodes but those of each fold.
    """
    keys, sums = counts.pairs.keys, counts.pairs.sums
    action = keys % counts.n_actions
    of_folds = np.empty((len(without), len(keys)))  # D_f
    for deviations, others in zip(of_folds, without, strict=True):
        number, rewards = sums.copy()
        at = np.searchsorted(keys, others.pairs.keys)
        number[at] -= others.pairs.sums[0]
        rewards[at] -= others.pairs.sums[1]
        deviations[:] = rewards - number * divide(sums_by(action, rewards), sums_by(action, number))[action]
    of_folds /= max(float(np.abs(of_folds).max()), np.finfo(float).tiny)
    squares = np.square(of_folds)
    alike = np.square(of_folds.sum(axis=0)) - squares.sum(axis=0)
    variance = np.square(squares.sum(axis=0)) - np.square(squares).sum(axis=0)
    # Both are twice the sums over f < g.
    spread = math.sqrt(2.0 * max(float(variance.sum()), 0.0))
    return float(alike.sum()) / spread if spread > 0.0 else 0.0


def labels_are_noise(question: Question) -> bool:
    """Whether labels surely tell nothing of what follows, and do not show that they tell what is paid.

    Their model is one of the average step: it sees no advantage of any action, at a small standard error.
    """

    def are_noise() -> bool:
        if not is_forgetful(question.counts):
            return False
        without = question.facts.counts_without(FOLDS, question.shape)[1]
        return pay(question.counts, without) < thresholds.TELLS_PAY

    if question.options.model is not None or question.n < FOLDS:
        return False
    return question.made_once(labels_are_noise, are_noise)
