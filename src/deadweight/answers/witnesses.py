"""Witnesses: what a log says of the value with other weights than those of a path's levels.

A model that is wrong sees no gaps and has everything dropped; its own bias and standard error do not tell.
What does tell are estimates that drop nothing: WDR with all its ratios, which is right however wrong the
model is and noisy, and Win_3 and Win_2 (`deadweight.estimators.windowed`), which find what the last actions
have done at little noise, but not more. All of them take the passes that a path makes anyway.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.influences import Job
from deadweight.answers.plans import FEW_EPISODES, plan_of
from deadweight.answers.rounds import OfInfluences
from deadweight.estimators.estimator import BUILT_IN
from deadweight.estimators.product import SelfNormalised, Summed
from deadweight.estimators.windowed import model_steps, row_window, value_of_starts, windowed
from deadweight.log.trajectories import Trajectories, episode_of_rows, step_of_rows
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import MOST_VALUES, Question, Values
from deadweight.sums.blocks import Block, Field, Folds
from deadweight.sums.summaries import Total
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.model import FOLDS, Counts

# --------------------------------------------------------------------------------------------------------
# Do labels of states tell anything of which label follows, or of what is paid?
#
# Labels by chance do not, and a model of them is one of the average step: it sees no advantage of any action,
# at a small standard error. Take two steps of one pair (s, a). Where labels mean nothing both lead to the
# same label as often as any two steps do, q_2 = sum of p(s')^2; where a pair decides its successor, always.
# So
#
# .. math:: m = \frac{C - N q_2}{N (1 - q_2)}
#
# with C the number of such twins among the N pairs of steps of one (s, a) is 0 for labels by chance and 1 for
# a deterministic table. C less its mean is a U-statistic; what of it is linear in the steps is nearly all in
# the p that comes from the same steps, and cancels where pairs were seen equally often. Counts of transitions
# are all it takes. A log is called forgetful only if m is surely next to nothing: a short log leaves it open.
#
# Contexts that come by chance have no memory either, and yet they may decide what an action pays. Then
# rewards of one pair, less the mean of its action in the fold, are alike in episodes of different folds f and
# g:
#
# .. math:: z = \sum_{s,a} \sum_{f<g} D_f D_g \Big/ \sqrt{\sum_{s,a} \sum_{f<g} D_f^2 D_g^2}, \qquad
#    D_f(s,a) = \sum_{i \in f} (r_i - \bar r_{f,a})
#
# Labels that mean nothing have z around 0, whatever the rewards are like.

# So many standard errors show that labels tell what is paid.
SURE_Z = 4.0
# Labels that surely have less than this share of all possible memory have none.
NEXT_TO_NOTHING = 0.01
# Standard errors that make it sure.
SURE = 3.0


def memory(counts: Counts) -> tuple[float, float]:
    """m and its standard error if labels were by chance; both infinite where no steps can be compared."""
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
    """Whether labels surely tell nothing of what follows them."""
    found, error = memory(counts)
    return found + SURE * error < NEXT_TO_NOTHING


def labels_are_noise(question: Question) -> bool:
    """Whether labels surely tell nothing of what follows, and do not show that they tell what is paid."""
    if question.options.model is not None or question.n < FOLDS:
        return False
    return question.made_once(labels_are_noise, lambda: _are_noise(question))


def _are_noise(question: Question) -> bool:
    if not is_forgetful(question.counts):
        return False
    without = question.facts.counts_without(FOLDS, question.shape)[1]
    return pay(question.counts, without) < SURE_Z


def pay(counts: Counts, without: Sequence[Counts]) -> float:
    """How surely labels tell what is paid beyond what actions do, in standard errors.

    Args:
      counts: of all episodes.
      without: of all episodes but those of each fold.
    """
    keys, sums = counts.pairs.keys, counts.pairs.sums
    action = keys % counts.n_actions
    of_folds = np.empty((len(without), len(keys)))  # D_f
    for one, others in zip(of_folds, without, strict=True):
        number, rewards = sums.copy()
        at = np.searchsorted(keys, others.pairs.keys)
        number[at] -= others.pairs.sums[0]
        rewards[at] -= others.pairs.sums[1]
        one[:] = rewards - number * divide(sums_by(action, rewards), sums_by(action, number))[action]
    of_folds /= max(float(np.abs(of_folds).max()), np.finfo(float).tiny)
    squares = np.square(of_folds)
    alike = np.square(of_folds.sum(axis=0)) - squares.sum(axis=0)
    variance = np.square(squares.sum(axis=0)) - np.square(squares).sum(axis=0)
    # Both are twice the sums over f < g.
    spread = math.sqrt(2.0 * max(float(variance.sum()), 0.0))
    return float(alike.sum()) / spread if spread > 0.0 else 0.0


# --------------------------------------------------------------------------------------------------------
# The guard of the automatic drop: whether a model of features is of any use, before it may drop anything.
#
# A model that knows nothing sees no gaps, and would have everything dropped. All is judged by values of
# models that have not seen the episode, and without a drop. The ratio of the standard errors of WDR and WPDIS
# says whether the model takes noise away; and over the logged rows, with y the reward to go and x = Q(x, a),
# each less its mean at the same step,
#
# .. math:: b = \frac{\sum x y}{\sum x^2}, \qquad u_i = \sum_{t \in i} x (y - b x), \qquad
#    z = \frac{b \sum x^2}{\sqrt{\sum_i u_i^2}}
#
# says whether values go with what was earned. A drop is allowed if the ratio is below 1.25 and z above 2; in
# short logs of rare rewards few models get that far, and it is also allowed if the model does take noise away
# (ratio below 0.9) and z is above 1. The anchor is whichever of the two estimates has the smaller standard
# error.

# The most noise that a model may add, and the least z, for each of two reasons to believe it.
SURE_BY_FIT = (1.25, 2.0)
SURE_BY_NOISE = (0.9, 1.0)


@dataclass(frozen=True)
class Guard:
    """What the guard has found.

    Attributes:
      ratio: standard error of WDR over that of WPDIS, nothing dropped, the model taken as known.
      z: how surely values go with what was earned, in standard errors.
      anchor, anchor_error: value and standard error of the surer of the two.
      ess: undropped effective sample size.
    """

    ratio: float
    z: float
    anchor: float
    anchor_error: float
    ess: float

    @property
    def is_sure(self) -> bool:
        """Whether values go with what was earned beyond doubt."""
        most, least = SURE_BY_FIT
        return self.ratio < most and self.z > least

    @property
    def allows(self) -> bool:
        """Whether anything may be dropped by this model."""
        most, least = SURE_BY_NOISE
        return self.is_sure or (self.ratio < most and self.z > least)

    @property
    def helps(self) -> bool:
        """Whether the model makes the estimate with full weights surer."""
        return self.ratio < 1.0


def guard_of(question: Question) -> Guard:
    """The guard of a question about rows; made once."""
    return question.made_once(("guard",), lambda: _guard(question))


def _guard(question: Question) -> Guard:
    robust, plain = (plan_of(question, BUILT_IN[name], NOTHING_DROPPED) for name in ("WDR", "WPDIS"))
    answers = Answers(question, [robust, plain], model_known=True)
    answers.wanted().serve(question)
    errors = answers.std_error(robust), answers.std_error(plain)
    ratio = errors[0] / errors[1] if errors[1] > 0 else math.inf if errors[0] > 0 else 1.0
    surer = plain if errors[1] < errors[0] else robust
    values = question.row_values
    assert values is not None, "tables are not guarded"
    z = fit_of(question.parts[0], values.q, question.gamma)
    return Guard(ratio, z, answers.fit(surer).value, min(errors), answers.ess(robust) or 0.0)


def fit_of(log: Trajectories, q: FloatArray, gamma: float) -> float:
    """z of the regression of rewards to go on the values of the actions taken."""
    episode = episode_of_rows(log)
    times = step_of_rows(log)
    x = _around_one(_less_its_mean(q[log.states, log.actions], times))
    y = _around_one(_less_its_mean(rewards_to_go(log, gamma, times), times))
    squares = float(x @ x)
    if squares == 0.0:
        return 0.0
    b = float(x @ y) / squares
    spread = math.sqrt(float(np.square(sums_by(episode, x * (y - b * x), log.n_episodes)).sum()))
    return b * squares / spread if spread > 0 else math.copysign(math.inf, b)


def _around_one(values: FloatArray) -> FloatArray:
    """In units of a power of two, by which z does not change: their fourth powers are numbers then."""
    largest = float(np.abs(values).max())
    return values if largest == 0.0 else np.ldexp(values, -math.frexp(largest)[1])


def _less_its_mean(values: FloatArray, times: IntArray) -> FloatArray:
    means = divide(sums_by(times, values), sums_by(times))
    return np.asarray(values - means[times])


def rewards_to_go(log: Trajectories, gamma: float, times: IntArray) -> FloatArray:
    """(steps,) discounted rewards from each row to the end of its episode."""
    to_go = log.rewards.copy()
    order = np.argsort(-times, kind="stable")
    cuts = np.flatnonzero(np.diff(times[order])) + 1
    for rows in np.split(order, cuts):  # all rows of one step, from the last step to the first
        earlier = rows[times[rows] > 0] - 1
        to_go[earlier] += gamma * to_go[earlier + 1]
    return np.asarray(to_go)


# --------------------------------------------------------------------------------------------------------
# Whether a model of labels says anything about episodes that it has not seen.
#
# Over the logged steps, with y the reward to go and x = Q_t(s, a) of a model without the episode's fold, each
# less its mean at the same step,
#
# .. math:: b = \frac{\sum x y}{\sum x^2}, \qquad u_i = \sum_{t \in i} x (y - b x), \qquad
#    z = \frac{b \sum x^2}{\sqrt{\sum_i u_i^2}}
#
# Labels that mean nothing have z around zero or below, however well they fit the log itself. The slope takes
# one pass over the log and its error another; both travel with passes that are made anyway.

# More episodes than the first so many change nothing about whether a model is of any use.
ENOUGH = 10_000


def unseen_values(question: Question) -> Values[Field] | None:
    """Values of models that have not seen the episodes they are used on; None where there are none."""
    if question.options.model is not None:
        return question.values
    if question.n < FOLDS or FOLDS * question.values.q.values.size > MOST_VALUES:
        return None
    return question.cross_fitted(FOLDS)


class Proof:
    """z of a model, in two passes.

    Args:
      question: of labels.
      values: of models that have not seen the episodes.
    """

    def __init__(self, question: Question, values: Values[Field]) -> None:
        self.steps = Steps(values.q, Folds.of(1, question.sizes), question.gamma, question.horizon)
        self._spread: float | None = None

    @property
    def summed(self) -> Steps:
        """What the first pass sums."""
        return self.steps

    def job(self, answers: Answers) -> Job:
        """What the second pass does, once the first is made."""
        sums: FloatArray = answers.found(self.steps).value
        self._slope = Slope.of(sums)
        return Job([], Residuals(self.steps, self._slope), self._keep)

    def _keep(self, found: Total) -> None:
        self._spread = math.sqrt(float(found.value))

    @property
    def is_made(self) -> bool:
        """Whether both passes were made."""
        return self._spread is not None

    @property
    def z(self) -> float:
        """How surely values go with what was earned, in standard errors."""
        assert self._spread is not None, "both passes were made"
        top = self._slope.b
        return top / self._spread if self._spread > 0 else math.copysign(math.inf, top) if top else 0.0


@dataclass(frozen=True, eq=False)
class Steps:
    """Sums of the first pass, by step: how many there are, x, y, x^2 and x y.

    Attributes:
      q: values of the actions taken.
      numbers: where each part of the log begins, by number of episode.
      gamma: discount.
      horizon: the longest episode.
    """

    q: Field
    numbers: Folds
    gamma: float
    horizon: int

    @property
    def key(self) -> Hashable:
        """One for each model."""
        return ("proof", self)

    def summarise(self, block: Block) -> Total:
        """(5, T) of the block's episodes that count."""
        sums = np.zeros((5, self.horizon))
        steps = sums[:, : block.horizon]
        found = self.cells(block)
        if found is None:
            return Total(sums)
        counted, x, y = found
        steps[0] = block.n if counted is None else counted.sum(axis=0)
        steps[1], steps[2] = x.sum(axis=0), y.sum(axis=0)
        steps[3], steps[4] = np.einsum("ij,ij->j", x, x), np.einsum("ij,ij->j", x, y)
        return Total(sums)

    def number(self, block: Block) -> IntArray:
        """(m,) of each episode in the whole log."""
        number: IntArray = self.numbers.first[block.part] + block.first + block.rows
        return number

    def cells(self, block: Block) -> tuple[BoolArray | None, FloatArray, FloatArray] | None:
        """(m, H) what counts (None: all), values, rewards to go, 0 where a cell does not; None: none."""
        number = self.number(block)
        if number.min() >= ENOUGH:
            return None
        counted: BoolArray | None = block.alive
        if number.max() >= ENOUGH:
            early = np.broadcast_to((number < ENOUGH)[:, None], (block.n, block.horizon))
            counted = early if counted is None else counted & early
        to_go = np.array(block.paid, dtype=np.float64)
        plain = self.gamma == 1.0 and block.during is None
        for t in range(block.horizon - 2, -1, -1):
            discount = self.gamma if block.during is None else block.during[:, t]
            to_go[:, t] += to_go[:, t + 1] if plain else discount * to_go[:, t + 1]
        values: FloatArray = self.q.on(block)
        if counted is None:
            return None, values, to_go
        return counted, counted * values, counted * to_go


@dataclass(frozen=True, eq=False)
class Slope:
    """The regression of rewards to go on values, each less its mean at the same step."""

    sums: FloatArray  # (5, T)

    @classmethod
    def of(cls, sums: FloatArray) -> Slope:
        """From the sums of the first pass."""
        return cls(sums)

    @cached_property
    def means(self) -> tuple[FloatArray, FloatArray]:
        """(T,) of values, and of rewards to go."""
        count, x, y = self.sums[:3]
        return divide(x, count), divide(y, count)

    @cached_property
    def squares(self) -> float:
        """Of the values."""
        return float((self.sums[3] - self.sums[1] * self.means[0]).sum())

    @cached_property
    def b(self) -> float:
        """The slope; 0 where all values are alike."""
        product = float((self.sums[4] - self.sums[1] * self.means[1]).sum())
        alike = self.squares <= 1e-12 * float(self.sums[3].sum())
        return 0.0 if alike else product / self.squares


@dataclass(frozen=True, eq=False)
class Residuals:
    """The second pass: the sum of the squares of u_i, in units of the squares of the values."""

    steps: Steps
    slope: Slope

    def __call__(self, values: FloatArray, block: Block) -> Total:
        """Of a block's episodes."""
        found = self.steps.cells(block)
        if found is None:
            return Total(0.0)
        counted, x, y = found
        mean_x, mean_y = (mean[: block.horizon] for mean in self.slope.means)
        x = x - (mean_x if counted is None else counted * mean_x)
        y -= mean_y if counted is None else counted * mean_y
        y -= self.slope.b * x
        # In these units the squares of huge rewards stay within the range of doubles.
        u = divide(np.einsum("ij,ij->i", x, y), self.slope.squares)
        return Total(float(u @ u))


# --------------------------------------------------------------------------------------------------------

WINDOWS = (3, 2)
WINDOWS_OF_ROWS = (2, 3, 5)
# A windowed estimate so many standard errors of the undropped one away from it is no witness.
CONTRADICTED = 3.0
# Below it a model of labels has not shown that it knows anything.
LEAST_Z = 0.5
# So many effective episodes hold a drop without such a proof.
ENOUGH_UNPROVEN = 30.0


@dataclass(frozen=True)
class Witnesses:
    """What was found.

    Attributes:
      undropped, std_error: the estimate that drops nothing, the model taken as known.
      ess: its effective sample size.
      windowed: values of the windowed estimates.
      one_sided: these only tell when something is wrong, not what is right, as where states are rows.
      proven: whether the model has shown that it knows anything of unseen episodes.
      allows: whether anything may be dropped by it.
      meaningless: whether labels tell nothing of what follows or is paid, and values hardly what is earned.
    """

    undropped: float
    std_error: float
    ess: float
    windowed: tuple[float, ...] = ()
    one_sided: bool = False
    proven: bool = True
    allows: bool = True
    meaningless: bool = False

    @property
    def anchored(self) -> bool:
        """Whether enough effective episodes carry the undropped estimate."""
        return self.ess >= FEW_EPISODES

    @property
    def believed(self) -> tuple[float, ...]:
        """Those of the windowed estimates that the undropped one does not contradict.

        With few effective episodes its standard error says little, and it contradicts only from far away.
        """
        reach = CONTRADICTED * self.std_error * max(1.0, FEW_EPISODES / max(self.ess, 1.0)) ** 2
        return tuple(value for value in self.windowed if abs(value - self.undropped) <= reach)


class Hearing:
    """The passes behind the witnesses of a question of labels, which a path's passes may take along.

    Args:
      question: with a model that can be solved.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        self.plans = [plan_of(question, BUILT_IN[name], NOTHING_DROPPED) for name in ("WDR", "DM")]
        steps = model_steps(question)
        self._windows = [SelfNormalised(windowed(question, steps, window)) for window in WINDOWS]
        values = unseen_values(question)
        self._proof = None if values is None else Proof(question, values)
        self._answers = Answers(question, self.plans, model_known=True)

    @property
    def first(self) -> list[Summed]:
        """What the first pass sums."""
        wanted: list[Summed] = [*self._answers.wanted().wanted, *self._windows]
        return wanted if self._proof is None else [*wanted, self._proof.summed]

    @property
    def second(self) -> list[Job | None]:
        """What the second pass does."""
        jobs = [self._answers.errors(self.plans[:1])]
        if self._proof is not None and not self._proof.is_made:
            jobs.append(self._proof.job(self._answers))
        return jobs

    @cached_property
    def witnesses(self) -> Witnesses:
        """What they say; by passes of their own where no others have taken them along."""
        answers, (robust, direct) = self._answers, self.plans
        answers.sum(self.first, [robust.weighting])
        OfInfluences(self.second).serve(self.question)
        by_model = answers.fit(direct).value
        windowed = [one.family.finish(answers.found(one), weighted=True).value for one in self._windows]
        ess, z = answers.ess(robust) or 0.0, math.inf if self._proof is None else self._proof.z
        meaningless = z < SURE_Z and labels_are_noise(self.question)
        proven = z >= LEAST_Z and not meaningless
        return Witnesses(
            answers.fit(robust).value,
            answers.std_error(robust),
            ess,
            tuple(by_model + value for value in windowed),
            proven=proven,
            allows=proven or (ess >= ENOUGH_UNPROVEN and not meaningless),
            meaningless=meaningless,
        )


def hearing_of(question: Question) -> Hearing | None:
    """The hearing of a question's witnesses, made once; None where states are rows, which have a guard."""
    if question.row_values is not None:
        return None
    return question.made_once((Hearing,), lambda: Hearing(question))


def witnesses_of(question: Question) -> Witnesses:
    """The witnesses of a question; by passes of their own where no path has taken them along."""
    hearing = hearing_of(question)
    if hearing is not None:
        return hearing.witnesses
    return question.made_once((Witnesses,), lambda: _of_rows(question))


def _of_rows(question: Question) -> Witnesses:
    """Where states are rows: what the guard has found, and windows without the shares of states."""
    guard, start = guard_of(question), value_of_starts(question)
    families = [row_window(question, window) for window in WINDOWS_OF_ROWS]
    answers = Answers(question, ())
    answers.sum([SelfNormalised(family) for family in families])
    moved = [one.finish(answers.found(SelfNormalised(one)), weighted=True).value for one in families]
    return Witnesses(
        guard.anchor,
        guard.anchor_error,
        guard.ess,
        tuple(start + value for value in moved),
        one_sided=True,
        allows=guard.allows,
    )
