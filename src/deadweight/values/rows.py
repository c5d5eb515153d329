"""Action values row by row: what a learner of them is given, and what it makes of it.

A learner (`LinearQ`, `RegressorQ`, `GivenQ`) sees the rows of a log, each with its features, its action, its
reward and what follows, and gives q(x, a) of the evaluation policy for every row. With folds each row has
its values from rows of other episodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import EstimationError, OptionError
from deadweight.log.trajectories import Trajectories, episode_of_rows, places, step_of_rows
from deadweight.sums.blocks import Block, powers
from deadweight.tools.arithmetic import frozen, real
from deadweight.typing import BoolArray, FloatArray, IntArray

Influence = Callable[[Block], FloatArray]
# Without a horizon values settle; a change below this share of their spread is none.
MOST_ROUNDS, CHANGED = 50, 1e-3


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a log, and after them what follows each episode, for a learner of action values."""

    log: Trajectories  # each row is a state of its own
    pi_e: FloatArray  # (S, A) by the number that a row has as a state
    gamma: float  # discount
    steps: int | None  # over which values are taken; None: until the end
    folds: int = 0  # number of folds by episode, 0 for none

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
        return np.asarray(self.ended | (self.following >= 0))

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
        """(m,) influence of a block's episodes."""
        return self.values[block.first + block.rows]


@dataclass(frozen=True, eq=False, kw_only=True)
class RowValues:
    """Action values of the rows of a log, taken as known: no episode moves them."""

    q: FloatArray  # (S, A) by the number of a row as a state
    start: FloatArray  # (episodes,) value of each episode's first row, by a model of all episodes
    start_without: FloatArray | None = None  # (folds, episodes) these by the model without each fold
    flags: tuple[str, ...] = ()  # what must be known of the model, such as "model-unstable"
    settled: bool = True  # whether values until the end were found, where they were asked for

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
        """The influence of each episode on the mean of `start`."""


class RowLearner(ABC):
    """A method that gives action values for the rows of a log."""

    @abstractmethod
    def fit(self, rows: Rows) -> RowValues:
        """Action values of every row."""


def state_values(q: FloatArray, pi_e: FloatArray) -> FloatArray:
    """(S,) V of each row."""
    return np.asarray(np.einsum("sa,sa->s", q, pi_e))


class GivenQ(RowLearner):
    """Action values for the rows of one log, such as those of a network.

    They are taken as known: no episode moves them, and standard errors do not allow for how they were made.
    Make them from other episodes than those of the log.

    Args:
      q: (steps, A) value of each action at each row: rows in the order of the table that the log was read
        from, as for `RowPolicy`, columns in the order of the log's actions.
      last: (n, A) the same for what follows each episode, a row of NaN where nobody knows; nothing needs
        it so far.

    Example:
      >>> import deadweight as dw
      >>> log = dw.Trajectories(None, [0, 1], [1.0, 3.0], [0, 1, 2], features=[[0.0], [1.0]])
      >>> uniform = dw.RowPolicy([[0.5, 0.5], [0.5, 0.5]])
      >>> dw.estimate("DM", log, uniform, uniform, model=dw.GivenQ([[1.0, 2.0], [2.0, 3.0]])).value
      2.0
    """

    def __init__(self, q: npt.ArrayLike, last: npt.ArrayLike | None = None) -> None:
        self.q = _checked(q, "q")
        self.last = None if last is None else _checked(last, "last", may_be_unknown=True)

    def fit(self, rows: Rows) -> RowValues:
        """The values as they are."""
        q = self._in_order_of(rows)
        return RowValues(q=_by_state(rows, q), start=_starts(rows, q))

    def _in_order_of(self, rows: Rows) -> FloatArray:
        """(steps, A) the values of a log's steps; an error where they do not fit."""
        table = rows.log.order_of_rows
        at = places(table.rows, table.n_rows, len(self.q))
        if at is None or self.q.shape[1] != rows.n_actions:
            whole = f" (or one for each of the {table.n_rows} rows of the table)"
            raise OptionError(
                f"q of GivenQ must have a row for each step and a column for each action, "
                f"{(rows.n, rows.n_actions)}{whole if table.n_rows != rows.n else ''}; found {self.q.shape}.",
                fix="Give the values of all actions in the order of log.action_labels, then of those that "
                "only a policy has.",
            )
        n = rows.log.n_episodes
        if self.last is not None and self.last.shape not in (
            (n, rows.n_actions),
            (table.n_episodes, rows.n_actions),
        ):
            raise OptionError(
                f"last of GivenQ must have the shape {(n, rows.n_actions)}; found {self.last.shape}.",
                fix="One row for each episode: what follows its last step, a row of NaN where nobody knows.",
            )
        return self.q[at]

    def __repr__(self) -> str:
        return f"GivenQ({self.q.shape[0]:,} rows, {self.q.shape[1]:,} actions)"


def _checked(values: npt.ArrayLike, name: str, may_be_unknown: bool = False) -> FloatArray:
    try:
        table: FloatArray = frozen(real(values))
    except (TypeError, ValueError):
        raise OptionError(
            f"{name} of GivenQ must hold numbers; found something else.",
            fix="For example GivenQ([[0.5, 1.0], [0.2, 0.3]]) of two steps and two actions.",
        ) from None
    if table.ndim != 2:
        raise OptionError(
            f"{name} of GivenQ must be (rows, actions); found shape {table.shape}.",
            fix="For example GivenQ(q) with q of shape (steps, actions).",
        )
    fine = np.isfinite(table)
    if may_be_unknown:
        fine |= np.isnan(table).all(axis=1, keepdims=True)
    bad = np.argwhere(~fine)
    if bad.size:
        row, column = (int(i) for i in bad[0])
        raise OptionError(
            f"{name} of GivenQ must be finite; found {table[row, column]} in row {row}, column {column}.",
            fix="Replace what is missing or infinite: every row needs a value for each action.",
        )
    return table


class RegressorQ(RowLearner):
    r"""Action values by a regressor with `fit(X, y)` and `predict(X)`, such as those of scikit-learn.

    .. math:: Q_t \leftarrow \text{fit of } r + \gamma \sum_{a'} \pi_e(a'|x') \, Q_{t+1}(x', a')
       \text{ on } (x, a)

    step by step from the last one; where no episode was cut, until values change no more. Columns are the
    features, and one of 0 and 1 for each action. It is fitted once for each step over which values are taken
    and for each fold; standard errors take it as known.

    Args:
      estimator: fitted copies are made of it; it stays as it is.

    Example:
      >>> import deadweight as dw
      >>> class Mean:
      ...     def fit(self, x, y):
      ...         self.mean = y.mean()
      ...     def predict(self, x):
      ...         return np.full(len(x), self.mean)
      >>> log = dw.Trajectories(None, [0, 1], [1.0, 3.0], [0, 1, 2], features=[[0.0], [1.0]])
      >>> uniform = dw.RowPolicy([[0.5, 0.5], [0.5, 0.5]])
      >>> dw.estimate("DM", log, uniform, uniform, model=dw.RegressorQ(Mean())).value
      2.0
    """

    def __init__(self, estimator: Any) -> None:
        is_class = isinstance(estimator, type)
        if is_class or not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            kind = f"the class {estimator.__name__} itself" if is_class else type(estimator).__name__
            raise OptionError(
                f"RegressorQ needs an object with fit and predict; found {kind}.",
                fix="Pass a regressor, such as sklearn.ensemble.ExtraTreesRegressor(min_samples_leaf=20).",
            )
        self.estimator = estimator

    def __repr__(self) -> str:
        return f"RegressorQ({self.estimator!r})"

    def fit(self, rows: Rows) -> RowValues:
        """Values of each fold from the rows of the others."""
        q, settled = self._values(rows, np.ones(rows.n, dtype=bool))
        start, without = _starts(rows, q), []
        for k in range(rows.folds):
            of_others, fine = self._values(rows, rows.fold != k)
            settled &= fine
            q[rows.fold == k] = of_others[rows.fold == k]
            without.append(_starts(rows, of_others))
        start_without = np.stack(without) if without else None
        return RowValues(q=_by_state(rows, q), start=start, start_without=start_without, settled=settled)

    def _values(self, rows: Rows, seen: BoolArray) -> tuple[FloatArray, bool]:
        """(n, A) values of all rows at their steps, fitted to those seen; whether they have settled."""
        now: FloatArray = np.zeros((len(rows.x), rows.n_actions))
        columns = np.concatenate([rows.x, now], axis=1)  # features, and room for the action
        if rows.steps is None:
            for _ in range(MOST_ROUNDS):
                before, now = now, self._one_step_earlier(rows, columns, seen, now, 0)
                if float(np.abs(now - before).max()) <= CHANGED * float(np.ptp(now)):
                    return now[: rows.n], True
            return now[: rows.n], False
        q = np.zeros((rows.n, rows.n_actions))
        for t in range(rows.steps - 1, -1, -1):
            now = self._one_step_earlier(rows, columns, seen, now, t)
            q[rows.times == t] = now[: rows.n][rows.times == t]
        return q, True

    def _one_step_earlier(
        self, rows: Rows, columns: FloatArray, seen: BoolArray, later: FloatArray, t: int
    ) -> FloatArray:
        """(n + episodes, A) values at step t from those of the next step."""
        v = np.einsum("ia,ia->i", later, rows.probs)
        ahead = np.where(rows.following >= 0, v[rows.following], 0.0)
        # A row without a known successor has a reward only; it is used while no row has a value after it.
        used = seen & rows.known if ahead.any() else seen
        low, high = rows.limits(np.asarray(t))
        return np.clip(self._fitted(columns, rows, used, rows.log.rewards + rows.gamma * ahead), low, high)

    def _fitted(self, columns: FloatArray, rows: Rows, seen: BoolArray, target: FloatArray) -> FloatArray:
        """(n + episodes, A) predictions of a copy fitted to the rows seen."""
        model = deepcopy(self.estimator)
        chosen: IntArray = np.flatnonzero(seen)
        x = columns[chosen].copy()
        x[:, -rows.n_actions :] = np.eye(rows.n_actions)[rows.log.actions[chosen]]
        with _named(self, "fit"):
            model.fit(x, target[chosen])
        predicted = np.empty((len(columns), rows.n_actions))
        every = columns.copy()
        for action in range(rows.n_actions):
            every[:, -rows.n_actions :] = np.eye(rows.n_actions)[action]
            with _named(self, "predict"):
                predicted[:, action] = np.asarray(model.predict(every), dtype=np.float64).reshape(len(every))
        bad = np.argwhere(~np.isfinite(predicted[: rows.n]))
        if bad.size:
            row, action = (int(i) for i in bad[0])
            raise EstimationError(
                f"{self!r} predicts {predicted[row, action]} for row {row}, action number {action}; values "
                "must be finite.",
                fix="See whether the regressor converges on these features; standardise them, or take "
                "another one.",
            )
        return predicted


@contextmanager
def _named(learner: RegressorQ, verb: str) -> Iterator[None]:
    """Errors of a user's regressor, reported as its own."""
    try:
        yield
    except Exception as error:
        raise EstimationError(
            f"{learner!r} failed in {verb}: {type(error).__name__}: {str(error).rstrip('.')}.",
            fix="It is given a matrix of features and one column of 0 and 1 for each action, and a number to "
            "predict for each row; predict returns one number a row.",
        ) from error


def _starts(rows: Rows, q: FloatArray) -> FloatArray:
    """(episodes,) V of each episode's first row."""
    first = rows.log.offsets[:-1]
    return state_values(q[first], rows.probs[first])


def _by_state(rows: Rows, q: FloatArray) -> FloatArray:
    """(S, A) values by the number of a row as a state."""
    table = np.zeros((len(rows.pi_e), rows.n_actions))
    table[rows.log.states] = q
    return table
