"""Labels: from what the user calls a state or an action to an index, and back; sets of states.

Small non-negative integers are indices already and stay as they are, so that a state that was never
visited keeps its place. Strings, negative numbers and sparse ids are numbered in sorted order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deadweight.errors import DataError, DropError, first_few
from deadweight.tools.arithmetic import frozen, unmasked
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

SMALLEST, LARGEST = -(2**63), 2**63 - 1
# Whole numbers up to this are floats as well; of larger ones several have the same float.
EXACT_IN_FLOAT = 2.0**53
LONGEST_LABEL = 80


def encode(values: AnyArray, what: str) -> tuple[IntArray, Labels]:
    """Codes of `values` and the labels they stand for, `labels[codes] == values`.

    >>> encode(np.array([2, 0, 2]), "state")[1]
    array([0, 1, 2])
    >>> encode(np.array(["b", "a"]), "state")
    (array([1, 0]), array(['a', 'b'], dtype=object))
    """
    integers = _as_integers(values)
    if integers is None:
        return _encode_objects(values, what)
    if integers.size == 0:
        return integers, np.arange(0)
    largest = int(integers.max())
    # Counting the distinct labels needs a sort; labels that are dense by their number need none.
    if int(integers.min()) >= 0 and (largest <= 1_000 or largest <= 10 * np.unique(integers).size + 1_000):
        return integers, np.arange(largest + 1)
    labels, codes = np.unique(integers, return_inverse=True)
    return codes.astype(np.int64, copy=False), labels


def as_column(values: Any, what: str) -> AnyArray:
    """A one-dimensional array of labels, the one way in for lists of them; tuples stay whole."""
    column = _unmasked(values) if isinstance(values, np.ndarray) else _of_list(list(values))
    if column.ndim != 1:
        raise DataError(
            f"The {what} column must have one entry for each step; found an array of shape {column.shape}.",
            fix="Pass a flat column, with several features encoded as one label.",
        )
    return column


def objects(labels: Iterable[Any]) -> Labels:
    """A column of labels as they are; numpy would make arrays of tuples, and text of numbers beside text."""
    items = list(labels)
    column = np.empty(len(items), dtype=object)
    column[:] = items
    return column


def joined(columns: Sequence[AnyArray]) -> AnyArray:
    """Columns of labels, one after the other; where their types differ no label becomes another."""
    whole = [_as_integers(column) for column in columns]
    integers = [column for column in whole if column is not None]
    if len(integers) == len(columns):
        return np.concatenate(integers)
    if len({column.dtype.kind for column in columns}) > 1:
        columns = [column.astype(object) for column in columns]
    return np.concatenate(columns)


def _unmasked(values: AnyArray) -> AnyArray:
    """The labels, masked ones missing; whole numbers beside a mask do not pass through floats."""
    plain_values: AnyArray = unmasked(values)
    is_masked = plain_values is not values
    return unmasked(values.astype(object)) if is_masked and values.dtype.kind in "iu" else plain_values


def _of_list(items: list[Any]) -> AnyArray:
    """A list as an array, of objects wherever numpy would make another label of one."""
    if any(isinstance(item, (tuple, list)) for item in items):
        return objects(tuple(item) if isinstance(item, list) else item for item in items)
    column = np.asarray(items)
    # It would turn 1 into "1", cut zero characters off the end of a text, and round large whole numbers.
    if column.dtype.kind in "US":
        changed = any(not isinstance(item, str) or item.endswith("\0") for item in items)
    elif column.dtype.kind in "fc":
        changed = any(
            isinstance(item, int | np.integer) and abs(int(item)) > EXACT_IN_FLOAT for item in items
        )
    else:
        changed = False
    return np.array(items, dtype=object) if changed else column


def positions(labels: Labels, wanted: Sequence[Any] | AnyArray) -> IntArray:
    """Index of each wanted label in `labels`, -1 where there is none."""
    index = {plain(label): i for i, label in enumerate(labels)}
    return np.array([index.get(plain(label), -1) for label in wanted], dtype=np.int64)


def plain(label: Any) -> Any:
    """The label as a plain Python object, for messages and look-ups."""
    return label.item() if isinstance(label, np.generic) else label


def in_the_words_of(labels: Labels, own: Sequence[Any] | AnyArray) -> Labels:
    """`own` labels, those that are written like one of `labels` but of another type in its type.

    A file without types may have read 1 as a number where another, which has an x as well, reads text.
    """
    known = {plain(label) for label in labels}
    index = {text: label for label in known for text in _written(label)}
    return objects(
        label if label in known else next((index[text] for text in _written(label) if text in index), label)
        for label in map(plain, own)
    )


def _written(label: Any) -> tuple[str, ...]:
    """The ways in which a label may stand in a file without types."""
    if isinstance(label, bool):
        return (str(label), str(label).lower())
    if isinstance(label, str):
        return (label,)
    return (repr(label),) if isinstance(label, int | float) else ()


def visible(label: Any, longest: int = LONGEST_LABEL) -> str:
    r"""A label as text on one line: control characters are spelt out, long labels are cut.

    >>> visible("a\nb\u202e"), visible(3)
    ('a\\nb\\u202e', '3')
    """
    text = str(plain(label))
    shown = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in shown
    )


def _as_integers(values: AnyArray) -> IntArray | None:
    """The values as 64-bit integers where that loses nothing, else None."""
    if values.dtype.kind == "u" and values.size and int(values.max()) > LARGEST:
        return None
    if values.dtype.kind in "iu":
        return values.astype(np.int64, copy=False)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (np.abs(values) <= 2.0**62).all():
        rounded = values.astype(np.int64)
        return rounded if np.array_equal(rounded, values) else None
    if values.dtype.kind == "O" and all(
        isinstance(value, (int, np.integer))
        and not isinstance(value, bool)
        and SMALLEST <= int(value) <= LARGEST
        for value in values
    ):
        return values.astype(np.int64)
    return None


def _encode_objects(values: AnyArray, what: str) -> tuple[IntArray, Labels]:
    if values.dtype.kind in "US":
        distinct_text, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int64, copy=False), distinct_text.astype(object)
    missing = np.array([value is None or value != value for value in values], dtype=bool)
    if missing.any():
        rows = np.flatnonzero(missing)
        raise DataError(
            f"The {what} column must have a label in every row; rows {first_few(rows)} have none.",
            fix=f"Fill in the missing {what}s or remove their episodes.",
        )
    distinct = {plain(value) for value in values}
    try:
        ordered = sorted(distinct)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in distinct})
        raise DataError(
            f"The {what} column must hold labels of one type; found {', '.join(kinds)} together.",
            fix=f"Convert all {what}s to text, or all to numbers.",
        ) from None
    index = {label: i for i, label in enumerate(ordered)}
    return np.array([index[plain(value)] for value in values], dtype=np.int64), objects(ordered)


class Labelled:
    """Labels of states and actions by index. Integer labels may leave gaps: then some occur nowhere."""

    state_labels: Labels
    action_labels: Labels

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.state_labels)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.action_labels)


@dataclass(frozen=True, eq=False)
class StateSet:
    """A set of states of one problem, and the numbers it was made from.

    Gaps, p-values or visits are kept so that whoever reads an estimate can see why a state was thought
    negligible.

    Attributes:
      mask: (S,) True for the members.
      labels: (S,) what the user calls each state.
      origin: the rule that made the set, in words.
      evidence: per-state numbers behind the rule, each (S,), by name.

    Example:
      >>> upper = StateSet(np.array([False, True, True]), np.arange(3), origin="upper floors")
      >>> (upper & ~upper).states, len(upper)
      ([], 2)
    """

    mask: BoolArray
    labels: Labels
    origin: str = "given"
    evidence: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mask = np.array(self.mask, dtype=bool)
        if mask.shape != (len(self.labels),):
            raise DropError(
                f"A state set needs one flag for each state ({len(self.labels)}); found shape {mask.shape}.",
                fix="Pass one boolean for each state label.",
            )
        labels = self.labels if isinstance(self.labels, np.ndarray) else as_column(self.labels, "state")
        evidence = {name: _kept(values) for name, values in self.evidence.items()}
        for name, value in (("mask", frozen(mask)), ("labels", _kept(labels)), ("evidence", evidence)):
            object.__setattr__(self, name, value)

    @property
    def states(self) -> list[Any]:
        """Labels of the members, in index order."""
        return [plain(label) for label in self.labels[self.mask]]

    @property
    def gaps(self) -> FloatArray | None:
        """(S,) Q gap of every state, where the set was made from Q gaps."""
        return self.evidence.get("gap")

    def __len__(self) -> int:
        return int(self.mask.sum())

    def __contains__(self, label: object) -> bool:
        return label in self.states

    def __or__(self, other: StateSet) -> StateSet:
        return self._combined(other, self.mask | self._fitting(other), "or")

    def __and__(self, other: StateSet) -> StateSet:
        return self._combined(other, self.mask & self._fitting(other), "and")

    def __invert__(self) -> StateSet:
        return StateSet(~self.mask, self.labels, f"not ({self.origin})", self.evidence)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateSet) and self.states == other.states

    def __hash__(self) -> int:
        return hash(self.mask.tobytes())

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        shown = ", ".join(repr(label) for label in self.states[:8])
        more = f", ... {len(self) - 8} more" if len(self) > 8 else ""
        return f"StateSet({len(self)} of {len(self.labels)} states: {{{shown}{more}}}; {self.origin})"

    def __str__(self) -> str:
        return "\n".join([repr(self), *self._table()])

    def _table(self, most: int = 20) -> list[str]:
        """Members with their evidence, one a line."""
        if not self.evidence:
            return []
        names = list(self.evidence)
        rows = [["state", *names, "dropped"]]
        for i in range(min(len(self.labels), most)):
            numbers = [f"{self.evidence[name][i]:.6g}" for name in names]
            rows.append([str(plain(self.labels[i])), *numbers, "yes" if self.mask[i] else "no"])
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        lines = ["  " + "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        if len(self.labels) > most:
            lines.append(f"  ... {len(self.labels) - most} more states")
        return lines

    def _fitting(self, other: StateSet) -> BoolArray:
        if list(self.labels) != list(other.labels):
            raise DropError(
                f"State sets of different problems cannot be combined ({len(self.labels)} and "
                f"{len(other.labels)} states).",
                fix="Make both from the same log.",
            )
        return other.mask

    def _combined(self, other: StateSet, mask: BoolArray, word: str) -> StateSet:
        evidence = {**other.evidence, **self.evidence}
        return StateSet(mask, self.labels, f"({self.origin}) {word} ({other.origin})", evidence)


def _kept(values: AnyArray) -> AnyArray:
    """A read-only array: itself where it is one already, as for the many sets of a path."""
    return np.asarray(frozen(values.copy())) if values.flags.writeable else values
