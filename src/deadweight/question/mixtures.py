r"""Several old policies as one: the propensities of their mixture.

A log that J policies have made, policy j a share alpha_j of its episodes, is a log of one policy that draws j
first and keeps to it. Seen from outside, that policy takes action a after the history h_t with probability

.. math:: b(a \mid h_t) = \sum_j p_j(h_t)\, \pi_j(a \mid s_t), \qquad
   p_j(h_t) \propto \alpha_j \prod_{u<t} \pi_j(a_u \mid s_u)

so that it is one column of propensities, with which every estimator works as it is, and its products are
those of the balance heuristic: prod_t b = sum_j alpha_j prod_t pi_j. Unlike the propensities of each
episode's own policy it does not need every old policy to do whatever the new one does: one of them is enough.

It takes all of them to have met one world. Where they have not, it would set what one world brought against
what another did: then each episode keeps the propensities of its own policy.

Reference: Veach and Guibas (1995), Optimally combining sampling techniques for Monte Carlo rendering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from deadweight.errors import DataError, PolicyError, SupportError, did_you_mean, first_few
from deadweight.log.behaviour import estimate_behaviour
from deadweight.log.interface import Log, in_memory, require_log
from deadweight.log.labels import plain
from deadweight.log.policies import TabularPolicy, frequencies
from deadweight.log.trajectories import Trajectories
from deadweight.question.understanding import paired, understood
from deadweight.sums.blocks import Block, Field
from deadweight.sums.old_policies import Makers, have_mixed_worlds, ids_of, members_of
from deadweight.sums.pairs import pair_policies
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import KeyedSums
from deadweight.tools.limits import require_table
from deadweight.typing import FloatArray, IntArray


def mixture_propensities(log: Trajectories, policies: Mapping[Any, Any]) -> FloatArray:
    """The probability of each logged action under the mixture of a log's old policies.

    Args:
      log: with `behaviour_ids`, one an episode.
      policies: the policy of each id; the policy of an id that is left out is counted from its own episodes.

    Returns:
      (steps,) probabilities in (0, 1], in the order of `log.actions`, for `log.with_propensities(...)`.
      Passing `pi_b=policies` to `estimate` and `evaluate` does that.

    Example:
      >>> log = Trajectories([0, 0], [0, 1], [1.0, 0.0], [0, 1, 2], behaviour_ids=["v1", "v2"])
      >>> mixture_propensities(log, {"v1": [[0.9, 0.1]], "v2": [[0.2, 0.8]]})
      array([0.55, 0.45])
    """
    return mixture_of(require_log(log), policies).propensities


@dataclass(frozen=True, eq=False)
class Mixture:
    """A log's old policies as one.

    Attributes:
      ids: of the old policies, in the order in which they occur.
      shares: (J,) of the episodes.
      propensities: (steps,) of the mixture, or of each episode's own policy.
      counted: ids whose policy was not given, and was counted from their episodes.
    """

    ids: tuple[Any, ...]
    shares: FloatArray
    propensities: FloatArray
    counted: tuple[Any, ...]


def mixture_of(log: Trajectories, policies: Mapping[Any, Any], apart: bool = False) -> Mixture:
    """The old policies of a log, each given or counted, as one; `apart`: each for its own episodes only."""
    if log.behaviour_ids is None:
        raise without_ids()
    ids = tuple(dict.fromkeys(log.behaviour_ids))
    member = members_of(log.behaviour_ids, ids)
    given = by_id(ids, policies)
    counted = tuple(label for label in ids if label not in given)
    if counted and not log.has_states:
        raise PolicyError(
            f"pi_b has no policy for {first_few(counted)}, and it cannot be counted: this log has features "
            "for states.",
            fix="Give one for every id; or learn one for all: pi_b=deadweight.fit_behaviour(log).",
        )
    shares = np.bincount(member, minlength=len(ids)) / log.n_episodes
    tables = [
        given[label] if label in given else estimate_behaviour(log.select(member == j))
        for j, label in enumerate(ids)
    ]
    probs = np.stack(
        [logged_probabilities(log, table, label) for label, table in zip(ids, tables, strict=True)]
    )
    refuse_impossible(log, ids, member, probs)
    mixed = own_propensities(log, probs, member) if apart else mixed_propensities(log, probs, shares)
    return Mixture(ids, shares, mixed, counted)


def without_ids() -> DataError:
    """The error of a log that lacks the ids."""
    return DataError(
        "Several old policies were given, and the log does not say which episodes each of them made.",
        fix="Add a column behaviour_id, or Trajectories(..., behaviour_ids=...): one id an episode.",
    )


def logged_probabilities(log: Trajectories, policy: Any, label: Any = None) -> FloatArray:
    """(steps,) the probability that a policy gives to each logged action; `label` names it in messages."""
    # Only this policy is looked at, so it does not matter what the propensities are.
    any_log = in_memory(log.with_propensities(np.ones(log.n_steps)))
    with saying_which(label):
        parts, pair = paired(any_log, policy, None)
    found: FloatArray = pair.evaluation.along(parts[0])
    return found


@contextmanager
def saying_which(label: Any) -> Iterator[None]:
    """Whatever is wrong with an old policy is said of this one."""
    try:
        yield
    except PolicyError as error:
        told = error.problem.replace("pi_e", "it")
        raise PolicyError(f"The old policy {plain(label)!r} does not fit: {told}", fix=error.fix) from None


def by_id(ids: tuple[Any, ...], policies: Mapping[Any, Any]) -> dict[Any, Any]:
    """Policies by the ids of the log; an id may be written as text."""
    written = {str(label): label for label in ids}
    found: dict[Any, Any] = {}
    said: dict[Any, Any] = {}  # how each id is written in the mapping
    for key, policy in policies.items():
        label = key if key in ids else written.get(str(key))
        if label is None:
            raise PolicyError(
                f"pi_b has a policy for {plain(key)!r}, which made no episode of the log."
                f"{did_you_mean(str(key), written)}",
                fix=f"The log's ids are {first_few(ids)}.",
            )
        if label in found:
            raise PolicyError(
                f"pi_b has a policy for the id {plain(label)!r} twice, as {plain(said[label])!r} and "
                f"{plain(key)!r}.",
                fix="Keep one of them: an id may be written as it is in the log, or as text.",
            )
        found[label], said[label] = policy, key
    return found


def refuse_impossible(log: Trajectories, ids: tuple[Any, ...], member: IntArray, probs: FloatArray) -> None:
    """An episode cannot hold an action that its own policy never takes."""
    own = own_propensities(log, probs, member)
    rows = np.flatnonzero(~(own > 0))
    if rows.size == 0:
        return
    row = int(rows[0])
    episode = int(np.searchsorted(log.offsets, row, side="right")) - 1
    raise SupportError(
        f"The old policy {plain(ids[member[episode]])!r} gives probability 0 to action "
        f"{plain(log.action_labels[log.actions[row]])!r} in state "
        f"{plain(log.state_labels[log.states[row]])!r}, which it took in {log.where(row)} "
        f"({rows.size:,} such steps).",
        fix="Correct that policy, or the ids; or leave it out of pi_b, and it is counted from its episodes.",
    )


def own_propensities(log: Trajectories, probs: FloatArray, member: IntArray) -> FloatArray:
    """(steps,) of the policy that made each episode, of (J, steps) of all."""
    found: FloatArray = probs[np.repeat(member, log.lengths), np.arange(log.n_steps)]
    return found


def mixed_propensities(log: Trajectories, probs: FloatArray, shares: FloatArray) -> FloatArray:
    """(steps,) of the mixture, step by step over all episodes that are still running.

    The share of each policy, given what has happened, is kept as a logarithm: one that has become tiny can
    grow again.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(probs)
    by_length = np.argsort(-log.lengths, kind="stable")
    starts, lengths = log.offsets[:-1][by_length], log.lengths[by_length]
    believed = np.repeat(np.log(shares)[:, None], log.n_episodes, axis=1)  # (J, n)
    mixed = np.empty(log.n_steps)
    for t in range(log.horizon):
        running = int(np.searchsorted(-lengths, -t, side="left"))
        rows = starts[:running] + t
        joint = believed[:, :running] + logs[:, rows]
        total = np.logaddexp.reduce(joint, axis=0)
        mixed[rows] = total
        believed = joint - total  # the next one: given this action as well
    return np.minimum(np.exp(mixed), 1.0)


# --------------------------------------------------------------------------------------------------------
# Several old policies of a log that is read in parts.
#
# The probabilities of a mixture depend on an episode's own steps, and on the whole log only by the shares of
# the old policies and the tables of those that are counted. One pass finds these; each part is then given the
# propensities of its steps whenever it is read.

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


# --------------------------------------------------------------------------------------------------------
# Whatever was given as pi_b as one behaviour policy: several old ones become the column of their mixture.


def is_mixture(pi_b: object, log: Log) -> bool:
    """Whether a behaviour policy is a mapping of ids to policies, and not one policy written as a mapping.

    One policy as a mapping gives each state an action, or the probabilities of actions. Where that leaves a
    doubt, the ids of the log decide; on a stored log they take a pass.
    """
    if not isinstance(pi_b, Mapping) or not pi_b:
        return False
    if all(_is_policy(one) for one in pi_b.values()):
        return True
    return log.has_behaviour_ids and any(key in _ids(log) for key in pi_b)


def _ids(log: Log) -> set[Any]:
    ids = log[0].behaviour_ids if log.has_rows else makers_of(log).ids
    return set() if ids is None else set(ids)


def _is_policy(value: Any) -> bool:
    """Whether this is no label of an action, and no probabilities of actions either."""
    return not (value is None or np.isscalar(value) or isinstance(value, Mapping | tuple))


def one_behaviour(log: Log, pi_b: Any) -> tuple[Log, Any, bool]:
    """Several old policies as one: the log with their mixture's propensities; whether any was counted.

    Where they worked under different conditions each episode has the propensities of its own.
    """
    if not is_mixture(pi_b, log):
        return log, pi_b, False
    apart = have_mixed_worlds(log)
    if not log.has_rows:
        given, counted = mixed(log, pi_b, apart)
        return given, None, counted
    mixture = mixture_of(log[0], pi_b, apart)
    return in_memory(log[0].with_propensities(mixture.propensities)), None, bool(mixture.counted)
