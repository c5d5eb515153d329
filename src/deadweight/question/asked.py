"""Asked: a log, two policies, a discount and options, with what follows from them before any model is solved.

`Question` (`deadweight.question.core`) adds the model and its values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np

from deadweight.log.interface import Log, in_memory
from deadweight.log.trajectories import Trajectories
from deadweight.policy.policies import frequencies
from deadweight.question.cut_weights import CutWeights
from deadweight.question.facts import Facts, Shape
from deadweight.question.options import Options
from deadweight.sums.fields import ByDuration, Field, Table, table_of
from deadweight.sums.old_policies import OldPolicy, old_policies
from deadweight.sums.pairs import PolicyPair
from deadweight.typing import FloatArray
from deadweight.values.model import Counts

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of a log.

    Attributes:
      parts: the log, or runs of its episodes, in memory or stored.
      pair: the policies in the log's index order.
      gamma: discount in (0, 1].
      options: see `deadweight.question.options`.
      workers: threads of a pass in memory.
      by_duration: rewards are discounted by durations already, and gamma is 1; see `log.durations`.
      asked_gamma: the discount that was asked for, where it is another.
      cut_weights: how rows stand for those that were cut off; None where they do not.
      behaviour_flags: what must be known of where the behaviour policy comes from.
      made_by: the log with the ids of its old policies, which `parts` need not have; None without any.
      known: facts of the log that were found for other policies already.
      keeps_influences: those of all episodes on a blend's estimates are kept, for a comparison.
      paths: epsilon paths, and evidence for a blend, that were made already; see
        `deadweight.negligible.epsilon_path` and `deadweight.blend.evidence`.
      sums: what was summed already, by key; see `deadweight.answers.summing`.
    """

    parts: Log
    pair: PolicyPair
    gamma: float = 1.0
    options: Options = field(default_factory=Options)
    workers: int = 1
    behaviour_flags: tuple[str, ...] = ()
    made_by: Log | None = field(default=None, repr=False)
    known: Facts | None = field(default=None, repr=False)
    keeps_influences: bool = False
    by_duration: bool = False
    asked_gamma: float | None = None
    cut_weights: CutWeights | None = None
    paths: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)
    sums: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def about(self, log: Trajectories) -> Self:
        """The same question about some of the episodes of its log."""
        return replace(self, parts=in_memory(log), known=None)

    def made_once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made under this key before, or is made now and kept in `sums`."""
        if key not in self.sums:
            self.sums[key] = make()
        found: T = self.sums[key]
        return found

    @cached_property
    def facts(self) -> Facts:
        """What is known of the log."""
        return Facts(self.parts, self.workers) if self.known is None else self.known

    @property
    def old_policies(self) -> list[OldPolicy]:
        """What the log says of its old policies; none where it has no ids. Takes two passes."""
        source = self.made_by
        if source is None:
            return []
        found: list[OldPolicy] = self.facts.shared(OldPolicy, lambda: old_policies(source))
        return found

    @property
    def has_mixed_worlds(self) -> bool:
        """Whether the old policies of the log worked under different conditions."""
        return any(one.drifted for one in self.old_policies)

    @property
    def shape(self) -> Shape:
        """Number of states and of actions, of log and policies."""
        return self.pair.n_states, self.pair.n_actions

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of episodes of each part."""
        return self.parts.sizes

    @property
    def n(self) -> int:
        """Number of episodes."""
        return self.parts.n_episodes

    @property
    def horizon(self) -> int:
        """T, the longest episode."""
        return self.parts.horizon

    @cached_property
    def terminated(self) -> int:
        """Number of episodes that ended by termination."""
        return self.parts.census.terminated

    @cached_property
    def counts(self) -> Counts:
        """Transition counts of the log."""
        return self.facts.counts(self.shape)

    def count_folds(self, folds: int) -> None:
        """Take the counts of so many folds with those of the log, in one pass, if neither is there yet."""
        if self.options.model is None and self.parts.has_states:  # of rows there is nothing to count
            self.facts.count_folds(folds, self.shape)

    @cached_property
    def visits(self) -> FloatArray:
        """(S,) visits of each state."""
        at_hand = None if self.facts.has_counts(self.shape) else self.parts.visits(self.pair.n_states)
        return self.counts.visits_by("state") if at_hand is None else at_hand

    def share_of(self, drop: Field) -> float:
        """Share of the logged steps that a drop drops."""
        if self.parts.has_rows and not (isinstance(drop, Table) and self.parts.has_states):
            return np.count_nonzero(drop.along(self.parts[0])) / self.parts.n_steps
        mask = table_of(drop, "A log that is read in parts needs a drop of states", "Pass states.")
        return float(self.visits[mask].sum() / self.visits.sum())

    @cached_property
    def pi_b(self) -> FloatArray:
        """(S, A) pi_b of all actions: as given, or as observed when only propensities were logged."""
        return frequencies(self.counts.visits()) if self.pair.pi_b is None else self.pair.pi_b

    def pi_e(self, what: str) -> FloatArray:
        """(S, A) pi_e of all actions, which `what` needs."""
        return self.pair.require_pi_e(what)

    @cached_property
    def gain(self) -> FloatArray:
        """(S, A) pi_e - pi_b."""
        return self.pi_e("The bias of a drop") - self.pi_b

    @property
    def time_limit(self) -> int | None:
        """Steps after which episodes were cut, where there is such a limit."""
        return self.parts.time_limit

    @property
    def known_time_limit(self) -> int | None:
        """The same, without a pass over a stored log that nobody has asked for its limit."""
        return self.parts.known_limit

    @cached_property
    def cut_early(self) -> int:
        """Number of episodes that were cut elsewhere than at the time limit."""
        return self.parts.cut_early

    @property
    def discount(self) -> float:
        """Gamma as it was asked for."""
        return self.gamma if self.asked_gamma is None else self.asked_gamma

    def discounted(self, field: Field) -> Field:
        """Values as an estimate weighs them: with what each row counts, where that is not the same."""
        return ByDuration(field) if self.by_duration or self.cut_weights is not None else field
