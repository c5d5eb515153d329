r"""The guard of the automatic drop: whether a model of features is of any use, before it may drop anything.

A model that knows nothing sees no gaps, and would have everything dropped. All is judged by values of models
that have not seen the episode, and without a drop. The ratio of the standard errors of WDR and WPDIS says
whether the model takes noise away; and over the logged rows, with y the reward to go and x = Q(x, a), each
less its mean at the same step,

.. math:: b = \frac{\sum x y}{\sum x^2}, \qquad u_i = \sum_{t \in i} x (y - b x), \qquad
   z = \frac{b \sum x^2}{\sqrt{\sum_i u_i^2}}

says whether values go with what was earned. A drop is allowed if the ratio is below 1.25 and z above 2; in
short logs of rare rewards few models get that far, and it is also allowed if the model does take noise away
(ratio below 0.9) and z is above 1. The anchor is whichever of the two estimates has the smaller standard
error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.plans import plan_of
from deadweight.basics.arithmetic import divide, sums_by
from deadweight.estimators.names import BUILT_IN
from deadweight.log.row_numbers import episode_of_rows, step_of_rows
from deadweight.log.trajectories import Trajectories
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.typing import FloatArray, IntArray

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
    answers.prepare(False)
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
