"""The covariance test: golden sets, plain loops, zeros, ties, range, and the greedy search."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import reference
from negligible.logs import plain, random_case

import deadweight as dw
from deadweight.domains import deterministic_lift
from deadweight.log.interface import in_memory
from deadweight.negligible import DropWarning, covariance
from deadweight.negligible.covariance_test import factors
from deadweight.sums.pairs import pair_policies

GOLDEN = Path(__file__).parents[1] / "golden"
VARIANTS = {
    "published": {"variance": "sample"},
    "published_signed": {"variance": "sample", "signed": True},
    "estimator": {},
    "estimator_signed": {"signed": True},
}

pytestmark = pytest.mark.filterwarnings("ignore::deadweight.negligible.DropWarning")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", ["lift7", "random4x3"])
def test_golden_sets(case, variant):
    data = json.loads((GOLDEN / f"{case}.json").read_text())
    episodes = [list(zip(e["s"], e["a"], e["r"], strict=True)) for e in data["episodes"]]
    log = dw.Trajectories.from_episodes(episodes)
    limits = data["eps_c"], data["eps_s"], data["max_cardinality"]
    found = covariance(log, data["pi_e"], data["pi_b"], *limits, **VARIANTS[variant])
    assert found.states == data["expected"]["covariance_test"][variant]


@pytest.mark.parametrize("kind", ["soft", "deterministic", "zeros", "same"])
def test_plain_loops(kind):
    for seed in range(40):
        episodes, log, pi_e, pi_b = random_case(seed, 2 + seed % 4, 3, 12, 6, kind)
        options = {
            "epsilon": (0.01, 0.3, 1.0, 10.0)[seed % 4],
            "epsilon_s": (0.01, 0.2)[seed // 4 % 2],
            "max_size": seed % 5,
            "variance": ("estimator", "sample")[seed // 2 % 2],
            "signed": bool(seed // 8 % 2),
            "gamma": (1.0, 0.9)[seed // 16 % 2],
        }
        found = covariance(log, pi_e, pi_b, **options)
        assert set(found.states) == reference.covariance_test(plain(episodes), pi_e, pi_b, **options)


@pytest.mark.parametrize("kind", ["soft", "deterministic", "zeros"])
def test_pairs_by_matrix_products_equal_two_passes(kind):
    for seed in range(10):
        _, log, pi_e, pi_b = random_case(seed, 5, 3, 30, 6, kind)
        parts = factors(
            log,
            pair_policies(in_memory(log).labels, pi_e, pi_b),
            np.bincount(log.states, minlength=5) * 1.0,
            1.0,
        )
        table, size = parts.pairs(), parts.size
        for sets in [[(s,) for s in range(size)], list(combinations(range(size), 2))]:
            exact = parts.moments(np.array(sets))
            at = tuple(np.array([(s[0], s[-1]) for s in sets]).T)
            np.testing.assert_allclose(table.variance[at], exact.variance, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(table.covariance[at], exact.covariance, rtol=1e-9, atol=1e-10)


def test_several_visits_of_a_zero_state_are_one_zero():
    # Both visits of state 0 in the first episode matter: one ratio is 0, the other is not.
    episodes = [[(0, 0, 1.0), (0, 1, 1.0), (1, 0, 2.0)], [(0, 1, 1.0)], [(1, 1, 0.0), (0, 1, 3.0)]]
    log = dw.Trajectories.from_episodes(episodes)
    pi_e, pi_b = [[0.0, 1.0], [0.3, 0.7]], [[0.5, 0.5], [0.5, 0.5]]
    found = covariance(log, pi_e, pi_b, epsilon=10.0)
    assert set(found.states) == reference.covariance_test(plain(episodes), pi_e, pi_b, epsilon=10.0)


def test_weights_beyond_the_range_of_doubles():
    rng = np.random.default_rng(3)
    visits = np.repeat([0, 1], [400, 3])  # the ratios of state 0 are 2 or 1e-3: products go down to 1e-1200
    episodes = [[(int(s), int(rng.integers(2)), float(rng.integers(3))) for s in visits] for _ in range(20)]
    log = dw.Trajectories.from_episodes(episodes)
    pi_b = np.array([[0.5, 0.5], [0.5, 0.5]])
    pi_e = np.array([[0.9995, 0.0005], [0.8, 0.2]])
    found = covariance(log, pi_e, pi_b, epsilon=1e9)
    assert np.isfinite(found.evidence["covariance"]).all()
    parts = factors(log, pair_policies(in_memory(log).labels, pi_e, pi_b), np.array([1.0, 1.0]), 1.0)
    assert parts.exponents is not None
    # Dropping the state with the tiny weights leaves products of a few steps, which doubles can hold.
    x = np.array([np.prod([2 * pi_e[1][a] for _, a, _ in e[400:]]) * sum(r for *_, r in e) for e in episodes])
    assert parts.moments(np.array([[0]])).variance[0] == pytest.approx(x.var(), rel=1e-9)


def test_greedy_says_that_it_is_heuristic_and_never_breaks_the_rule():
    for seed in range(10):
        _, log, pi_e, pi_b = random_case(seed, 6, 2, 25, 8)
        greedy = covariance(log, pi_e, pi_b, epsilon=2.0, max_size=5, search="greedy")
        full = covariance(log, pi_e, pi_b, epsilon=2.0, max_size=2)
        assert "heuristic" in greedy.origin
        assert "heuristic" not in full.origin
        if len(full) == 2:
            assert set(full.states) <= set(greedy.states)


def test_evidence_and_states_never_visited():
    _, log, pi_e, pi_b = random_case(0, 3, 2, 20, 4)
    wider = [np.vstack([pi, [[0.5, 0.5]]]) for pi in (pi_e, pi_b)]
    found = covariance(log, *wider, epsilon=5.0)
    assert 3 not in found.states
    assert np.isnan(found.evidence["covariance"][3])
    assert found.evidence["visits"][3] == 0
    for s in range(3):
        a, x = [], []
        for episode in log:
            ratios = [(step[0] == s, pi_e[step[0]][step[1]] / pi_b[step[0]][step[1]]) for step in episode]
            a.append(np.prod([rho for inside, rho in ratios if inside]))
            x.append(np.prod([rho for inside, rho in ratios if not inside]) * sum(r for *_, r in episode))
        assert found.evidence["covariance"][s] == pytest.approx(np.cov(a, x)[0, 1])


def test_propensities_stand_for_pi_b():
    problem = deterministic_lift(7)
    log = problem.sample(200)
    assert covariance(log, problem.pi_e, None) == covariance(log, problem.pi_e, problem.pi_b)


def test_what_cannot_be_done_is_refused():
    problem = deterministic_lift(7)
    log = problem.sample(10)
    with pytest.raises(dw.errors.EstimationError, match="two episodes"):
        covariance(problem.sample(1), problem.pi_e, problem.pi_b)
    for name, value in (("variance", "both"), ("search", "random"), ("gamma", 0.0)):
        with pytest.raises(dw.errors.OptionError, match=f"{name} must be"):
            covariance(log, problem.pi_e, problem.pi_b, **{name: value})


@pytest.mark.filterwarnings("default::deadweight.negligible.DropWarning")
def test_a_warning_when_nearly_all_or_nothing_is_covered():
    _, log, _, pi_b = random_case(1, 2, 2, 20, 4)
    with pytest.warns(DropWarning, match=r"100\.0%"):
        assert len(covariance(log, pi_b, pi_b)) == 2
    with pytest.warns(DropWarning, match="no logged step"):
        covariance(log, pi_b, pi_b, max_size=0)
