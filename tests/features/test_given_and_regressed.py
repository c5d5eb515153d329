"""Action values that are given, or made by any regressor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from features.tabular_logs import twins

import deadweight as dw
from deadweight.errors import EstimationError, OptionError


def values_at_rows(log: dw.Trajectories, pi_e: np.ndarray) -> tuple[dw.TabularMDP, np.ndarray]:
    """A model with a horizon, and its Q_t(s, a) at every row."""
    model = dw.fit_mdp(log)
    q = dw.q_values(model, pi_e, log.horizon)
    times = np.arange(log.n_steps) - np.repeat(log.offsets[:-1], log.lengths)
    return model, q[times, log.states]


@pytest.mark.parametrize("name", ["DM", "DR", "WDR", "DRSIS", "WDRSIS", "C-SIS", "C-WSPDIS", "SPDIS"])
@pytest.mark.parametrize("of", ["labels", "features"])
def test_given_values_are_those_of_a_given_model(name: str, of: str) -> None:
    two = twins(1, "limit")
    model, q = values_at_rows(two.labels, two.pi_e)
    by_model = dw.estimate(name, two.labels, two.pi_e, two.pi_b, drop=two.flags, model=model)
    log, pi_e, pi_b = two.labels, two.pi_e, two.pi_b
    if of == "features":
        log, pi_e, pi_b = two.features, two.row_e, two.row_b
    given = dw.estimate(name, log, pi_e, pi_b, drop=two.flags, model=dw.GivenQ(q))
    assert given.value == pytest.approx(by_model.value, abs=1e-10)
    assert given.bias == pytest.approx(by_model.bias, abs=1e-10)
    if name != "DM":  # the value of a given model is known; the mean of given values is that of these starts
        assert given.std_error == pytest.approx(by_model.std_error, abs=1e-10)


def test_a_wrong_shape_is_refused() -> None:
    two = twins(2, "limit")
    with pytest.raises(OptionError, match="a row for each step"):
        dw.estimate("WDR", two.features, two.row_e, two.row_b, model=dw.GivenQ(np.zeros((3, 2))))


class Cells:
    """Means by cell: with one column a label this is the table."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> None:
        keys = x @ 2.0 ** np.arange(x.shape[1])
        self.means = {key: y[keys == key].mean() for key in np.unique(keys)}

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.array([self.means.get(key, 0.0) for key in x @ 2.0 ** np.arange(x.shape[1])])


@pytest.mark.parametrize("folds", [0, 5])
@pytest.mark.parametrize("ends", ["terminated", "successors"])
def test_a_regressor_of_cell_means_is_the_table(ends: str, folds: int) -> None:
    two = twins(8, ends)
    same: dict[str, Any] = {"cross_fit": folds, "interval": None}
    table = dw.estimate("WDR", two.labels, two.pi_e, two.pi_b, **same).value
    found = dw.estimate("WDR", two.features, two.row_e, two.row_b, model=dw.RegressorQ(Cells()), **same)
    # Until the end rounds stop when values hardly change.
    assert found.value == pytest.approx(table, abs=1e-8 if ends == "successors" else 0.05)


def test_a_regressor_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    two = twins(9, "limit")
    model = dw.RegressorQ(linear_model.Ridge())
    found = dw.estimate("WDR", two.features, two.row_e, two.row_b, model=model)
    assert np.isfinite(found.value)
    assert "RegressorQ(Ridge" in repr(model)


class Broken(Cells):
    def fit(self, x: np.ndarray, y: np.ndarray) -> None:
        raise RuntimeError("no convergence.")


class Lost(Cells):
    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(x)) == 3, np.nan, 0.0)


@pytest.mark.parametrize(
    ("regressor", "match"),
    [
        (Broken(), r"failed in fit: RuntimeError: no convergence\.\n"),
        (Lost(), "nan for row 3, action number 0"),
    ],
)
def test_a_regressor_that_fails_is_named(regressor: Cells, match: str) -> None:
    two = twins(9, "limit")
    with pytest.raises(EstimationError, match=match):
        dw.estimate("WDR", two.features, two.row_e, two.row_b, model=dw.RegressorQ(regressor))
