"""The plain references against the recorded data sets: two logs, four drop sets each, every value."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference as ref

GOLDEN = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parent / "golden").glob("*.json"))
}
DROPS = ("drop_none", "drop_q", "drop_cov", "drop_state0")
CELLS = [
    (name, drop, key)
    for name, data in GOLDEN.items()
    for drop in DROPS
    for key in data["expected"][drop]
    if key != "states"
]


def load(name: str) -> tuple[dict[str, Any], ref.Log, np.ndarray, np.ndarray]:
    data = GOLDEN[name]
    log = ref.Log([list(zip(e["s"], e["a"], e["r"], strict=True)) for e in data["episodes"]])
    return data, log, np.array(data["pi_e"]), np.array(data["pi_b"])


def compute(key: str, log: ref.Log, pi_e: np.ndarray, pi_b: np.ndarray, drop: set[int]) -> Any:
    """The reference behind one key of the recorded file."""
    if "_k" in key and ("INCRIS" in key or key.startswith("m_")):
        label, window, finished, variance = key.split("_")
        estimate, windows = ref.incremental(
            log,
            pi_e,
            pi_b,
            drop,
            weighted=label == "WINCRIS",
            window=int(window[1:]),
            variance="estimator" if variance == "var-estimator" else "sample",
            ended_ratios="absorb" if finished == "finished-absorbing" else "one",
        )
        return windows if label == "m" else estimate
    if key.startswith("SDRE_"):
        mode: Any = key.removeprefix("SDRE_")
        return ref.sdre(log, pi_e, pi_b, drop, mode=mode)
    weighted = key.startswith("W")
    label = key.removeprefix("W")
    if label.startswith("DR"):
        first = not label.endswith("keep_first")
        return ref.doubly_robust(
            log, pi_e, pi_b, drop, weighted=weighted, drop_first=first, unseen="terminate"
        )
    if label == "MIS":
        return ref.mis(log, pi_e, pi_b, drop)
    return {"IS": ref.is_, "PDIS": ref.per_decision}[label](log, pi_e, pi_b, drop, weighted=weighted)


@pytest.mark.parametrize(("name", "drop", "key"), CELLS)
def test_every_recorded_estimate(name: str, drop: str, key: str) -> None:
    data, log, pi_e, pi_b = load(name)
    expected = data["expected"][drop]
    got = compute(key, log, pi_e, pi_b, set(expected["states"]))
    if key.startswith("m_"):
        assert got == expected[key]
    else:
        assert got == pytest.approx(expected[key], rel=1e-8 if "SDRE" in key else 1e-10, abs=0)


@pytest.mark.parametrize("name", GOLDEN)
def test_recorded_model_sets_and_tmis(name: str) -> None:
    data, log, pi_e, pi_b = load(name)
    expected = data["expected"]
    P, r, _ = ref.fit_model(log, data["n_states"], data["n_actions"], unseen="terminate")
    q, v = ref.q_values(P, r, pi_e, log.horizon)
    assert log.horizon == expected["max_length"]
    np.testing.assert_allclose(q[0], expected["Q_t0"], rtol=1e-10)
    np.testing.assert_allclose(v[0], expected["V_t0"], rtol=1e-10)
    assert ref.direct(log, pi_e, unseen="terminate") == pytest.approx(expected["DM"], rel=1e-10)
    assert ref.tmis(log, pi_e, unseen_actions="zero") == pytest.approx(expected["TMIS"], rel=1e-10)
    assert sorted(ref.q_gap_set(log, pi_e, data["eps_q"], unseen="terminate")) == expected["q_negligible"]
    for key, states in expected["covariance_test"].items():
        found = ref.covariance_test(
            log,
            pi_e,
            pi_b,
            data["eps_c"],
            data["eps_s"],
            data["max_cardinality"],
            variance="estimator" if key.startswith("estimator") else "sample",
            signed=key.endswith("signed"),
        )
        assert sorted(found) == states, key


@pytest.mark.parametrize(
    ("finished", "expected"),
    [("absorb", Fraction(17, 9)), ("leave", Fraction(2)), ("survivors", Fraction(3, 2))],
)
def test_finished_conventions_on_the_toy_log(finished: Any, expected: Fraction) -> None:
    """Ratios 1/2 and (2, 2), rewards 1: exactly 17/9, 2 and 3/2."""
    log = ref.Log([[(0, 0, 1)], [(0, 1, 1), (0, 1, 1)]])
    pi_e: Any = [[Fraction(1, 4), Fraction(1)]]  # only the ratios matter here
    pi_b: Any = [[Fraction(1, 2), Fraction(1, 2)]]
    assert ref.per_decision(log, pi_e, pi_b, weighted=True, finished=finished) == expected


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_identities(name: str, gamma: float) -> None:
    """Relations between references that share little code."""
    _, log, pi_e, pi_b = load(name)
    everything = set(range(len(pi_e)))
    mean = ref.behaviour(log, gamma)
    for weighted in (False, True):
        assert ref.is_(log, pi_e, pi_b, everything, gamma, weighted) == pytest.approx(mean)
        assert ref.per_decision(log, pi_e, pi_b, everything, gamma, weighted) == pytest.approx(mean)
        assert ref.corrected_is(log, pi_e, pi_b, None, gamma, weighted) == ref.is_(
            log, pi_e, pi_b, None, gamma, weighted
        )
        zero_q = np.zeros((log.horizon, *pi_e.shape))
        assert ref.doubly_robust(log, pi_e, pi_b, {0}, gamma, weighted, q=zero_q) == pytest.approx(
            ref.per_decision(log, pi_e, pi_b, {0}, gamma, weighted)
        )
        assert ref.std_error(
            ref.doubly_robust_slots(log, pi_e, pi_b, {0}, gamma, q=zero_q), weighted
        ) == pytest.approx(ref.std_error(ref.per_decision_slots(log, pi_e, pi_b, {0}, gamma), weighted))
    assert ref.cis(log, pi_e, pi_b, gamma=gamma, given="return") == pytest.approx(
        ref.is_(log, pi_e, pi_b, gamma=gamma)
    )
    assert ref.cis(log, pi_e, pi_b, gamma=gamma, given="reward") == pytest.approx(
        ref.per_decision(log, pi_e, pi_b, gamma=gamma)
    )
    unlimited, windows = ref.incremental(log, pi_e, pi_b, gamma=gamma, window=None)
    assert len(windows) == log.horizon
    assert np.isfinite(unlimited)


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("weighted", [False, True])
def test_standard_errors_are_those_of_the_jackknife(name: str, weighted: bool) -> None:
    """Leave-one-out deviations: equal to the influence values for means, close to them for ratios."""
    _, short, pi_e, pi_b = load(name)
    rng = np.random.default_rng(5)
    log = ref.Log([short.episodes[i] for i in rng.integers(short.n, size=60)])
    q, drop = ref.fitted_q(log, pi_e), {1}
    per_decision = ref.per_decision_slots(log, pi_e, pi_b, drop)
    cases: list[tuple[Any, Callable[..., float], dict[str, Any]]] = [
        (ref.is_slots(log, pi_e, pi_b, drop), ref.is_, {}),
        (per_decision, ref.per_decision, {}),
        (ref.doubly_robust_slots(log, pi_e, pi_b, drop, q=q), ref.doubly_robust, {"q": q}),
        (
            per_decision + ref.correction_slots(log, pi_e, pi_b, drop, q=q),
            ref.corrected_per_decision,
            {"q": q},
        ),
    ]
    n = log.n
    parts = [ref.Log([*log.episodes[:i], *log.episodes[i + 1 :]]) for i in range(n)]
    for slots, estimate, options in cases:
        left = np.array([estimate(part, pi_e, pi_b, drop, weighted=weighted, **options) for part in parts])
        jackknife = np.sqrt((n - 1) / n * np.sum((left - left.mean()) ** 2))
        assert ref.std_error(slots, weighted) == pytest.approx(jackknife, rel=0.25 if weighted else 1e-8)


CUT = ref.Log(
    [[(0, 0, 1.0), (1, 0, 2.0)], [(0, 1, 3.0), (1, 0, 4.0)], [(0, 0, 5.0)]],
    terminated=[True, False, False],
    next_states=[[1, -1], [1, 0], [-1]],
)


def test_a_cut_step_gives_its_reward_but_no_unknown_transition() -> None:
    """(0, 0) is seen twice, once with unknown successor; (1, 0) ends once and is cut before state 0 once."""
    P, r, d0 = ref.fit_model(CUT, 3, 2)
    np.testing.assert_allclose(P[0], [[0, 1, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_allclose(P[1, 0], [0.5, 0, 0, 0.5])
    np.testing.assert_allclose(r, [[3, 3], [3, 3], [0, 0]])
    np.testing.assert_allclose(d0, [1, 0, 0])
    # Action 1 was never seen in state 1, and state 2 was never visited.
    np.testing.assert_allclose(P[1, 1], P[1, 0])
    np.testing.assert_allclose(P[2], [[0, 0, 0, 1]] * 2)
    P, r, _ = ref.fit_model(CUT, 3, 2, unseen="terminate")
    assert r[1, 1] == 0
    assert P[1, 1, 3] == 1
    P, r, _ = ref.fit_model(CUT, 3, 2, unseen="mean")
    assert r[1, 1] == r[2, 0] == 3
    np.testing.assert_allclose(P[1, 1], [0.25] * 4)
    np.testing.assert_allclose(P[1, 0], [0.5, 0, 0, 0.5], atol=1e-8)


def test_marginal_estimators_by_hand() -> None:
    """With pi_e = (1/4, 3/4) and pi_b uniform the ratios are 1/2 and 3/2."""
    pi_e, pi_b = [[0.25, 0.75]] * 3, [[0.5, 0.5]] * 3
    # t = 0: (0.5*1 + 1.5*3 + 0.5*5)/3; known moves to 1, mean ratio (0.5 + 1.5)/2. t = 1: (0.5*2 + 0.5*4)/2.
    assert ref.mis(CUT, pi_e, pi_b) == pytest.approx(7.5 / 3 + 1.0 * 1.5)
    # t = 0: 0.25*3 + 0.75*3, all mass moves to 1. t = 1: only action 0 is seen there, mean reward 3.
    assert ref.tmis(CUT, pi_e) == pytest.approx(3 + 3)
    assert ref.tmis(CUT, pi_e, unseen_actions="zero") == pytest.approx(3 + 0.25 * 3)
    assert ref.tmis(CUT, pi_e, drop={0, 1}, unseen_actions="zero") == pytest.approx(3 + 3)
    # W_0 = 0.5, 1.5, 0.5; in state 1 at t = 1 its mean is 1.
    assert ref.cis(CUT, pi_e, pi_b) == pytest.approx((7.5 + 0.5 * 2 + 0.5 * 4) / 3)


@pytest.mark.parametrize("name", GOLDEN)
def test_flags_a_step_are_the_same_drop_as_a_set(name: str) -> None:
    _, log, pi_e, pi_b = load(name)
    flags = ref.dropped_steps(log, {1})
    for estimate in (ref.is_, ref.per_decision, ref.doubly_robust, ref.mis, ref.sdre, ref.corrected_is):
        assert estimate(log, pi_e, pi_b, flags) == estimate(log, pi_e, pi_b, {1})


@pytest.mark.parametrize("name", GOLDEN)
def test_density_of_the_mixed_policy(name: str) -> None:
    """Dropping S^A is evaluating the policy that equals pi_b there, to which the plain forms apply."""
    _, log, pi_e, pi_b = load(name)
    mixed = pi_e.copy()
    mixed[[0, 1]] = pi_b[[0, 1]]
    cut = ref.Log(log.episodes, terminated=[False] * log.n)
    assert ref.sdre(log, pi_e, pi_b, {0, 1}) == pytest.approx(
        ref.sdre(log, mixed, pi_b, mode="episodic"), rel=1e-8
    )
    assert ref.sdre(cut, pi_e, pi_b, {0, 1}) == pytest.approx(
        ref.sdre(cut, mixed, pi_b, mode="published"), rel=1e-8
    )


def test_correction_is_the_difference_of_model_values() -> None:
    """On a log that holds every path of its own model once, SIS + m has the value of pi_e exactly."""
    pi_e, pi_b = [[0.2, 0.8], [0.7, 0.3]], [[0.5, 0.5], [0.5, 0.5]]
    paths = [[(0, a, float(a)), (1, b, 2.0 * b + 1)] for a in (0, 1) for b in (0, 1)]
    log = ref.Log(paths)
    truth = ref.direct(log, pi_e)
    assert truth == pytest.approx(0.8 + 0.7 * 1 + 0.3 * 3)
    for drop in (set(), {0}, {1}, {0, 1}):
        for weighted in (False, True):
            assert ref.corrected_is(log, pi_e, pi_b, drop, weighted=weighted) == pytest.approx(truth)
            assert ref.corrected_per_decision(log, pi_e, pi_b, drop, weighted=weighted) == pytest.approx(
                truth
            )
            assert ref.doubly_robust(log, pi_e, pi_b, drop, weighted=weighted) == pytest.approx(truth)


def test_return_test_and_its_degenerate_states() -> None:
    # Means 2 and 7: between 25 (1 degree), within 4 (2 degrees), F = 12.5; P(F > x) = 1 - sqrt(x / (x + 2)).
    assert ref.anova_p([[1.0, 3.0], [6.0, 8.0]]) == pytest.approx(1 - np.sqrt(12.5 / 14.5))
    assert np.isnan(ref.anova_p([[1.0, 2.0]]))
    assert np.isnan(ref.anova_p([[1.0], [2.0]]))
    assert ref.anova_p([[0.3, 0.1 + 0.2], [0.3]]) == 1
    assert ref.anova_p([[1.0, 1.0], [2.0]]) == 0
    log = ref.Log([[(0, 0, 1.0), (1, 0, 1.0)], [(0, 1, 0.5), (1, 1, 1.0)], [(0, 0, 2.0), (1, 0, 1.0)]])
    assert ref.return_p_values(log)[1] == 1
    assert 1 in ref.return_test_set(log)
