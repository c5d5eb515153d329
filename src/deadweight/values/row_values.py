"""Action values row by row: what a learner of them is given, and what it makes of it.

A learner (`LinearQ`, `RegressorQ`, `GivenQ`) sees the rows of a log, each with its features, its action, its
reward and what follows, and gives q(x, a) of the evaluation policy for every row. With folds each row has
its values from rows of other episodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.errors import OptionError
from deadweight.log.row_numbers import episode_of_rows, step_of_rows
from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block, powers
from deadweight.typing import BoolArray, FloatArray, IntArray

Influence = Callable[[Block], FloatArray]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a log, and after them what follows each episode, for a learner of action values.

    Attributes:
      log: each row is a state of its own.
      pi_e: (S, A) by the number that a row has as a state.
      gamma: discount.
      steps: over which values are taken; None: until the end.
      folds: number of folds by episode, 0 for none.
    """

    log: Trajectories
    pi_e: FloatArray
    gamma: float
    steps: int | None
    folds: int = 0

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.log.n_steps

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.pi_e.shape[1])

    @cached_property
    def x(self) -> FloatArray:
        """(n + episodes, d) features; zeros where nobody knows what follows."""
        log = self.log
        if log.features is None or log.last_features is None:
            raise OptionError(
                "Action values of rows are learned from features; this log has none.",
                fix="Pass features=... to Trajectories, or values with model=deadweight.GivenQ(q).",
            )
        return np.concatenate([log.features, np.nan_to_num(log.last_features)])

    @cached_property
    def states(self) -> IntArray:
        """(n + episodes,) the number of each as a state; 0 where nobody knows what follows."""
        return np.concatenate([self.log.states, np.maximum(self.log._last_successor, 0)])

    @cached_property
    def probs(self) -> FloatArray:
        """(n + episodes, A) pi_e."""
        return self.pi_e[self.states]

    @cached_property
    def episode(self) -> IntArray:
        """(n,) the episode of each row."""
        return episode_of_rows(self.log)

    @cached_property
    def times(self) -> IntArray:
        """(n,) the step of each row."""
        return step_of_rows(self.log)

    @cached_property
    def fold(self) -> IntArray:
        """(n,) the fold of each row; 0 where there are none."""
        return np.asarray(self.episode % max(self.folds, 1))

    @cached_property
    def ended(self) -> BoolArray:
        """(n,) True where the task ended after a row."""
        ended = np.zeros(self.n, dtype=bool)
        ended[self.log.offsets[1:] - 1] = self.log.terminated
        return ended

    @cached_property
    def following(self) -> IntArray:
        """(n,) the row that follows, among the rows and what follows them; -1 where none, or none known."""
        after = np.arange(1, self.n + 1)
        known = (self.log._last_successor >= 0) & ~self.log.terminated
        after[self.log.offsets[1:] - 1] = np.where(known, self.n + np.arange(self.log.n_episodes), -1)
        return after

    @cached_property
    def known(self) -> BoolArray:
        """(n,) where it is known what followed: another row, or the end."""
        known: BoolArray = self.ended | (self.following >= 0)
        return known

    def limits(self, t: IntArray) -> tuple[FloatArray, FloatArray]:
        """Lowest and highest sum of rewards that can be to come at step t, by the rewards in the log.

        Until the end there may be as many steps to come as the longest episode has.
        """
        left = self.log.horizon if self.steps is None else np.maximum(self.steps - t, 1)
        most = np.cumsum(powers(self.gamma, int(np.max(left))))[np.asarray(left) - 1]
        low, high = float(self.log.rewards.min()), float(self.log.rewards.max())
        few = np.ones_like(most)
        return low * (most if low < 0 else few), high * (most if high > 0 else few)


@dataclass(frozen=True, eq=False)
class OfEpisodes:
    """An influence that is known for each episode of a log in one piece."""

    values: FloatArray  # (n,)

    def __call__(self, block: Block) -> FloatArray:
        """(m,) of a block's episodes."""
        found: FloatArray = self.values[block.first + block.rows]
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class RowValues:
    """What a learner has made of the rows of a log, taken as known: no episode moves it.

    Attributes:
      q: (S, A) by the number of a row as a state.
      start: (episodes,) value of each episode's first row, by a model of all episodes.
      start_without: (folds, episodes) the same by the model without each fold; None where there are none.
      flags: what must be known of the model, such as "model-unstable".
      settled: whether values until the end were found, where they were asked for.
    """

    q: FloatArray
    start: FloatArray
    start_without: FloatArray | None = None
    flags: tuple[str, ...] = ()
    settled: bool = True

    def q_of(self, x: FloatArray, times: IntArray) -> FloatArray | None:
        """(m, A) values of any features at some steps, by a model of all episodes; None without one."""
        return None

    @property
    def start_influence(self) -> Influence | None:
        """The influence of each episode on the mean of `start`; None where values are taken as known."""
        return None

    def behaviour_value(self, steps: int) -> tuple[float, Influence] | None:
        """The observed policy's value over so many steps, and its influence; None where there is none."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class MovedValues(RowValues, ABC):
    """Values that every episode moves, by as much as can be computed."""

    @abstractmethod
    def influences(self, by_q: Sequence[FloatArray], n: int) -> list[Influence]:
        """The influence of each episode on some estimates by way of the model.

        Args:
          by_q: for each estimate, (S, A) its derivative by q of each row.
          n: episodes.
        """

    @property
    @abstractmethod
    def start_influence(self) -> Influence:
        """The same on the mean of `start`."""


class RowLearner(ABC):
    """A way to get action values for the rows of a log."""

    @abstractmethod
    def fit(self, rows: Rows) -> RowValues:
        """Action values of every row."""


def state_values(q: FloatArray, pi_e: FloatArray) -> FloatArray:
    """(S,) V of each row."""
    return np.asarray(np.einsum("sa,sa->s", q, pi_e))
