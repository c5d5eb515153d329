r"""Known values: action values that are taken as they are, held against what the log earned step by step.

If Q is that of pi_e, what a step adds to it, :math:`\delta = r + \gamma V(x') - Q(x, a)`, has mean 0 whatever
was seen and done before. No weights are needed to see where it has not: with

.. math:: S_i = \sum_t \gamma^t g_{it} \, \delta_{it}

the mean of S over episodes is 0 for every g that does not look ahead. Four of them are tried: one; the ratio
of the step; Q less its mean; and Q less V, how much better the action is held to be. Values that are noise,
another policy's, at the wrong level or of the wrong sign are off by many standard errors. Values without any
content are not, so they must also go with what was earned (`deadweight.negligible.guard`).

A test that finds nothing is no proof. Values that pass are therefore not taken for exact: with g the ratio
they are corrected by what the log says,

.. math:: \mathrm{WIN1} = \frac1n \sum_i \Bigl[ V(x_{i0}) + \sum_t \gamma^t \rho_{it} \, \delta_{it} \Bigr]

doubly robust with the latest ratio only, whose standard error shows how far the log can tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deadweight.basics.arithmetic import sums_by
from deadweight.estimators.full_influence import Influence
from deadweight.log.row_numbers import episode_of_rows, step_of_rows
from deadweight.question.core import Question
from deadweight.sums.blocks import powers
from deadweight.typing import FloatArray
from deadweight.values.row_values import MovedValues, OfEpisodes, RowValues

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
