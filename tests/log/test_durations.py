"""Rows that take time of their own: discounted by the time that has passed, in sums and in the model."""

from __future__ import annotations

import warnings
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deadweight_studies.ends import table_without_flags

import deadweight as dw
from deadweight.errors import DataError, EstimationError, OptionError
from deadweight.io.stream import open_stream
from deadweight.log.columns import _by_episode, _by_step, elapsed
from deadweight.question.question import ask
from deadweight.values.model import count

GAMMA = 0.9
REFUSED = ("MIS", "SMIS", "TMIS", "STMIS", "CIS", "SDRE", "SSDRE")
NAMES = [name for name in dw.ESTIMATORS if name not in REFUSED]
PI_B = np.array([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
PI_E = np.array([[0.2, 0.8], [0.7, 0.3], [0.4, 0.6]])


def random_log(durations: Any, episodes: int = 80, seed: int = 0, cut: bool = False) -> dw.Trajectories:
    """Three states, two actions; episodes end by themselves, or are cut after six steps."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(4), (3, 2))
    mdp = dw.TabularMDP(P, rng.normal(size=(3, 2)), [0.5, 0.3, 0.2], 6 if cut else None)
    log = dw.simulate(mdp, PI_B, episodes, seed)
    noisy = log.rewards + rng.normal(size=log.n_steps)
    return dw.Trajectories(
        log.states,
        log.actions,
        noisy,
        log.offsets,
        propensities=log.propensities,
        terminated=log.terminated,
        time_limit=log.time_limit,
        durations=durations(rng, log.n_steps),
    )


def constant(value: float) -> Any:
    return lambda rng, n: np.full(n, value)


def varying(rng: np.random.Generator, n: int) -> Any:
    return rng.choice([0.5, 1.0, 3.0], n)


def without(log: dw.Trajectories) -> dw.Trajectories:
    return dw.Trajectories(
        log.states,
        log.actions,
        log.rewards,
        log.offsets,
        propensities=log.propensities,
        terminated=log.terminated,
        time_limit=log.time_limit,
    )


def numbers(est: dw.Estimate) -> list[float]:
    found = [est.value, est.std_error, *(est.interval or ())]
    return [*found, est.bias or 0.0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cut", [False, True])
def test_equal_durations_are_another_discount(name: str, cut: bool) -> None:
    """All rows take 2: the same as a discount of gamma squared, to the last number."""
    log = random_log(constant(2.0), cut=cut)
    options: dict[str, Any] = {"drop": [1]} if name != "BLEND" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = dw.estimate(name, log, PI_E, PI_B, gamma=GAMMA, **options)
        theirs = dw.estimate(name, without(log), PI_E, PI_B, gamma=GAMMA**2, **options)
    np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["C-WSPDIS", "WDRSIS", "C-SIS", "WSIS"])
def test_paths_and_automatic_drops_as_well(name: str) -> None:
    log = random_log(constant(2.0))
    ours = dw.epsilon_path(name, log, PI_E, PI_B, gamma=GAMMA)
    theirs = dw.epsilon_path(name, without(log), PI_E, PI_B, gamma=GAMMA**2)
    for column in ("epsilon", "estimate", "std_error", "bias", "corrected", "ess"):
        np.testing.assert_allclose(getattr(ours, column), getattr(theirs, column), rtol=1e-7, atol=1e-9)
    assert ours.chosen == theirs.chosen
    for rule in ("return-test:0.3", "covariance:0.5", "q-gap:0.8"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            a = dw.estimate(name, log, PI_E, PI_B, gamma=GAMMA, drop=rule)
            b = dw.estimate(name, without(log), PI_E, PI_B, gamma=GAMMA**2, drop=rule)
        assert a.dropped == b.dropped
        assert a.value == pytest.approx(b.value, rel=1e-9)


def test_without_a_discount_durations_change_no_bit() -> None:
    log = random_log(varying)
    for name in dw.ESTIMATORS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs = (dw.estimate(name, one, PI_E, PI_B, drop=[1]) for one in (log, without(log)))
        assert numbers(ours) == numbers(theirs)


# --- a semi-Markov problem worked by hand ---------------------------------------------------------------


def two_steps() -> tuple[list[tuple[Any, ...]], np.ndarray, np.ndarray]:
    """All trajectories with their probability under pi_b: in state 0 action 1 takes 3 or 1, else all take 1.

    A trajectory is (probability, states, actions, rewards, durations).
    """
    pi_b, found = np.array([[0.5, 0.5], [0.25, 0.75]]), []
    for a, b, slow in product((0, 1), (0, 1), (False, True)):
        chance = pi_b[0, a] * pi_b[1, b] * (0.4 if slow else 0.6)
        takes = 3.0 if a == 1 and slow else 1.0
        # Being slow pays at once and delays what follows: discount and reward go together.
        found.append((chance, [0, 1], [a, b], [1.0 + a + 2.0 * slow, 4.0 * b], [takes, 2.0]))
    return found, pi_b, np.array([[0.1, 0.9], [0.4, 0.6]])


def exact_value(pi_e: np.ndarray) -> float:
    """By hand: the second step pays 4 pi(1|1), discounted by 0.9, or by 0.6 * 0.9 + 0.4 * 0.9^3."""
    later = 4.0 * pi_e[1, 1]
    first = [1.0 + 0.4 * 2.0 + 0.9 * later, 2.0 + 0.4 * 2.0 + (0.6 * 0.9 + 0.4 * 0.9**3) * later]
    return float(pi_e[0] @ first)


def weighted_log(counts: list[int]) -> dw.Trajectories:
    rows, _, _ = two_steps()
    chosen = [row for row, number in zip(rows, counts, strict=True) for _ in range(number)]
    columns = [[x for row in chosen for x in row[k]] for k in range(1, 5)]
    return dw.Trajectories(*columns[:3], np.arange(0, 2 * len(chosen) + 1, 2), durations=columns[3])


def whole_log() -> tuple[dw.Trajectories, np.ndarray, np.ndarray]:
    """Every trajectory as often as it is likely: sample means are expectations."""
    rows, pi_b, pi_e = two_steps()
    counts = [round(200 * row[0]) for row in rows]
    assert sum(counts) == 200
    assert all(abs(number - 200 * row[0]) < 1e-9 for number, row in zip(counts, rows, strict=True))
    return weighted_log(counts), pi_b, pi_e


@pytest.mark.parametrize("name", ["IS", "PDIS", "WIS", "WPDIS", "DM", "DR", "WDR", "C-SPDIS", "C-WSPDIS"])
def test_the_expectation_over_all_trajectories_is_the_value(name: str) -> None:
    log, pi_b, pi_e = whole_log()
    est = dw.estimate(name, log, pi_e, pi_b, gamma=0.9, drop=[1], interval=None)
    assert est.value == pytest.approx(exact_value(pi_e), abs=1e-10)


def test_the_model_discounts_its_transitions() -> None:
    log, pi_b, pi_e = whole_log()
    question = ask(log, pi_e, pi_b, 0.9)
    P = question.model.P.toarray().reshape(2, 2, 3)
    np.testing.assert_allclose(P[0, :, 1], [0.9, 0.6 * 0.9 + 0.4 * 0.9**3], rtol=1e-12)
    np.testing.assert_allclose(P.sum(axis=2), 1.0)
    np.testing.assert_allclose(question.chain.P.toarray().reshape(2, 2, 3)[0, :, 1], 1.0)
    np.testing.assert_allclose(question.model.r, [[1.8, 2.8], [0.0, 4.0]])


def test_improve_and_the_gate_discount_by_durations() -> None:
    log, pi_b, _ = whole_log()
    imp = dw.improve(log, pi_b, gamma=0.9, gate=False, evaluation=False)
    best = np.array([[0.0, 1.0], [0.0, 1.0]])
    np.testing.assert_array_equal(imp.policy.probs, best)
    assert imp.gain == pytest.approx(exact_value(best) - exact_value(pi_b), abs=1e-10)


# --- influence ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["DM", "WDR", "WDRSIS", "C-WSPDIS", "WPDIS", "DR"])
def test_the_influence_is_the_derivative_by_the_weight_of_an_episode(name: str) -> None:
    """Repeat one of many copies of each episode: the estimate moves by its influence over n."""
    log = random_log(varying, episodes=12, seed=3)
    copies = 400
    once = np.repeat(np.arange(12), 1)
    est = dw.estimate(name, log, PI_E, PI_B, gamma=GAMMA, drop=[1], also=["influence"])
    many = np.tile(once, copies)
    base = dw.estimate(name, log.select(many), PI_E, PI_B, gamma=GAMMA, drop=[1], interval=None).value
    assert base == pytest.approx(est.value, rel=1e-9)
    for episode in (0, 5):
        more = log.select(np.concatenate([many, [episode]]))
        moved = dw.estimate(name, more, PI_E, PI_B, gamma=GAMMA, drop=[1], interval=None).value - base
        expected = est.influence[episode] / (12 * copies + 1)
        assert moved == pytest.approx(expected, rel=5e-3, abs=1e-8)


# --- counting, selecting, refusing ------------------------------------------------------------------------


def test_time_that_has_passed() -> None:
    np.testing.assert_array_equal(elapsed(np.array([1.0, 2.0, 4.0]), np.array([0, 3])), [0.0, 1.0, 3.0])
    log = random_log(varying)
    timed = log.discounted(GAMMA)
    some = timed.select([3, 1])
    assert some.discounting is not None
    np.testing.assert_array_equal(some.rewards, some.discounting.rewards * some.discounting.before)
    np.testing.assert_array_equal(some.rewards, log.select([3, 1]).discounted(GAMMA).rewards)
    np.testing.assert_array_equal(count([timed], 3, 2).rewards(), count([log], 3, 2).rewards())


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_right_says_so_in_one_message(name: str) -> None:
    log = random_log(varying)
    with pytest.raises(EstimationError, match=r"durations|undiscounted"):
        dw.estimate(name, log, PI_E, PI_B, gamma=GAMMA, drop=None if name.startswith("S") else "auto")


def test_refusals() -> None:
    log = random_log(varying)
    with pytest.raises(OptionError, match="does not say how long"):
        dw.estimate("DM", log, PI_E, PI_B, gamma=GAMMA, model=dw.fit_mdp(log))
    for wrong in ([1.0, 0.0], [1.0, -1.0], [1.0, np.nan], [1.0, np.inf]):
        with pytest.raises(DataError, match=r"above 0; found .* episode 0, step 1"):
            dw.Trajectories([0, 0], [0, 0], [1.0, 1.0], [0, 2], durations=wrong)
    with pytest.raises(DataError, match="one entry for each step"):
        dw.Trajectories([0, 0], [0, 0], [1.0, 1.0], [0, 2], durations=[1.0])
    with pytest.raises(DataError, match="must hold numbers"):
        dw.Trajectories([0], [0], [1.0], [0, 1], durations=["long"])
    featured = dw.Trajectories(
        None,
        [0, 1],
        [0.0, 1.0],
        [0, 1, 2],
        features=[[0.5], [0.1]],
        durations=[1.0, 2.0],
        propensities=[0.5, 0.5],
    )
    with pytest.raises(EstimationError, match="has features for states"):
        dw.estimate("WIS", featured, dw.RowPolicy([[0.5, 0.5], [0.5, 0.5]]), gamma=GAMMA)


def test_the_table_says_the_discount_that_was_asked_for() -> None:
    ev = dw.evaluate(random_log(varying), PI_E, PI_B, gamma=GAMMA)
    assert ev.conventions["gamma"] == GAMMA
    assert ("Discount (gamma)", "0.9") in ev.background.conventions


def test_time_is_added_up_in_the_same_order_by_step_and_by_episode() -> None:
    rng = np.random.default_rng(5)
    for episodes, longest in ((50, 6), (4, 30), (1, 1), (7, 7)):
        lengths = rng.integers(1, longest + 1, episodes)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        spent = rng.exponential(size=offsets[-1])
        expected = [sum(spent[lo:row], 0.0) for lo, hi in pairwise(offsets) for row in range(lo, hi)]
        for found in (
            elapsed(spent, offsets),
            _by_episode(spent, offsets),
            _by_step(spent, offsets[:-1], lengths),
        ):
            assert found.tolist() == expected


def table_of(log: dw.Trajectories) -> dict[str, Any]:
    return {
        **table_without_flags(log),
        "propensity": log.propensities,
        "duration": log.durations,
    }


def test_tables_and_files_have_a_column_of_durations(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    log = random_log(varying)
    shuffled = np.random.default_rng(0).permutation(log.n_steps)
    table = {name: column[shuffled] for name, column in table_of(log).items()}
    expected = dw.estimate("WDR", log, PI_E, gamma=GAMMA, drop=None)
    found = dw.read(table, time_limit=None)
    np.testing.assert_array_equal(found.durations, log.durations)
    assert dw.estimate("WDR", found, PI_E, gamma=GAMMA).value == pytest.approx(expected.value, rel=1e-12)
    parquet.write_table(pa.table(table_of(log)), tmp_path / "log.parquet", row_group_size=40)
    stream = open_stream([tmp_path / "log.parquet"], part_rows=50, time_limit=None)
    assert stream.has_durations
    assert len(stream) > 1
    ours, theirs = (dw.estimate("WDR", one, PI_E, interval=None).value for one in (stream, log))
    assert ours == pytest.approx(theirs, rel=1e-12)
    ours = dw.estimate("WDR", stream, PI_E, gamma=GAMMA).value
    assert ours == pytest.approx(expected.value, rel=1e-12)
    whole = dw.estimate("WDR", dw.read(tmp_path / "log.parquet", time_limit=None), PI_E, gamma=GAMMA)
    assert whole.value == pytest.approx(expected.value, rel=1e-12)


def test_the_other_verbs_take_durations_as_well() -> None:
    log, plain = random_log(constant(2.0)), without(random_log(constant(2.0)))
    policies = {"a": PI_E, "b": np.full((3, 2), 0.5)}
    ours, theirs = (
        dw.compare(one, policies, PI_B, gamma=gamma) for one, gamma in ((log, GAMMA), (plain, GAMMA**2))
    )
    assert ours.ranking == theirs.ranking
    for name in policies:
        a, b = (found.to_dict()["policies"][name] for found in (ours, theirs))
        np.testing.assert_allclose([a["value"], *a["interval"]], [b["value"], *b["interval"]], rtol=1e-8)
    one = dw.improve(log, PI_B, gamma=GAMMA, evaluation=False)
    other = dw.improve(plain, PI_B, gamma=GAMMA**2, evaluation=False)
    assert one.gain == pytest.approx(other.gain, rel=1e-9)
    assert [change.state for change in one.considered] == [change.state for change in other.considered]
