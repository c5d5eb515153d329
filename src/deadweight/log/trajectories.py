"""Trajectories: a log of episodes, as flat columns and offsets.

Episode i is the rows `offsets[i]:offsets[i + 1]` of every column, so episodes of any length stand side by
side without padding. An episode ends by termination (the task is over) or by truncation (the log stops); the
two are kept apart because a model must not learn that the task ends where only the log does.

`read` sorts rows by episode and step, and users have what they give row by row beside their table. So a log
remembers the order of its table (`TableRows`), also when some of its episodes are selected, and what is given
is matched by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import DataError, assume
from deadweight.log.columns import (
    Discounting,
    Features,
    Standing,
    check_length,
    check_offsets,
    check_terminated,
    checked_durations,
    checked_ids,
    checked_probabilities,
    checked_rewards,
    checked_time_limit,
    features_of_steps,
    last_successors,
    limit_by_flags,
    within_limit,
)
from deadweight.log.labels import Labelled, as_column, encode, joined, objects, plain
from deadweight.tools.arithmetic import apart, frozen, sums_by
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

NO_POLICIES: Mapping[str, Any] = MappingProxyType({})
Nested = Sequence[Sequence[tuple[Any, Any, float]]]


@dataclass(frozen=True)
class Cuts:
    """Where episodes stop whose flags say that they were cut; merges."""

    number: int  # cut episodes
    shortest: int  # their fewest steps; 0 where none was cut
    longest: int  # their most steps; 0 where none was cut

    @classmethod
    def of(cls, lengths: IntArray) -> Cuts:
        """The cuts of episodes of so many steps."""
        if not lengths.size:
            return cls(0, 0, 0)
        return cls(len(lengths), int(lengths.min()), int(lengths.max()))

    def merge(self, other: Cuts) -> Cuts:
        """The cuts of both logs."""
        if not (self.number and other.number):
            return self if self.number else other
        shortest, longest = min(self.shortest, other.shortest), max(self.longest, other.longest)
        return Cuts(self.number + other.number, shortest, longest)

    def limit(self, longest: int) -> int | None:
        """The time limit that they show: several, and all at the longest length; one is no pattern."""
        return longest if self.number > 1 and self.shortest == longest else None


class Trajectories(Labelled):
    """A log of episodes, immutable: it copies the arrays that it is given, and hands out read-only ones.

    Args:
      states, actions: one label a step; see `deadweight.log.labels` for what becomes an index. States may be
        None where features describe them: then each step is a state of its own.
      rewards: one finite number a step.
      offsets: (n + 1,) first row of each episode, then the number of steps.
      propensities: pi_b of the logged action, one a step, in (0, 1].
      target_probs: pi_e of the logged action, one a step, in [0, 1].
      terminated: one flag an episode; False where the log was cut. Default: all True.
      next_states: one label a step; only that of a truncated episode's last step adds information, and -1
        (or None) there means that it is unknown, unless -1 is a state.
      time_limit: where `terminated` is not given, episodes of exactly so many steps were cut; no episode is
        longer. With `terminated` it only says where cut episodes were cut; where the two contradict each
        other the flags win, with a warning of class `errors.Assumption`. Without it, flags by which several
        episodes were cut, all of them at the longest length, say it.
      features: (steps, d) numbers that describe the state of each step.
      feature_names: of their columns; default: those of a table, or x0, x1, ...
      last_features: (n, d) what follows each episode's last step; only that of a truncated episode adds
        information, and a row of NaN there means that it is unknown.
      behaviour_ids: one label an episode: which of several old policies it was made by.
      durations: one number above 0 a step: how long it took. Only a discount takes notice of them.

    Example:
      >>> log = Trajectories([0, 1, 0], [1, 0, 1], [0.0, 1.0, 5.0], [0, 2, 3])
      >>> log.n_episodes, log.n_steps, log.horizon
      (2, 3, 2)
      >>> Trajectories(None, [1, 0, 1], [0.0, 1.0, 5.0], [0, 2, 3], features=[[0.5], [0.1], [0.7]])
      Trajectories(2 episodes, 3 steps, longest 2, 1 feature, 2 actions)
    """

    states: IntArray
    actions: IntArray
    rewards: FloatArray
    offsets: IntArray
    propensities: FloatArray | None
    target_probs: FloatArray | None
    durations: FloatArray | None
    terminated: BoolArray
    behaviour_ids: Labels | None
    time_limit: int | None = None
    has_states: bool = True
    has_next_states: bool
    discounting: Discounting | None = None
    _policies: Mapping[str, Any] = NO_POLICIES  # in the order of the steps
    _table_rows: TableRows | None = None
    _last_successor: IntArray
    _described: Features | None

    def __init__(
        self,
        states: npt.ArrayLike | None,
        actions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        offsets: npt.ArrayLike,
        propensities: npt.ArrayLike | None = None,
        target_probs: npt.ArrayLike | None = None,
        terminated: npt.ArrayLike | None = None,
        next_states: npt.ArrayLike | None = None,
        time_limit: int | None = None,
        features: Any = None,
        feature_names: Sequence[str] | None = None,
        last_features: npt.ArrayLike | None = None,
        behaviour_ids: npt.ArrayLike | None = None,
        durations: npt.ArrayLike | None = None,
    ) -> None:
        action_column = as_column(actions, "action")
        self.has_states = states is not None
        state_column = np.arange(len(action_column)) if states is None else as_column(states, "state")
        n = len(state_column)
        self.offsets = frozen(check_offsets(offsets, n))
        self.terminated = frozen(check_terminated(terminated, self.n_episodes, n))
        self.time_limit = None if time_limit is None else checked_time_limit(time_limit)
        if terminated is not None:
            self.time_limit = self.limit_by_flags(self.time_limit, assume)
        elif self.time_limit is not None:
            self.terminated = frozen(within_limit(self.lengths, self.time_limit))
        self.behaviour_ids = None if behaviour_ids is None else checked_ids(behaviour_ids, self.n_episodes)
        self.rewards = checked_rewards(rewards, n, self.where)
        check_length("actions", action_column, n)
        self.durations = None if durations is None else frozen(checked_durations(durations, n, self.where))
        self.propensities = checked_probabilities(propensities, "behaviour_prob", n, True, self.where)
        self.target_probs = checked_probabilities(target_probs, "target_prob", n, False, self.where)

        self._described = features_of_steps(features, feature_names, last_features, self.n_episodes, n)
        self.has_next_states = next_states is not None
        codes, action_labels = encode(action_column, "action")
        self.actions, self.action_labels = frozen(apart(codes, actions)), frozen(action_labels)
        if self.has_states:
            self._number_states(state_column, states, next_states)
        else:
            self._number_rows(next_states)

    def _number_states(self, state_column: AnyArray, states: object, next_states: Any) -> None:
        """States by their labels; `states` is what the column was given as."""
        n = len(state_column)
        successors = last_successors(next_states, state_column, self.offsets, self.terminated, self.where)
        known = np.array([label is not None for label in successors], dtype=bool)
        extra = as_column([label for label in successors if label is not None], "next_state")
        if state_column.dtype == bool:  # beside a -1 numpy has made numbers of the flags that follow
            state_column = state_column.astype(object)
        column = joined([state_column, extra]) if extra.size else state_column
        codes, state_labels = encode(column, "state")
        self.states, self.state_labels = frozen(apart(codes[:n], states)), frozen(state_labels)
        last_successor = np.full(self.n_episodes, -1, dtype=np.int64)
        last_successor[known] = codes[n:]
        self._last_successor = frozen(last_successor)

    def _number_rows(self, next_states: npt.ArrayLike | None) -> None:
        """Each row as a state of its own, and what follows a cut episode as another."""
        if self._described is None or next_states is not None:
            raise DataError(
                "A log needs states, or features that describe them; found neither."
                if self._described is None
                else "next_states need states; this log has features only.",
                fix="Pass states=..., or features=... with one row for each step; what follows a cut episode "
                "goes into last_features.",
            )
        self._take_rows_as_states(self._described.known_last)

    def _take_rows_as_states(self, known_last: BoolArray) -> None:
        n, episodes = self.n_steps, np.arange(self.n_episodes)
        self.states, self.state_labels = frozen(np.arange(n)), frozen(np.arange(n + len(episodes)))
        self._last_successor = frozen(np.where(known_last & ~self.terminated, n + episodes, -1))

    @classmethod
    def from_episodes(
        cls,
        episodes: Nested,
        terminated: Sequence[bool] | None = None,
        next_states: Sequence[Sequence[Any]] | None = None,
        propensities: Sequence[Sequence[float]] | None = None,
        time_limit: int | None = None,
    ) -> Trajectories:
        """From lists of (state, action, reward), one list an episode.

        Args:
          episodes: one list an episode, of one (state, action, reward) a step.
          terminated: one flag an episode; None: all ended by themselves, or as `time_limit` says.
          next_states: one list an episode, of one state a step; None or -1 at a cut last step is unknown.
          propensities: one list an episode, of pi_b(a|s) a step.
          time_limit: as in `Trajectories`.

        >>> Trajectories.from_episodes([[("ward", "wait", 0.0), ("icu", "treat", 1.0)]]).state_labels
        array(['icu', 'ward'], dtype=object)
        """
        columns = flat_columns(episodes, next_states, propensities)
        ends = None if terminated is None else list(terminated)
        return cls(**columns, terminated=ends, time_limit=time_limit)

    @classmethod
    def _from_codes(
        cls,
        states: IntArray,
        actions: IntArray,
        rewards: FloatArray,
        offsets: IntArray,
        *,
        state_labels: Labels,
        action_labels: Labels,
        propensities: FloatArray | None,
        target_probs: FloatArray | None,
        terminated: BoolArray,
        last_successor: IntArray,
        has_next_states: bool,
        described: Features | None = None,
        behaviour_ids: Labels | None = None,
        policies: Mapping[str, Any] = NO_POLICIES,
        durations: FloatArray | None = None,
        table_rows: TableRows | None = None,
    ) -> Trajectories:
        """The log of columns that have been checked and encoded before; nothing is looked at again."""
        log = object.__new__(cls)
        log.states, log.actions, log.rewards = frozen(states), frozen(actions), frozen(rewards)
        log.offsets, log.terminated = frozen(offsets), frozen(terminated)
        log.propensities = None if propensities is None else frozen(propensities)
        log.target_probs = None if target_probs is None else frozen(target_probs)
        log.state_labels, log.action_labels = frozen(state_labels), frozen(action_labels)
        log._last_successor, log.has_next_states = frozen(last_successor), has_next_states
        log._described = described
        log.behaviour_ids = None if behaviour_ids is None else frozen(behaviour_ids)
        log._policies, log._table_rows = policies, table_rows
        log.durations = None if durations is None else frozen(durations)
        return log

    def by_row(self, known_last: BoolArray | None = None) -> Trajectories:
        """The log with each row as a state of its own.

        Args:
          known_last: (n,) where it is known what follows a cut episode; None: where features say so.

        >>> log = Trajectories.from_episodes([[("a", 0, 1.0), ("a", 1, 0.0)]])
        >>> log.by_row().states
        array([0, 1])
        """
        log = self._changed(has_states=False)
        for cached in ("next_states", "start_states", "visits"):
            vars(log).pop(cached, None)
        nowhere = np.zeros(self.n_episodes, dtype=bool)
        if known_last is None:
            known_last = nowhere if self._described is None else self._described.known_last
        log._take_rows_as_states(known_last)
        return log

    def select(self, episodes: npt.ArrayLike) -> Trajectories:
        """The log of these episodes only (indices or a boolean mask), with the same labels."""
        chosen = np.arange(self.n_episodes)[np.asarray(episodes)]
        if chosen.size == 0:
            raise DataError(
                "A log needs at least one episode; none was selected.",
                fix="Select one or more: log.select([0, 1]).",
            )
        lengths = self.lengths[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        log = self._changed(offsets=frozen(offsets))
        for cached in ("lengths", "next_states", "start_states", "visits"):
            vars(log).pop(cached, None)
        by_step = ("states", "actions", "rewards", "propensities", "target_probs", "durations")
        by_episode = ("terminated", "behaviour_ids", "_last_successor")
        for names, index in ((by_step, rows), (by_episode, chosen)):
            columns = {name: getattr(self, name) for name in names}
            vars(log).update({k: None if v is None else frozen(v[index]) for k, v in columns.items()})
        log._described = None if self._described is None else self._described.select(rows, chosen)
        log._table_rows = None if self._table_rows is None else self._table_rows.select(rows, chosen)
        log._policies = {name: policy.select(rows, chosen) for name, policy in self._policies.items()}
        log.discounting = None if self.discounting is None else self.discounting.select(rows)
        return log

    def _changed(self, **attributes: Any) -> Trajectories:
        """A copy of the log with other attributes."""
        log = copy(self)
        vars(log).update(attributes)
        return log

    def in_time(self, gamma: float) -> tuple[Trajectories, float]:
        """The log, by its durations if it has any and they matter, and the discount that is left to apply."""
        if self.durations is None or gamma == 1.0:
            return self, gamma
        return self.discounted(gamma), 1.0

    def discounted(self, gamma: float) -> Trajectories:
        """The log by its durations, with rewards that are discounted already; see `log.columns`.

        >>> log = Trajectories([0, 1], [0, 0], [1.0, 1.0], [0, 2], durations=[2.0, 1.0])
        >>> log.discounted(0.5).rewards
        array([1.  , 0.25])
        """
        if self.durations is None:
            raise DataError(
                "A log without durations has no discount of its own.",
                fix="Give them: Trajectories(..., durations=[1.0, 2.0, ...]).",
            )
        return self._counted_by(Discounting.of(self.rewards, self.durations, self.offsets, gamma))

    def standing_for(self, standing: Standing) -> Trajectories:
        """The log in which rows stand for those that were cut off, too; see `deadweight.question.asked`."""
        counted = self.discounting or Discounting(self.rewards, np.ones(self.n_steps))
        return self._counted_by(counted.standing_for(standing))

    def _counted_by(self, discounting: Discounting) -> Trajectories:
        rewards = frozen(discounting.rewards * discounting.before)
        return self._changed(discounting=discounting, rewards=rewards)

    def with_propensities(self, propensities: npt.ArrayLike) -> Trajectories:
        """The log with these probabilities of the logged actions, one a step in the order of `actions`.

        Those of a table's column `p` are `p[log.rows]`.

        >>> log = Trajectories.from_episodes([[(0, 0, 1.0), (0, 1, 0.0)]])
        >>> log.with_propensities([0.25, 0.75]).propensities
        array([0.25, 0.75])
        """
        column = checked_probabilities(propensities, "behaviour_prob", self.n_steps, True, self.where)
        policies = {name: policy for name, policy in self._policies.items() if name != "pi_b"}
        return self._changed(propensities=column, _policies=policies)

    def with_time_limit(self, steps: int, *, says_ends: bool = False) -> Trajectories:
        """The log, in which episodes of exactly so many steps were cut by a time limit.

        Nobody knows where their last steps led; how the other episodes ended stays what it was. Of a log that
        says itself how its episodes end (`says_ends`), the limit only says where cut ones were cut, and
        yields to flags that contradict it.

        >>> log = Trajectories.from_episodes([[(0, 0, 1.0), (0, 1, 0.0)], [(0, 1, 2.0)]])
        >>> log.with_time_limit(2).terminated
        array([False,  True])
        """
        limit = checked_time_limit(steps)
        if says_ends:
            return self._limited_to(self.limit_by_flags(limit, assume))
        ended = frozen(self.terminated & within_limit(self.lengths, limit))
        return self._changed(time_limit=limit, terminated=ended)

    def _limited_to(self, limit: int | None) -> Trajectories:
        """The log with a limit that is known to fit its flags, or those of the log it is part of."""
        return self._changed(time_limit=limit)

    def without_ends(self) -> Trajectories:
        """The log before its time limit is known: it refuses to say how its episodes end."""
        log = object.__new__(EndsOpen)
        vars(log).update(vars(self))
        return log

    def with_remainder(self, amount: float) -> Trajectories:
        """The log, in which the last step of every cut episode earned this much more.

        It still counts as cut: where the log stops is no way of the world that a model may learn.

        >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 2.0)]], terminated=[False, True])
        >>> log.with_remainder(5.0).rewards
        array([6., 2.])
        """
        rewards = self.rewards.copy()
        rewards[(self.offsets[1:] - 1)[~self.terminated]] += amount
        return self._changed(rewards=frozen(rewards))

    def split(self, parts: int) -> list[Trajectories]:
        """The log cut into at most `parts` runs of whole episodes of about equal number."""
        cuts = np.array_split(np.arange(self.n_episodes), min(parts, self.n_episodes))
        return [self.select(cut) for cut in cuts]

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return len(self.offsets) - 1

    @property
    def n_steps(self) -> int:
        """Number of steps in all episodes."""
        return int(self.offsets[-1])

    @cached_property
    def lengths(self) -> IntArray:
        """(n,) steps of each episode."""
        return np.asarray(frozen(np.diff(self.offsets)))

    @property
    def horizon(self) -> int:
        """Steps of the longest episode."""
        return int(self.lengths.max())

    @property
    def cuts(self) -> Cuts:
        """Where the episodes stop that were cut."""
        return Cuts.of(self.lengths[~self.terminated])

    def limit_by_flags(self, said: int | None, tell: Callable[[str], None]) -> int | None:
        """The time limit if the log has flags; see `deadweight.log.columns.limit_by_flags`."""
        return limit_by_flags(said, self.cuts, self.horizon, tell)

    @property
    def n_cut_early(self) -> int:
        """Number of episodes that were cut elsewhere than at the time limit."""
        cut: BoolArray = ~self.terminated
        if self.time_limit is not None:
            cut = cut & (self.lengths != self.time_limit)
        return int(np.count_nonzero(cut))

    @property
    def rows(self) -> IntArray | None:
        """(steps,) the row of the user's table, from 0, that each step came from; None without a table.

        `read` sorts rows by episode and step, and this is the way back: `column[log.rows]` is a column of the
        table in the order of `log.actions` and all other arrays of the log. What is given row by row, as a
        `RowPolicy`, a frame or an array of probabilities, `GivenQ` or one flag for each step, is in the order
        of the table. Several files count on from one to the next, in the order of their names.
        """
        return None if self._table_rows is None else self._table_rows.rows

    @property
    def order_of_rows(self) -> TableRows:
        """The rows by which what is given row by row is matched: the table's, or the log's without one."""
        return self._table_rows or TableRows.whole(np.arange(self.n_steps), self.n_steps, self.n_episodes)

    @property
    def policies(self) -> Mapping[str, Any]:
        """Policies that came with a table row by row, in its order: "pi_e", "pi_b" -> `RowPolicy`."""
        return {name: policy.in_table_order() for name, policy in self._policies.items()}

    @property
    def features(self) -> FloatArray | None:
        """(steps, d) what describes the state of each step; None where the log has labels only."""
        return None if self._described is None else self._described.values

    @property
    def feature_names(self) -> tuple[str, ...]:
        """(d,) names of the features."""
        return () if self._described is None else self._described.names

    @property
    def last_features(self) -> FloatArray | None:
        """(n, d) what follows each episode's last step; NaN where it is unknown."""
        return None if self._described is None else self._described.last

    @cached_property
    def next_states(self) -> IntArray:
        """(steps,) the state after each step; -1 where the task ended or the log does not say."""
        following: IntArray = np.empty(self.n_steps, dtype=np.int64)
        following[:-1] = self.states[1:]
        following[self.offsets[1:] - 1] = self._last_successor
        following.flags.writeable = False
        return following

    @property
    def ends(self) -> tuple[IntArray, BoolArray]:
        """(n,) each episode's last successor, -1 where there is none, and whether it terminated."""
        return self._last_successor, self.terminated

    @cached_property
    def start_states(self) -> IntArray:
        """(n,) first state of each episode."""
        return np.asarray(frozen(self.states[self.offsets[:-1]]))

    @cached_property
    def visits(self) -> FloatArray:
        """(S,) number of steps in each state."""
        return np.asarray(frozen(sums_by(self.states, size=len(self.state_labels))))

    def where(self, row: int) -> str:
        """'episode i, step t (row k)' for messages, with the row of the table where there is one."""
        episode = int(np.searchsorted(self.offsets, row, side="right")) - 1
        of_table = row if self.rows is None else int(self.rows[row])
        return f"episode {episode}, step {row - int(self.offsets[episode])} (row {of_table})"

    def __iter__(self) -> Iterator[list[tuple[Any, Any, float]]]:
        """Episodes as lists of (state label, action label, reward); without labels, of (features, ...)."""
        for lo, hi in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield [
                (self._state_of(row), plain(self.action_labels[self.actions[row]]), float(self.rewards[row]))
                for row in range(lo, hi)
            ]

    def _state_of(self, row: int) -> Any:
        if self.has_states or self._described is None:
            return plain(self.state_labels[self.states[row]])
        return tuple(self._described.values[row].tolist())

    def __len__(self) -> int:
        return self.n_episodes

    def __repr__(self) -> str:
        cut = int((~self.terminated).sum())
        return (
            f"Trajectories({self.n_episodes:,} episodes, {self.n_steps:,} steps, longest {self.horizon:,}, "
            f"{self._states_in_words()}, {self.n_actions:,} actions"
            + (f", {cut:,} truncated" if cut else "")
            + ("" if self.propensities is None else ", propensities logged")
            + ")"
        )

    def _states_in_words(self) -> str:
        width = len(self.feature_names)
        counted = [f"{self.n_states:,} states"] if self.has_states else []
        counted += [f"{width:,} feature{'s' if width > 1 else ''}"] if width else []
        return ", ".join(counted) or "states by row"


class EndsUnknownError(LookupError):
    """Raised by a log that is asked how its episodes end before it is settled whether a limit cut them."""


class EndsOpen(Trajectories):
    """A log of which nobody has settled yet whether a time limit cut its episodes."""

    @property
    def terminated(self) -> BoolArray:  # type: ignore[override]
        """Not known yet."""
        raise EndsUnknownError("How the episodes of this log end is not settled yet.")

    @property
    def time_limit(self) -> int | None:  # type: ignore[override]
        """Not known yet."""
        raise EndsUnknownError("Whether this log has a time limit is not settled yet.")


@dataclass(frozen=True, eq=False)
class TableRows:
    """Where the steps and the episodes of a log stand in the table that it was read from."""

    rows: IntArray  # (steps,) row of the table, from 0
    episodes: IntArray  # (n,) number among the episodes of the whole table, in the order of `read`
    n_rows: int  # of the whole table
    n_episodes: int  # likewise

    @classmethod
    def whole(cls, rows: IntArray, n_rows: int, n_episodes: int) -> TableRows:
        """The rows of a log as it was read: all rows of its table, or those that were not left out."""
        return cls(frozen(rows), frozen(np.arange(n_episodes)), n_rows, n_episodes)

    @property
    def order(self) -> tuple[IntArray, IntArray]:
        """The steps and the episodes of the log, sorted as in the table."""
        return np.argsort(self.rows, kind="stable"), np.argsort(self.episodes, kind="stable")

    def select(self, steps: IntArray, episodes: IntArray) -> TableRows:
        """The rows of some episodes, whose steps these are."""
        rows, numbers = frozen(self.rows[steps]), frozen(self.episodes[episodes])
        return TableRows(rows, numbers, self.n_rows, self.n_episodes)


def places(wanted: IntArray, total: int, length: int) -> IntArray | None:
    """Where each of some rows is found in what was given for so many; None where the length fits neither.

    What has a row for each of the `total` of the whole is taken by number; what has a row for each of those
    that are wanted has them in the order of their numbers.
    """
    if length == total:
        return wanted
    return _ranks(wanted) if length == len(wanted) else None


def places_among(wanted: IntArray, given: IntArray) -> IntArray | None:
    """Where each wanted row is found among the given ones; None where one is not.

    Rows that are given several times, from an episode that was selected twice, fit only the same selection.
    """
    order = np.argsort(given, kind="stable")
    ordered = given[order]
    if np.array_equal(ordered, np.sort(wanted)):
        return np.asarray(order[_ranks(wanted)])
    at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    fits = np.array_equal(ordered[at], wanted) and bool((ordered[1:] > ordered[:-1]).all())
    return np.asarray(order[at]) if fits else None


def _ranks(numbers: IntArray) -> IntArray:
    ranks = np.empty_like(numbers)
    ranks[np.argsort(numbers, kind="stable")] = np.arange(len(numbers))
    return ranks


def flat_columns(
    episodes: Nested,
    next_states: Sequence[Sequence[Any]] | None,
    propensities: Sequence[Sequence[float]] | None,
) -> dict[str, Any]:
    """Lists of (state, action, reward), one list an episode, as arguments of `Trajectories`."""
    if len(episodes) == 0:
        raise DataError("A log needs at least one episode; found none.", fix="Pass a list of episodes.")
    lengths = [len(episode) for episode in episodes]
    for name, nested in (("next_states", next_states), ("propensities", propensities)):
        if nested is not None and [len(row) for row in nested] != lengths:
            raise DataError(
                f"{name} must be a list of lists with one entry for each step, like the episodes.",
                fix=f"Give {name} the same nesting as the episodes.",
            )
    _check_steps(episodes)
    steps = [step for episode in episodes for step in episode]
    return {
        "states": as_column([step[0] for step in steps], "state"),
        "actions": as_column([step[1] for step in steps], "action"),
        "rewards": np.array([step[2] for step in steps], dtype=object),
        "offsets": np.concatenate([[0], np.cumsum(lengths)]),
        "propensities": None if propensities is None else [p for row in propensities for p in row],
        # Objects, so that None marks what is unknown, whatever the other labels are.
        "next_states": None if next_states is None else objects(s for row in next_states for s in row),
    }


def _check_steps(episodes: Nested) -> None:
    for i, episode in enumerate(episodes):
        for t, step in enumerate(episode):
            if not isinstance(step, (tuple, list, np.ndarray)) or len(step) != 3:
                raise DataError(
                    f"A step must be (state, action, reward); found {step!r} in episode {i}, step {t}.",
                    fix="Propensities and next states have arguments of their own.",
                )


def episode_of_rows(log: Trajectories) -> IntArray:
    """(steps,) the number of each row's episode."""
    return np.repeat(np.arange(log.n_episodes), log.lengths)


def step_of_rows(log: Trajectories) -> IntArray:
    """(steps,) the step of each row within its episode, from 0."""
    steps: IntArray = np.arange(log.n_steps) - np.repeat(log.offsets[:-1], log.lengths)
    return steps
