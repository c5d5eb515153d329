"""Linear action values: with one feature for each label they are the model of the table, errors included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from features.tabular_logs import twins

import deadweight as dw
from deadweight.errors import OptionError
from deadweight.tools.bumps import Bumps
from deadweight.values.linear import LinearQ, LinearSums, sums_by_fold
from deadweight.values.rows import Rows

EXACT = dw.LinearQ("linear", ridge=0)
CASES = [("DM", 0)]
CASES += [(name, folds) for name in ("DR", "WDR", "DRSIS", "WDRSIS") for folds in (0, 5)]
CASES += [(name, 0) for name in ("C-SIS", "C-WSIS", "C-SPDIS", "C-WSPDIS")]


def spread(found: dw.Estimate) -> float:
    """The standard error of the influence alone."""
    return float(found.influence.std(ddof=1) / np.sqrt(found.n_episodes))


@pytest.mark.parametrize("ends", ["terminated", "limit", "successors"])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize(("name", "folds"), CASES)
def test_one_feature_a_label_gives_the_table(ends: str, gamma: float, name: str, folds: int) -> None:
    two = twins(3, ends)
    same: dict[str, Any] = {"drop": two.flags, "gamma": gamma, "cross_fit": folds}
    table = dw.estimate(name, two.labels, two.pi_e, two.pi_b, also=["influence"], **same)
    linear = dw.estimate(name, two.features, two.row_e, two.row_b, model=EXACT, **same)
    assert linear.value == pytest.approx(table.value, abs=1e-8)
    # What pairs that were hardly seen could do to DM is known of tables only.
    error = spread(table) if name == "DM" else table.std_error
    assert linear.std_error == pytest.approx(error, abs=1e-8)
    if folds == 0:  # with folds the bias of a table is that of the model of all episodes
        assert linear.bias == pytest.approx(table.bias, abs=1e-8)
    # Whether weights have a variance at all is asked of a table of states only.
    assert set(linear.flags) == set(table.flags) - {"infinite-variance"}
    if table.model_check is not None:
        assert linear.model_check is not None
        assert linear.model_check.z == pytest.approx(table.model_check.z, abs=1e-6)


@pytest.mark.parametrize("ends", ["terminated", "limit"])
@pytest.mark.parametrize("name", ["WSPDIS", "C-WSPDIS", "WDRSIS", "WSIS"])
def test_a_rule_by_gap_drops_the_same_steps(ends: str, name: str) -> None:
    two = twins(4, ends)
    # Over a fixed number of steps a table takes the largest gap of a state, and a row that of its step.
    same: dict[str, Any] = {"drop": "q-gap:0.168", "cross_fit": 0, "interval": None}
    table = dw.estimate(name, two.labels, two.pi_e, two.pi_b, **same)
    linear = dw.estimate(name, two.features, two.row_e, two.row_b, model=EXACT, **same)
    assert linear.dropped == []
    if ends == "terminated":
        assert 0 < linear.dropped_share == table.dropped_share < 1
        assert linear.value == pytest.approx(table.value, abs=1e-8)
    else:
        assert linear.dropped_share >= table.dropped_share


def test_a_small_ridge_approaches_the_table() -> None:
    two = twins(5, "limit")
    table = dw.estimate("WDR", two.labels, two.pi_e, two.pi_b, interval=None).value
    found = [
        dw.estimate(
            "WDR",
            two.features,
            two.row_e,
            two.row_b,
            interval=None,
            cross_fit=0,
            model=dw.LinearQ("linear", ridge=ridge),
        ).value
        for ridge in (1e-2, 1e-4, 1e-6)
    ]
    assert np.abs(np.array(found) - table) == pytest.approx([0, 0, 0], abs=1e-3)
    assert abs(found[2] - table) < abs(found[0] - table)
    assert found[2] == pytest.approx(table, abs=1e-6)


@pytest.mark.parametrize("ends", ["terminated", "limit"])
@pytest.mark.parametrize("name", ["DM", "WDR", "C-WSPDIS"])
def test_the_influence_of_bumps_agrees_with_a_jackknife(ends: str, name: str) -> None:
    two = twins(6, ends, n=80)
    rng = np.random.default_rng(0)
    x = two.features.features @ rng.normal(size=(4, 2)) + 0.3 * rng.normal(size=(two.features.n_steps, 2))
    model = dw.LinearQ(size=5)
    log = dw.Trajectories(
        None,
        two.features.actions,
        two.features.rewards,
        two.features.offsets,
        features=x,
        terminated=two.features.terminated,
    )

    def found(episodes: np.ndarray, interval: str | None = None) -> dw.Estimate:
        rows = np.concatenate([np.arange(log.offsets[i], log.offsets[i + 1]) for i in episodes])
        pi_e, pi_b = dw.RowPolicy(two.row_e.probs[rows]), dw.RowPolicy(two.row_b.probs[rows])
        settings: dict[str, Any] = {
            "drop": two.flags[rows],
            "cross_fit": 0,
            "model": model,
            "interval": interval,
        }
        return dw.estimate(name, log.select(episodes), pi_e, pi_b, **settings)

    n = log.n_episodes
    every = np.arange(n)
    without = np.array([found(np.delete(every, i)).value for i in every])
    jackknife = np.sqrt((n - 1) / n * np.square(without - without.mean()).sum())
    assert found(every, "auto").std_error == pytest.approx(jackknife, rel=0.12)


def test_sums_of_folds_add_up() -> None:
    two = twins(7, "limit")
    pi_e = np.full((two.features.n_steps + two.features.n_episodes, 2), 0.5)
    basis = Bumps.fitted(two.features.features, 3)
    whole = sums_by_fold(Rows(two.features, pi_e, 1.0, 6), basis)[0]
    folds = sums_by_fold(Rows(two.features, pi_e, 1.0, 6, folds=5), basis)
    together = folds[0]
    for one in folds[1:]:
        together = together.merge(one)
    for name in LinearSums.__dataclass_fields__:
        np.testing.assert_allclose(getattr(together, name), getattr(whole, name), rtol=1e-12, atol=1e-12)


def test_values_stay_in_the_possible_range() -> None:
    rng = np.random.default_rng(0)
    n, length = 200, 8
    x = rng.normal(size=(n * length, 2))
    rewards = (x[:, 0] > 0).astype(float)
    log = dw.Trajectories(
        None, rng.integers(0, 2, n * length), rewards, np.arange(0, n * length + 1, length), features=x
    )
    pi_e = np.full((n * length + n, 2), 0.5)
    found = LinearQ(size=10).fit(Rows(log, pi_e, 1.0, length))
    times = np.tile(np.arange(length), n)
    q = found.q[: n * length]
    assert (q >= 0).all()
    assert (q <= (length - times)[:, None]).all()


def test_a_model_that_runs_away_is_held_back_and_flagged() -> None:
    """Next to no rows for many columns, and successors far away: the equations explode without a ridge."""
    rng = np.random.default_rng(1)
    n, length = 12, 30
    x = np.cumsum(rng.normal(size=(n, length, 3)), axis=1).reshape(-1, 3)
    log = dw.Trajectories(
        None,
        rng.integers(0, 2, n * length),
        rng.normal(size=n * length),
        np.arange(0, n * length + 1, length),
        features=x,
        time_limit=length,
        propensities=np.full(n * length, 0.5),
    )
    pi_e = dw.RowPolicy(np.tile([0.9, 0.1], (n * length, 1)))
    found = dw.estimate("WDR", log, pi_e, model=dw.LinearQ(size=60, ridge=1e-9))
    assert "model-unstable" in found.flags
    assert np.isfinite(found.value)
    assert "model-unstable" not in dw.estimate("WPDIS", log, pi_e).flags


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("basis", lambda: dw.LinearQ("splines")),
        ("size", lambda: dw.LinearQ(size=0)),
        ("ridge", lambda: dw.LinearQ(ridge=-1)),
        ("ridge", lambda: dw.LinearQ(ridge=float("nan"))),
        ("found int", lambda: dw.RegressorQ(3)),
        ("shape", lambda: dw.GivenQ([1.0])),
        ("numbers", lambda: dw.GivenQ([["a"]])),
        ("finite", lambda: dw.GivenQ([[np.nan]])),
    ],
)
def test_wrong_settings_are_refused(words: str, make: Any) -> None:
    with pytest.raises(OptionError, match=words):
        make()


@pytest.mark.parametrize(
    "problem", [dw.domains.navigation(horizon=20), dw.domains.cart_pole(30)], ids=["walk", "pole"]
)
def test_a_smooth_overshoot_is_not_taken_for_instability(problem):
    """Values next to the best that can be are overshot a little; a larger ridge would make DM useless."""
    log = problem.sample(100, seed=3)
    found = dw.estimate("DM", log, problem.pi_e, problem.pi_b, interval=None, also=["std_error"])
    assert found.flags == ()
    assert abs(found.value - problem.true_value) < 4 * found.std_error + 0.03 * abs(problem.true_value)
