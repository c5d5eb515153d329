"""Whether action values, given or learned, may be used for more than taking noise away.

A model of features or labels that mean nothing sees no advantage of any action, and its value is about that
of the behaviour policy: wrong, at a small standard error, and often too close to what weights say to be told
from it. That it predicts nothing of what unseen episodes earn tells it from others, and of labels that
transitions and rewards have nothing to do with them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.influences import Job
from deadweight.answers.rounds import OfInfluences
from deadweight.answers.witnesses import LEAST_Z, guard_of, labels_are_noise
from deadweight.estimators.influence import Influence
from deadweight.estimators.windowed import ModelSteps, model_steps
from deadweight.log.trajectories import episode_of_rows, step_of_rows
from deadweight.question.question import Question
from deadweight.sums.blocks import Block, Field, Logged, powers
from deadweight.sums.old_policies import SAME, Confounding, slope_sums
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import KeyedSums, RowMoments, Total
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.typing import FloatArray
from deadweight.values.rows import MovedValues, OfEpisodes, RowValues

# --------------------------------------------------------------------------------------------------------
# Known values: action values that are taken as they are, held against what the log earned step by step.
#
# If Q is that of pi_e, what a step adds to it, :math:`\delta = r + \gamma V(x') - Q(x, a)`, has mean 0
# whatever was seen and done before. No weights are needed to see where it has not: with
#
# .. math:: S_i = \sum_t \gamma^t g_{it} \, \delta_{it}
#
# the mean of S over episodes is 0 for every g that does not look ahead. Four of them are tried: one; the
# ratio of the step; Q less its mean; and Q less V, how much better the action is held to be. Values that are
# noise, another policy's, at the wrong level or of the wrong sign are off by many standard errors. Values
# without any content are not, so they must also go with what was earned (`deadweight.answers.witnesses`).
#
# A test that finds nothing is no proof. Values that pass are therefore not taken for exact: with g the ratio
# they are corrected by what the log says,
#
# .. math:: \mathrm{WIN1} = \frac1n \sum_i \Bigl[ V(x_{i0}) + \sum_t \gamma^t \rho_{it} \, \delta_{it} \Bigr]
#
# doubly robust with the latest ratio only, whose standard error shows how far the log can tell.

# More standard errors than this are no chance.
MOST_STANDARD_ERRORS = 3.0
# Means smaller than this, relative to the values, are rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class KnownValues:
    """What the log says of values that were given to it.

    Attributes:
      z: (4,) the means of S, in standard errors.
      one_step: (n,) each episode's part of WIN1.
    """

    z: FloatArray
    one_step: FloatArray

    @property
    def fits(self) -> bool:
        """Whether none of the four speaks against the values."""
        return bool((np.abs(self.z) <= MOST_STANDARD_ERRORS).all())

    @property
    def estimate(self) -> tuple[float, Influence]:
        """WIN1 and the influence of each episode on it."""
        return float(self.one_step.mean()), OfEpisodes(self.one_step)


def known_values(question: Question) -> KnownValues | None:
    """What the log says of the values of a question; None where they were learned from it in closed form."""
    values = question.row_values
    if values is None or isinstance(values, MovedValues):
        return None
    return question.made_once((KnownValues,), lambda: _held_against_the_log(question, values))


def _held_against_the_log(question: Question, values: RowValues) -> KnownValues:
    log = question.parts[0]
    episode = episode_of_rows(log)
    times = step_of_rows(log)
    q = values.q[log.states]  # (steps, A)
    pi_e = question.pi_e("A check of values")[log.states]
    v = np.einsum("ia,ia->i", q, pi_e)
    rows = np.arange(log.n_steps)
    taken = q[rows, log.actions]
    found = log.rewards + question.gamma * _followed_by(question, v) - taken
    delta = powers(question.gamma, log.horizon)[times] * np.where(np.isnan(found), 0.0, found)
    ratio = pi_e[rows, log.actions] / _propensities(question)
    tried = (np.ones_like(v), ratio, taken - taken.mean(), taken - v)
    sums = [sums_by(episode, g * delta, log.n_episodes) for g in tried]
    rounding = ROUNDING * (1.0 + float(np.abs(q).max()))
    z = [_in_standard_errors(one, rounding) for one in sums]
    return KnownValues(np.array(z), values.start + sums[1])


def _followed_by(question: Question, v: FloatArray) -> FloatArray:
    """(steps,) the value of what follows: nothing after the end or at the time limit.

    NaN where an episode was cut before that: nobody gave the value of what came next.
    """
    log = question.parts[0]
    ends = log.offsets[1:] - 1
    after = np.append(v[1:], 0.0)
    after[ends] = 0.0
    early = ends[~log.terminated & (log.lengths < (question.time_limit or log.horizon))]
    after[early] = np.nan
    return after


def _propensities(question: Question) -> FloatArray:
    log, pi_b = question.parts[0], question.pair.pi_b
    logged: FloatArray | None = log.propensities if pi_b is None else pi_b[log.states, log.actions]
    assert logged is not None, "a question has a behaviour policy"
    return logged


def _in_standard_errors(sums: FloatArray, rounding: float) -> float:
    mean = float(sums.mean())
    if abs(mean) <= rounding or len(sums) < 2:
        return 0.0
    error = float(sums.std(ddof=1)) / math.sqrt(len(sums))
    return mean / error if error > 0.0 else math.copysign(math.inf, mean)


# --------------------------------------------------------------------------------------------------------
# A model that was given instead of fitted: a table, held against what the log earned step by step.
#
# What is said in `deadweight.answers.trust` of values row by row holds here as well: with the values of
# a right model :math:`\delta = r + \gamma V_{t+1}(s') - Q_t(s, a)` has mean 0, whatever it is multiplied by
# that was known before. A model of another log is not exact either, and nobody says how far off it is:
# windowed weights correct it by this log, and the model alone has no share in a blend, but may contradict it.


def has_given_model(question: Question) -> bool:
    """Whether the model is a table that somebody else has made."""
    given = question.row_values is None and question.options.model is not None
    return given and question.can_solve_model


def given_model_fits(question: Question) -> bool:
    """Whether the log does not contradict the given model; by a pass of its own, once."""
    return question.made_once(("given model",), lambda: _table_fits_the_log(question))


def _table_fits_the_log(question: Question) -> bool:
    steps = ModelSteps(question)
    (moments,) = reduce_log(question.parts, partial(_moments, steps), question.workers)
    return _fits(moments, ROUNDING * (1.0 + float(np.abs(steps.q).max())))


def _fits(moments: RowMoments, rounding: float) -> bool:
    if moments.n < 2:
        return True
    errors = np.sqrt(moments.squares / (moments.n - 1) / moments.n)
    return bool((np.abs(moments.mean) <= np.maximum(MOST_STANDARD_ERRORS * errors, rounding)).all())


def _moments(steps: ModelSteps, block: Block) -> list[RowMoments]:
    """Of each episode's discounted errors, as they are and by three multipliers."""
    weighted = steps.weighting.on(block)
    times = powers(steps.gamma, block.horizon) if block.before is None else block.before
    delta: FloatArray = steps.errors(block).delta * times
    taken = steps.q[block.times, block.states, block.actions]
    better = taken - steps.v[block.times, block.states]
    usual = float(steps.d_e[0] @ steps.v[0, :-1])
    tried = (1.0, weighted.full, taken - usual, better)
    return [RowMoments.of(np.stack([(delta * one).sum(axis=1) for one in tried]))]


# --------------------------------------------------------------------------------------------------------


def is_proven(question: Question) -> bool:
    """Whether the log bears out the values: what was earned does not contradict them, and goes with them.

    Values that were learned from the log in closed form have a standard error, and need less of a proof.
    """
    if has_given_model(question):
        return given_model_fits(question)
    if question.row_values is None:
        return not labels_are_noise(question)
    known, guard = known_values(question), guard_of(question)
    return guard.z >= LEAST_Z if known is None else known.fits and guard.is_sure


# --------------------------------------------------------------------------------------------------------
# Has the old policy looked at something that the state lacks, and that matters?
#
# Logged probabilities that differ within a state and action say that the old policy looked at more than the
# state: a week, a version, how ill somebody was. That is harmless unless what it looked at also tells what
# follows. Where it does, the model's error of a step goes along with the logged probability,
#
# .. math:: \delta_{it} = r_{it} + \gamma V(s_{i,t+1}) - Q(s_{it}, a_{it}) \quad \text{on} \quad
#    x_{it} = \log b_{it} - \overline{\log b}_{s_{it} a_{it}},
#
# a regression within states and actions, pooled over states, with standard errors clustered by episode and as
# many degrees of freedom as there are episodes that effectively carry the slope. Each action has a slope of
# its own: whatever makes one of them more likely makes another less likely, and over all of them the slopes
# cancel. Weights are not harmed by this, if the logged probabilities are right; whatever rests on the model
# is. A check that finds nothing is no proof.
#
# Probabilities that were counted from the same log are no ground: they are left alone.

# Counted from the log itself, as this flag of the behaviour policy says.
COUNTED = "behaviour-filled"


class LoggedByPair:
    """Number, sum and sum of squares of the logarithms of logged probabilities, by state and action."""

    key: Hashable = "logged-by-pair"

    def __init__(self, question: Question) -> None:
        self.behaviour, self.n_actions = question.pair.behaviour, question.pair.n_actions

    def summarise(self, block: Block) -> KeyedSums:
        """Of a block."""
        logs = np.log(block.flat(self.behaviour.on(block)))
        return KeyedSums.of(block.flat(block.pairs(self.n_actions)), 1.0, logs, np.square(logs))


def can_check(question: Question) -> bool:
    """Whether there are logged probabilities, and a table of states that is solved."""
    return (
        isinstance(question.pair.behaviour, Logged)
        and "propensities" in question.parts.labels.logged
        and question.row_values is None
        and COUNTED not in question.behaviour_flags
        and question.can_solve_model
    )


def sums_for(question: Question) -> list[LoggedByPair]:
    """What is to be summed in a first pass; nothing where there is nothing to check."""
    return [LoggedByPair(question)] if can_check(question) else []


def job_for(answers: Answers) -> Job | None:
    """What is to be done in a second pass, by whoever makes one; None where nothing is left to do."""
    question = answers.question
    if Confounding in question.sums or not can_check(question):
        return None
    wanted = LoggedByPair(question)
    answers.sum([wanted])
    scores = _Scores.of(question, answers.found(wanted))
    if scores is None:
        question.sums[Confounding] = None
        return None

    def keep(found: Total) -> None:
        question.sums[Confounding] = Confounding.of(np.asarray(found.value))

    return Job([], scores, keep)


def confounding_of(answers: Answers) -> Confounding | None:
    """What the check finds, by passes of its own where none were shared; None where it cannot be made."""
    OfInfluences([job_for(answers)]).serve(answers.question)
    found: Confounding | None = answers.question.sums.get(Confounding)
    return found


def is_confounded(answers: Answers) -> bool:
    """Whether the check has been made, and has found something."""
    found = answers.question.sums.get(Confounding)
    return found is not None and found.found


@dataclass(frozen=True, eq=False)
class _Scores:
    """Sums over episodes by action, for `Confounding.of`; travels to workers.

    Attributes:
      steps: the model at the steps of the log.
      behaviour: the logged probabilities.
      means: (S * A,) of their logarithms.
      larger: (S * A,) by how much an error is larger than the one seen, from a mean that it is part of; 0
        where the probabilities do not differ.
    """

    steps: ModelSteps
    behaviour: Field
    means: FloatArray
    larger: FloatArray

    @classmethod
    def of(cls, question: Question, logged: KeyedSums) -> _Scores | None:
        """None where no probabilities differ."""
        number, total, squares = logged.sums
        mean = total / number
        differ = squares / number - np.square(mean) > SAME**2
        if not differ.any():
            return None
        means, larger = np.zeros((2, question.pair.n_states * question.pair.n_actions))
        means[logged.keys] = mean
        larger[logged.keys] = np.where(differ, divide(number, number - 1), 0.0)
        return cls(model_steps(question), question.pair.behaviour, means, larger)

    def __call__(self, values: FloatArray, block: Block) -> Total:
        """(5, A) of a block's episodes."""
        n_actions = self.steps.pi_e.shape[1]
        errors, pairs = self.steps.errors(block), block.pairs(n_actions)
        some = errors.known & (self.larger[pairs] > 0)
        at = pairs[some]
        x = np.log(self.behaviour.on(block)[some]) - self.means[at]
        keys = np.nonzero(some)[0] * n_actions + at % n_actions
        return Total(slope_sums(keys, x, errors.delta[some], self.larger[at], n_actions))
