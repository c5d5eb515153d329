"""What must not matter does not, and what changes the unit of the return changes every answer by it.

No truth is needed to see such an error: a table for rewards in cents is that for euros times a hundred, with
the same drops, flags and verdict.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deadweight as dw
from deadweight.domains import inventory
from deadweight.verbs.contenders import Draws

PROBLEM = inventory(4, horizon=8)
SAMPLE = PROBLEM.sample(60, seed=2)
PI_E, PI_B = (np.asarray(policy.probs) for policy in (PROBLEM.pi_e, PROBLEM.pi_b))
OPPOSITE = {"better": "worse", "worse": "better", "cannot tell": "cannot tell"}


def log_with(**changed: Any) -> dw.Trajectories:
    columns = {"states": SAMPLE.states, "actions": SAMPLE.actions, "rewards": SAMPLE.rewards, **changed}
    return dw.Trajectories(offsets=SAMPLE.offsets, time_limit=8, **columns)


@pytest.fixture(scope="module")
def table() -> dw.Evaluation:
    return dw.evaluate(log_with(), PI_E, PI_B, background=False)


def assert_moved(found: dw.Evaluation, table: dw.Evaluation, factor: float = 1.0, shift: float = 0.0) -> None:
    """Every number of the table is that of the other, times a factor, plus a shift."""
    for name, before in table.estimates.items():
        after = found[name]
        assert after.value == pytest.approx(factor * before.value + shift, rel=1e-8), name
        assert after.std_error == pytest.approx(abs(factor) * before.std_error, rel=1e-6), name
        ends = sorted(factor * end + shift for end in before.interval)
        assert list(after.interval) == pytest.approx(ends, rel=1e-6), name
        assert (after.flags, len(after.dropped)) == (before.flags, len(before.dropped)), name
    answer = table.verdict.answer
    assert found.verdict.answer == (answer if factor > 0 else OPPOSITE[answer])


@pytest.mark.parametrize("factor", [10.0, 1e-6, -1.0])
def test_another_unit_of_the_reward(table: dw.Evaluation, factor: float) -> None:
    assert table.verdict.answer == "better"
    found = dw.evaluate(log_with(rewards=factor * SAMPLE.rewards), PI_E, PI_B, background=False)
    assert_moved(found, table, factor)


def test_which_of_equal_estimates_a_blend_is_made_of_does_not_depend_on_rounding() -> None:
    """After one step LIN and windows say what the model says, and rounding must not choose between them."""
    rng = np.random.default_rng(1)
    states, actions = rng.integers(4, size=60), rng.integers(3, size=60)
    rewards = rng.normal(size=60)
    shares = []
    for factor in 10.0 ** np.arange(-6, 4):
        log = dw.Trajectories(states, actions, factor * rewards, np.arange(61))
        found = dw.estimate("BLEND", log, np.tile([0.2, 0.3, 0.5], (4, 1)), np.full((4, 3), 1 / 3))
        assert found.shares["LIN"] > 0.1
        shares.append(list(found.shares.values()))
    np.testing.assert_allclose(shares, np.broadcast_to(shares[0], np.shape(shares)), atol=1e-9)


def test_a_constant_for_every_step_of_equally_long_episodes(table: dw.Evaluation) -> None:
    found = dw.evaluate(log_with(rewards=SAMPLE.rewards + 3.0), PI_E, PI_B, background=False)
    assert_moved(found, table, shift=3.0 * 8)


def test_other_numbers_for_states_and_actions(table: dw.Evaluation) -> None:
    rng = np.random.default_rng(0)
    states, actions = rng.permutation(PI_E.shape[0]), rng.permutation(PI_E.shape[1])
    pi_e, pi_b = np.empty_like(PI_E), np.empty_like(PI_B)
    pi_e[np.ix_(states, actions)], pi_b[np.ix_(states, actions)] = PI_E, PI_B
    log = log_with(states=states[SAMPLE.states], actions=actions[SAMPLE.actions])
    found = dw.evaluate(log, pi_e, pi_b, background=False)
    assert_moved(found, table)
    dropped = {label: states[label] for label in range(len(states))}
    for name, before in table.estimates.items():
        assert sorted(found[name].dropped) == sorted(dropped[label] for label in before.dropped), name


def test_the_largest_of_several_differences_whatever_the_signs_of_eigenvectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are the machine's own affair, and so is the basis where eigenvalues are equal."""
    half = np.random.default_rng(1).normal(size=(4, 6))
    covariance = half @ half.T
    draws = Draws(0.95, 500, 0)
    expected = [draws.quantile(covariance, two_sided) for two_sided in (True, False)]
    again = [draws.quantile(1e4 * covariance, two_sided) for two_sided in (True, False)]
    assert again == pytest.approx(expected, rel=1e-9)
    own = np.linalg.eigh

    def flipped(matrix: Any) -> tuple[Any, Any]:
        values, vectors = own(matrix)
        return values, vectors * np.array([-1.0, 1.0, -1.0, 1.0])

    monkeypatch.setattr(np.linalg, "eigh", flipped)
    found = [draws.quantile(covariance, two_sided) for two_sided in (True, False)]
    assert found == pytest.approx(expected, rel=1e-9)


def test_changes_of_a_policy_in_another_unit() -> None:
    first = dw.improve(log_with(), PI_B, evaluation=False)
    second = dw.improve(log_with(rewards=10.0 * SAMPLE.rewards), PI_B, evaluation=False)
    assert (first.answer, len(first.changes) > 0) == ("improved", True)
    assert [(one.state, one.new) for one in first.changes] == [(one.state, one.new) for one in second.changes]
    assert second.gain == pytest.approx(10.0 * first.gain, rel=1e-8)
    assert list(second.interval) == pytest.approx([10.0 * end for end in first.interval], rel=1e-8)
