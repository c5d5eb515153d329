"""Facts: what depends on a log alone, made once for all policies that are asked about.

A question is about a log and two policies. Counts, the counts without each fold, and the models fitted to
them do not know the new policy: ten questions about one log share them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from deadweight.log.interface import Log
from deadweight.mdp.tabular import TabularMDP
from deadweight.sums.fields import Folds
from deadweight.values.crossfit import FOLDS, FoldCounts, counts_by_fold, together, without_each
from deadweight.values.model import Counts, count, mdp_from_counts

Shape = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of a log.

    Attributes:
      parts: the log, or runs of its episodes, in memory or stored.
      workers: threads of a pass in memory.
    """

    parts: Log
    workers: int = 1
    _known: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def shared(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made under this key before, or is made now."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def counts(self, shape: Shape) -> Counts:
        """Transition counts over so many states and actions.

        Those of a log that is read in parts are always counted by fold: who needs a model will need the
        folds, and a pass costs more than the counting. The order of the sums, and so their last bits, must
        not depend on who asked first, nor on what a former question has found out.
        """

        def make() -> Counts:
            if not self.parts.has_rows:
                return together(self._counts_by_fold(FOLDS, shape).own)
            self.parts.will_be_read_again()  # as in `_counts_by_fold`
            return count(self.parts, *shape, self.workers)

        found: Counts = self.shared((Counts, shape), make)
        return found

    def has_counts(self, shape: Shape) -> bool:
        """Whether these have been counted already."""
        return (Counts, shape) in self._known

    def counts_without(self, folds: int, shape: Shape) -> tuple[Folds, list[Counts]]:
        """So many folds of the episodes, and for each the counts of all episodes but its own."""

        def make() -> tuple[Folds, list[Counts]]:
            counts = self._counts_by_fold(folds, shape)  # first: its pass finds the sizes as well
            return Folds.of(folds, self.parts.sizes), without_each(counts.own)

        found: tuple[Folds, list[Counts]] = self.shared((Folds, folds, shape), make)
        return found

    def count_folds(self, folds: int, shape: Shape) -> None:
        """Take both counts of a log in memory in one pass, if those of all episodes are not there yet."""
        if self.parts.has_rows and self.parts.n_episodes >= folds and (Counts, shape) not in self._known:
            self._known[Counts, shape] = together(self._counts_by_fold(folds, shape).own)

    def _counts_by_fold(self, folds: int, shape: Shape) -> FoldCounts:
        def make() -> FoldCounts:
            self.parts.will_be_read_again()  # by whoever needs a model
            return counts_by_fold(self.parts, folds, *shape, self.workers)

        found: FoldCounts = self.shared((FoldCounts, folds, shape), make)
        return found

    def model(self, shape: Shape, unseen: str) -> TabularMDP:
        """The model of all episodes."""
        found: TabularMDP = self.shared(
            (TabularMDP, shape, unseen), lambda: self._fitted(self.counts(shape), unseen)
        )
        return found

    def models_without(self, folds: int, shape: Shape, unseen: str) -> list[TabularMDP]:
        """For each fold the model of all episodes but its own."""
        found: list[TabularMDP] = self.shared(
            (TabularMDP, folds, shape, unseen),
            lambda: [self._fitted(counts, unseen) for counts in self.counts_without(folds, shape)[1]],
        )
        return found

    def _fitted(self, counts: Counts, unseen: str) -> TabularMDP:
        return mdp_from_counts(counts, self.parts.horizon, unseen)
