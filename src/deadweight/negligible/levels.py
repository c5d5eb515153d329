"""Levels: the nested drop sets of a path, from none to all that may be dropped, by Q gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from deadweight.basics.arithmetic import freeze_fields, frozen
from deadweight.log.state_sets import StateSet
from deadweight.negligible.q_gap import may_drop
from deadweight.question.core import Question
from deadweight.results.saved import saved
from deadweight.typing import BoolArray, FloatArray, IntArray, Labels


@saved
@dataclass(frozen=True, eq=False)
class Levels:
    """Level 0 drops nothing; level k drops the states that may be dropped with gap <= epsilon[k].

    Attributes:
      epsilon: (K + 1,) the largest gap dropped at each level, 0 at the first.
      entry: (S,) the level at which a state is first dropped; K + 1 for one that never is.
      labels: (S,) what the user calls each state.
      evidence: gap and visits of each state.
    """

    epsilon: FloatArray
    entry: IntArray
    labels: Labels
    evidence: Mapping[str, FloatArray]

    def __post_init__(self) -> None:
        evidence = {name: frozen(values) for name, values in self.evidence.items()}
        object.__setattr__(self, "evidence", evidence)
        freeze_fields(self)

    def __len__(self) -> int:
        return len(self.epsilon)

    @property
    def n_dropped(self) -> IntArray:
        """(K + 1,) number of states dropped at each level."""
        return np.bincount(self.entry, minlength=len(self) + 1)[: len(self)].cumsum()

    def mask(self, level: int) -> BoolArray:
        """(S,) the states dropped at a level."""
        dropped: BoolArray = self.entry <= level
        return dropped

    def states(self, level: int, origin: str | None = None) -> StateSet:
        """The set of a level."""
        text = f"Q gap <= {self.epsilon[level]:g}" if level else "nothing dropped"
        return StateSet(self.mask(level), self.labels, origin or text, self.evidence)


class LevelSets(Sequence[StateSet]):
    """The sets of all levels, each made when it is looked at."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels

    def __len__(self) -> int:
        return len(self._levels)

    @overload
    def __getitem__(self, level: int) -> StateSet: ...
    @overload
    def __getitem__(self, level: slice) -> list[StateSet]: ...
    def __getitem__(self, level: int | slice) -> StateSet | list[StateSet]:
        numbers = range(len(self))[level]
        if isinstance(numbers, range):
            return [self._levels.states(number) for number in numbers]
        return self._levels.states(numbers)


def make_levels(question: Question, min_visits: int = 0, most: int | None = None) -> Levels:
    """The levels of a question.

    There is one at each distinct gap of a visited state or, with `most`, at no more than so many quantiles.
    States never visited follow by their gap: dropping them changes nothing.
    """
    _ = question.values  # which the bias along the path needs anyway, and from which gaps are quick
    gap, allowed, visits = question.gaps, may_drop(question, min_visits), question.visits
    seen = gap[allowed & (visits > 0)]
    points = np.unique(seen)
    if most is not None and points.size > most:
        points = np.unique(np.quantile(seen, np.linspace(0, 1, most), method="inverted_cdf"))
    if allowed.any():
        points = np.append(points[:-1], gap[allowed].max())  # the last level drops all that may be dropped
    entry = np.where(allowed, np.searchsorted(points, gap) + 1, points.size + 1)
    epsilon = np.concatenate([[0.0], points])
    return Levels(epsilon, entry, question.pair.state_labels, {"gap": gap, "visits": visits})
