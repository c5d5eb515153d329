"""Several old policies of a log that is read in parts.

The probabilities of a mixture depend on an episode's own steps, and on the whole log only by the shares of
the old policies and the tables of those that are counted. One pass finds these; each part is then given the
propensities of its steps whenever it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from deadweight.basics.memory import require_table
from deadweight.errors import PolicyError
from deadweight.log.interface import Log
from deadweight.log.trajectories import Trajectories
from deadweight.policy.policies import TabularPolicy, frequencies
from deadweight.question.mixtures import (
    by_id,
    mixed_propensities,
    own_propensities,
    refuse_impossible,
    saying_which,
    without_ids,
)
from deadweight.question.understanding import understood
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Field
from deadweight.sums.old_policies import Makers, ids_of, members_of
from deadweight.sums.pairs import pair_policies
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import KeyedSums
from deadweight.typing import FloatArray

IDS = "behaviour_id"
# Columns that say neither who made an episode nor what it did.
NOT_NEEDED = ("behaviour_prob", "target_prob", "next_state", "duration")


@dataclass(frozen=True, eq=False)
class MixtureGiver:
    """Gives the steps of a part the propensities of a mixture.

    Attributes:
      ids: of the old policies.
      shares: (J,) of the episodes.
      tables: (J,) the old policies, in the order of the log's labels.
      apart: each for its own episodes only.
    """

    ids: tuple[Any, ...]
    shares: FloatArray
    tables: tuple[Field, ...]
    apart: bool
    needs: tuple[str, ...] = (IDS,)

    def given_to(self, part: int, pieces: Sequence[Trajectories]) -> list[Trajectories]:
        """The pieces of a part with the propensities of their steps."""
        return [self._given(log) for log in pieces]

    def _given(self, log: Trajectories) -> Trajectories:
        assert log.behaviour_ids is not None
        probs = np.stack([table.along(log) for table in self.tables])
        member = members_of(log.behaviour_ids, self.ids)
        refuse_impossible(log, self.ids, member, probs)
        if self.apart:
            return log.with_propensities(own_propensities(log, probs, member))
        return log.with_propensities(mixed_propensities(log, probs, self.shares))


def mixed(log: Log, policies: Mapping[Any, Any], apart: bool = False) -> tuple[Log, bool]:
    """The log with the propensities of its old policies' mixture, and whether any of them was counted.

    `apart`: those of each episode's own policy.
    """
    if not log.has_behaviour_ids:
        raise without_ids()
    makers = makers_of(log)
    ids = makers.ids
    given = by_id(ids, policies)
    missing = tuple(label for label in ids if label not in given)
    tables = {label: _table(log, policy, label) for label, policy in given.items()}
    for label, policy in _counted(log, missing).items():
        tables[label] = _table(log, policy, label)
    giver = MixtureGiver(ids, makers.shares, tuple(tables[label] for label in ids), apart)
    return log.giving(giver), bool(missing)


def makers_of(log: Log) -> Makers:
    """Who made the episodes of a log with ids."""
    makers: Makers = reduce_log(log.viewed(without=NOT_NEEDED), _makers)[0]
    return makers


def _makers(block: Block) -> list[Makers]:
    return [Makers.of(block)]


def _counted(log: Log, missing: tuple[Any, ...]) -> dict[Any, TabularPolicy]:
    """The old policies that were not given, each as the frequencies of its own episodes; takes a pass."""
    if not missing:
        return {}
    shape = log.n_states, log.n_actions
    require_table(*shape, "Old policies from counts: a table", len(missing))
    taken: KeyedSums = reduce_log(log.viewed(without=NOT_NEEDED), partial(_taken, missing, shape))[0]
    counts = np.zeros((len(missing) + 1) * shape[0] * shape[1])
    counts[taken.keys] = taken.sums[0]
    states, actions = list(log.state_labels), list(log.action_labels)
    return {
        label: TabularPolicy(frequencies(table), states=states, actions=actions)
        for label, table in zip(missing, counts.reshape(-1, *shape)[:-1], strict=True)
    }


def _taken(missing: tuple[Any, ...], shape: tuple[int, int], block: Block) -> list[KeyedSums]:
    """How often each action was taken in each state by each of these; all others are the last together."""
    others = len(missing)
    place = {label: j for j, label in enumerate(missing)}
    member = np.array([place.get(label, others) for label in ids_of(block)], dtype=np.int64)
    keys = member[:, None] * (shape[0] * shape[1]) + block.pairs(shape[1])
    return [KeyedSums.of(block.flat(keys), 1.0)]


def _table(log: Log, policy: Any, label: Any) -> Field:
    """An old policy in the order of the log's labels."""
    # Only this policy is looked at, so it does not matter whether there are propensities.
    labels = replace(log.labels, logged=frozenset({"propensities"}))
    with saying_which(label):
        table = understood(policy, log, "pi_e")
        if not isinstance(table, TabularPolicy):
            raise PolicyError(
                "pi_e must be a policy over states, because this log is read in parts.",
                fix="Give a table over states, or read the log into memory with deadweight.read.",
            )
        return pair_policies(labels, table, None).evaluation
