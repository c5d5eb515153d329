"""A confidence sequence: the betting interval after each episode, valid at all of them at once.

The wealth of `betting` is a martingale in the number of episodes, so that one may look after every episode
and stop when the answer is clear. What was ruled out once stays ruled out: the intervals are nested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.answers.plans import Plan
from deadweight.basics.arithmetic import freeze_fields
from deadweight.errors import DataError, OptionError
from deadweight.estimators.names import estimator_of
from deadweight.inference.betting import LOG_BET, LOG_STAY, climb, log_sum
from deadweight.inference.per_episode import check_returns, whole_episodes
from deadweight.log.interface import in_memory
from deadweight.log.trajectories import Trajectories
from deadweight.question.asking import ask
from deadweight.question.drops import drop_of
from deadweight.question.options import Options
from deadweight.typing import FloatArray

# Wealth may pass the threshold by rounding alone; the bound moves when it passes by more.
ROUNDING = 1e-10


class ConfidenceSequence:
    """An interval for the value of a policy that is updated episode by episode.

    Args:
      return_range: lowest and highest return that an episode can have.
      level: confidence level, of all intervals at once.

    Example:
      >>> sequence = ConfidenceSequence(return_range=(0.0, 1.0))
      >>> for _ in range(100):
      ...     lower, upper = sequence.update(weight=1.0, episode_return=1.0)
      >>> round(lower, 3), upper
      (0.933, 1.0)
    """

    def __init__(self, return_range: tuple[float, float], level: float = 0.95) -> None:
        # The checks are those of the options of an estimate.
        checked = Options(return_range=return_range).return_range
        if checked is None or not 0 < level < 1:
            raise OptionError(
                f"A confidence sequence needs a return_range and a level; found level {level!r}.",
                fix="For example ConfidenceSequence((0, 1), level=0.95).",
            )
        self.lowest, self.highest = checked
        target = -math.log((1.0 - level) / 2)
        self._below, self._above = _Side(target), _Side(target)

    @property
    def n_episodes(self) -> int:
        """Episodes seen so far."""
        return self._below.n

    @property
    def interval(self) -> tuple[float, float]:
        """(lower, upper) after the episodes seen so far."""
        lower = min(self.lowest + self._below.bound, self.highest)
        upper = max(self.highest - self._above.bound, self.lowest)
        return min(lower, upper), max(lower, upper)

    def update(self, weight: float, episode_return: float) -> tuple[float, float]:
        """The interval with one more episode: its weight B and its return G."""
        if not weight >= 0:
            raise DataError(
                f"The weight of an episode must be at least 0; found {weight!r}.",
                fix="A weight is a product of ratios pi_e / pi_b, such as 0.8.",
            )
        return self._update_log(math.log(weight) if weight > 0 else -math.inf, episode_return)

    def _update_log(self, log_weight: float, episode_return: float) -> tuple[float, float]:
        check_returns(np.array([episode_return]), self.lowest, self.highest, first=self.n_episodes)
        for side, excess in (
            (self._below, episode_return - self.lowest),
            (self._above, self.highest - episode_return),
        ):
            side.add(log_weight + math.log(excess) if excess > 0 else -math.inf)
        return self.interval


class _Side:
    """A lower bound of the mean of X >= 0 that never falls."""

    def __init__(self, target: float) -> None:
        self.n = 0
        self._target = target
        self._log_x = np.empty(64)
        self._log_m = -math.inf
        self._logs: FloatArray = np.zeros(len(LOG_BET))  # log of each product at m

    @property
    def bound(self) -> float:
        return math.exp(self._log_m)

    def add(self, log_x: float) -> None:
        if self.n == len(self._log_x):
            self._log_x = np.concatenate([self._log_x, np.empty(self.n)])
        self._log_x[self.n] = log_x
        self.n += 1
        if self._log_m == -math.inf:
            if log_x > -math.inf:  # any m below the first positive X can be ruled out if it is small enough
                self._move(log_x - math.log(self.n))
            return
        self._logs += np.logaddexp(LOG_STAY, LOG_BET + (log_x - self._log_m))
        if log_sum(self._logs) - math.log(len(self._logs)) > self._target + ROUNDING:
            self._move(self._log_m)

    def _move(self, start: float) -> None:
        """Climb to the new bound, and take all products there."""
        seen = self._log_x[: self.n]
        self._log_m = climb(seen, start, self._target)
        self._logs = np.logaddexp(LOG_STAY, LOG_BET + (seen[:, None] - self._log_m)).sum(axis=0)


@dataclass(frozen=True, eq=False)
class IntervalPath:
    """Intervals after 1, 2, ..., n episodes, all valid together.

    Attributes:
      lower, upper: (n,) nested.
      covers: "V(pi_e)" or, with a drop, "V(mu_D)".
    """

    lower: FloatArray
    upper: FloatArray
    covers: str

    def __post_init__(self) -> None:
        freeze_fields(self)


def confidence_sequence(
    log: Trajectories,
    pi_e: Any = None,
    pi_b: Any = None,
    *,
    return_range: tuple[float, float],
    drop: Any = None,
    gamma: float = 1.0,
    level: float = 0.95,
) -> IntervalPath:
    """The confidence sequence of a log, episodes in their order.

    Args:
      log: episodes of the behaviour policy, in the order in which they arrived.
      pi_e, pi_b: evaluation and behaviour policy, as in `estimate`.
      return_range: lowest and highest return that an episode can have.
      drop: states (or steps) chosen before the first episode was seen; rules by name are refused.
      gamma: discount.
      level: confidence level, of all intervals at once.

    Example:
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 0.0)]] * 50)
      >>> found = confidence_sequence(log, [[0.5, 0.5]], [[0.5, 0.5]], return_range=(0.0, 1.0))
      >>> bool((found.lower[1:] >= found.lower[:-1]).all()), found.covers
      (True, 'V(pi_e)')
    """
    if isinstance(drop, str):
        raise OptionError(
            f"A confidence sequence needs a drop chosen before its first episode; found the rule {drop!r}.",
            fix="Choose the states from other episodes and pass them as a StateSet.",
        )
    question = ask(in_memory(log), pi_e, pi_b, gamma)
    plan = Plan(question, estimator_of("SIS"), drop_of(question, drop))
    episodes = whole_episodes(plan)
    sequence = ConfidenceSequence(return_range, level)
    ends = [
        sequence._update_log(log_weight, episode_return)
        for log_weight, episode_return in zip(
            episodes.log_weights.tolist(), episodes.returns.tolist(), strict=True
        )
    ]
    lower, upper = np.array(ends).T
    return IntervalPath(lower, upper, plan.estimand)
