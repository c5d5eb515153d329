r"""Linear action values: the default where states are described by features.

.. math:: Q_t(x, a) = \phi(x) \cdot \theta_{a,t}, \qquad
   w_t = M^{-1} b + \gamma K^{-1} C \, w_{t+1}, \qquad w_T = 0

with phi the features and bumps between and along them, transitions pooled over time, and the sums of
`deadweight.values.linear_sums`. If no episode was cut, w is what stays the same from step to step. With one
column for each state and a vanishing ridge this is the model that a table of counts makes.

Reference: Bradtke & Barto (1996), linear least-squares temporal differences.
"""

from __future__ import annotations

from functools import reduce
from typing import Literal

import numpy as np

from deadweight.basics.bumps import Bumps
from deadweight.basics.products import few_threads
from deadweight.errors import OptionError
from deadweight.typing import FloatArray
from deadweight.values.linear_influence import LinearValues
from deadweight.values.linear_model import Run, Solved, runs
from deadweight.values.linear_sums import CHUNK, LinearSums, LinearSystem, sums_by_fold
from deadweight.values.row_values import RowLearner, Rows, RowValues

MOST_RIDGES = 8
SIZE = 100


class LinearQ(RowLearner):
    """Action values that are linear in columns made of the features.

    Args:
      basis: "bumps" adds Gaussian bumps; "linear" does not.
      size: number of bumps. Half of them stand between the features, and the others, three to six, along
        each feature that has more than six values. With one feature, or with more than there are bumps for,
        all stand between.
      ridge: how many rows' worth the coefficients are held back by; 0 for not at all.
      seed: of the places of the bumps.

    Example:
      >>> import deadweight as dw
      >>> log = dw.Trajectories(None, [0, 1] * 20, [1.0, 3.0] * 20, range(41), features=np.zeros((40, 1)))
      >>> uniform = dw.RowPolicy(np.full((40, 2), 0.5))
      >>> round(dw.estimate("DM", log, uniform, uniform, model=dw.LinearQ(basis="linear", ridge=0)).value, 6)
      2.0
    """

    def __init__(
        self,
        basis: Literal["bumps", "linear"] = "bumps",
        size: int = SIZE,
        ridge: float = 1.0,
        seed: int = 0,
    ) -> None:
        if basis not in ("bumps", "linear"):
            raise OptionError(
                f"basis of LinearQ must be 'bumps' or 'linear'; found {basis!r}.",
                fix="For example LinearQ(basis='bumps').",
            )
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise OptionError(
                f"size of LinearQ must be a whole number of at least 1; found {size!r}.",
                fix="For example LinearQ(size=100).",
            )
        if isinstance(ridge, bool) or not (isinstance(ridge, int | float) and 0 <= ridge < np.inf):
            raise OptionError(
                f"ridge of LinearQ must be a number of at least 0; found {ridge!r}.",
                fix="For example LinearQ(ridge=1.0).",
            )
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise OptionError(
                f"seed of LinearQ must be a whole number of at least 0; found {seed!r}.",
                fix="For example LinearQ(seed=0).",
            )
        self.basis, self.size, self.ridge, self.seed = basis, int(size), float(ridge), int(seed)

    def __repr__(self) -> str:
        return f"LinearQ(basis={self.basis!r}, size={self.size}, ridge={self.ridge:g}, seed={self.seed})"

    @property
    def is_rich(self) -> bool:
        """Whether it can bend at least as much as the default."""
        return self.basis == "bumps" and self.size >= SIZE

    def fit(self, rows: Rows) -> RowValues:
        """One reading of the rows for the sums of all folds, another one for the values."""
        with few_threads(rows.n):
            return self._fit(rows)

    def _fit(self, rows: Rows) -> LinearValues:
        size = self.size if self.basis == "bumps" else 0
        basis = Bumps.fitted(rows.x[: rows.n], size, self.seed, along=True)
        own = sums_by_fold(rows, basis)
        everything = reduce(LinearSums.merge, own)
        whole = self._solved(rows, basis, everything)
        folds = [
            self._solved(rows, basis, reduce(LinearSums.merge, [one for j, one in enumerate(own) if j != k]))
            for k in range(rows.folds)
        ]
        q = np.zeros((len(rows.pi_e), rows.n_actions))
        for run in runs(rows, basis):
            model = folds[run.fold] if folds else whole
            q[rows.log.states[run.rows]] = model.q(run)
        models = (whole, *folds)
        return LinearValues(
            q=q,
            start=self._starts(rows, basis, whole),
            start_without=np.stack([self._starts(rows, basis, one) for one in folds]) if folds else None,
            flags=("model-unstable",) if any(model.system.ridge > self.ridge for model in models) else (),
            settled=all(model.settled for model in models),
            rows=rows,
            basis=basis,
            whole=whole,
            folds=tuple(folds),
            sums=everything,
        )

    def _starts(self, rows: Rows, basis: Bumps, model: Solved) -> FloatArray:
        """(episodes,) value of each first row in a model."""
        first = rows.log.offsets[:-1]
        found = np.empty(len(first))
        for lo in range(0, len(first), CHUNK):
            some = first[lo : lo + CHUNK]
            q = model.q(Run(0, 0, some, basis.of(rows.x[some])))
            found[lo : lo + CHUNK] = np.einsum("ia,ia->i", q, rows.probs[some])
        return found

    def _solved(self, rows: Rows, basis: Bumps, sums: LinearSums) -> Solved:
        """The model of some sums, with a ridge that keeps its values where they can be."""
        ridge = self.ridge
        for _ in range(MOST_RIDGES):
            model = Solved(rows, LinearSystem(sums, ridge))
            if model.is_stable(basis):
                break
            ridge = max(10.0 * ridge, 1e-3)
        return model
