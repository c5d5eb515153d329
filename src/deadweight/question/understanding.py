r"""Policies as anything: what a user may pass as pi_e or pi_b, read as a table or as rows of probabilities.

| given | read as |
| --- | --- |
| `TabularPolicy`, (S, A) array | a table over states |
| dict: state -> action, or -> mapping of actions to probabilities | the same |
| table with columns state, action, prob | the same |
| function, on a log with states | called with each state label that occurs |
| function, on a log with features | called with (m, d) features |
| object with `predict_proba` and `classes_` | called with features, or with numeric state labels |
| `RowPolicy`, `FeaturePolicy` | probabilities for each row |
| on a log without labels: frame or array, a column for each action | the same |

Rows of which all that share a state are equal are a table, and nothing else depends on how it was written.

Several old policies are one: a log that J policies have made, policy j a share alpha_j of its episodes, is a
log of one policy that draws j first and keeps to it. Seen from outside, that policy takes action a after the
history h_t with probability

.. math:: b(a \mid h_t) = \sum_j p_j(h_t)\, \pi_j(a \mid s_t), \qquad
   p_j(h_t) \propto \alpha_j \prod_{u<t} \pi_j(a_u \mid s_u)

so that it is one column of propensities, with which every estimator works as it is, and its products are
those of the balance heuristic: prod_t b = sum_j alpha_j prod_t pi_j. Unlike the propensities of each
episode's own policy it does not need every old policy to do whatever the new one does: one of them is enough.
It takes all of them to have worked under the same conditions. Where they have not, it would set what one
brought against what another did: then each episode keeps the propensities of its own policy.

The mixture depends on an episode's own steps, and on the whole log only by the shares of the old policies and
the tables of those that are counted. Of a log that is read in parts one pass finds these; each part is then
given the propensities of its steps whenever it is read.

Reference: Veach and Guibas (1995), Optimally combining sampling techniques for Monte Carlo rendering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from deadweight.errors import DataError, PolicyError, SupportError, did_you_mean, first_few
from deadweight.log.behaviour import estimate_behaviour
from deadweight.log.interface import Log, LogLike, as_log, in_memory, require_log
from deadweight.log.labels import plain
from deadweight.log.policies import FeaturePolicy, RowPolicy, TabularPolicy, as_numpy, classes_of, frequencies
from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block, Field
from deadweight.sums.old_policies import Makers, have_mixed_worlds, ids_of, members_of
from deadweight.sums.pairs import PolicyPair, pair_policies, pair_rows
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import KeyedSums
from deadweight.tools.limits import require_table
from deadweight.typing import FloatArray, IntArray

Understood = TabularPolicy | RowPolicy
IDS = "behaviour_id"
# Columns that say neither who made an episode nor what it did.
NOT_NEEDED = ("behaviour_prob", "target_prob", "next_state", "duration")
FORMS = (
    "A policy is a TabularPolicy or (S, A) array, a dict from state to action or to {action: probability}, a "
    "table with columns state, action, prob, a function, an object with predict_proba and classes_, "
    "deadweight.RowPolicy(probs) or deadweight.FeaturePolicy(f)."
)


def policy(x: Any, log: LogLike) -> TabularPolicy | RowPolicy:
    """What is understood by a policy on a log; print it to see, and pass it on as pi_e or pi_b.

    Args:
      x: whatever may be passed as `pi_e` or `pi_b`.
      log: the log that it is for.

    Example:
      >>> log = Trajectories.from_episodes([[("ward", "wait", 0.0), ("icu", "treat", 1.0)]])
      >>> print(policy({"ward": "wait", "icu": {"treat": 0.9, "wait": 0.1}}, log))
      TabularPolicy(2 states, 2 actions), from a dict
        state 'ward': wait 1
        state 'icu': wait 0.1, treat 0.9
    """
    read = understood(x, as_log(log), "x")
    if read is None:
        raise PolicyError("Expected a policy; found None.", fix=FORMS)
    if isinstance(read, RowPolicy):
        read = x if isinstance(x, RowPolicy) else read.in_table_order()
    if read is not x:
        read.source = _described(x)
    return read


def understood(given: Any, log: Log, name: str) -> Understood | None:
    """A policy as a table, or as rows where it is none; None is the log's own: rows, or None for a column.

    Rows are those of the user's table as given, and in the order of the log's steps as understood.

    Args:
      given: by the user.
      log: the log that it is for.
      name: "pi_e" or "pi_b", for messages.
    """
    if given is None and log.has_rows:
        given = log[0]._policies.get(name)
    if given is None or isinstance(given, TabularPolicy):
        return given
    if isinstance(given, RowPolicy):
        return _table_or_rows(given, log, name)
    if isinstance(given, FeaturePolicy):
        return _table_or_rows(given.on(_in_one_piece(log, name)), log, name)
    if hasattr(given, "predict_proba"):
        return _of_classifier(given, log, name)
    if isinstance(given, Mapping) and not {"state", "action", "prob"} <= set(map(str, given)):
        if not given:
            raise PolicyError(f"{name} must be a policy; found an empty dict.", fix=FORMS)
        return _of_choices(given, name)
    if callable(given):
        return _of_function(given, log, name)
    if _is_frame_of_rows(given, log):
        return _table_or_rows(RowPolicy(given), log, name)
    if isinstance(given, Mapping) or _is_table(given):
        from deadweight.io.policy_files import read_policy

        return read_policy(given)
    return _of_array(given, log, name)


def paired(log: Log, pi_e: Any, pi_b: Any, by_row: bool = False) -> tuple[Log, PolicyPair]:
    """Both policies, as they were given, in the index order of a log, and the log that they go with.

    Policies row by row make each row of the log a state of its own, and so does `by_row`.
    """
    target, behaviour = understood(pi_e, log, "pi_e"), understood(pi_b, log, "pi_b")
    if isinstance(target, RowPolicy) or isinstance(behaviour, RowPolicy) or not log.has_states or by_row:
        return pair_rows(_in_one_piece(log), target, behaviour)
    return log, pair_policies(log.labels, target, behaviour)


def _of_array(given: Any, log: Log, name: str) -> Understood:
    if hasattr(given, "predict"):
        raise PolicyError(
            f"{name} is {_described(given)}, which has predict and no predict_proba: nobody says how surely "
            "it takes the actions that it predicts.",
            fix="If it always takes what it predicts, pass deadweight.FeaturePolicy(model.predict); if not, "
            "a classifier with predict_proba and classes_.",
        )
    if isinstance(given, str):
        raise PolicyError(
            f"{name} must be a policy; found the text {given!r}.",
            fix="From a file: deadweight.read_policy(path). An old policy counted from the log: "
            "deadweight.estimate_behaviour(log).",
        )
    if isinstance(given, bytes) or np.ndim(as_numpy(given)) != 2:
        raise PolicyError(f"{name} must be a policy; found {_described(given)}.", fix=FORMS)
    array = as_numpy(given)
    return TabularPolicy(array) if log.has_states else _table_or_rows(RowPolicy(array), log, name)


def _of_choices(choices: Mapping[Any, Any], name: str) -> TabularPolicy:
    """state -> action, or state -> {action: probability}; what is not mentioned has probability 0."""
    rows = {plain(state): _distribution(state, choice, name) for state, choice in choices.items()}
    actions = list(dict.fromkeys(action for row in rows.values() for action in row))
    table = np.zeros((len(rows), len(actions)))
    place = {action: column for column, action in enumerate(actions)}
    for number, row in enumerate(rows.values()):
        for action, probability in row.items():
            table[number, place[action]] = probability
    return TabularPolicy(table, states=list(rows), actions=actions)


def _distribution(state: Any, choice: Any, name: str) -> dict[Any, float]:
    """{action: probability} of one state."""
    if isinstance(choice, Mapping):
        try:
            return {plain(action): float(probability) for action, probability in choice.items()}
        except (TypeError, ValueError):
            raise PolicyError(
                f"{name} must give numbers as probabilities; in state {plain(state)!r} it gives {choice!r}.",
                fix="Write {action: probability, ...}.",
            ) from None
    if isinstance(choice, list | np.ndarray) or choice is None or choice != choice:
        raise PolicyError(
            f"{name} must give an action or {{action: probability}} for each state; for state "
            f"{plain(state)!r} it gives {choice!r}.",
            fix="Name the actions: {action: probability, ...}.",
        )
    return {plain(choice): 1.0}


def _of_function(given: Callable[[Any], Any], log: Log, name: str) -> Understood:
    """A function of one state label or, on a log without them, of features."""
    if not log.has_states:
        return _table_or_rows(FeaturePolicy(given).on(_in_one_piece(log, name)), log, name)
    choices = {}
    for label in _labels_that_occur(log):
        try:
            choices[label] = given(label)
        except Exception as error:
            raise PolicyError(
                f"{name} failed in state {label!r}: {type(error).__name__}: {error}.",
                fix="On a log with states a function is called with one state label, and returns an action "
                "or {action: probability}. For a function of features pass deadweight.FeaturePolicy(f).",
            ) from error
    return _of_choices(choices, name)


def _of_classifier(given: Any, log: Log, name: str) -> Understood:
    """An object with `predict_proba`, whose columns are its `classes_`."""
    actions = classes_of(given, name)
    if log.has_rows and log[0].features is not None:
        rows = FeaturePolicy(given.predict_proba, actions).on(_in_one_piece(log, name))
        return _table_or_rows(rows, log, name)
    labels = _labels_that_occur(log)
    try:
        column = np.array(labels, dtype=np.float64)[:, None]
    except (TypeError, ValueError):
        raise PolicyError(
            f"{name} is a classifier ({type(given).__name__}) and needs numbers; the states of this log are "
            f"labels such as {labels[0]!r}.",
            fix="Give the log features (Trajectories(..., features=X)), or pass a dict or a function from a "
            "state to its probabilities.",
        ) from None
    return TabularPolicy(as_numpy(given.predict_proba(column)), states=labels, actions=actions)


def _table_or_rows(given: RowPolicy, log: Log, name: str) -> Understood:
    """The table over states that the rows are, if they are one; else the rows in the order of the log."""
    if not log.has_rows:
        return given  # refused by whoever needs the rows
    rows = given.in_order_of(log[0], name)
    if not log.has_states:
        return rows
    states = log[0].states
    visited, first = np.unique(states, return_index=True)
    place: IntArray = np.zeros(log.n_states, dtype=np.int64)
    place[visited] = first
    if not np.array_equal(rows.probs, rows.probs[place[states]]):
        return rows
    labels = [plain(label) for label in log.state_labels[visited]]
    actions = log.action_labels if rows.action_labels is None else rows.action_labels
    if len(actions) != rows.n_actions:
        return rows
    return TabularPolicy(rows.probs[first], states=labels, actions=list(actions))


def _labels_that_occur(log: Log) -> list[Any]:
    """Labels of the states that are visited or follow a cut episode."""
    occur = log.labels.visited()[0].copy()
    if log.has_rows:
        after = log[0]._last_successor
        occur[after[after >= 0]] = True
    return [plain(label) for label in log.state_labels[: len(occur)][occur]]


def _in_one_piece(log: Log, name: str = "A policy") -> Trajectories:
    """The rows of a log, which a policy row by row needs."""
    if log.has_rows:
        return log[0]
    raise PolicyError(
        f"{name} gives probabilities row by row and needs a log in memory; this one is read in parts.",
        fix="Read the log into memory with deadweight.read, or pass a policy over states.",
    )


def _is_table(given: Any) -> bool:
    """Whether it is a data frame of some library, or a relation of a database."""
    return not isinstance(given, np.ndarray | str | bytes) and any(
        hasattr(given, name) for name in ("__narwhals_dataframe__", "columns", "column_names", "schema")
    )


def _is_frame_of_rows(given: Any, log: Log) -> bool:
    """Whether it is a frame of probabilities, a column for each action, for a log without labels."""
    names = getattr(given, "column_names", getattr(given, "columns", None))
    if log.has_states or names is None or callable(names) or not hasattr(given, "shape"):
        return False
    return not {"action", "prob"} & set(map(str, names))


def _described(given: Any) -> str:
    kind = type(given)
    if isinstance(given, np.ndarray):
        return f"an array of shape {given.shape}"
    article = "an" if kind.__name__[0].lower() in "aeiou" else "a"
    return f"{article} {kind.__name__}"


# --- Several old policies as one


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
    return _mixed_in_memory(require_log(log), policies)[0]


def _mixed_in_memory(
    log: Trajectories, policies: Mapping[Any, Any], apart: bool = False
) -> tuple[FloatArray, bool]:
    """(steps,) propensities of a log's old policies as one, and whether any of these was counted."""
    if log.behaviour_ids is None:
        raise _without_ids()
    ids = tuple(dict.fromkeys(log.behaviour_ids))
    member, given = members_of(log.behaviour_ids, ids), _by_id(ids, policies)
    counted = tuple(label for label in ids if label not in given)
    if counted and not log.has_states:
        raise PolicyError(
            f"pi_b has no policy for {first_few(counted)}, and it cannot be counted: this log has features "
            "for states.",
            fix="Give one for every id; or learn one for all: pi_b=deadweight.fit_behaviour(log).",
        )
    # Only one old policy at a time is looked at, so it does not matter what the propensities are.
    any_log, probs = in_memory(log.with_propensities(np.ones(log.n_steps))), []
    for j, label in enumerate(ids):
        policy = given[label] if label in given else estimate_behaviour(log.select(member == j))
        with _naming(label):
            parts, pair = paired(any_log, policy, None)
        probs.append(pair.evaluation.along(parts[0]))
    shares = np.bincount(member, minlength=len(ids)) / log.n_episodes
    return _propensities(log, ids, np.stack(probs), shares, apart), bool(counted)


def _without_ids() -> DataError:
    return DataError(
        "Several old policies were given, and the log does not say which episodes each of them made.",
        fix="Add a column behaviour_id, or Trajectories(..., behaviour_ids=...): one id an episode.",
    )


@contextmanager
def _naming(label: Any) -> Iterator[None]:
    """Errors of a policy, reported as those of the old policy with this id."""
    try:
        yield
    except PolicyError as error:
        told = error.problem.replace("pi_e", "it")
        raise PolicyError(f"The old policy {plain(label)!r} does not fit: {told}", fix=error.fix) from None


def _by_id(ids: tuple[Any, ...], policies: Mapping[Any, Any]) -> dict[Any, Any]:
    """Policies by the ids of the log; an id may be written as text."""
    written = {str(label): label for label in ids}
    known: dict[Any, Any] = {}
    said: dict[Any, Any] = {}  # how each id is written in the mapping
    for key, policy in policies.items():
        label = key if key in ids else written.get(str(key))
        if label is None:
            raise PolicyError(
                f"pi_b has a policy for {plain(key)!r}, which made no episode of the log."
                f"{did_you_mean(str(key), written)}",
                fix=f"The log's ids are {first_few(ids)}.",
            )
        if label in known:
            raise PolicyError(
                f"pi_b has a policy for the id {plain(label)!r} twice, as {plain(said[label])!r} and "
                f"{plain(key)!r}.",
                fix="Keep one of them: an id may be written as it is in the log, or as text.",
            )
        known[label], said[label] = policy, key
    return known


def _propensities(
    log: Trajectories, ids: tuple[Any, ...], probs: FloatArray, shares: FloatArray, apart: bool
) -> FloatArray:
    """(steps,) of the mixture or, `apart`, of each episode's own policy, from (J, steps) of all policies."""
    assert log.behaviour_ids is not None
    member = members_of(log.behaviour_ids, ids)
    logged = probs[np.repeat(member, log.lengths), np.arange(log.n_steps)]
    impossible = np.flatnonzero(~(logged > 0))
    if impossible.size:
        row = int(impossible[0])
        episode = int(np.searchsorted(log.offsets, row, side="right")) - 1
        raise SupportError(
            f"The old policy {plain(ids[member[episode]])!r} gives probability 0 to action "
            f"{plain(log.action_labels[log.actions[row]])!r} in state "
            f"{plain(log.state_labels[log.states[row]])!r}, which it took in {log.where(row)} "
            f"({impossible.size:,} such steps).",
            fix="Correct that policy, or the ids; or leave it out of pi_b, and it is counted from its "
            "episodes.",
        )
    return logged if apart else _of_mixture(log, probs, shares)


def _of_mixture(log: Trajectories, probs: FloatArray, shares: FloatArray) -> FloatArray:
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


@dataclass(frozen=True, eq=False)
class MixtureGiver:
    """Gives the steps of a part the propensities of a mixture."""

    ids: tuple[Any, ...]  # of the old policies
    shares: FloatArray  # (J,) of the episodes
    tables: tuple[Field, ...]  # (J,) the old policies, in the order of the log's labels
    apart: bool  # each for its own episodes only
    needs: tuple[str, ...] = (IDS,)

    def given_to(self, part: int, pieces: Sequence[Trajectories]) -> list[Trajectories]:
        """The pieces of a part with the propensities of their steps."""
        return [log.with_propensities(self._of(log)) for log in pieces]

    def _of(self, log: Trajectories) -> FloatArray:
        probs = np.stack([table.along(log) for table in self.tables])
        return _propensities(log, self.ids, probs, self.shares, self.apart)


def _mixed_in_parts(log: Log, policies: Mapping[Any, Any], apart: bool) -> tuple[Log, bool]:
    """The log with the propensities of its old policies as one, and whether any of these was counted."""
    if not log.has_behaviour_ids:
        raise _without_ids()
    makers = _makers_of(log)
    given = _by_id(makers.ids, policies)
    missing = tuple(label for label in makers.ids if label not in given)
    tables = {label: _table(log, policy, label) for label, policy in given.items()}
    tables |= {label: _table(log, policy, label) for label, policy in _counted(log, missing).items()}
    in_order = tuple(tables[label] for label in makers.ids)
    return log.giving(MixtureGiver(makers.ids, makers.shares, in_order, apart)), bool(missing)


def _makers_of(log: Log) -> Makers:
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
    with _naming(label):
        table = understood(policy, log, "pi_e")
        if not isinstance(table, TabularPolicy):
            raise PolicyError(
                "pi_e must be a policy over states, because this log is read in parts.",
                fix="Give a table over states, or read the log into memory with deadweight.read.",
            )
        return pair_policies(labels, table, None).evaluation


def one_behaviour(log: Log, pi_b: Any) -> tuple[Log, Any, bool]:
    """Several old policies as one: the log with their mixture's propensities; whether any was counted.

    Where they worked under different conditions each episode has the propensities of its own.
    """
    if not _is_mixture(pi_b, log):
        return log, pi_b, False
    apart = have_mixed_worlds(log)
    if not log.has_rows:
        given, counted = _mixed_in_parts(log, pi_b, apart)
        return given, None, counted
    propensities, counted = _mixed_in_memory(log[0], pi_b, apart)
    return in_memory(log[0].with_propensities(propensities)), None, counted


def _is_mixture(pi_b: object, log: Log) -> bool:
    """Whether a behaviour policy is a mapping of ids to policies, and not one policy written as a mapping.

    One policy as a mapping gives each state an action, or the probabilities of actions. Where that leaves a
    doubt, the ids of the log decide; on a stored log they take a pass.
    """
    if not isinstance(pi_b, Mapping) or not pi_b:
        return False
    labels_or_probabilities = (Mapping, tuple, type(None))
    if not any(np.isscalar(x) or isinstance(x, labels_or_probabilities) for x in pi_b.values()):
        return True
    if not log.has_behaviour_ids:
        return False
    ids = log[0].behaviour_ids if log.has_rows else _makers_of(log).ids
    return ids is not None and any(key in set(ids) for key in pi_b)
