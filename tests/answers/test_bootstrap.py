"""The bootstrap: weights, resamples against resampled logs, and the two intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import deadweight as dw
from deadweight.answers.answering import Answers
from deadweight.answers.bootstrap import _CUTS, LEVELS, _add_product, bca_levels, poisson_weights, resampled
from deadweight.answers.intervals import influences
from deadweight.answers.plans import Plan
from deadweight.estimators.estimator import estimator_of
from deadweight.log.interface import InMemory, in_memory
from deadweight.question.asked import Options
from deadweight.question.drops import Drop, given_drop
from deadweight.question.question import ask_pair
from deadweight.sums.pairs import pair_policies

S, A, N, RESAMPLES = 4, 3, 30, 9


def make_log(seed: int = 0) -> dw.Trajectories:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, size=N)
    steps = int(lengths.sum())
    return dw.Trajectories(
        rng.integers(S, size=steps),
        rng.integers(A, size=steps),
        rng.normal(size=steps),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


RNG = np.random.default_rng(1)
PI_E, PI_B = (0.7 * RNG.dirichlet(np.ones(A), S) + 0.3 / A for _ in range(2))


def plan_of(name: str, parts: list[dw.Trajectories], drop: Any = (1,), **options: Any) -> Plan:
    pair = pair_policies(in_memory(parts[0]).labels, PI_E, PI_B)
    question = ask_pair(InMemory(parts), pair, 0.9, Options(resamples=RESAMPLES, seed=5, **options))
    chosen = given_drop(drop, pair, parts[0]) if estimator_of(name).is_state_based else Drop()
    return Plan(question, estimator_of(name), chosen)


def resamples_of(plan: Plan) -> np.ndarray:
    return resampled(Answers(plan.question, [plan]), plan)


def test_copies_are_poisson_and_belong_to_seed_resample_and_episode() -> None:
    copies = poisson_weights(3, np.arange(4000), 250)
    shares = np.bincount(copies.astype(int).ravel(), minlength=9)[:9] / copies.size
    np.testing.assert_allclose(shares, stats.poisson(1).pmf(np.arange(9)), atol=1.5e-3)
    # Neighbouring episodes, and neighbouring resamples, have nothing to do with each other.
    for a, b in ((copies[:-1], copies[1:]), (copies[:, :-1], copies[:, 1:])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 5e-3
    some = np.array([17, 3, 2500])
    np.testing.assert_array_equal(poisson_weights(3, some, 250), copies[some])
    np.testing.assert_array_equal(poisson_weights(3, some, 101), copies[some, :101])
    assert not np.array_equal(poisson_weights(4, some, 250), copies[some])


def test_copies_are_as_exact_as_their_documentation_says() -> None:
    share = np.diff(np.concatenate([[0], _CUTS, [LEVELS]])) / LEVELS
    k = np.arange(len(share))
    assert share @ k == 1.0
    assert share @ k**2 - 1 == 1 - 2.0**-15
    missed = stats.poisson(1).sf(k[-1])
    assert (np.abs(share - stats.poisson(1).pmf(k)).sum() + missed) / 2 < 4e-5
    assert missed < 1.2e-6


@pytest.mark.parametrize(("columns", "resamples"), [(1, 5), (3, 1001), (21, 300), (32, 200), (33, 50)])
def test_products_in_pieces_are_products(columns: int, resamples: int) -> None:
    rng = np.random.default_rng(0)
    copies, table = rng.integers(9, size=(400, resamples), dtype=np.uint8), rng.normal(size=(400, columns))
    sums = np.ones((resamples, columns))
    _add_product(sums, copies, table)
    np.testing.assert_allclose(sums, 1 + copies.T.astype(float) @ table, rtol=1e-9, atol=1e-9)


NAMES = [
    "IS",
    "WIS",
    "PDIS",
    "WPDIS",
    "WSPDIS",
    "WDRSIS",
    "C-WSIS",
    "C-WSPDIS",
    "BEHAVIOUR",
    "MIS",
    "WINCRIS",
    "DM",
]


@pytest.mark.parametrize("finished", ["absorb", "leave", "survivors"])
@pytest.mark.parametrize("name", NAMES)
def test_a_resample_is_the_estimate_of_the_resampled_log(name: str, finished: str) -> None:
    """With a given model, so that terms do not change with the resample."""
    log = make_log()
    model = None if name == "DM" else dw.fit_mdp(log, S, A)
    found = resamples_of(plan_of(name, [log], finished=finished, model=model))
    copies = poisson_weights(5, np.arange(N), RESAMPLES).astype(int)
    for r in range(RESAMPLES):
        again = log.select(np.repeat(np.arange(N), copies[:, r]))
        if again.horizon < log.horizon and name == "WDRSIS":
            continue  # Q counts the steps to go from the longest episode
        plan = plan_of(name, [again], finished=finished, model=model)
        expected = Answers(plan.question, [plan]).fit(plan).value
        assert found[r] == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["WIS", "WPDIS", "C-WSPDIS", "PDIS"])
def test_the_same_however_the_log_is_cut(name: str) -> None:
    log = make_log()
    whole = resamples_of(plan_of(name, [log], model=dw.fit_mdp(log, S, A)))
    parts = [log.select(np.arange(11)), log.select(np.arange(11, 12)), log.select(np.arange(12, N))]
    cut = resamples_of(plan_of(name, parts, model=dw.fit_mdp(log, S, A)))
    np.testing.assert_allclose(cut, whole, rtol=1e-10)


def test_huge_weights_resample_in_range() -> None:
    rng = np.random.default_rng(2)
    states = np.zeros(40 * 300, dtype=int)
    offsets = np.concatenate([[0], np.cumsum(np.repeat([600, 400, 100, 100], 10))])
    log = dw.Trajectories(states, (rng.random(len(states)) < 0.3).astype(int), np.ones(len(states)), offsets)
    found = dw.estimate("WPDIS", log, [[1e-9, 1 - 1e-9]], [[0.7, 0.3]], interval="bootstrap", resamples=20)
    assert np.isfinite(found.interval).all()


def test_equal_returns_leave_no_doubt() -> None:
    log = dw.Trajectories.from_episodes([[(0, i % 2, 2.5)] for i in range(12)])
    for kind in ("bootstrap", "bca"):
        found = dw.estimate("WIS", log, [[0.2, 0.8]], [[0.5, 0.5]], interval=kind, resamples=50)
        assert found.interval == pytest.approx((2.5, 2.5))
        assert found.bias_allowance == 0.0


def test_bca_without_bias_and_skewness_is_the_percentile_interval() -> None:
    levels = bca_levels(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), 0.0, np.array([-1.0, 0.0, 1.0]), 0.9)
    np.testing.assert_allclose(levels, [0.05, 0.95])


def test_bca_levels_against_scipy() -> None:
    x = np.random.default_rng(4).exponential(size=25)
    theirs = stats.bootstrap((x,), np.mean, n_resamples=400, method="BCa", rng=np.random.default_rng(0))
    levels = bca_levels(theirs.bootstrap_distribution, x.mean(), x - x.mean(), 0.95)
    ours = np.quantile(theirs.bootstrap_distribution, levels)
    np.testing.assert_allclose(ours, theirs.confidence_interval, rtol=2e-3)


@pytest.mark.parametrize("name", ["PDIS", "WPDIS", "C-WSPDIS", "MIS", "BEHAVIOUR"])
def test_influences_in_order_with_the_standard_error(name: str) -> None:
    plan = plan_of(name, [make_log()])
    answers = Answers(plan.question, [plan])
    values = influences(answers, plan)
    assert values.std(ddof=1) / np.sqrt(N) == pytest.approx(answers.std_error(plan))


def test_spread_of_the_resamples_is_the_standard_error() -> None:
    problem = dw.domains.inventory(5, horizon=3, pi_e="softened-optimal")
    log = problem.sample(2000, seed=0)
    found = dw.estimate("WPDIS", log, problem.pi_e, problem.pi_b, interval="bootstrap", resamples=2000)
    assert found.sampling_error / 1.96 == pytest.approx(found.std_error, rel=0.06)


@pytest.mark.parametrize("kind", ["bootstrap", "bca"])
def test_one_episode_tells_nothing_of_its_noise(kind: str) -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)]])
    found = dw.estimate("WIS", log, [[1.0]], [[1.0]], interval=kind)
    assert tuple(found.interval) == (-np.inf, np.inf)
    clipped = dw.estimate("WIS", log, [[1.0]], [[1.0]], interval=kind, return_range=(0.0, 2.0))
    assert tuple(clipped.interval) == (0.0, 2.0)
