"""Policies as tables, and the pair (pi_e, pi_b) that a question is about, aligned with a log.

A policy speaks its own labels or plain indices; `pair_policies` brings both policies into the index order
of the log once, so that everything behind it works on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.checks import check_log_probabilities
from deadweight.errors import DataError, EstimationError, PolicyError, first_few
from deadweight.labels import plain, positions
from deadweight.trajectories import Trajectories
from deadweight.typing import FloatArray, Labels

ROW_SUM_TOLERANCE = 1e-6


class TabularPolicy:
    """A policy as a table of probabilities.

    Args:
      probs: (S, A), one row a state, rows summing to 1.
      states, actions: labels of the rows and columns; without them row i is state index i.

    Example:
      >>> TabularPolicy([[0.2, 0.8], [1.0, 0.0]], actions=["wait", "treat"])
      TabularPolicy(2 states, 2 actions)
    """

    def __init__(
        self,
        probs: npt.ArrayLike,
        states: Sequence[Any] | None = None,
        actions: Sequence[Any] | None = None,
    ) -> None:
        table = _check_table(probs)
        self.state_labels = _check_labels(states, table.shape[0], "states")
        self.action_labels = _check_labels(actions, table.shape[1], "actions")
        self._check_rows(table)
        table.flags.writeable = False
        self.probs: FloatArray = table

    @property
    def n_states(self) -> int:
        """Number of rows."""
        return int(self.probs.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of columns."""
        return int(self.probs.shape[1])

    def __repr__(self) -> str:
        return f"TabularPolicy({self.n_states:,} states, {self.n_actions:,} actions)"

    def _check_rows(self, table: FloatArray) -> None:
        labels = range(len(table)) if self.state_labels is None else self.state_labels
        actions = range(table.shape[1]) if self.action_labels is None else self.action_labels
        bad = np.argwhere(~(table >= 0))
        if bad.size:
            s, a = (int(i) for i in bad[0])
            raise PolicyError(
                f"Probabilities must be numbers of at least 0; found {table[s, a]} in state "
                f"{plain(labels[s])}, action {plain(actions[a])}.",
                fix="Correct the table; each row is a distribution over actions.",
            )
        sums = table.sum(axis=1)
        off = np.flatnonzero(np.abs(sums - 1) > ROW_SUM_TOLERANCE)
        if off.size:
            raise PolicyError(
                f"Each row of a policy must sum to 1; state {plain(labels[off[0]])} sums to "
                f"{sums[off[0]]:.6g} ({off.size} of {len(sums)} rows are off).",
                fix="Normalise the rows, and check that rows are states and columns are actions.",
            )


def frequencies(counts: npt.NDArray[Any]) -> FloatArray:
    """Rows divided by their sums, uniform where a row is empty."""
    totals = counts.sum(axis=1, keepdims=True)
    shares: FloatArray = np.where(totals > 0, counts / np.where(totals > 0, totals, 1), 1.0 / counts.shape[1])
    return shares


@dataclass(frozen=True, eq=False)
class PolicyPair:
    """Evaluation and behaviour policy in the index order of a log.

    pi_e is None when the log's `target_probs` stand for it, pi_b when its `propensities` do. States and
    actions that only a policy knows follow those of the log.
    """

    pi_e: FloatArray | None  # (S, A)
    pi_b: FloatArray | None  # (S, A)
    state_labels: Labels
    action_labels: Labels

    @property
    def n_states(self) -> int:
        """States of the log and of the policies."""
        return len(self.state_labels)

    @property
    def n_actions(self) -> int:
        """Actions of the log and of the policies."""
        return len(self.action_labels)

    def require_pi_e(self, what: str) -> FloatArray:
        """pi_e of all actions, or an error that says why `what` needs it."""
        if self.pi_e is None:
            raise EstimationError(
                f"{what} needs the evaluation policy for all actions; found only the log's target_prob of the "
                "action taken.",
                fix="Pass pi_e as a TabularPolicy.",
            )
        return self.pi_e


def pair_policies(
    log: Trajectories, pi_e: TabularPolicy | npt.ArrayLike | None, pi_b: TabularPolicy | npt.ArrayLike | None
) -> PolicyPair:
    """Both policies aligned with the log, by labels where a policy has them, by index otherwise."""
    if pi_e is None and log.target_probs is None:
        raise DataError(
            "No evaluation policy: pi_e was not given and the log has no target_prob column.",
            fix="Pass pi_e=TabularPolicy(...), or log target_prob for each step.",
        )
    if pi_b is None and log.propensities is None:
        raise DataError(
            "No behaviour policy: pi_b was not given and the log has no behaviour_prob column.",
            fix="Pass pi_b=TabularPolicy(...), or pi_b=deadweight.estimate_behaviour(log).",
        )
    given = {
        name: _numbered_like(log, policy if isinstance(policy, TabularPolicy) else TabularPolicy(policy))
        for name, policy in (("pi_e", pi_e), ("pi_b", pi_b))
        if policy is not None
    }
    states = _union(log.state_labels, [p.state_labels for p in given.values()])
    actions = _union(log.action_labels, [p.action_labels for p in given.values()])
    # A policy without labels numbers its states itself and may know more of them than the log.
    states = _extended(states, max([p.n_states for p in given.values() if p.state_labels is None], default=0))
    actions = _extended(
        actions, max([p.n_actions for p in given.values() if p.action_labels is None], default=0)
    )
    tables = {name: _aligned(name, policy, log, states, actions) for name, policy in given.items()}
    return PolicyPair(tables.get("pi_e"), tables.get("pi_b"), states, actions)


def _numbered_like(log: Trajectories, policy: TabularPolicy) -> TabularPolicy:
    """The policy, with its row numbers as labels where the log's labels are numbers of a longer list.

    A short log of a large problem visits few of its states; their numbers are then encoded as sparse ids.
    A policy without labels that has a row for each of those numbers means the numbers.
    """

    def numbers(labels: Labels, size: int) -> list[int] | None:
        sparse = labels.dtype.kind in "iu" and len(labels) > 0 and len(labels) <= labels[-1] < size
        return list(range(size)) if sparse and labels[0] >= 0 else None

    states: Sequence[Any] | None = None if policy.state_labels is None else list(policy.state_labels)
    actions: Sequence[Any] | None = None if policy.action_labels is None else list(policy.action_labels)
    return TabularPolicy(
        policy.probs,
        numbers(log.state_labels, policy.n_states) if states is None else states,
        numbers(log.action_labels, policy.n_actions) if actions is None else actions,
    )


def _aligned(
    name: str, policy: TabularPolicy, log: Trajectories, states: Labels, actions: Labels
) -> FloatArray:
    """The table in the order of `states` and `actions`; uniform in states that it does not know."""
    rows = _rows_of(name, policy.state_labels, policy.n_states, states, log.state_labels, log.states, "state")
    columns = _rows_of(
        name, policy.action_labels, policy.n_actions, actions, log.action_labels, log.actions, "action"
    )
    table = np.zeros((len(states), len(actions)))
    known_rows, known_columns = np.flatnonzero(rows >= 0), np.flatnonzero(columns >= 0)
    table[np.ix_(known_rows, known_columns)] = policy.probs[np.ix_(rows[known_rows], columns[known_columns])]
    table[rows < 0] = 1.0 / len(actions)
    return table


def _rows_of(
    name: str,
    own: Labels | None,
    n_own: int,
    wanted: Labels,
    log_labels: Labels,
    log_codes: npt.NDArray[np.int64],
    what: str,
) -> npt.NDArray[np.int64]:
    """For each wanted label the policy's row (or column), -1 where it has none and needs none."""
    rows = np.arange(len(wanted)) if own is None else positions(own, wanted)
    rows = np.where(rows < n_own, rows, -1)
    if (rows[: len(log_labels)] < 0).any():
        used = np.bincount(log_codes, minlength=len(wanted)) > 0
        missing = [plain(wanted[i]) for i in np.flatnonzero(used & (rows < 0))]
        if missing:
            raise PolicyError(
                f"{name} has {n_own} {what}s and none for {what} {first_few(missing)}, which the log visits.",
                fix=f"Give {name} a row for every {what} of the log, or name its {what}s with {what}s=[...].",
            )
    return rows


def _union(base: Labels, others: Sequence[Labels | None]) -> Labels:
    """Labels of the log, then those that only a policy knows."""
    seen = {plain(label) for label in base}
    extra: list[Any] = []
    for labels in others:
        for label in [] if labels is None else labels:
            if plain(label) not in seen:
                seen.add(plain(label))
                extra.append(plain(label))
    return _appended(base, extra)


def _extended(labels: Labels, size: int) -> Labels:
    if size <= len(labels):
        return labels
    if labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels))):
        return np.arange(size)
    return _appended(labels, [f"#{i}" for i in range(len(labels), size)])


def _appended(base: Labels, extra: list[Any]) -> Labels:
    if not extra:
        return base
    whole = np.empty(len(base) + len(extra), dtype=object)
    whole[:] = [*(plain(label) for label in base), *extra]
    return whole


def _check_table(probs: npt.ArrayLike) -> FloatArray:
    try:
        table = np.array(getattr(probs, "probs", probs), dtype=np.float64)
    except (TypeError, ValueError):
        raise PolicyError("A policy must be an (S, A) table of numbers; found something else.") from None
    if table.ndim != 2 or 0 in table.shape:
        raise PolicyError(
            f"A policy must be a table of shape (states, actions); found shape {table.shape}.",
            fix="Stack one row of action probabilities for each state.",
        )
    check_log_probabilities(table.ravel(), "A policy", PolicyError)
    return table


def _check_labels(labels: Sequence[Any] | None, size: int, what: str) -> Labels | None:
    if labels is None:
        return None
    own = [plain(label) for label in labels]
    if len(own) != size or len(set(own)) != size:
        raise PolicyError(
            f"{what} must name each of the {size} {what} of the table once; found {len(own)} names, "
            f"{len(set(own))} of them different.",
            fix=f"Pass one label for each of the {size} {what}.",
        )
    column = np.empty(size, dtype=object)
    column[:] = own
    return column
