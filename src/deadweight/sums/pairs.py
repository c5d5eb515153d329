"""The pair (pi_e, pi_b) that a question is about, in the index order of a log.

A policy speaks its own labels or plain row numbers; `pair_policies` brings both policies into the index order
of the log's labels once, so that everything behind it works on arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import DataError, PolicyError, did_you_mean, first_few, how_many
from deadweight.log.interface import InMemory, LogLabels, in_memory
from deadweight.log.labels import Labelled, in_the_words_of, objects, plain, positions
from deadweight.log.policies import RowPolicy, TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Field, Logged, Table, table_of
from deadweight.tools.limits import require_table
from deadweight.typing import BoolArray, FloatArray, IntArray, Labels


def quotient(pi_e: FloatArray, pi_b: FloatArray) -> FloatArray:
    """pi_e / pi_b, NaN where pi_b = 0: that is never logged (`refuse_unsupported`), and NaN shows it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(pi_b > 0, pi_e / pi_b, np.nan)


@dataclass(frozen=True, eq=False)
class PolicyPair(Labelled):
    """Evaluation and behaviour policy in the index order of a log.

    pi_e is None when the log's `target_probs` stand for it, pi_b when its `propensities` do. States and
    actions that only a policy knows follow those of the log.
    """

    pi_e: FloatArray | None  # (S, A)
    pi_b: FloatArray | None  # (S, A)
    state_labels: Labels
    action_labels: Labels

    @cached_property
    def evaluation(self) -> Field:
        """pi_e of the action taken at each step."""
        return Logged("target_probs") if self.pi_e is None else Table(self.pi_e, by_action=True)

    @cached_property
    def behaviour(self) -> Field:
        """pi_b of the action taken at each step."""
        return Logged("propensities") if self.pi_b is None else Table(self.pi_b, by_action=True)

    @cached_property
    def ratios(self) -> FloatArray | None:
        """(S, A) pi_e / pi_b, once for all drops; None where one of them is known of logged actions only."""
        return None if self.pi_e is None or self.pi_b is None else quotient(self.pi_e, self.pi_b)

    def require_pi_e(self, what: str) -> FloatArray:
        """pi_e of all actions, or an error that says why `what` needs it."""
        need = f"{what} needs the evaluation policy for all actions"
        return table_of(self.evaluation, need, "Pass pi_e as a TabularPolicy.")


def pair_policies(
    log: LogLabels, pi_e: TabularPolicy | npt.ArrayLike | None, pi_b: TabularPolicy | npt.ArrayLike | None
) -> PolicyPair:
    """Both policies aligned with a log, by labels where a policy has them, by index otherwise."""
    _refuse_missing(log, pi_e, pi_b)
    given = {
        name: _read(policy if isinstance(policy, TabularPolicy) else TabularPolicy(policy), log)
        for name, policy in (("pi_e", pi_e), ("pi_b", pi_b))
        if policy is not None
    }
    return _pair(given, log)


def pair_rows(
    log: Trajectories, pi_e: TabularPolicy | RowPolicy | None, pi_b: TabularPolicy | RowPolicy | None
) -> tuple[InMemory, PolicyPair]:
    """The log with each row as a state of its own, and both policies aligned with that.

    A table over labelled states is spread out over the rows. What follows a cut episode is known where
    features say so and pi_e says what it would do there.
    """
    labels = in_memory(log).labels
    _refuse_missing(labels, pi_e, pi_b, counted=log.has_states)
    spread = {
        name: _over_rows(name, policy, log)
        for name, policy in (("pi_e", pi_e), ("pi_b", pi_b))
        if policy is not None
    }
    known = np.zeros(log.n_episodes, dtype=bool)
    if log.last_features is not None and "pi_e" in spread:
        known = np.isfinite(log.last_features).all(axis=1) & spread["pi_e"].known_last(log.n_episodes)
    by_row = in_memory(log.by_row(known))
    given = {
        name: _Table(
            _with_last(policy, log.n_episodes),
            None,
            _matched(policy.action_labels, policy.n_actions, labels.actions, "action"),
            policy.action_labels is not None,
        )
        for name, policy in spread.items()
    }
    return by_row, _pair(given, by_row.labels)


def _over_rows(name: str, policy: TabularPolicy | RowPolicy, log: Trajectories) -> RowPolicy:
    """A policy for the steps of a log, in their order; one row by row is in that order already."""
    if isinstance(policy, RowPolicy):
        numbered = log.action_labels.dtype.kind in "iu"  # then a further column is an action never logged
        if policy.action_labels is None and policy.n_actions != log.n_actions and not numbered:
            raise PolicyError(
                f"The log has {how_many(log.n_actions, 'action')}, and {name} has "
                f"{how_many(policy.n_actions, 'column')} without names.",
                fix="Name its columns: RowPolicy(probs, actions=[...]).",
            )
        return policy
    if not log.has_states:
        raise PolicyError(
            f"{name} is a table over states, and the states of this log have no labels.",
            fix="Pass a function of features (FeaturePolicy), a classifier with predict_proba, or "
            "probabilities for each row: RowPolicy(probs).",
        )
    labels = in_memory(log).labels
    pair = _pair({name: _read(policy, labels)}, labels)
    table: FloatArray = getattr(pair, name)
    last = np.where((log._last_successor >= 0)[:, None], table[log._last_successor], np.nan)
    return RowPolicy(table[log.states], list(pair.action_labels), last)


def _with_last(policy: RowPolicy, n_episodes: int) -> FloatArray:
    """(steps + n, A) the rows, then what follows each episode; uniform where it is unknown."""
    last: FloatArray = np.full((n_episodes, policy.n_actions), 1.0 / policy.n_actions)
    if policy.last is not None:
        last = np.where(np.isnan(policy.last), last, policy.last)
    return np.concatenate([policy.probs, last])


def _refuse_missing(log: LogLabels, pi_e: object, pi_b: object, counted: bool = True) -> None:
    """Refuse a question without a policy that neither the user nor the log gives.

    `counted`: states have labels, so that the old policy can be counted.
    """
    if pi_e is None and "target_probs" not in log.logged:
        raise DataError(
            "There is no new policy: none was given, and the log has no column target_prob.",
            fix="Give one: --target policy.csv (in Python pi_e=TabularPolicy(...)), or log target_prob for "
            "each step.",
        )
    if pi_b is None and "propensities" not in log.logged:
        raise DataError(
            "No behaviour policy: pi_b was not given and the log has no behaviour_prob column.",
            fix="Pass pi_b=TabularPolicy(...), or pi_b=deadweight.estimate_behaviour(log)."
            if counted
            else "Have it learned: pi_b=deadweight.fit_behaviour(log), --behaviour learned.",
        )


def _pair(given: Mapping[str, _Table], log: LogLabels) -> PolicyPair:
    states = _all_labels(log.states, [(t.states, t.probs.shape[0]) for t in given.values()])
    actions = _all_labels(log.actions, [(t.actions, t.probs.shape[1]) for t in given.values()])
    if given:
        require_table(len(states), len(actions), "Log and policies together: a table")
    tables = {name: _aligned(name, table, log, states, actions) for name, table in given.items()}
    _refuse_different_widths(given)
    if "pi_e" in given and given["pi_e"].names_actions:
        _refuse_strangers(tables["pi_e"], tables.get("pi_b"), log, actions)
    return PolicyPair(tables.get("pi_e"), tables.get("pi_b"), states, actions)


@dataclass(frozen=True, eq=False)
class _Table:
    """A policy's probabilities, with the labels by which they are matched; None: by number.

    `names_actions` where the policy says what its actions are: then one that it leaves out has probability 0.
    """

    probs: FloatArray
    states: Labels | None
    actions: Labels | None
    names_actions: bool


def _read(policy: TabularPolicy, log: LogLabels) -> _Table:
    n_states, n_actions = policy.probs.shape
    states = _matched(policy.state_labels, n_states, log.states, "state")
    actions = _matched(policy.action_labels, n_actions, log.actions, "action")
    return _Table(policy.probs, states, actions, policy.action_labels is not None)


def _matched(named: Labels | None, size: int, logged: Labels, what: str) -> Labels | None:
    """A policy's labels in the log's types, matched as they are written; None where row numbers do."""
    named = _matching_labels(named, size, logged)
    if named is None or named.dtype.kind in "iu":
        return named
    kinds = {isinstance(label, str) for labels in (named, logged) for label in labels[:1]}
    if len(kinds) == 1 and len({type(plain(label)) for label in named}) == 1:
        return named
    moved = in_the_words_of(logged, named)
    if len(set(moved)) < len(moved):
        twice = next(label for i, label in enumerate(moved) if label in set(moved[:i]))
        raise PolicyError(
            f"A policy must name every {what} once; it has the log's {what} {twice!r} twice, as a number and "
            "as text.",
            fix=f"Keep one of them, or write the {what}s of both in one type.",
        )
    return moved


def _refuse_different_widths(given: Mapping[str, _Table]) -> None:
    """Columns without names mean the same actions in both policies, so there must be as many."""
    bare = [table.probs.shape for table in given.values() if not table.names_actions]
    if len({columns for _, columns in bare}) > 1:
        raise PolicyError(
            f"pi_e and pi_b must have the same actions; found tables of shape {bare[0]} and {bare[1]}, whose "
            "columns have no names.",
            fix="Give both a column for every action (0 where it is never taken), or name the columns: "
            "TabularPolicy(table, actions=[...]).",
        )


def _refuse_strangers(pi_e: FloatArray, pi_b: FloatArray | None, log: LogLabels, actions: Labels) -> None:
    """Refuse a policy all of whose actions are unknown to the log and to the old policy: misspelt, or new."""
    logged = len(log.actions)
    if not pi_e[:, logged:].any() or (pi_b is not None and pi_b[:, logged:].any()):
        return
    visited = log.visited()[0]
    taken = pi_e[: len(visited)][visited]
    if not taken[:, :logged].any():
        raise _strangers("pi_e", [actions[j] for j in range(logged, len(actions))], log)


def _strangers(name: str, named: Sequence[Any], log: LogLabels) -> PolicyError:
    taken, logged = ([plain(label) for label in labels] for labels in (named, log.actions))
    spelt = isinstance(logged[0], str) != isinstance(taken[0], str)
    return PolicyError(
        f"{name} takes only actions that the log has never seen: {first_few(taken)}. "
        f"Those of the log are {first_few(logged)}."
        + did_you_mean(str(taken[0]), [str(label) for label in logged])
        + (" Labels match as they are written: text is not a number." if spelt else ""),
        fix=f"Write the actions of {name} as in the log; if they are right, this log cannot tell its value.",
    )


def _matching_labels(named: Labels | None, size: int, logged: Labels) -> Labels | None:
    """The labels by which a policy is matched with a log; None where its row numbers do.

    A log whose labels are numbers is matched by number with a policy that only numbers its rows. A short log
    of a large problem visits few of its states, whose numbers are then encoded as sparse ids: a policy
    without labels that has a row for each of those numbers means the numbers.
    """
    if logged.dtype.kind not in "iu" or len(logged) == 0 or logged[0] < 0:
        return named
    dense = logged[-1] == len(logged) - 1
    if dense and named is not None and named[0] == 0 and np.array_equal(named, np.arange(size)):
        return None
    if not dense and named is None and logged[-1] < size:
        return np.arange(size)
    return named


def _aligned(name: str, table: _Table, log: LogLabels, states: Labels, actions: Labels) -> FloatArray:
    """The table in the order of `states` and `actions`; uniform in states that it does not know."""
    n_rows, n_columns = table.probs.shape
    if table.states is None and table.actions is None and table.probs.shape == (len(states), len(actions)):
        return table.probs
    rows = _rows_of(name, table.states, n_rows, states, log, "state")
    columns = _rows_of(name, table.actions, n_columns, actions, log, "action", table.names_actions)
    result = np.zeros((len(states), len(actions)))
    known_rows, known_columns = np.flatnonzero(rows >= 0), np.flatnonzero(columns >= 0)
    result[np.ix_(known_rows, known_columns)] = table.probs[np.ix_(rows[known_rows], columns[known_columns])]
    result[rows < 0] = 1.0 / len(actions)
    return result


def _rows_of(
    name: str,
    named: Labels | None,
    n_own: int,
    wanted: Labels,
    log: LogLabels,
    what: str,
    may_lack: bool = False,
) -> IntArray:
    """The policy's row (or column) of each wanted label, -1 where it has none and needs none.

    With `may_lack` it needs no more than one that the log has: without any, the labels are other ones.
    """
    rows = np.arange(len(wanted)) if named is None else positions(named, wanted)
    rows = np.where(rows < n_own, rows, -1)
    if (rows[: len(log.states if what == "state" else log.actions)] < 0).any():
        visited = log.visited()[0 if what == "state" else 1]
        used: BoolArray = np.zeros(len(wanted), dtype=bool)
        used[: len(visited)] = visited
        missing = [plain(wanted[i]) for i in np.flatnonzero(used & (rows < 0))]
        if missing and may_lack and named is not None and not (used & (rows >= 0)).any():
            raise _strangers(name, list(named), log)
        if missing and not may_lack:
            raise _lacking(name, named, n_own, missing, what)
    return rows


def _lacking(name: str, named: Labels | None, n_own: int, missing: Sequence[Any], what: str) -> PolicyError:
    """The error about a policy without a row (or column) for labels that the log has."""
    spelt = named is not None and isinstance(missing[0], str) and not isinstance(plain(named[0]), str)
    return PolicyError(
        f"{name} has {how_many(n_own, what)} and none for {what}{'s' if len(missing) > 1 else ''} "
        f"{first_few(missing)}, which the log "
        f"{'visits' if what == 'state' else 'has'}."
        + (f" Labels match as they are written: the log has text, {name} numbers." if spelt else ""),
        fix=f"Give {name} a {'row' if what == 'state' else 'column'} for every {what} of the log, or "
        f"name its {what}s with {what}s=[...].",
    )


def _all_labels(logged: Labels, policies: Sequence[tuple[Labels | None, int]]) -> Labels:
    """Labels of the log, then those that only a policy knows, or the numbers of its further rows."""
    seen: set[Any] = set()
    extra: list[Any] = []
    for labels, _ in policies:
        if labels is None:
            continue
        seen = seen or {plain(label) for label in logged}
        extra += [label for label in map(plain, labels) if label not in seen]
        seen.update(extra)
    labels = _appended(logged, extra)
    size = max([size for theirs, size in policies if theirs is None], default=0)
    if size <= len(labels):
        return labels
    if labels.dtype.kind in "iu" and labels[0] == 0 and labels[-1] == len(labels) - 1:
        return np.arange(size)
    return _appended(labels, [f"#{i}" for i in range(len(labels), size)])


def _appended(base: Labels, extra: list[Any]) -> Labels:
    if not extra:
        return base
    return objects([*(plain(label) for label in base), *extra])
