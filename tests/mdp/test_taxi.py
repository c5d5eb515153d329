"""Taxi: exact values, the policies that come with the package, and their training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from deadweight_studies.taxi_training import main, train

from deadweight.domains import taxi
from deadweight.errors import OptionError, PolicyError
from deadweight.mdp.tabular import policy_value

UNIFORM = np.full((2000, 6), 1 / 6)
UNIFORM_VALUES = {10: -9.9993000881, 50: -49.9645314143, 250: -249.7697454824, 1000: -999.0392957040}
PUBLISHED_VALUES = {  # pi19, pi18
    10: (-8.2636329656, -8.6359523229),
    50: (-13.8532106122, -19.3388515691),
    250: (-38.2131060218, -69.0729983915),
    1000: (-129.5082741581, -255.5207593918),
}
PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "taxi"


@pytest.fixture(scope="module")
def small():
    return taxi(2, horizon=20, pi_e=np.full((320, 6), 1 / 6), pi_b=np.full((320, 6), 1 / 6))


def test_uniform_values():
    mdp = taxi(5, 10, UNIFORM, UNIFORM).mdp
    for horizon, value in UNIFORM_VALUES.items():
        assert policy_value(mdp, UNIFORM, horizon) == pytest.approx(value, abs=1e-9)


@pytest.mark.skipif(
    not PUBLISHED.exists(), reason="the paper's taxi policies (pi18.npy, pi19.npy) are not here"
)
def test_values_of_the_published_policies():
    problem = taxi(5, 1000, pi_e=PUBLISHED / "pi19.npy", pi_b=str(PUBLISHED / "pi18.npy"))
    for horizon, (pi19, pi18) in PUBLISHED_VALUES.items():
        assert policy_value(problem.mdp, problem.pi_e, horizon) == pytest.approx(pi19, abs=1e-9)
        assert policy_value(problem.mdp, problem.pi_b, horizon) == pytest.approx(pi18, abs=1e-9)


def test_policies_of_the_package():
    problem = taxi(5, horizon=50)
    assert problem.true_value == pytest.approx(-14.67, abs=0.01)
    assert problem.behaviour_value == pytest.approx(-19.73, abs=0.01)
    assert problem.pi_e.probs.min() > 0


def test_what_actions_do(small):
    P = small.mdp.P.toarray().reshape(320, 6, 321)

    def index(x: int, y: int, status: int, on_board: int) -> int:
        return on_board + 5 * (status + 16 * (2 * x + y))

    def cells_and_loads(s: int, a: int) -> set[tuple[int, int]]:
        return {(int(n) // 80, int(n) % 5) for n in np.flatnonzero(P[s, a])}

    nobody, first = 0, 1
    assert cells_and_loads(index(0, 0, nobody, 4), 0) == {(2, 4)}  # x + 1
    assert cells_and_loads(index(1, 1, nobody, 4), 1) == {(3, 4)}  # the wall
    assert cells_and_loads(index(0, 0, first, 4), 4) == {(0, 1), (0, 2), (0, 3)}  # any corner but this one
    assert cells_and_loads(index(0, 0, first, 2), 4) == {(0, 1), (0, 2), (0, 3)}  # though occupied
    assert cells_and_loads(index(0, 0, nobody, 4), 4) == {(0, 4)}
    assert cells_and_loads(index(1, 0, nobody, 3), 5) == {(2, 4)}  # dropped anywhere, empty
    assert small.mdp.r[index(1, 0, nobody, 2), 5] == 20
    assert small.mdp.r[index(1, 0, nobody, 3), 5] == -1
    assert (small.mdp.r[:, :5] == -1).all()
    # Two wait at corners 0 and 3; 0 leaves, 1 appears, the others stay as they are.
    assert P[index(0, 1, 9, 4), 1, index(0, 1, 10, 4)] == pytest.approx(0.05 * 0.05 * 0.9 * 0.95)


def test_a_short_log_is_read_right():
    problem = taxi(5, horizon=3)
    log = problem.sample(episodes=2, seed=0)
    labels = np.asarray(log.state_labels)[log.states].astype(int)
    np.testing.assert_allclose(log.propensities, problem.pi_b.probs[labels, log.actions])


def test_training_improves_on_chance(small):
    early, late = train(length=2, iterations=(1, 4), blocks=4, steps=5_000)
    chance = small.true_value
    assert chance < policy_value(small.mdp, early) < policy_value(small.mdp, late)
    again = train(length=2, iterations=(1,), blocks=4, steps=5_000)
    np.testing.assert_array_equal(early, again[0])


def test_the_command_writes_both_policies(tmp_path, monkeypatch, capsys):
    tables = [np.full((2000, 6), 1 / 6), np.eye(6)[np.zeros(2000, dtype=int)]]
    monkeypatch.setattr("deadweight_studies.taxi_training.train", lambda: tables)
    assert main([str(tmp_path / "policies.npz")]) == 0
    assert "policies.npz" in capsys.readouterr().out
    with np.load(tmp_path / "policies.npz") as stored:
        np.testing.assert_array_equal(stored["pi_e"], tables[1])


def test_bad_requests_are_refused():
    with pytest.raises(OptionError, match="at least 2"):
        taxi(1)
    with pytest.raises(PolicyError, match="length 5 only"):
        taxi(4)
    with pytest.raises(PolicyError, match=r"needs \(2000, 6\)"):
        taxi(5, pi_e=np.ones((2000, 1)))
