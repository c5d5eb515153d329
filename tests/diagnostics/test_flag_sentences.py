"""Each flag stands beside a case in which its sentence is true, and is missing where it would be false."""

from __future__ import annotations

import re

import numpy as np
import pytest
from deadweight_studies.automatic import tuned_cells
from pages import ROOT

import deadweight as dw
from deadweight.results import FLAGS

TWO = [[0.5, 0.5], [0.5, 0.5]]
EPISODES = [[(0, 0, 1.0), (1, 1, 2.0)], [(0, 1, 0.0), (1, 0, 1.0)], [(1, 1, 3.0)], [(0, 0, 0.0)]] * 10
LOG = dw.Trajectories.from_episodes(EPISODES)


def test_all_weights_zero() -> None:
    """The new policy always does what was never done: no weight is left, and the estimate counts as 0."""
    log = dw.Trajectories.from_episodes([[(0, 0, 5.0)]] * 20)
    found = dw.estimate("WIS", log, [[0.0, 1.0]], [[0.5, 0.5]])
    assert "zero-weights" in found.flags
    assert found.value == 0.0
    assert "zero-weights" not in dw.estimate("WIS", LOG, TWO, TWO).flags


def test_fewer_than_ten_effective_episodes() -> None:
    lift = dw.domains.stochastic_lift(11)
    found = dw.estimate("WIS", lift.sample(30, seed=0), lift.pi_e, lift.pi_b)
    assert found.ess < 10
    assert "low-ess" in found.flags
    many = dw.estimate("WIS", LOG, TWO, TWO)
    assert many.ess == 40
    assert "low-ess" not in many.flags


def test_nothing_dropped_is_the_plain_estimator() -> None:
    pi_e = [[0.8, 0.2], [0.3, 0.7]]
    found = dw.estimate("WSPDIS", LOG, pi_e, TWO, drop=[])
    assert "none-dropped" in found.flags
    assert found.value == dw.estimate("WPDIS", LOG, pi_e, TWO).value
    assert "none-dropped" not in dw.estimate("WSPDIS", LOG, pi_e, TWO, drop=[0]).flags


def test_cut_episodes() -> None:
    cut = dw.Trajectories.from_episodes(EPISODES, terminated=[False, *[True] * 39])
    assert "truncated" in dw.estimate("WIS", cut, TWO, TWO).flags
    assert "truncated" not in dw.estimate("WIS", LOG, TWO, TWO).flags


def test_rows_that_stand_for_what_was_cut_off() -> None:
    """Half of the episodes are cut after their first step, by chance: the other half stands for two."""
    rows = [[(0, 0, 1.0), (0, 1, 4.0)], [(0, 1, 1.0)]] * 10
    cut = dw.Trajectories.from_episodes(rows, terminated=[True, False] * 10)
    found = dw.estimate("BEHAVIOUR", cut, TWO[:1], TWO[:1], cut_weights="step")
    assert "cut-weighted" in found.flags
    assert "truncated" not in found.flags
    assert found.value == 1.0 + 4.0
    assert "cut-weighted" not in dw.estimate("WIS", LOG, TWO, TWO, cut_weights="step").flags


def test_actions_that_the_old_policy_never_takes() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 0, 2.0)]] * 10)
    found = dw.estimate("WIS", log, [[0.7, 0.3]], [[1.0, 0.0]])
    assert "no-support" in found.flags
    assert "no-support" not in dw.estimate("WIS", LOG, TWO, TWO).flags


def test_actions_that_a_log_with_its_own_probabilities_never_has() -> None:
    """Of the old policy nothing but the logged actions is known: the log tells what it never did."""
    rows = [[(s, a, 1.0)] for s in ("ill", "well") for a in ("wait", "treat")] * 20
    log = dw.Trajectories.from_episodes(rows)
    log = log.with_propensities(np.full(log.n_steps, 0.5))
    misspelt = dw.evaluate(log, {"ill": "tread", "well": "wait"})
    assert "no-support" in misspelt.headline.flags
    assert "no-support" in misspelt["WIS"].flags
    assert "no-support" not in misspelt["BEHAVIOUR"].flags
    assert "spelt as in the log" in misspelt.verdict.reasons[0]
    assert "no-support" in dw.estimate("WIS", log, {"ill": "tread", "well": "wait"}, interval=None).flags
    right = dw.evaluate(log, {"ill": "treat", "well": "wait"})
    assert "no-support" not in right.headline.flags


def test_actions_that_were_logged_in_other_states_only() -> None:
    rows = [[("ill", "treat", 1.0)], [("ill", "wait", 0.0)], [("well", "wait", 1.0)]]

    def repeated(times: int) -> dw.Trajectories:
        log = dw.Trajectories.from_episodes(rows * times)
        return log.with_propensities(np.tile([0.5, 0.5, 1.0], times))

    log = repeated(40)
    assert "no-support" in dw.evaluate(log, {"ill": "treat", "well": "treat"}).headline.flags
    rarely = {"ill": "treat", "well": {"treat": 0.01, "wait": 0.99}}
    assert "no-support" not in dw.evaluate(log, rarely).headline.flags
    # In a short log it may be an accident.
    assert "no-support" not in dw.evaluate(repeated(5), {"ill": "treat", "well": "treat"}).headline.flags


def test_an_interval_without_a_second_opinion() -> None:
    """With target_prob alone there is no model, and nothing to check the interval against."""
    logged = dw.Trajectories(
        LOG.states,
        LOG.actions,
        LOG.rewards,
        LOG.offsets,
        propensities=np.full(LOG.n_steps, 0.5),
        target_probs=np.where(LOG.actions == 0, 0.6, 0.4),
    )
    assert "unchecked" in dw.estimate("WPDIS", logged).flags
    assert "unchecked" not in dw.estimate("WPDIS", LOG, TWO, TWO).flags


def test_products_beyond_floating_point() -> None:
    steps = 1200
    log = dw.Trajectories(
        np.zeros(2 * steps, dtype=int),
        np.tile(np.repeat([0, 1], steps // 2), 2),
        np.ones(2 * steps),
        [0, steps, 2 * steps],
        propensities=np.full(2 * steps, 0.01),
    )
    pi_e = [[0.99, 0.01]]
    assert "overflow" in dw.estimate("IS", log, pi_e, interval=None).flags
    assert "overflow" not in dw.estimate("WIS", log, pi_e, interval=None).flags


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_has_a_case(flag: str) -> None:
    """Somewhere in the tests an estimate must carry it, in a case made for it."""
    shown = re.compile(rf'"{flag}" in |FLAG = "{flag}"|TRAINED in|"{flag}",\)')
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path.name != "test_remarks.py"]
    assert any(shown.search(path.read_text(encoding="utf-8")) for path in files), flag


@pytest.mark.parametrize("said", FLAGS.values(), ids=FLAGS)
def test_sentences_are_whole_and_plain(said: str) -> None:
    assert said[0].isupper()
    assert said.endswith(".")
    assert len(said.split()) <= 45


def test_a_model_of_labels_that_mean_nothing() -> None:
    """Labels by chance instead of states: what is left are weights, and there are too few of them."""
    blind, seeing = tuned_cells()["noise labels: river"], tuned_cells()["river"]
    ev = dw.evaluate(blind.sample(9), blind.pi_e, blind.pi_b, ["BLEND", "BEHAVIOUR"], background=False)
    found = ev["BLEND"]
    assert "low-ess-undropped" in found.flags
    assert found.interval[0] <= blind.values[0] <= found.interval[1]
    assert ev.verdict.answer == "cannot tell"
    other = dw.evaluate(seeing.sample(9), seeing.pi_e, seeing.pi_b, ["BLEND", "BEHAVIOUR"], background=False)
    assert "DM" in other["BLEND"].shares
