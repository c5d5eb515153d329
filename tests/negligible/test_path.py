"""The path against one-by-one recomputation, its ends, its levels, and the automatic choice."""

from __future__ import annotations

import numpy as np
import pytest
from negligible.logs import random_case

import deadweight as dw
from deadweight.domains import deterministic_lift
from deadweight.estimators.estimator import BUILT_IN, estimator_of
from deadweight.negligible import q_gap, sweep
from deadweight.negligible.path import epsilon_path, path_of
from deadweight.question.question import ask

WHOLE = ("SIS", "WSIS", "C-SIS", "C-WSIS")
STATE_BASED = [name for name, made in BUILT_IN.items() if made.is_state_based]
COLUMNS = ("epsilon", "n_dropped", "estimate", "std_error", "bias", "corrected", "ess")


def known_model(log, pi_e, options):
    if "model" in options or options.get("cross_fit", 0) != 0:
        return {}
    fitted = dw.fit_mdp(log, *np.shape(pi_e), unseen=options.get("unseen", "pool"))
    # Without a horizon of its own it is solved as the fitted one is.
    return {"model": dw.TabularMDP._trusted(fitted.P, fitted.r, fitted.d0)}


def check_against_estimates(path, log, pi_e, pi_b, gamma, **options):
    base = path.name.removeprefix("C-")
    for level, states in enumerate(path.sets):
        given = {"drop": states, "gamma": gamma, **options}
        found = dw.estimate(path.name, log, pi_e, pi_b, **given)
        plain = dw.estimate(base, log, pi_e, pi_b, **given)
        close = {"rel": 1e-10, "abs": 1e-10}
        assert path.estimate[level] == pytest.approx(plain.value, **close)
        # Along a path the model is taken as known.
        known = dw.estimate(path.name, log, pi_e, pi_b, **given, **known_model(log, pi_e, options))
        assert path.std_error[level] == pytest.approx(known.std_error, **close, nan_ok=True)
        assert path.bias[level] == pytest.approx(found.bias, **close)
        assert path.ess[level] == pytest.approx(log.n_episodes if found.ess is None else found.ess, **close)
        if path.name.startswith("C-"):
            assert path.corrected[level] == pytest.approx(found.value, **close)


@pytest.mark.parametrize("kind", ["soft", "zeros", "deterministic"])
@pytest.mark.parametrize("name", WHOLE)
def test_the_sweep_equals_one_by_one(name, kind):
    for seed, gamma in ((0, 1.0), (1, 0.9)):
        _, log, pi_e, pi_b = random_case(seed, 30, 3, 15, 6, kind)
        path = epsilon_path(name, log, pi_e, pi_b, gamma=gamma)
        assert len(path) > log.horizon  # so that it is swept
        check_against_estimates(path, log, pi_e, pi_b, gamma)


@pytest.mark.parametrize("name", WHOLE)
def test_sums_taken_anew_equal_the_swept_ones(name, monkeypatch):
    _, log, pi_e, pi_b = random_case(2, 30, 3, 15, 6)
    swept = epsilon_path(name, log, pi_e, pi_b, gamma=0.9)
    monkeypatch.setattr(sweep, "TOLERANCE", 0.0)
    monkeypatch.setattr(sweep, "CANCELLED", 2.0)
    anew = epsilon_path(name, log, pi_e, pi_b, gamma=0.9)
    for column in COLUMNS:
        np.testing.assert_allclose(getattr(anew, column), getattr(swept, column), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", WHOLE)
def test_blocks_do_not_matter(name, monkeypatch):
    _, log, pi_e, pi_b = random_case(3, 30, 3, 40, 6)
    whole = epsilon_path(name, log, pi_e, pi_b)
    monkeypatch.setattr(sweep, "BLOCK_CELLS", 300)
    pieces = epsilon_path(name, log, pi_e, pi_b)
    for column in COLUMNS:
        np.testing.assert_allclose(getattr(pieces, column), getattr(whole, column), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["WSIS", "C-WSIS"])
def test_weights_that_shrink_by_orders_of_magnitude(name):
    # The sums of the first levels are 1e-20 of those of the last: a careless sweep would see nothing there.
    _, log, _, _ = random_case(4, 30, 2, 20, 8)
    pi_b = np.full((30, 2), 0.5)
    pi_e = np.tile([1e-4, 1 - 1e-4], (30, 1))
    path = epsilon_path(name, log, pi_e, pi_b)
    check_against_estimates(path, log, pi_e, pi_b, 1.0)


def test_ratios_beyond_the_range_of_doubles_go_level_by_level():
    rng = np.random.default_rng(0)
    pi_b = np.full((80, 2), 0.5)
    pi_e = np.tile([1e-30, 1 - 1e-30], (80, 1))
    states, actions = rng.integers(80, size=(2, 8 * 30))
    log = dw.Trajectories(states, actions % 2, rng.normal(size=8 * 30), np.arange(0, 8 * 30 + 1, 30))
    path = epsilon_path("WSIS", log, pi_e, pi_b)
    assert len(path) > log.horizon
    assert np.isfinite(path.estimate).all()
    assert path.estimate[0] == dw.estimate("WIS", log, pi_e, pi_b, interval=None).value


@pytest.mark.parametrize("name", STATE_BASED)
def test_every_state_based_name_has_a_path(name):
    _, log, pi_e, pi_b = random_case(5, 5, 2, 30, 4)
    path = epsilon_path(name, log, pi_e, pi_b)
    check_against_estimates(path, log, pi_e, pi_b, 1.0)
    plain = name.removeprefix("C-")
    plain = {"DRSIS": "DR", "WDRSIS": "WDR"}.get(plain, plain.replace("S", "", 1))
    assert path.estimate[0] == pytest.approx(dw.estimate(plain, log, pi_e, pi_b).value, rel=1e-10)
    if BUILT_IN[name].contains_correction:
        assert np.array_equal(path.corrected, path.estimate)
    else:
        np.testing.assert_array_equal(path.corrected, path.estimate - path.bias)


@pytest.mark.parametrize("name", ["SIS", "WSIS", "SPDIS", "WSPDIS"])
def test_the_last_level_is_the_behaviour_mean(name):
    for states, longest in ((5, 4), (30, 4)):
        _, log, pi_e, pi_b = random_case(6, states, 2, 30, longest)
        path = epsilon_path(name, log, pi_e, pi_b)
        assert path.n_dropped[-1] == states
        assert path.estimate[-1] == pytest.approx(dw.estimate("BEHAVIOUR", log, pi_e, pi_b).value, rel=1e-10)
        assert path.ess[-1] == pytest.approx(log.n_episodes)


@pytest.mark.filterwarnings("ignore::deadweight.negligible.DropWarning")
@pytest.mark.parametrize("name", ["WSIS", "WSPDIS"])
def test_levels(name):
    _, log, pi_e, pi_b = random_case(7, 60, 2, 60, 5)
    for min_visits in (0, 2):
        path = epsilon_path(name, log, pi_e, pi_b, min_visits=min_visits)
        gap = path.sets[0].gaps
        np.testing.assert_array_equal(gap, q_gap(log, pi_e, 0.01, pi_b).gaps)
        allowed = path.sets[-1].mask
        assert path.epsilon[0] == 0
        assert len(path.sets[0]) == 0
        assert (np.diff(path.epsilon) > 0)[1:].all()
        if min_visits == 0:
            assert allowed.all()
        for epsilon, count, states in zip(path.epsilon[1:], path.n_dropped[1:], path.sets[1:], strict=True):
            np.testing.assert_array_equal(states.mask, allowed & (gap <= epsilon))
            assert len(states) == count
        distinct = len(np.unique(gap[allowed & (path.sets[0].evidence["visits"] > 0)]))
        assert len(path) == distinct + 1 if name == "WSIS" else 2 < len(path) <= min(distinct, 25) + 1


def test_no_state_may_be_dropped():
    _, log, pi_e, pi_b = random_case(8, 5, 2, 10, 3)
    path = epsilon_path("WSIS", log, pi_e, pi_b, min_visits=1000)
    assert path.n_dropped.tolist() == [0]
    assert path.chosen == 0
    assert path.bias.tolist() == [0.0]


@pytest.mark.parametrize(
    ("name", "share"), [("WSIS", 1.0), ("C-WSIS", 0.25), ("WSPDIS", 1.0), ("WDRSIS", 0.25)]
)
def test_the_choice_is_the_least_error_under_the_gate(name, share):
    for seed in range(10):
        _, log, pi_e, pi_b = random_case(seed, 12, 3, 40, 6, "zeros" if seed % 2 else "soft")
        path = path_of(ask(log, pi_e, pi_b), estimator_of(name), anchored=False)
        error = (share * path.bias) ** 2 + path.std_error**2
        open_levels = np.flatnonzero(path.ess >= min(10, path.ess.max()))
        assert path.chosen == open_levels[error[open_levels].argmin()]


def test_auto_is_the_chosen_level_with_enough_visits():
    problem = deterministic_lift(11)
    log = problem.sample(300, seed=1)
    for name, visits in (("WSIS", 3), ("C-WSPDIS", 3), ("WDRSIS", 5), ("SMIS", 3)):
        path = epsilon_path(name, log, problem.pi_e, problem.pi_b, min_visits=visits)
        found = dw.estimate(name, log, problem.pi_e, problem.pi_b)
        assert found.dropped == path.sets[path.chosen].states
        assert found.drop_origin.startswith(f"automatic choice for {name}: Q gap <=")
        assert found.value == dw.estimate(name, log, problem.pi_e, problem.pi_b, drop="auto").value
        value = path.corrected[path.chosen] if name == "C-WSPDIS" else path.estimate[path.chosen]
        assert found.value == pytest.approx(value, rel=1e-10)


def test_a_plain_name_has_no_path():
    problem = deterministic_lift(7)
    with pytest.raises(dw.errors.EstimationError, match="WSPDIS"):
        epsilon_path("WPDIS", problem.sample(10), problem.pi_e, problem.pi_b)


def test_a_single_episode():
    problem = deterministic_lift(7)
    path = epsilon_path("WSIS", problem.sample(1), problem.pi_e, problem.pi_b)
    assert path.chosen == 0  # no standard error, no choice


def test_the_table_and_the_figure():
    problem = deterministic_lift(9)
    path = epsilon_path("WSPDIS", problem.sample(200), problem.pi_e, problem.pi_b)
    assert "chosen" in str(path)
    assert len(str(path).splitlines()) <= 16
    pytest.importorskip("matplotlib")
    assert len(path.plot().axes) == 2


def test_min_visits_needs_the_behaviour_policy_of_all_actions():
    """With features it cannot be counted, and probabilities of the actions taken do not say it."""
    problem = dw.domains.continuous_lift()
    log = problem.sample(episodes=60, seed=0)
    with pytest.raises(dw.errors.OptionError, match=r"min_visits=3 .*there is none.*\n.*fit_behaviour"):
        epsilon_path("WSIS", log, problem.pi_e, min_visits=3)
    given = epsilon_path("WSIS", log, problem.pi_e, problem.pi_b, min_visits=3)
    assert given.n_dropped.tolist() == epsilon_path("WSIS", log, problem.pi_e).n_dropped.tolist()
