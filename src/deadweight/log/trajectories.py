"""Trajectories: a log of episodes as flat columns and offsets.

Episode i is the rows `offsets[i]:offsets[i + 1]` of every column, so episodes of any length stand side by
side without padding. An episode ends by termination (the task is over) or by truncation (the log stops);
the two are kept apart because a model must not learn that the task ends where only the log does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import DataError
from deadweight.log.checks import (
    check_log_probabilities,
    check_offsets,
    check_probability_column,
    check_terminated,
    checked_time_limit,
    within_limit,
)
from deadweight.log.labels import as_column, encode, plain
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels


class Trajectories:
    """A log of episodes, immutable.

    Args:
      states, actions: one label a step; see `deadweight.log.labels` for what becomes an index.
      rewards: one finite number a step.
      offsets: (n + 1,) first row of each episode, then the number of steps.
      propensities: pi_b of the logged action, one a step, in (0, 1].
      target_probs: pi_e of the logged action, one a step, in [0, 1].
      terminated: one flag an episode; False where the log was cut. Default: all True.
      next_states: one label a step; only that of a truncated episode's last step adds information, and -1
        (or None) there means that it is unknown, unless -1 is a state.
      time_limit: where `terminated` is not given, episodes of exactly so many steps were cut; no episode is
        longer. With `terminated` it only says where cut episodes were cut.

    Example:
      >>> log = Trajectories([0, 1, 0], [1, 0, 1], [0.0, 1.0, 5.0], [0, 2, 3])
      >>> log.n_episodes, log.n_steps, log.horizon
      (2, 3, 2)
    """

    def __init__(
        self,
        states: npt.ArrayLike,
        actions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        offsets: npt.ArrayLike,
        propensities: npt.ArrayLike | None = None,
        target_probs: npt.ArrayLike | None = None,
        terminated: npt.ArrayLike | None = None,
        next_states: npt.ArrayLike | None = None,
        time_limit: int | None = None,
    ) -> None:
        state_column = as_column(states, "state")
        action_column = as_column(actions, "action")
        n = len(state_column)
        self.offsets = _frozen(check_offsets(offsets, n))
        self.terminated = _frozen(check_terminated(terminated, self.n_episodes, n))
        self.time_limit = None if time_limit is None else checked_time_limit(time_limit)
        if self.time_limit is not None and terminated is None:
            self.terminated = _frozen(within_limit(self.lengths, self.time_limit))
        self.rewards = _frozen(self._check_rewards(rewards, n))
        _check_length("actions", action_column, n)
        self.propensities = self._probabilities(propensities, "behaviour_prob", n, positive=True)
        self.target_probs = self._probabilities(target_probs, "target_prob", n, positive=False)

        successors = self._last_successors(state_column, next_states)
        known = np.array([label is not None for label in successors], dtype=bool)
        extra = as_column([label for label in successors if label is not None], "next_state")
        joined = np.concatenate([state_column, extra]) if extra.size else state_column
        codes, self.state_labels = encode(joined, "state")
        self.states = _frozen(codes[:n])
        self._last_successor = np.full(self.n_episodes, -1, dtype=np.int64)
        self._last_successor[known] = codes[n:]
        self.has_next_states = next_states is not None
        codes, self.action_labels = encode(action_column, "action")
        self.actions = _frozen(codes)

    @classmethod
    def from_episodes(
        cls,
        episodes: Sequence[Sequence[tuple[Any, Any, float]]],
        terminated: Sequence[bool] | None = None,
        next_states: Sequence[Sequence[Any]] | None = None,
        propensities: Sequence[Sequence[float]] | None = None,
        time_limit: int | None = None,
    ) -> Trajectories:
        """From lists of (state, action, reward), one list an episode.

        >>> Trajectories.from_episodes([[("ward", "wait", 0.0), ("icu", "treat", 1.0)]]).state_labels
        array(['icu', 'ward'], dtype=object)
        """
        if len(episodes) == 0:
            raise DataError("A log needs at least one episode; found none.", fix="Pass a list of episodes.")
        lengths = [len(episode) for episode in episodes]
        for name, nested in (("next_states", next_states), ("propensities", propensities)):
            if nested is not None and [len(one) for one in nested] != lengths:
                raise DataError(
                    f"{name} must be a list of lists with one entry a step, like the episodes.",
                    fix=f"Give {name} the same nesting as the episodes.",
                )
        for i, episode in enumerate(episodes):
            for t, step in enumerate(episode):
                if not isinstance(step, (tuple, list, np.ndarray)) or len(step) != 3:
                    raise DataError(
                        f"A step must be (state, action, reward); found {step!r} in episode {i}, step {t}.",
                        fix="Propensities and next states have arguments of their own.",
                    )
        steps = [step for episode in episodes for step in episode]
        return cls(
            states=as_column([step[0] for step in steps], "state"),
            actions=as_column([step[1] for step in steps], "action"),
            rewards=np.array([step[2] for step in steps], dtype=object),
            offsets=np.concatenate([[0], np.cumsum(lengths)]),
            propensities=None if propensities is None else [p for one in propensities for p in one],
            terminated=None if terminated is None else list(terminated),
            next_states=None if next_states is None else _flatten_labels(next_states),
            time_limit=time_limit,
        )

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
    ) -> Trajectories:
        """From columns that have been checked and encoded before; nothing is looked at again."""
        log = object.__new__(cls)
        log.states, log.actions, log.rewards = _frozen(states), _frozen(actions), _frozen(rewards)
        log.offsets, log.terminated = _frozen(offsets), _frozen(terminated)
        log.propensities = None if propensities is None else _frozen(propensities)
        log.target_probs = None if target_probs is None else _frozen(target_probs)
        log.state_labels, log.action_labels = state_labels, action_labels
        log._last_successor, log.has_next_states = last_successor, has_next_states
        log.time_limit = time_limit
        return log

    # --- sizes ---------------------------------------------------------------------------------------

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
        lengths: IntArray = _frozen(np.diff(self.offsets))
        return lengths

    @property
    def horizon(self) -> int:
        """Steps of the longest episode."""
        return int(self.lengths.max())

    @property
    def n_states(self) -> int:
        """Number of states: visited ones and, where integer labels leave gaps, unvisited ones."""
        return len(self.state_labels)

    @property
    def n_actions(self) -> int:
        """Number of actions, likewise."""
        return len(self.action_labels)

    # --- views ---------------------------------------------------------------------------------------

    @cached_property
    def next_states(self) -> IntArray:
        """(steps,) the state after each step; -1 where the task ended or the log does not say."""
        following: IntArray = np.empty(self.n_steps, dtype=np.int64)
        following[:-1] = self.states[1:]
        following[self.offsets[1:] - 1] = self._last_successor
        following.flags.writeable = False
        return following

    @cached_property
    def start_states(self) -> IntArray:
        """(n,) first state of each episode."""
        starts: IntArray = _frozen(self.states[self.offsets[:-1]])
        return starts

    def select(self, episodes: npt.ArrayLike) -> Trajectories:
        """The log of these episodes only (indices or a boolean mask), with the same labels."""
        chosen = np.arange(self.n_episodes)[np.asarray(episodes)]
        if chosen.size == 0:
            raise DataError("A log needs at least one episode; none was selected.")
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
        )

    def with_propensities(self, propensities: npt.ArrayLike) -> Trajectories:
        """The same log with these probabilities of the logged actions, one a step.

        >>> log = Trajectories.from_episodes([[(0, 0, 1.0), (0, 1, 0.0)]])
        >>> log.with_propensities([0.25, 0.75]).propensities
        array([0.25, 0.75])
        """
        other = copy(self)
        other.propensities = self._probabilities(propensities, "behaviour_prob", self.n_steps, positive=True)
        return other

    def with_time_limit(self, steps: int, *, says_ends: bool = False) -> Trajectories:
        """The same log, in which episodes of exactly so many steps were cut by a time limit.

        Nobody knows where their last steps led; how the other episodes ended stays what it was. Of a log that
        says itself how its episodes end, the limit only says where cut ones were cut.

        >>> log = Trajectories.from_episodes([[(0, 0, 1.0), (0, 1, 0.0)], [(0, 1, 2.0)]])
        >>> log.with_time_limit(2).terminated
        array([False,  True])
        """
        other = copy(self)
        other.time_limit = checked_time_limit(steps)
        if not says_ends:
            other.terminated = _frozen(self.terminated & within_limit(self.lengths, other.time_limit))
        return other

    @property
    def n_cut_early(self) -> int:
        """Number of episodes that were cut elsewhere than at the time limit."""
        cut: BoolArray = ~self.terminated
        if self.time_limit is not None:
            cut = cut & (self.lengths != self.time_limit)
        return int(np.count_nonzero(cut))

    def split(self, parts: int) -> list[Trajectories]:
        """The log cut into at most `parts` runs of whole episodes of about equal number."""
        cuts = np.array_split(np.arange(self.n_episodes), min(parts, self.n_episodes))
        return [self.select(cut) for cut in cuts]

    def where(self, row: int) -> str:
        """'episode i, step t (row k)' for messages."""
        episode = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return f"episode {episode}, step {row - int(self.offsets[episode])} (row {row})"

    def __iter__(self) -> Iterator[list[tuple[Any, Any, float]]]:
        """Episodes as lists of (state label, action label, reward)."""
        for lo, hi in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield [
                (plain(self.state_labels[s]), plain(self.action_labels[a]), float(r))
                for s, a, r in zip(self.states[lo:hi], self.actions[lo:hi], self.rewards[lo:hi], strict=True)
            ]

    def __len__(self) -> int:
        return self.n_episodes

    def __repr__(self) -> str:
        cut = int((~self.terminated).sum())
        return (
            f"Trajectories({self.n_episodes:,} episodes, {self.n_steps:,} steps, longest {self.horizon:,}, "
            f"{self.n_states:,} states, {self.n_actions:,} actions"
            + (f", {cut:,} truncated" if cut else "")
            + ("" if self.propensities is None else ", propensities logged")
            + ")"
        )

    # --- checks --------------------------------------------------------------------------------------

    def _check_rewards(self, rewards: npt.ArrayLike, n: int) -> FloatArray:
        try:
            column = np.asarray(rewards).astype(np.float64, copy=False)
        except (TypeError, ValueError):
            raise DataError(
                "The reward column must hold numbers; found something else.",
                fix="Convert the rewards to floating-point numbers.",
            ) from None
        _check_length("rewards", column, n)
        bad = np.flatnonzero(~np.isfinite(column))
        if bad.size:
            raise DataError(
                f"Rewards must be finite; found {column[bad[0]]} in {self.where(int(bad[0]))}"
                + (f" and in {bad.size - 1} more rows." if bad.size > 1 else "."),
                fix="Replace missing or infinite rewards, or leave out their episodes.",
            )
        return column

    def _probabilities(
        self, values: npt.ArrayLike | None, name: str, n: int, positive: bool
    ) -> FloatArray | None:
        if values is None:
            return None
        try:
            column = np.asarray(values).astype(np.float64, copy=False)
        except (TypeError, ValueError):
            raise DataError(f"The {name} column must hold numbers; found something else.") from None
        _check_length(name, column, n)
        check_log_probabilities(column, name)
        check_probability_column(column, name, positive, self.where)
        frozen: FloatArray = _frozen(column)
        return frozen

    def _last_successors(self, states: AnyArray, next_states: npt.ArrayLike | None) -> list[Any]:
        """Per episode the logged successor of a truncated last step, or None."""
        if next_states is None:
            return [None] * self.n_episodes
        column = as_column(next_states, "next_state")
        _check_length("next_states", column, len(states))
        last = self.offsets[1:] - 1
        inner = np.ones(len(states), dtype=bool)
        inner[last] = False
        rows = np.flatnonzero(inner)
        unequal = rows[column[rows] != states[rows + 1]]
        is_state = _visits_minus_one(states)
        wrong = [row for row in unequal if not _is_unknown(column[row], is_state)]
        if wrong:
            row = int(wrong[0])
            raise DataError(
                f"next_states must agree with the states that follow; in {self.where(row)} the next state is "
                f"{plain(column[row])!r} but the following step is in {plain(states[row + 1])!r} "
                f"({len(wrong)} rows like it).",
                fix="Check the order of the steps, or leave next_states out except at truncated last steps.",
            )
        return [
            None if ended or _is_unknown(column[row], is_state) else column[row]
            for ended, row in zip(self.terminated, last, strict=True)
        ]


def _visits_minus_one(states: AnyArray) -> bool:
    """Whether -1 is a state, and so not a word for nothing."""
    if states.dtype.kind in "iuf":
        return bool((states == -1).any())
    return states.dtype.kind == "O" and any(not isinstance(label, str) and label == -1 for label in states)


def _is_unknown(label: Any, is_state: bool) -> bool:
    """Whether a next state says nothing; `is_state`: whether -1 is a state."""
    return label is None or label != label or (not is_state and not isinstance(label, str) and label == -1)


def _flatten_labels(nested: Sequence[Sequence[Any]]) -> AnyArray:
    """A column of labels in which None marks what is unknown, whatever the other labels are."""
    flat = [label for one in nested for label in one]
    column = np.empty(len(flat), dtype=object)
    column[:] = flat
    return column


def _frozen(array: Any) -> Any:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _check_length(name: str, column: AnyArray, n: int) -> None:
    if column.ndim != 1 or len(column) != n:
        raise DataError(
            f"Every column must have one entry a step: states have {n}, {name} has shape {column.shape}.",
            fix=f"Check that {name} is flat and comes from the same rows as the states.",
        )
