r"""The model check: does the fitted model give back what the log itself earned?

The behaviour policy's value in the model, *over the T steps of the log*, is compared with the mean return.
Both come from the same episodes; the standard error of their difference is that of its influence function,
which for the value in the model is that of the direct method:

.. math:: z = \frac{\hat V_T(\pi_b) - \bar G}
   {\max\left( \mathrm{se}(\hat V_T(\pi_b) - \bar G),\; \mathrm{se}(\bar G) / 10 \right)}

The floor is for tasks that end by themselves: there the two differ only by what comes after T steps, which is
next to nothing and still many of its own standard errors.

The behaviour policy is the one observed in the log, whatever was given or logged: wrong propensities are not
the model's fault. With it all actions of a state are pooled, and the influence is complete.

A model that takes a time limit for random endings, or states that hide what matters, show up here (solved
until it settles, such a model returns the mean of the log identically: over T steps it does not). Others do
not: a check that finds nothing is no proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from deadweight.estimators.direct import Direct, Episodes
from deadweight.estimators.family import Fit
from deadweight.estimators.full_influence import Influence, no_influence
from deadweight.mdp.tabular import policy_value
from deadweight.question.core import Question
from deadweight.results.saved import saved
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Moments
from deadweight.values.model import mdp_from_counts
from deadweight.values.row_values import MovedValues

# A difference of more standard errors than this is no chance; with few episodes, its equal in Student's t.
MOST_STANDARD_ERRORS = 4.0
# The standard error of the difference is taken to be at least this share of that of the mean return.
LEAST_SHARE = 0.1
# Differences smaller than this, relative to the values compared, are rounding.
ROUNDING = 1e-9


@saved
@dataclass(frozen=True)
class Misfit:
    """What the check has found.

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
        """Whether the model does not fit."""
        from scipy.special import ndtr, stdtrit

        return self.n > 1 and abs(self.z) > float(stdtrit(self.n - 1, ndtr(MOST_STANDARD_ERRORS)))

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
    """The check of a question's model: two things to take moments of, and what they say."""

    def __init__(self, question: Question) -> None:
        self.gamma, self.n = question.gamma, question.n
        self.steps = max(question.horizon, question.time_limit or 0)
        self.fit = _behaviour_fit(question, self.steps)

    @property
    def influence(self) -> Influence:
        """The influence of a block's episodes on the value in the model, up to a constant."""
        return self.fit.influence or no_influence

    def finish(self, difference: Moments, returns: Moments) -> Misfit:
        """The finding."""
        gap = self.fit.value - returns.mean
        size = max(abs(returns.mean), returns.std_error * math.sqrt(self.n) if self.n > 1 else 0.0)
        if abs(gap) <= ROUNDING * size:
            z = 0.0
        else:
            error = max(difference.std_error, LEAST_SHARE * returns.std_error)
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
    difference, returns = reduce_log(question.parts, partial(_moments, check), question.workers)
    return check.finish(difference, returns)


def _moments(check: ModelCheck, block: Block) -> list[Moments]:
    returns = block.returns(check.gamma)
    return [Moments.of(check.influence(block) - returns), Moments.of(returns)]


def _behaviour_fit(question: Question, steps: int) -> Fit:
    """The behaviour policy's value in the model over the steps of the log; the same for all new policies."""
    if question.row_values is not None:
        by_row = question.row_values.behaviour_value(steps)
        assert by_row is not None, "only what moves is checked"
        return Fit(by_row[0], influence=by_row[1])
    if question.options.model is not None:
        return Fit(policy_value(question.model, question.pi_b, steps, question.gamma))
    key = (ModelCheck, question.shape, steps, question.gamma, question.options.unseen)
    found: Fit = question.facts.shared(key, lambda: _observed_value(question, steps))
    return found


def _observed_value(question: Question, steps: int) -> Fit:
    """The value of the policy that was observed, in the fitted model."""
    counts, unseen = question.counts.pooled(), question.options.unseen
    model = mdp_from_counts(counts, steps, unseen)
    only_action = np.ones((model.n_states, 1))
    direct = Direct(model, only_action, steps, question.gamma, counts, unseen)
    return direct.finish(Episodes(question.n), weighted=False)
