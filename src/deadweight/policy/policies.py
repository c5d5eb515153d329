"""Policies as tables of probabilities, one row a state, with labels of their own or plain row numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import PolicyError
from deadweight.log.checks import check_log_probabilities
from deadweight.log.labels import plain
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
