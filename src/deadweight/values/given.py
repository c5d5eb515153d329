"""Action values that somebody else has made."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deadweight.basics.arithmetic import frozen, unmasked
from deadweight.errors import OptionError
from deadweight.log.table_rows import places
from deadweight.typing import FloatArray
from deadweight.values.row_values import RowLearner, Rows, RowValues


class GivenQ(RowLearner):
    """Action values for the rows of one log, such as those of a network.

    They are taken as known: no episode moves them, and standard errors do not allow for how they were made.
    Make them from other episodes than those of the log.

    Args:
      q: (steps, A) value of each action at each row: rows in the order of the table that the log was read
        from, as for `RowPolicy`, columns in the order of the log's actions.
      last: (n, A) the same for what follows each episode, a row of NaN where nobody knows; nothing needs
        it so far.

    Example:
      >>> import deadweight as dw
      >>> log = dw.Trajectories(None, [0, 1], [1.0, 3.0], [0, 1, 2], features=[[0.0], [1.0]])
      >>> uniform = dw.RowPolicy([[0.5, 0.5], [0.5, 0.5]])
      >>> dw.estimate("DM", log, uniform, uniform, model=dw.GivenQ([[1.0, 2.0], [2.0, 3.0]])).value
      2.0
    """

    def __init__(self, q: npt.ArrayLike, last: npt.ArrayLike | None = None) -> None:
        self.q = _checked(q, "q")
        self.last = None if last is None else _checked(last, "last", may_be_unknown=True)

    def fit(self, rows: Rows) -> RowValues:
        """The values as they are."""
        own = self._in_order_of(rows)
        q = np.zeros((len(rows.pi_e), rows.n_actions))
        q[rows.log.states] = own
        first = rows.log.offsets[:-1]
        start = np.einsum("ia,ia->i", own[first], rows.probs[first])
        return RowValues(q=q, start=start)

    def _in_order_of(self, rows: Rows) -> FloatArray:
        """(steps, A) the values of a log's steps; an error where they do not fit."""
        table = rows.log.order_of_rows
        at = places(table.rows, table.n_rows, len(self.q))
        if at is None or self.q.shape[1] != rows.n_actions:
            whole = f" (or one for each of the {table.n_rows} rows of the table)"
            raise OptionError(
                f"q of GivenQ must have a row for each step and a column for each action, "
                f"{(rows.n, rows.n_actions)}{whole if table.n_rows != rows.n else ''}; found {self.q.shape}.",
                fix="Give the values of all actions in the order of log.action_labels, then of those that "
                "only a policy has.",
            )
        n = rows.log.n_episodes
        if self.last is not None and self.last.shape not in (
            (n, rows.n_actions),
            (table.n_episodes, rows.n_actions),
        ):
            raise OptionError(
                f"last of GivenQ must have the shape {(n, rows.n_actions)}; found {self.last.shape}.",
                fix="One row for each episode: what follows its last step, a row of NaN where nobody knows.",
            )
        return self.q[at]

    def __repr__(self) -> str:
        return f"GivenQ({self.q.shape[0]:,} rows, {self.q.shape[1]:,} actions)"


def _checked(values: npt.ArrayLike, name: str, may_be_unknown: bool = False) -> FloatArray:
    try:
        given = np.asarray(unmasked(values))
        if np.iscomplexobj(given):
            raise TypeError("no imaginary parts")
        table: FloatArray = frozen(given.astype(np.float64))
    except (TypeError, ValueError):
        raise OptionError(
            f"{name} of GivenQ must hold numbers; found something else.",
            fix="For example GivenQ([[0.5, 1.0], [0.2, 0.3]]) of two steps and two actions.",
        ) from None
    if table.ndim != 2:
        raise OptionError(
            f"{name} of GivenQ must be (rows, actions); found shape {table.shape}.",
            fix="For example GivenQ(q) with q of shape (steps, actions).",
        )
    fine = np.isfinite(table)
    if may_be_unknown:
        fine |= np.isnan(table).all(axis=1, keepdims=True)
    bad = np.argwhere(~fine)
    if bad.size:
        row, column = (int(i) for i in bad[0])
        raise OptionError(
            f"{name} of GivenQ must be finite; found {table[row, column]} in row {row}, column {column}.",
            fix="Replace what is missing or infinite: every row needs a value for each action.",
        )
    return table
