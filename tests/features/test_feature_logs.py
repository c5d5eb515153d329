"""Logs whose states are described by features: what they hold, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import deadweight as dw
from deadweight.errors import DataError, EstimationError

X = np.arange(10.0).reshape(5, 2)


def log_of(features: object = X, **more: object) -> dw.Trajectories:
    return dw.Trajectories(None, [0, 1, 0, 1, 1], [1.0, 0, 2, 0, 1], [0, 2, 5], features=features, **more)


def test_features_and_their_names_are_kept() -> None:
    log = log_of(feature_names=["age", "map"])
    np.testing.assert_array_equal(log.features, X)
    assert log.feature_names == ("age", "map")
    assert log_of().feature_names == ("x0", "x1")
    assert "2 features" in repr(log)
    assert "states" not in repr(log)
    assert next(iter(log))[0] == ((0.0, 1.0), 0, 1.0)


def test_names_come_from_a_table() -> None:
    pd = pytest.importorskip("pandas")
    assert log_of(pd.DataFrame(X, columns=["age", "map"])).feature_names == ("age", "map")


def test_select_split_and_copies_carry_them() -> None:
    last = np.array([[np.nan, np.nan], [7.0, 8.0]])
    log = log_of(last_features=last, terminated=[True, False], propensities=[0.5] * 5)
    second = log.select([1])
    np.testing.assert_array_equal(second.features, X[2:])
    np.testing.assert_array_equal(second.last_features, last[1:])
    assert second.feature_names == log.feature_names
    assert not second.has_states
    np.testing.assert_array_equal(log.split(2)[0].features, X[:2])
    np.testing.assert_array_equal(log.with_propensities([0.1] * 5).features, X)
    np.testing.assert_array_equal(log.with_time_limit(3).features, X)


def test_labels_and_features_together() -> None:
    log = dw.Trajectories(list("aabba"), [0, 1, 0, 1, 1], [1.0, 0, 2, 0, 1], [0, 2, 5], features=X)
    assert log.has_states
    assert log.n_states == 2
    np.testing.assert_array_equal(log.features, X)
    assert dw.estimate("MIS", log, [[0.5, 0.5]] * 2, [[0.5, 0.5]] * 2).value == pytest.approx(2.0)


def with_cell(value: object) -> np.ndarray:
    array = X.astype(object)
    array[3, 1] = value
    return array


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, None, "high"])
def test_one_bad_cell_is_named(value: object) -> None:
    with pytest.raises(DataError, match=r"row 3, column 'map'"):
        log_of(with_cell(value), feature_names=["age", "map"])


@pytest.mark.parametrize(
    ("features", "more", "match"),
    [
        (X[:, 0], {}, r"shape \(5,\)"),
        (X[:4], {}, "5 steps, 4 rows of features"),
        ([[1, 2], [3, 4], [5], [6, 7], [8, 9]], {}, "row 0 has 2 and row 2 has 1"),
        ([[1, 2], [3, 4], [5, "high"], [6, 7], [8, 9]], {}, "found 'high' in row 2, column 'x1'"),
        (X, {"feature_names": ["a"]}, "2 features once; found 1 names"),
        (X, {"feature_names": ["a", "a"]}, "1 of them different"),
        (X, {"last_features": [[1.0, 2.0]]}, r"2 episodes.*shape \(1, 2\)"),
        (X, {"last_features": [[1.0, 2.0], [np.nan, 1.0]]}, "row 1, column 'x0'"),
        (X, {"last_features": [[1.0, np.inf], [0.0, 1.0]]}, "row 0, column 'x1'"),
        (X, {"next_states": [0] * 5}, "next_states need states"),
        (None, {}, "states, or features"),
        (None, {"last_features": [[1.0]]}, "need features"),
    ],
)
def test_wrong_shapes_are_refused(features: object, more: dict[str, object], match: str) -> None:
    with pytest.raises(DataError, match=match):
        log_of(features, **more)


UNIFORM = dw.RowPolicy(np.full((5, 2), 0.5))


@pytest.mark.parametrize("name", ["MIS", "SMIS", "TMIS", "STMIS", "SDRE", "SSDRE", "CIS"])
def test_estimators_that_need_labels_say_so(name: str) -> None:
    with pytest.raises(EstimationError, match="needs a label for each state"):
        dw.estimate(name, log_of(), UNIFORM, UNIFORM, drop=None)


def test_everything_else_that_needs_labels_says_so_in_the_same_words() -> None:
    log = log_of()
    states = dw.StateSet(np.ones(2, dtype=bool), np.arange(2), "given")
    for ask in (
        lambda: dw.estimate("WSPDIS", log, UNIFORM, UNIFORM, drop=states),
        lambda: dw.estimate("WSPDIS", log, UNIFORM, UNIFORM, drop=[0, 1]),
        lambda: dw.estimate("WSPDIS", log, UNIFORM, UNIFORM, drop="covariance:0.1"),
        lambda: dw.estimate("WSPDIS", log, UNIFORM, UNIFORM, drop="return-test:0.1"),
        lambda: dw.negligible.covariance(log, UNIFORM, UNIFORM),
        lambda: dw.negligible.return_test(log),
        lambda: dw.negligible.q_gap(log, UNIFORM, 1.0),
        lambda: dw.diagnostics.state_report(log, UNIFORM, UNIFORM, drop=None),
        lambda: dw.diagnostics.support(log, UNIFORM, UNIFORM),
        lambda: dw.estimate_behaviour(log),
        lambda: dw.fit_mdp(log),
    ):
        with pytest.raises(EstimationError, match="needs a label for each state"):
            ask()
