"""Action values of pi_e in a model at every step of a log: what they are, and how they are solved for.

A model that settles has the same values at all steps; any other is solved backwards from its horizon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from deadweight.basics.memory import NUMBER, require
from deadweight.mdp.tabular import TabularMDP, backward
from deadweight.sums.fields import Field, Folds, Table
from deadweight.typing import FloatArray, IntArray
from deadweight.values.settling import Settled
from deadweight.values.until_end import UntilEnd

F = TypeVar("F", bound=Field, covariant=True)


@dataclass(frozen=True, eq=False)
class Values(Generic[F]):
    """Q_t(s, a) of the actions taken, and V_t(s), of pi_e, and the models that they are fitted by.

    A given model is not fitted: no episode moves it.
    """

    q: F
    v: F
    after: FloatArray  # (folds, S) V after the last of the log's steps
    fits: tuple[Any, ...] = ()  # FittedModel, or RowValues
    folds: Folds | None = None
    times: IntArray | None = None  # (S,) the step of each row, where rows are states; else any state any step


@dataclass(frozen=True, eq=False)
class Solved:
    """The values of one model at the steps of the log, and after the last of them."""

    q: Table  # (T, S, A)
    v: Table  # (T, S)
    after: FloatArray  # (S,)
    until_end: UntilEnd | None  # where they are settled


def require_room(model: TabularMDP, horizon: int, models: int) -> None:
    """Refuse tables of so many steps, of so many models, that would not fit into memory."""
    require(
        NUMBER * float(horizon) * (model.r.size + model.n_states) * models,
        f"Q of {horizon:,} steps x {model.n_states:,} states x {model.n_actions:,} actions",
        "Use coarser states, or estimators without a model (WIS, WPDIS).",
    )


def at_all_steps(settled: Settled, horizon: int) -> Solved:
    """Values that have settled, at each of so many steps."""
    q = np.empty((horizon, *settled.q.shape))
    v = np.empty((horizon, *settled.v.shape))
    q[:], v[:] = settled.q, settled.v
    return _solved(q, v, settled.v, settled.until_end)


def solved_backwards(
    model: TabularMDP, pi_e: FloatArray, horizon: int, model_horizon: int, gamma: float
) -> Solved:
    """Values at the first `horizon` of the steps of a model."""
    q = np.empty((horizon, *model.r.shape))
    v = np.empty((horizon, model.n_states))
    after: FloatArray = np.zeros(model.n_states)
    for t, q_t, v_t in backward(model, pi_e, model_horizon, gamma):
        if t < horizon:
            q[t], v[t] = q_t, v_t
        elif t == horizon:
            after = v_t
    return _solved(q, v, after, None)


def widest_gap(q: FloatArray) -> FloatArray:
    """(S,) max_t (max_a q - min_a q) of q (T, S, A), one action after another."""
    high, low = q[:, :, 0].copy(), q[:, :, 0].copy()
    for action in range(1, q.shape[2]):
        np.maximum(high, q[:, :, action], out=high)
        np.minimum(low, q[:, :, action], out=low)
    return np.asarray(np.subtract(high, low).max(axis=0))


def _solved(q: FloatArray, v: FloatArray, after: FloatArray, until_end: UntilEnd | None) -> Solved:
    return Solved(Table(q, by_time=True, by_action=True), Table(v, by_time=True), after, until_end)
