"""Logs: what a question is asked of, in memory or stored, behind one interface.

A log is a sequence of parts with common labels, each a `Trajectories`, that can be summed, and says who is in
it. In memory all of that is at hand; a stored log (`sums.stored`) may need a pass over its parts, and says
with `known` and `known_limit` what it knows without one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np

from deadweight.errors import DataError, OptionError
from deadweight.log.labels import Labelled
from deadweight.log.trajectories import Cuts, Trajectories
from deadweight.typing import BoolArray, FloatArray, Labels


@dataclass(frozen=True, eq=False)
class Census:
    """How many episodes a log has, how long they are and how they end; merges."""

    sizes: tuple[int, ...]  # episodes of each part
    horizon: int  # steps of the longest episode
    terminated: int  # episodes that ended by termination
    top: tuple[int, int]  # largest index of a state and of an action that occurs; (-1, -1) if nobody looked
    cut_early: int  # episodes that were cut elsewhere than at the time limit
    cuts: Cuts  # where cut episodes stop

    @classmethod
    def of(cls, pieces: Sequence[Trajectories], look: bool = False) -> Census:
        """The census of a part's pieces. To `look` at all codes costs as much as a sum; parts need it."""
        top = -1, -1
        if look:
            states = max(max(int(log.states.max()), int(log._last_successor.max())) for log in pieces)
            top = states, max(int(log.actions.max()) for log in pieces)
        return cls(
            (sum(log.n_episodes for log in pieces),),
            max(log.horizon for log in pieces),
            sum(int(np.count_nonzero(log.terminated)) for log in pieces),
            top,
            sum(log.n_cut_early for log in pieces),
            reduce(Cuts.merge, [log.cuts for log in pieces]),
        )

    def merge(self, other: Census) -> Census:
        """The census of both; the parts of `other` come after."""
        return Census(
            self.sizes + other.sizes,
            max(self.horizon, other.horizon),
            self.terminated + other.terminated,
            (max(self.top[0], other.top[0]), max(self.top[1], other.top[1])),
            self.cut_early + other.cut_early,
            self.cuts.merge(other.cuts),
        )

    @property
    def n(self) -> int:
        """Number of episodes."""
        return sum(self.sizes)


Check = Callable[[Trajectories], None]


@dataclass(frozen=True, eq=False)
class LogLabels:
    """The labels that policies are aligned with, in the order of a log's indices."""

    states: Labels
    actions: Labels
    logged: frozenset[str]  # of the probabilities of the action taken: "propensities", "target_probs"
    # (S,) and (A,) which of them occur: it may take a pass, and is called only where a policy lacks a label.
    visited: Callable[[], tuple[BoolArray, BoolArray]]


class Giver(Protocol):
    """Gives the steps of a part the probabilities that no column of it has."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns that it reads."""

    def given_to(self, part: int, pieces: Sequence[Trajectories]) -> list[Trajectories]:
        """The pieces of a part with the propensities of their steps."""


class Log(Labelled, Sequence[Trajectories]):
    """A log in parts, with common labels."""

    n_steps: int  # rows of all parts
    has_rows: bool  # rows are in memory and in one piece, so that one flag for each step can be given
    has_states = True  # states have labels; else each row is a state of its own
    has_durations = False  # rows say how long they took
    has_behaviour_ids = False  # episodes say which of several old policies made them

    @property
    @abstractmethod
    def labels(self) -> LogLabels:
        """The labels that policies are aligned with."""

    @property
    @abstractmethod
    def census(self) -> Census:
        """Episodes, their lengths and ends; takes a pass over the parts if there has been none."""

    @property
    @abstractmethod
    def known(self) -> Census | None:
        """The census, if it can be had without a pass; of a log with an unknown time limit as if without."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of episodes of each part, however they end; takes a pass if there has been none."""
        return self.census.sizes

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return sum(self.sizes)

    @property
    def horizon(self) -> int:
        """Steps of the longest episode."""
        return self.census.horizon

    @property
    def cut_early(self) -> int:
        """Number of episodes that were cut elsewhere than at the time limit."""
        return self.census.cut_early

    @property
    @abstractmethod
    def time_limit(self) -> int | None:
        """Steps after which episodes were cut; see `deadweight.sums.ends`. To find out may take a pass."""

    @property
    @abstractmethod
    def known_limit(self) -> int | None:
        """The time limit as far as it is known; None where nobody has asked."""

    @property
    def knows_limit(self) -> bool:
        """Whether the time limit can be had without a pass of its own."""
        return True

    @abstractmethod
    def visits(self, size: int) -> FloatArray | None:
        """(size,) visits of each state, if they can be had without a pass."""

    @abstractmethod
    def viewed(self, check: Check | None = None, without: Sequence[str] = ()) -> Log:
        """The log, every part checked before it is used, and without some columns that nobody needs."""

    def will_be_read_again(self) -> None:
        """Say, before the first of several passes, that others follow; a stored log may prepare for them."""

    @abstractmethod
    def giving(self, giver: Giver) -> Log:
        """The log with propensities of a giver in place of the column."""

    @abstractmethod
    def discounted(self, gamma: float) -> Log:
        """The log by its durations, see `deadweight.log.columns`."""


class InMemory(Log):
    """A log in memory: one `Trajectories`, or runs of its episodes with the same labels."""

    def __init__(self, parts: Sequence[Trajectories]) -> None:
        self._parts = tuple(parts)
        first = self._parts[0]
        self.state_labels, self.action_labels = first.state_labels, first.action_labels
        self.n_steps = sum(part.n_steps for part in self._parts)
        self.has_rows = len(self._parts) == 1
        self.has_states = first.has_states
        self.has_durations = first.durations is not None
        self.has_behaviour_ids = first.behaviour_ids is not None

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, part: int) -> Trajectories: ...
    @overload
    def __getitem__(self, part: slice) -> tuple[Trajectories, ...]: ...
    def __getitem__(self, part: int | slice) -> Trajectories | tuple[Trajectories, ...]:
        return self._parts[part]

    @property
    def labels(self) -> LogLabels:
        """Labels and columns of the first part, visits of all."""
        columns = ("propensities", "target_probs")
        logged = frozenset(name for name in columns if getattr(self._parts[0], name) is not None)
        return LogLabels(self.state_labels, self.action_labels, logged, self._visited)

    def _visited(self) -> tuple[BoolArray, BoolArray]:
        states, actions = np.zeros(self.n_states, dtype=bool), np.zeros(self.n_actions, dtype=bool)
        for part in self._parts:
            states[part.states] = True
            actions[part.actions] = True
        return states, actions

    @cached_property
    def census(self) -> Census:
        """Episodes, their lengths and ends."""
        return reduce(Census.merge, [Census.of([part]) for part in self._parts])

    @property
    def known(self) -> Census:
        """The census."""
        return self.census

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of episodes of each part."""
        return tuple(part.n_episodes for part in self._parts)

    @cached_property
    def cut_early(self) -> int:
        """Number of episodes that were cut elsewhere than at the time limit."""
        return sum(part.n_cut_early for part in self._parts)

    @property
    def time_limit(self) -> int | None:
        """Steps after which episodes were cut, where there is such a limit."""
        return self._parts[0].time_limit

    @property
    def known_limit(self) -> int | None:
        """The time limit, which is known."""
        return self.time_limit

    def visits(self, size: int) -> FloatArray:
        """(size,) visits of each state."""
        visits = np.zeros(size)
        for part in self._parts:
            visits[: part.n_states] += part.visits
        return visits

    def viewed(self, check: Check | None = None, without: Sequence[str] = ()) -> InMemory:
        """The log itself, after the check; columns in memory cost nothing more."""
        if check is not None:
            for part in self._parts:
                check(part)
        return self

    def giving(self, giver: Giver) -> InMemory:
        """The log with the propensities of a giver."""
        parts = enumerate(self._parts)
        return InMemory([log for number, part in parts for log in giver.given_to(number, [part])])

    def discounted(self, gamma: float) -> InMemory:
        """The log by its durations."""
        return InMemory([part.discounted(gamma) for part in self._parts])


LogLike = Trajectories | Log
"""A log as a user may pass it."""


def as_log(log: LogLike) -> Log:
    """The log behind the one interface."""
    return log if isinstance(log, Log) else in_memory(log)


def in_memory(log: LogLike) -> InMemory:
    """A log in memory behind the one interface; some work is for no other."""
    return InMemory([require_log(log)])


def require_log(log: object) -> Trajectories:
    """Refuse whatever is not a log in memory: lists, tables, arrays, and logs that are read part by part."""
    if isinstance(log, Trajectories):
        return log
    kind = type(log)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    raise DataError(
        f"Expected a log (deadweight.Trajectories) in memory; found {name}.",
        fix="Make one with deadweight.read(table or path), or with "
        "deadweight.Trajectories.from_episodes([[(state, action, reward), ...], ...]).",
    )


Source = LogLike | str | Path | Sequence[str | Path]
"""What the verbs take for a log: one that is at hand, or the path or paths of one on disk."""


def paths_of(source: Any) -> list[str | Path] | None:
    """The paths of a log on disk; None of anything else."""
    if isinstance(source, str | Path):
        return [source]
    if isinstance(source, list | tuple) and source and all(isinstance(path, str | Path) for path in source):
        return list(source)
    return None


def check_workers(workers: Any) -> None:
    """Refuse a number of workers that is none."""
    if not (isinstance(workers, int | np.integer) and workers >= 1):
        raise OptionError(
            f"workers must be a whole number of at least 1; found {workers!r}.",
            fix="For example workers=4; the result does not depend on it.",
        )


def check_gamma(gamma: float) -> None:
    """Refuse a discount outside (0, 1]."""
    if not (isinstance(gamma, int | float | np.number) and 0.0 < gamma <= 1.0):
        raise OptionError(
            f"gamma must be above 0 and at most 1; found {gamma!r}.",
            fix="For example gamma=1.0 (--gamma 1), where later rewards count in full, or 0.99.",
        )
