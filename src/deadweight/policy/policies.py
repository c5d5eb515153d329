"""Policies as tables of probabilities, one row a state, with labels of their own or plain row numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.basics.arithmetic import frozen, unmasked
from deadweight.errors import PolicyError
from deadweight.log.checks import check_log_probabilities
from deadweight.log.labels import plain
from deadweight.typing import FloatArray, Labels

ROW_SUM_TOLERANCE = 1e-6
PER_CENT = 100.0
# Rows that are printed.
SHOWN = 5


class TabularPolicy:
    """A policy as a table of probabilities.

    Args:
      probs: (S, A), one row a state, rows summing to 1.
      states, actions: labels of the rows and columns; without them row i is state index i.
      trained_on: fingerprint of the log that the policy was learnt from, by which an evaluation on that same
        log can tell; `deadweight.improve` sets it.

    Example:
      >>> TabularPolicy([[0.2, 0.8], [1.0, 0.0]], actions=["wait", "treat"])
      TabularPolicy(2 states, 2 actions)
    """

    def __init__(
        self,
        probs: npt.ArrayLike,
        states: Sequence[Any] | None = None,
        actions: Sequence[Any] | None = None,
        trained_on: str | None = None,
    ) -> None:
        table = check_table(probs)
        self.state_labels = check_names(states, table.shape[0], "states")
        self.action_labels = check_names(actions, table.shape[1], "actions")
        labels = range(len(table)) if self.state_labels is None else self.state_labels
        check_distributions(table, lambda row: f"state {plain(labels[row])}", self.action_labels)
        table.flags.writeable = False
        self.probs: FloatArray = table
        self.source: str | None = None
        self.trained_on = trained_on

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

    def __str__(self) -> str:
        labels = range(self.n_states) if self.state_labels is None else self.state_labels
        names = [f"state {plain(label)!r}" for label in labels[:SHOWN]]
        return shown(self, names, self.probs, self.action_labels, self.source)


def shown(
    policy: object, names: Sequence[str], probs: FloatArray, actions: Labels | None, source: str | None
) -> str:
    """The first rows of a policy, without actions that it does not take, and where it comes from."""
    labels = range(probs.shape[1]) if actions is None else [plain(label) for label in actions]
    lines = [f"{policy!r}" + (f", from {source}" if source else "")]
    for name, row in zip(names, probs, strict=False):
        taken = [f"{label} {p:.4g}" for label, p in zip(labels, row, strict=True) if p > 0]
        lines.append(f"  {name}: {', '.join(taken)}")
    return "\n".join(lines + (["  ..."] if len(probs) > len(names) else []))


def check_distributions(table: FloatArray, where: Callable[[int], str], actions: Labels | None) -> None:
    """Refuse a table in which a row is no distribution over actions; `where` says what a row is."""
    fine = (table >= 0) & (table < np.inf)
    if not fine.all():
        row, column = (int(i) for i in np.argwhere(~fine)[0])
        action = column if actions is None else plain(actions[column])
        raise PolicyError(
            f"Probabilities must be finite numbers of at least 0; found {table[row, column]} in "
            f"{where(row)}, action {action}.",
            fix="Correct the table; each row is a distribution over actions.",
        )
    sums = table.sum(axis=1)
    within = np.abs(sums - 1) <= ROW_SUM_TOLERANCE
    if not within.all():
        off = np.flatnonzero(~within)
        raise PolicyError(
            f"Each row of a policy must sum to 1; {where(int(off[0]))} sums to "
            f"{sums[off[0]]:.6g} ({off.size} of {len(sums)} rows are off).",
            fix="They look like percentages: divide them by 100."
            if (np.abs(sums - PER_CENT) <= PER_CENT * ROW_SUM_TOLERANCE).all()
            else "Make the probabilities of every state (a row of an array) sum to 1.",
        )


def frequencies(counts: npt.NDArray[Any]) -> FloatArray:
    """Rows divided by their sums, uniform where a row is empty."""
    totals = counts.sum(axis=1, keepdims=True)
    shares: FloatArray = np.where(totals > 0, counts / np.where(totals > 0, totals, 1), 1.0 / counts.shape[1])
    return shares


def check_table(probs: npt.ArrayLike) -> FloatArray:
    """The table as numbers; an error where it is none, or one of log-probabilities."""
    try:
        given = np.asarray(unmasked(getattr(probs, "probs", probs)))
        if np.iscomplexobj(given):
            raise TypeError("complex numbers are no probabilities")
        table = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise PolicyError(
            "A policy must be an (S, A) table of numbers; found something else.",
            fix="For example [[0.5, 0.5], [0.2, 0.8]]: two states, two actions.",
        ) from None
    if table.ndim != 2 or 0 in table.shape:
        raise PolicyError(
            f"A policy must be a table of shape (states, actions); found shape {table.shape}.",
            fix="Stack one row of action probabilities for each state.",
        )
    check_log_probabilities(table.ravel(), "A policy", PolicyError)
    return table


def check_names(labels: Sequence[Any] | None, size: int, what: str) -> Labels | None:
    """One label for each row or column, none twice."""
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
    named: Labels = frozen(column)
    return named
