"""Drops: what the user may pass as `drop=`, turned into a field that is True where a ratio is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.errors import DropError, EstimationError, assume, first_few
from deadweight.log.columns import require_labels
from deadweight.log.interface import LogLike, as_log
from deadweight.log.labels import StateSet, in_the_words_of, plain, positions
from deadweight.log.trajectories import Trajectories, places
from deadweight.question.question import Question
from deadweight.sums.blocks import Column, Field, Table, table_of
from deadweight.sums.pairs import PolicyPair
from deadweight.sums.weighting import Weighting
from deadweight.typing import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Drop:
    """Which ratios are dropped.

    At most one of these is given: a set of states, one flag for each step of the log, or, where each row is a
    state of its own, one flag for each row, with a word on where they come from.
    """

    states: StateSet | None = None
    steps: BoolArray | None = None
    rows: BoolArray | None = None
    said: str = "single steps, as given"

    @cached_property
    def field(self) -> Field | None:
        """True where the ratio of a step is dropped; None where none is."""
        if self.steps is not None:
            return Column(self.steps)
        if self.rows is not None:
            return Table(self.rows)
        return None if self.states is None else Table(self.states.mask)

    def weighting(self, pair: PolicyPair) -> Weighting:
        """The kept ratios of this drop."""
        return Weighting(pair, self.field)

    @property
    def labels(self) -> list[Any]:
        """Labels of the dropped states."""
        return [] if self.states is None else self.states.states

    @property
    def origin(self) -> str:
        """Where the drop comes from, in words."""
        if self.steps is not None or self.rows is not None:
            return self.said
        return "none" if self.states is None else self.states.origin

    def flags(self, log: Trajectories) -> BoolArray:
        """(steps,) which steps of the log are dropped."""
        return np.zeros(log.n_steps, dtype=bool) if self.field is None else self.field.along(log)

    def mask(self, n_states: int) -> BoolArray:
        """(S,) dropped states, or rows where each is a state; none for a per-step drop."""
        if self.rows is not None:
            return self.rows
        return np.zeros(n_states, dtype=bool) if self.states is None else self.states.mask

    def mask_for(self, what: str, n_states: int) -> BoolArray:
        """(S,) dropped states, or an error that says why `what` needs them."""
        if self.field is None:
            return self.mask(n_states)
        return table_of(self.field, f"{what} needs a drop of states", "Pass states, or drop=None.", DropError)


NOTHING_DROPPED = Drop()
MASK = "given as a mask"


def chosen_drop(question: Question, states: StateSet) -> Drop:
    """The drop of a set that a rule has chosen: of states, or of single steps where these have no labels."""
    if question.parts.has_states:
        return Drop(states=states)
    return Drop(rows=states.mask, said=states.origin)


def given_drop(drop: Any, pair: PolicyPair, log: LogLike, made_of_log: bool = False) -> Drop:
    """A drop from a `StateSet`, a list of labels, a boolean array a state or a step, or None.

    Rules by name ("auto", "q-gap:1.0") are resolved by `deadweight.negligible`. One flag for each step is in
    the order of the table that the log was read from; with `made_of_log` in that of the log's own steps.
    """
    if drop is None:
        return NOTHING_DROPPED
    if isinstance(drop, Drop):
        return drop
    if isinstance(drop, StateSet):
        require_labels(log, "A set of states to drop")
        return Drop(states=_from_state_set(drop, pair))
    array = np.asarray(drop) if hasattr(drop, "__array__") else None  # also a column of a frame
    if array is None and _all_booleans(drop) and not _names_flags(drop, pair, log):
        array = np.array(list(drop), dtype=bool)
    if array is not None and array.dtype == bool:
        return _from_flags(array, pair, log, made_of_log)
    if isinstance(drop, (str, bytes)) or not hasattr(drop, "__iter__"):
        raise DropError(
            f"drop must be None, a rule, a StateSet, a list of states or a boolean array; found {drop!r}.",
            fix='Rules are "auto", "q-gap:1.0", "covariance:0.01" and "return-test:0.05".',
        )
    require_labels(log, "A list of states to drop")
    labels = list(drop)
    _refuse_flags_as_numbers(labels, pair, log)
    return Drop(states=_from_labels(labels, pair))


def drop_of(question: Question, drop: Any, made_of_log: bool = False) -> Drop:
    """The drop that a user gives with a question, on a log in memory or stored; see `given_drop`."""
    read = given_drop(drop, question.pair, question.parts, made_of_log)
    if read.steps is not None and not question.parts.has_rows:
        raise EstimationError(
            "One flag for each step needs a log in memory; this one is read in parts.",
            fix="Pass states instead, or read the log into memory with deadweight.read.",
        )
    if read.states is not None and read.states.origin == MASK and question.parts.has_rows:
        flags = np.asarray(drop)
        steps = _steps_of(len(flags), question.parts, made_of_log)
        if steps is not None and (read.flags(question.parts[0]) != flags[steps]).any():
            assume(
                f"drop has {len(flags)} flags, and there are as many steps as states: they were taken as one "
                "flag for each state. Say so by a list of state labels; one flag for each step cannot be "
                "told apart in so small a log."
            )
    return read


def _all_booleans(drop: Any) -> bool:
    if not isinstance(drop, Sequence) or isinstance(drop, (str, bytes)) or len(drop) == 0:
        return False
    return all(isinstance(flag, (bool, np.bool_)) for flag in drop)


def _names_flags(drop: Sequence[bool], pair: PolicyPair, log: LogLike) -> bool:
    """Whether a list of True and False names states that are called so: it does unless one is there twice."""
    named = log.has_states and any(isinstance(plain(label), bool) for label in pair.state_labels)
    if not named or len(set(drop)) < len(drop):
        return False
    if len(drop) > 1:
        assume(
            "drop named the states True and False. Give one flag for each state as an array: "
            f"np.array({list(map(bool, drop))})."
        )
    return True


def _from_flags(flags: BoolArray, pair: PolicyPair, log: LogLike, made_of_log: bool) -> Drop:
    steps = _steps_of(len(flags), log, made_of_log) if flags.ndim == 1 else None
    if not log.has_states and steps is not None:
        return Drop(rows=np.concatenate([flags[steps], np.zeros(pair.n_states - log.n_steps, dtype=bool)]))
    # As many flags as steps are one for each state only if the log or the policies have as many states.
    if steps is not None:
        by_state = len(flags) in (log.n_states, pair.n_states)
    else:
        by_state = flags.ndim == 1 and log.n_states <= len(flags) <= pair.n_states
    if log.has_states and by_state:
        mask = np.zeros(pair.n_states, dtype=bool)
        mask[: len(flags)] = flags
        return Drop(states=StateSet(mask, pair.state_labels, MASK))
    if steps is not None:
        return Drop(steps=flags[steps])
    states = f"state ({pair.n_states}) or " if log.has_states else ""
    table = _in_memory(log)
    whole = log.n_steps if table is None else table.order_of_rows.n_rows
    raise DropError(
        f"A boolean drop needs one flag for each {states}step ({log.n_steps})"
        + (f", or one for each row of the table ({whole})" if whole != log.n_steps else "")
        + f"; found shape {flags.shape}.",
        fix="Pass a list of state labels instead, or a mask of one of these lengths.",
    )


def _steps_of(length: int, log: LogLike, made_of_log: bool) -> IntArray | None:
    """(steps,) where the steps of a log are among so many flags; None where the length does not fit."""
    table = None if made_of_log else _in_memory(log)
    if table is None:
        return np.arange(log.n_steps) if length == log.n_steps else None
    return places(table.order_of_rows.rows, table.order_of_rows.n_rows, length)


def _in_memory(log: LogLike) -> Trajectories | None:
    parts = as_log(log)
    return parts[0] if parts.has_rows else None


def _refuse_flags_as_numbers(labels: list[Any], pair: PolicyPair, log: LogLike) -> None:
    """A mask of 0 and 1 is no list of the states 0 and 1, which would name each of them once."""
    twice = len(labels) > 2 and all(plain(label) in (0, 1) for label in labels)
    if twice and len(labels) in (log.n_states, pair.n_states, log.n_steps):
        raise DropError(
            f"drop has {len(labels)} numbers, all of them 0 or 1: that is neither a list of states, which "
            "names each once, nor flags, which are True or False.",
            fix="Make flags of them: drop=np.asarray(drop, dtype=bool); or name each state once.",
        )


def _from_labels(labels: list[Any], pair: PolicyPair) -> StateSet:
    index = positions(pair.state_labels, in_the_words_of(pair.state_labels, labels))
    unknown = [plain(label) for label, i in zip(labels, index, strict=True) if i < 0]
    if unknown:
        raise DropError(
            f"drop names states that neither the log nor the policies have: {first_few(unknown)}.",
            fix=f"States are labelled {first_few(plain(label) for label in pair.state_labels)}.",
        )
    mask = np.zeros(pair.n_states, dtype=bool)
    mask[index] = True
    return StateSet(mask, pair.state_labels, "given by label")


def _from_state_set(states: StateSet, pair: PolicyPair) -> StateSet:
    """The set in the pair's index order, whichever log or policy it was made for."""
    if len(states.labels) == pair.n_states and all(
        plain(a) == plain(b) for a, b in zip(states.labels, pair.state_labels, strict=True)
    ):
        return states
    known = {plain(label) for label in pair.state_labels}
    labels = [label for label in in_the_words_of(pair.state_labels, states.states) if label in known]
    if states.states and not labels:
        raise DropError(
            f"None of the states of the set to drop, such as {first_few(states.states)}, is one of the log's "
            "or the policies'.",
            fix=f"States are labelled {first_few(plain(label) for label in pair.state_labels)}.",
        )
    return StateSet(_from_labels(labels, pair).mask, pair.state_labels, states.origin)
