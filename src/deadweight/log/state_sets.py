"""StateSet: which states are dropped, and why.

A state set remembers the evidence it was made from (gaps, p-values, visits), so that whoever reads an
estimate can see why a state was thought negligible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import frozen
from deadweight.errors import DropError
from deadweight.log.labels import as_column, plain
from deadweight.typing import AnyArray, BoolArray, FloatArray, Labels


@dataclass(frozen=True, eq=False)
class StateSet:
    """A set of states of one problem.

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
    """An array that nobody writes to: itself where that is so already, as for the many sets of a path."""
    if not values.flags.writeable:
        return values
    copied: AnyArray = frozen(values.copy())
    return copied
