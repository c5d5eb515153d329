"""The labels of a stream: from the footers where they leave no choice, else by a pass over the parts.

Same rule as in memory: distinct states and actions, and the states that truncated episodes lead to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadweight.basics.progress import before_passes
from deadweight.io.fetch import whole_part
from deadweight.io.footers import Bounds
from deadweight.io.label_columns import as_labels, as_one_kind
from deadweight.io.parquet import ParquetFiles
from deadweight.io.part_log import CommonLabels
from deadweight.io.parts import Part
from deadweight.log.labels import encode, plain
from deadweight.log.trajectories import Trajectories
from deadweight.sums.executors import Executor
from deadweight.typing import AnyArray

# Labels up to this are indices whatever else there is; see `deadweight.log.labels`.
ALWAYS_DENSE = 1_000


def common_labels(files: ParquetFiles, parts: Sequence[Part], executor: Executor) -> CommonLabels:
    """The labels of all parts: from the footers where small whole numbers leave no choice, else by a pass."""
    states, actions = _small(files, "state"), _small(files, "action")
    if states is not None and actions is not None and _names_nothing_new(files, states):
        return CommonLabels(np.arange(states.high + 1), np.arange(actions.high + 1), promised=True)
    found: FoundLabels | None = None
    rows = [part.all_rows for part in parts]
    labels = executor.map(LabelWork(files, tuple(parts)), len(parts))
    for one in before_passes(labels, rows, "looking for labels"):
        found = one if found is None else found.merge(one)
    assert found is not None
    return found.labels()


def _small(files: ParquetFiles, column: str) -> Bounds | None:
    bounds = files.bounds(column)
    return bounds if bounds is not None and bounds.low >= 0 and bounds.high <= ALWAYS_DENSE else None


def _names_nothing_new(files: ParquetFiles, states: Bounds) -> bool:
    if "next_state" not in files.names:
        return True
    bounds = files.bounds("next_state")
    return bounds is not None and bounds.low >= -1 and bounds.high <= states.high


@dataclass(frozen=True, eq=False)
class FoundLabels:
    """Distinct labels of some parts; merges."""

    states: AnyArray
    actions: AnyArray

    @classmethod
    def of(cls, log: Trajectories) -> FoundLabels:
        """Those that a log visits, or names as what follows a truncated episode."""
        visited = np.unique(np.concatenate([log.states, log._last_successor[log._last_successor >= 0]]))
        return cls(log.state_labels[visited], log.action_labels[np.unique(log.actions)])

    def merge(self, other: FoundLabels) -> FoundLabels:
        """Those of both."""
        return FoundLabels(
            _union(self.states, other.states, "state"), _union(self.actions, other.actions, "action")
        )

    def labels(self) -> CommonLabels:
        """In the order of `deadweight.log.labels`."""
        return CommonLabels(encode(self.states, "state")[1], encode(self.actions, "action")[1])


def _union(one: AnyArray, other: AnyArray, what: str) -> AnyArray:
    if one.dtype != object and other.dtype != object:
        return np.union1d(one, other)
    # Numbers of one column may be whole in one part and not in another.
    return encode(as_labels(as_one_kind(map(plain, [*one, *other]))), what)[1]


@dataclass(frozen=True, eq=False)
class LabelWork:
    """The pass that finds the labels, with all checks."""

    files: ParquetFiles
    parts: tuple[Part, ...]

    def load(self, part: int) -> Trajectories:
        """A part in labels of its own."""
        return whole_part(self.files, self.parts[part], None)

    def add_up(self, log: Trajectories) -> FoundLabels:
        """Its labels."""
        return FoundLabels.of(log)
