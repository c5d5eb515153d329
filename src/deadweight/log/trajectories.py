"""Trajectories: how a log of episodes is made, and made anew with something changed.

What it holds is in `flat_episodes`. An episode ends by termination (the task is over) or by truncation (the
log stops); the two are kept apart because a model must not learn that the task ends where only the log does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.basics.arithmetic import apart, frozen
from deadweight.errors import DataError, assume
from deadweight.log.checks import (
    check_offsets,
    check_terminated,
    checked_time_limit,
    within_limit,
)
from deadweight.log.durations import Discounting, Standing, checked_durations
from deadweight.log.features import Features
from deadweight.log.flat_episodes import NO_POLICIES, FlatEpisodes
from deadweight.log.from_lists import Nested, flat_columns
from deadweight.log.labels import as_column, encode, joined
from deadweight.log.log_columns import (
    check_length,
    checked_ids,
    checked_probabilities,
    checked_rewards,
    features_of_steps,
    last_successors,
)
from deadweight.log.table_rows import TableRows
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels


class Trajectories(FlatEpisodes):
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
        time_limit: int | None = None,
        has_states: bool = True,
        described: Features | None = None,
        behaviour_ids: Labels | None = None,
        policies: Mapping[str, Any] = NO_POLICIES,
        durations: FloatArray | None = None,
        discounting: Discounting | None = None,
        table_rows: TableRows | None = None,
    ) -> Trajectories:
        """From columns that have been checked and encoded before; nothing is looked at again."""
        log = object.__new__(cls)
        log.states, log.actions, log.rewards = frozen(states), frozen(actions), frozen(rewards)
        log.offsets, log.terminated = frozen(offsets), frozen(terminated)
        log.propensities = None if propensities is None else frozen(propensities)
        log.target_probs = None if target_probs is None else frozen(target_probs)
        log.state_labels, log.action_labels = frozen(state_labels), frozen(action_labels)
        log._last_successor, log.has_next_states = frozen(last_successor), has_next_states
        log.time_limit = time_limit
        log.has_states, log._described = has_states, described
        log.behaviour_ids = None if behaviour_ids is None else frozen(behaviour_ids)
        log._policies, log._table_rows = policies, table_rows
        log.durations = None if durations is None else frozen(durations)
        log.discounting = discounting
        return log

    def by_row(self, known_last: BoolArray | None = None) -> Trajectories:
        """The same log with each row as a state of its own.

        Args:
          known_last: (n,) where it is known what follows a cut episode; None: where features say so.

        >>> log = Trajectories.from_episodes([[("a", 0, 1.0), ("a", 1, 0.0)]])
        >>> log.by_row().states
        array([0, 1])
        """
        other = copy(self)
        for cached in ("next_states", "start_states", "visits"):
            vars(other).pop(cached, None)
        other.has_states = False
        nowhere = np.zeros(self.n_episodes, dtype=bool)
        if known_last is None:
            known_last = nowhere if self._described is None else self._described.known_last
        other._take_rows_as_states(known_last)
        return other

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

        def rows_of(column: FloatArray | None) -> FloatArray | None:
            return None if column is None else column[rows]

        return Trajectories._from_codes(
            self.states[rows],
            self.actions[rows],
            self.rewards[rows],
            offsets,
            state_labels=self.state_labels,
            action_labels=self.action_labels,
            propensities=rows_of(self.propensities),
            target_probs=rows_of(self.target_probs),
            terminated=self.terminated[chosen],
            last_successor=self._last_successor[chosen],
            has_next_states=self.has_next_states,
            time_limit=self.time_limit,
            has_states=self.has_states,
            described=None if self._described is None else self._described.select(rows, chosen),
            behaviour_ids=None if self.behaviour_ids is None else self.behaviour_ids[chosen],
            policies={name: one.select(rows, chosen) for name, one in self._policies.items()},
            durations=rows_of(self.durations),
            discounting=None if self.discounting is None else self.discounting.select(rows),
            table_rows=None if self._table_rows is None else self._table_rows.select(rows, chosen),
        )

    def in_time(self, gamma: float) -> tuple[Trajectories, float]:
        """The log, by its durations if it has any and they matter, and the discount that is left to apply."""
        if self.durations is None or gamma == 1.0:
            return self, gamma
        return self.discounted(gamma), 1.0

    def discounted(self, gamma: float) -> Trajectories:
        """The same log by its durations, with rewards that are discounted already; see `log.durations`.

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
        """The same log, in which rows stand for those that were cut off as well.

        See `deadweight.question.cut_weights`.
        """
        counted = self.discounting or Discounting(self.rewards, np.ones(self.n_steps))
        return self._counted_by(counted.standing_for(standing))

    def _counted_by(self, discounting: Discounting) -> Trajectories:
        other = copy(self)
        other.discounting = discounting
        other.rewards = frozen(discounting.rewards * discounting.before)
        return other

    def with_propensities(self, propensities: npt.ArrayLike) -> Trajectories:
        """The same log with these probabilities of the logged actions, one a step in the order of `actions`.

        Those of a table's column `p` are `p[log.rows]`.

        >>> log = Trajectories.from_episodes([[(0, 0, 1.0), (0, 1, 0.0)]])
        >>> log.with_propensities([0.25, 0.75]).propensities
        array([0.25, 0.75])
        """
        other = copy(self)
        other.propensities = checked_probabilities(
            propensities, "behaviour_prob", self.n_steps, True, self.where
        )
        other._policies = {name: one for name, one in self._policies.items() if name != "pi_b"}
        return other

    def with_time_limit(self, steps: int, *, says_ends: bool = False) -> Trajectories:
        """The same log, in which episodes of exactly so many steps were cut by a time limit.

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
        other = self._limited_to(limit)
        other.terminated = frozen(self.terminated & within_limit(self.lengths, limit))
        return other

    def _limited_to(self, limit: int | None) -> Trajectories:
        """The same log with a limit that is known to fit its flags, or those of the log it is part of."""
        other = copy(self)
        other.time_limit = limit
        return other

    def without_ends(self) -> Trajectories:
        """The same log before its time limit is known: it refuses to say how its episodes end."""
        other = object.__new__(EndsOpen)
        vars(other).update(vars(self))
        return other

    def with_remainder(self, amount: float) -> Trajectories:
        """The same log, in which the last step of every cut episode earned this much more.

        It still counts as cut: where the log stops is no way of the world that a model may learn.

        >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 2.0)]], terminated=[False, True])
        >>> log.with_remainder(5.0).rewards
        array([6., 2.])
        """
        other, rewards = copy(self), self.rewards.copy()
        rewards[(self.offsets[1:] - 1)[~self.terminated]] += amount
        other.rewards = frozen(rewards)
        return other

    def split(self, parts: int) -> list[Trajectories]:
        """The log cut into at most `parts` runs of whole episodes of about equal number."""
        cuts = np.array_split(np.arange(self.n_episodes), min(parts, self.n_episodes))
        return [self.select(cut) for cut in cuts]


class EndsUnknownError(LookupError):
    """How the episodes of a log end was asked before it was settled whether a time limit cut them."""


class EndsOpen(Trajectories):
    """A log of which nobody has settled yet whether a time limit cut its episodes."""

    @property
    def terminated(self) -> BoolArray:  # type: ignore[override]
        """Refused."""
        raise EndsUnknownError("How the episodes of this log end is not settled yet.")

    @property
    def time_limit(self) -> int | None:  # type: ignore[override]
        """Refused."""
        raise EndsUnknownError("Whether this log has a time limit is not settled yet.")
