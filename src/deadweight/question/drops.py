"""Drops: what the user may pass as `drop=`, turned into a field that is True where a ratio is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.errors import DropError, EstimationError, first_few
from deadweight.log.interface import LogLike
from deadweight.log.labels import plain, positions
from deadweight.log.state_sets import StateSet
from deadweight.log.trajectories import Trajectories
from deadweight.question.core import Question
from deadweight.sums.fields import Column, Field, Table, table_of
from deadweight.sums.pairs import PolicyPair
from deadweight.sums.weighting import Weighting
from deadweight.typing import BoolArray


@dataclass(frozen=True, eq=False)
class Drop:
    """Which ratios are dropped.

    Exactly one of `states` and `steps` is given: a set of states, or one flag for each step of the log.
    """

    states: StateSet | None = None
    steps: BoolArray | None = None

    @cached_property
    def field(self) -> Field | None:
        """True where the ratio of a step is dropped; None where none is."""
        if self.steps is not None:
            return Column(self.steps)
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
        if self.steps is not None:
            return "single steps, as given"
        return "none" if self.states is None else self.states.origin

    def flags(self, log: Trajectories) -> BoolArray:
        """(steps,) which steps of the log are dropped."""
        return np.zeros(log.n_steps, dtype=bool) if self.field is None else self.field.along(log)

    def mask(self, n_states: int) -> BoolArray:
        """(S,) dropped states; none for a per-step drop."""
        return np.zeros(n_states, dtype=bool) if self.states is None else self.states.mask

    def mask_for(self, what: str, n_states: int) -> BoolArray:
        """(S,) dropped states, or an error that says why `what` needs them."""
        if self.field is None:
            return self.mask(n_states)
        return table_of(self.field, f"{what} needs a drop of states", "Pass states, or drop=None.", DropError)


NOTHING_DROPPED = Drop()


def given_drop(drop: Any, pair: PolicyPair, log: LogLike) -> Drop:
    """A drop from a `StateSet`, a list of labels, a boolean array a state or a step, or None.

    Rules by name ("auto", "q-gap:1.0") are resolved by `deadweight.negligible`.
    """
    if drop is None:
        return NOTHING_DROPPED
    if isinstance(drop, Drop):
        return drop
    if isinstance(drop, StateSet):
        return Drop(states=_from_state_set(drop, pair))
    array = drop if isinstance(drop, np.ndarray) else None
    if array is None and not isinstance(drop, (str, bytes)) and _all_booleans(drop):
        array = np.array(list(drop), dtype=bool)
    if array is not None and array.dtype == bool:
        return _from_flags(array, pair, log)
    if isinstance(drop, (str, bytes)) or not hasattr(drop, "__iter__"):
        raise DropError(
            f"drop must be None, a rule, a StateSet, a list of states or a boolean array; found {drop!r}.",
            fix='Rules are "auto", "q-gap:1.0", "covariance:0.01" and "return-test:0.05".',
        )
    return Drop(states=_from_labels(list(drop), pair))


def drop_of(question: Question, drop: Any) -> Drop:
    """The drop that a user gives with a question, on a log in memory or stored."""
    found = given_drop(drop, question.pair, question.parts)
    if found.steps is not None and not question.parts.has_rows:
        raise EstimationError(
            "One flag a step needs a log in memory; this one is read in parts.",
            fix="Pass states instead, or read the log into memory with deadweight.read.",
        )
    return found


def _all_booleans(drop: Any) -> bool:
    if not isinstance(drop, Sequence) or len(drop) == 0:
        return False
    return all(isinstance(flag, (bool, np.bool_)) for flag in drop)


def _from_flags(flags: BoolArray, pair: PolicyPair, log: LogLike) -> Drop:
    # A mask that fits both readings is taken as one flag a state, the common case.
    if flags.ndim == 1 and log.n_states <= len(flags) <= pair.n_states:
        mask = np.zeros(pair.n_states, dtype=bool)
        mask[: len(flags)] = flags
        return Drop(states=StateSet(mask, pair.state_labels, "given as a mask"))
    if flags.shape == (log.n_steps,):
        return Drop(steps=flags)
    raise DropError(
        f"A boolean drop needs one flag a state ({pair.n_states}) or one a step ({log.n_steps}); found shape "
        f"{flags.shape}.",
        fix="Pass a list of state labels instead, or a mask of one of these lengths.",
    )


def _from_labels(labels: list[Any], pair: PolicyPair) -> StateSet:
    index = positions(pair.state_labels, labels)
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
    moved = _from_labels([label for label in states.states if label in set(_plain(pair))], pair)
    return StateSet(moved.mask, pair.state_labels, states.origin)


def _plain(pair: PolicyPair) -> list[Any]:
    return [plain(label) for label in pair.state_labels]
