r"""Action values by any regressor: fitted Q evaluation.

.. math:: Q_t \leftarrow \text{fit of } r + \gamma \sum_{a'} \pi_e(a'|x') \, Q_{t+1}(x', a')
   \text{ on } (x, a)

step by step from the last one. Where no episode was cut it goes on until values change no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from deadweight.errors import EstimationError, OptionError
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.row_values import RowLearner, Rows, RowValues

# Without a horizon values settle; a change below this share of their spread is none.
MOST_ROUNDS, CHANGED = 50, 1e-3


class RegressorQ(RowLearner):
    """Action values by a regressor with `fit(X, y)` and `predict(X)`, such as those of scikit-learn.

    Columns are the features, and one of 0 and 1 for each action. It is fitted once for each step over which
    values are taken and for each fold; standard errors take it as known.

    Args:
      estimator: fitted copies are made of it; it stays as it is.

    Example:
      >>> import deadweight as dw
      >>> class Mean:
      ...     def fit(self, x, y):
      ...         self.mean = y.mean()
      ...     def predict(self, x):
      ...         return np.full(len(x), self.mean)
      >>> log = dw.Trajectories(None, [0, 1], [1.0, 3.0], [0, 1, 2], features=[[0.0], [1.0]])
      >>> uniform = dw.RowPolicy([[0.5, 0.5], [0.5, 0.5]])
      >>> dw.estimate("DM", log, uniform, uniform, model=dw.RegressorQ(Mean())).value
      2.0
    """

    def __init__(self, estimator: Any) -> None:
        is_class = isinstance(estimator, type)
        if is_class or not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            found = f"the class {estimator.__name__} itself" if is_class else type(estimator).__name__
            raise OptionError(
                f"RegressorQ needs an object with fit and predict; found {found}.",
                fix="Pass a regressor, such as sklearn.ensemble.ExtraTreesRegressor(min_samples_leaf=20).",
            )
        self.estimator = estimator

    def __repr__(self) -> str:
        return f"RegressorQ({self.estimator!r})"

    def fit(self, rows: Rows) -> RowValues:
        """Values of each fold from the rows of the others."""
        everything = np.ones(rows.n, dtype=bool)
        folds = [rows.fold != k for k in range(rows.folds)]
        whole, settled = self._values(rows, everything)
        start = _starts(rows, whole)
        if not folds:
            return RowValues(q=self._by_state(rows, whole), start=start, settled=settled)
        q, without = np.empty((rows.n, rows.n_actions)), []
        for k, seen in enumerate(folds):
            found, fine = self._values(rows, seen)
            settled &= fine
            q[rows.fold == k] = found[rows.fold == k]
            without.append(_starts(rows, found))
        return RowValues(
            q=self._by_state(rows, q), start=start, start_without=np.stack(without), settled=settled
        )

    def _by_state(self, rows: Rows, q: FloatArray) -> FloatArray:
        table = np.zeros((len(rows.pi_e), rows.n_actions))
        table[rows.log.states] = q
        return table

    def _values(self, rows: Rows, seen: BoolArray) -> tuple[FloatArray, bool]:
        """(n, A) values of all rows at their steps, fitted to those seen; whether they have settled."""
        columns = _columns(rows.x, rows.n_actions)
        now: FloatArray = np.zeros((len(rows.x), rows.n_actions))
        if rows.steps is None:
            for _ in range(MOST_ROUNDS):
                before, now = now, self._one_step_earlier(rows, columns, seen, now, 0)
                if float(np.abs(now - before).max()) <= CHANGED * float(np.ptp(now)):
                    return now[: rows.n], True
            return now[: rows.n], False
        q = np.zeros((rows.n, rows.n_actions))
        for t in range(rows.steps - 1, -1, -1):
            now = self._one_step_earlier(rows, columns, seen, now, t)
            q[rows.times == t] = now[: rows.n][rows.times == t]
        return q, True

    def _one_step_earlier(
        self, rows: Rows, columns: FloatArray, seen: BoolArray, later: FloatArray, t: int
    ) -> FloatArray:
        """(n + episodes, A) values at step t from those of the next step."""
        v = np.einsum("ia,ia->i", later, rows.probs)
        ahead = np.where(rows.following >= 0, v[rows.following], 0.0)
        # A row without a known successor has a reward only; it is used while no row has a value after it.
        some = seen & rows.known if ahead.any() else seen
        low, high = rows.limits(np.asarray(t))
        return np.clip(self._fitted(columns, rows, some, rows.log.rewards + rows.gamma * ahead), low, high)

    def _fitted(self, columns: FloatArray, rows: Rows, seen: BoolArray, target: FloatArray) -> FloatArray:
        """(n + episodes, A) predictions of a copy fitted to the rows seen."""
        model = deepcopy(self.estimator)
        chosen: IntArray = np.flatnonzero(seen)
        x = columns[chosen].copy()
        x[:, -rows.n_actions :] = np.eye(rows.n_actions)[rows.log.actions[chosen]]
        with _named(self, "fit"):
            model.fit(x, target[chosen])
        found = np.empty((len(columns), rows.n_actions))
        every = columns.copy()
        for action in range(rows.n_actions):
            every[:, -rows.n_actions :] = np.eye(rows.n_actions)[action]
            with _named(self, "predict"):
                found[:, action] = np.asarray(model.predict(every), dtype=np.float64).reshape(len(every))
        self._check(found[: rows.n])
        return found

    def _check(self, found: FloatArray) -> None:
        bad = np.argwhere(~np.isfinite(found))
        if bad.size:
            row, action = (int(i) for i in bad[0])
            raise EstimationError(
                f"{self!r} predicts {found[row, action]} for row {row}, action number {action}; values must "
                "be finite.",
                fix="See whether the regressor converges on these features; standardise them, or take "
                "another one.",
            )


@contextmanager
def _named(learner: RegressorQ, verb: str) -> Iterator[None]:
    """What a regressor of somebody else's raises, said to be its own."""
    try:
        yield
    except Exception as error:
        raise EstimationError(
            f"{learner!r} failed in {verb}: {type(error).__name__}: {str(error).rstrip('.')}.",
            fix="It is given a matrix of features and one column of 0 and 1 for each action, and a number to "
            "predict for each row; predict returns one number a row.",
        ) from error


def _columns(x: FloatArray, n_actions: int) -> FloatArray:
    """Features, and room for the action."""
    return np.concatenate([x, np.zeros((len(x), n_actions))], axis=1)


def _starts(rows: Rows, q: FloatArray) -> FloatArray:
    first = rows.log.offsets[:-1]
    found: FloatArray = np.einsum("ia,ia->i", q[first], rows.probs[first])
    return found
