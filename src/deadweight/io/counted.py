"""Propensities from counts for a log that is read in parts: one pass counts, each part is given its own.

As in memory, an episode's probabilities come from the episodes of the other folds, and episode i is in fold i
modulo their number. A part does not know how many episodes come before it when it is counted: it counts as if
it were the first, and its folds are turned by that number when the parts are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.basics.progress import before_passes
from deadweight.errors import DataError
from deadweight.log.trajectories import Trajectories
from deadweight.policy.behaviour import counts_by_fold, propensities_by_fold
from deadweight.sums.executors import Executor
from deadweight.sums.stored import Stored
from deadweight.typing import IntArray

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Counted:
    """(folds, S, A) counts of a whole log, and how many episodes come before each of its parts."""

    counts: IntArray
    before: tuple[int, ...]
    needs: tuple[str, ...] = ()

    def given_to(self, part: int, pieces: Sequence[Trajectories]) -> list[Trajectories]:
        """The pieces of a part with the propensities of their steps."""
        first, given = self.before[part], []
        for log in pieces:
            given.append(log.with_propensities(propensities_by_fold(log, self.counts, first)))
            first += log.n_episodes
        return given


def count_stream(log: Stored, rows: Sequence[int], executor: Executor) -> Counted:
    """One pass that counts; `rows` are those of each part."""
    total: Any = None
    before = [0]
    found = executor.map(CountWork(log), len(rows))
    for number, own in before_passes(found, rows, "counting actions"):
        turned = np.roll(own, before[-1] % FOLDS, axis=0)
        total = turned if total is None else total + turned
        before.append(before[-1] + number)
    if before[-1] < FOLDS:
        raise DataError(
            f"Propensities from counts need {FOLDS} episodes or more; found {before[-1]}.",
            fix="Log behaviour_prob, or give a policy with --behaviour FILE.",
        )
    return Counted(total, tuple(before[:-1]))


@dataclass(frozen=True, eq=False)
class CountWork:
    """What is done with each part: fetch it, and count its actions by state and fold."""

    parts: Stored

    def load(self, part: int) -> list[Any]:
        """A part with its number, as it was read."""
        return [part, self.parts.fetch(part)]

    def add_up(self, loaded: list[Any]) -> tuple[int, IntArray]:
        """Its episodes, and their counts as if it were the first part."""
        part, fetched = loaded
        first, total = 0, None
        for log in self.parts.pieces(part, fetched):
            own = counts_by_fold(log, FOLDS, first)
            total = own if total is None else total + own
            first += log.n_episodes
        assert total is not None
        return first, total
