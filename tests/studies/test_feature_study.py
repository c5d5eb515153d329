"""The study with features: what a run records, what a line makes of runs, and the worlds of its own."""

from __future__ import annotations

import numpy as np
import pytest
from deadweight_studies.features import (
    NAMES,
    Echo,
    Frailty,
    WithNoise,
    by_heart,
    cells,
    line,
    run,
    table,
)
from deadweight_studies.problems import in_cells, irrelevant

import deadweight as dw


def record(value, interval, answer="better", flags=()):
    return {
        "truth": 1.0,
        "values": dict.fromkeys(NAMES, value) | {"WPDIS": 1.0 + 2 * (value - 1.0)},
        "dropped": 0.5,
        "headline": "BLEND",
        "interval": list(interval),
        "ess": 20.0,
        "answer": answer,
        "flags": list(flags),
        "seconds": 0.5,
    }


def test_a_line_by_hand():
    records = [record(1.1, (0.0, 2.0)), record(0.9, (1.5, 2.0), "cannot tell", ["contradicted"])]
    made = line("continuous lift", records)
    assert made.rmse["WDR"] == pytest.approx(0.1)
    assert made.ratio("C-WSPDIS", "WPDIS") == pytest.approx(0.25)
    assert made.coverage == 0.5
    assert made.answers == {"better": 0.5, "worse": 0.0, "cannot tell": 0.5}
    assert made.width == pytest.approx(1.25 / (2 * 1.96 * 0.1))
    text = table([made])
    assert "| continuous lift (2) |" in text
    assert "mean square error 0.25 (geometric mean)" in text


def test_a_run_is_repeatable():
    first, again = (run("useless: noise, lift", 3) for _ in range(2))
    assert first["values"] == again["values"]
    assert set(first["values"]) == set(NAMES)
    assert first["truth"] == cells()["useless: noise, lift"].problem.true_value


def test_the_past_pays_by_hand():
    after, rewards, _ = Echo().step(np.array([[2.0, 1.0, -1.0]]), np.array([1]), np.random.default_rng(0))
    assert rewards.tolist() == [2.0 * -1.0 + 0.2]
    assert after[0, 2] == 1.0


def test_the_frail_are_treated_more_and_earn_less():
    problem = cells()["confounded, pi_b learned"].problem
    assert problem.hidden == 1
    assert problem.sample(50, seed=0).feature_names == ("x",)
    x = np.array([[0.0, 0.0], [0.0, 1.0]])
    assert problem.behaviour(x)[1, 1] > problem.behaviour(x)[0, 1] + 0.3
    _, rewards, _ = Frailty().step(x, np.array([0, 0]), np.random.default_rng(0))
    assert rewards[0] - rewards[1] == pytest.approx(1.5, abs=1.0)


def test_noise_means_nothing_to_the_world():
    plain = cells()["continuous lift"].problem
    noisy = WithNoise(plain.world, 6)
    x = np.array([[0.2], [3.0]])
    longer = np.concatenate([x, np.full((2, 6), 9.0)], axis=1)
    first = plain.world.step(x, np.array([1, 0]), np.random.default_rng(1))
    second = noisy.step(longer, np.array([1, 0]), np.random.default_rng(1))
    np.testing.assert_array_equal(first[0][:, 0], second[0][:, 0])
    np.testing.assert_array_equal(first[1], second[1])


def test_by_heart_is_too_sure_of_what_was_done():
    log = cells()["sepsis-like, pi_b by heart"].problem.sample(60, seed=0)
    probs = by_heart(log, 0).probs[np.arange(log.n_steps), log.actions]
    assert probs.mean() > log.propensities.mean() + 0.05


def test_values_in_cells_are_constant_there_and_irrelevant_ones_know_nothing():
    cell = cells()["continuous lift"]
    log = cell.problem.sample(60, seed=0)
    x = np.concatenate([log.features, log.features[:1]])
    columns = in_cells(log, 0).describe(x)
    assert columns.shape == (len(x), 49)
    assert np.array_equal(columns[0], columns[-1])
    assert set(np.unique(columns)) == {0.0, 1.0}
    noise = irrelevant(log, 0).describe(x)
    assert noise.shape == (len(x), 1)
    assert abs(np.corrcoef(noise[:-1, 0], log.features[:, 0])[0, 1]) < 0.2
    found = dw.estimate(
        "DM", log, cell.problem.pi_e, cell.pi_b(log, 0), model=in_cells(log, 0), interval=None
    )
    assert found.value == pytest.approx(cell.problem.true_value, abs=1.5)
