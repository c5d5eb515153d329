"""Policies as anything: what a user may pass as pi_e or pi_b, read as a table or as rows of probabilities.

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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from deadweight.errors import PolicyError
from deadweight.log.interface import Log, LogLike, as_log
from deadweight.log.labels import plain
from deadweight.log.policies import FeaturePolicy, RowPolicy, TabularPolicy, as_numpy, classes_of
from deadweight.log.trajectories import Trajectories
from deadweight.sums.pairs import PolicyPair, pair_policies, pair_rows
from deadweight.typing import IntArray

Understood = TabularPolicy | RowPolicy
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
    found = understood(x, as_log(log), "x")
    if found is None:
        raise PolicyError("Expected a policy; found None.", fix=FORMS)
    if isinstance(found, RowPolicy):
        found = x if isinstance(x, RowPolicy) else found.in_table_order()
    if found is not x:
        found.source = _described(x)
    return found


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
        return _table_or_rows(given.on(in_one_piece(log, name)), log, name)
    if hasattr(given, "predict_proba"):
        return _of_classifier(given, log, name)
    if isinstance(given, Mapping) and not {"state", "action", "prob"} <= set(map(str, given)):
        return _of_mapping(given, name)
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
        return pair_rows(in_one_piece(log), target, behaviour)
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


def _of_mapping(given: Mapping[Any, Any], name: str) -> TabularPolicy:
    """state -> action, or state -> {action: probability}; what is not mentioned has probability 0."""
    if not given:
        raise PolicyError(f"{name} must be a policy; found an empty dict.", fix=FORMS)
    return _of_choices(given, name)


def _of_choices(choices: Mapping[Any, Any], name: str) -> TabularPolicy:
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
        return _table_or_rows(FeaturePolicy(given).on(in_one_piece(log, name)), log, name)
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
    if _has_features(log):
        rows = FeaturePolicy(given.predict_proba, actions).on(in_one_piece(log, name))
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


def _has_features(log: Log) -> bool:
    return log.has_rows and log[0].features is not None


def in_one_piece(log: Log, name: str = "A policy") -> Trajectories:
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
