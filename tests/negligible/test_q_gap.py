"""The Q gap: lift states, golden sets, plain loops, and which states may be dropped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import reference
from negligible.logs import plain, random_case

import deadweight as dw
from deadweight.domains import deterministic_lift
from deadweight.negligible import DropWarning, lift, q_gap

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("size", [7, 9, 11, 13, 15, 17])
def test_finds_exactly_the_lift_states(size):
    problem = deterministic_lift(size)
    found = q_gap(problem.sample(1000, seed=size), problem.pi_e, epsilon=1.0)
    assert found == lift(problem.mdp)


@pytest.mark.parametrize("case", ["lift7", "random4x3"])
def test_golden_sets(case):
    data = json.loads((GOLDEN / f"{case}.json").read_text())
    episodes = [list(zip(e["s"], e["a"], e["r"], strict=True)) for e in data["episodes"]]
    log = dw.Trajectories.from_episodes(episodes)
    found = q_gap(log, data["pi_e"], data["eps_q"], unseen="terminate", solve="longest")
    assert found.states == data["expected"]["q_negligible"]


@pytest.mark.filterwarnings("ignore::deadweight.negligible.DropWarning")
@pytest.mark.parametrize("unseen", ["pool", "terminate", "mean"])
@pytest.mark.parametrize("min_visits", [0, 1, 3])
def test_plain_loops(unseen, min_visits):
    for seed in range(8):
        episodes, log, pi_e, pi_b = random_case(seed, 4, 3, 12, 5, "soft" if seed % 2 else "zeros")
        for epsilon in (0.0, 0.5, 2.0, 4.0):
            found = q_gap(log, pi_e, epsilon, pi_b, min_visits, 0.9, unseen, solve="longest")
            wanted = reference.q_gap_set(plain(episodes), pi_e, epsilon, pi_b, min_visits, 0.9, unseen)
            assert set(found.states) == wanted
        np.testing.assert_allclose(
            found.gaps, reference.q_gaps(reference.fitted_q(plain(episodes), pi_e, 0.9, unseen)), atol=1e-12
        )


def test_the_bound_is_strict_and_the_evidence_is_kept():
    log = dw.Trajectories.from_episodes([[(0, 0, 0.0)], [(0, 1, 1.0)], [(1, 0, 5.0)], [(1, 1, 2.0)]])
    pi_e = [[0.5, 0.5], [0.5, 0.5]]
    with pytest.warns(DropWarning, match="no logged step"):
        assert q_gap(log, pi_e, epsilon=1.0).states == []
    found = q_gap(log, pi_e, epsilon=1.0 + 1e-9)
    assert found.states == [0]
    assert found.gaps.tolist() == [1.0, 3.0]
    assert found.evidence["visits"].tolist() == [2.0, 2.0]
    assert found.origin.startswith("Q gap < 1")


def test_min_visits_asks_only_for_actions_on_which_the_policies_differ():
    episodes = [[(0, 0, 0.0), (1, 0, 0.0)]] * 3 + [[(0, 1, 0.0), (1, 1, 0.0)]] * 3
    log = dw.Trajectories.from_episodes(episodes)
    pi_b = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.4, 0.3, 0.3]]
    pi_e = [[0.9, 0.09, 0.01], [0.9, 0.0, 0.1], [0.1, 0.8, 0.1]]
    # Action 2 matters in state 1 (0.1) and not in state 0 (0.01); state 2 was never visited.
    with pytest.warns(DropWarning, match="100.0%"):
        assert q_gap(log, pi_e, 1.0, pi_b).states == [0, 1, 2]
    assert q_gap(log, pi_e, 1.0, pi_b, min_visits=3).states == [0]
    assert q_gap(log, pi_e, 1.0, min_visits=3).states == [0]  # pi_b as observed
    with pytest.warns(DropWarning):
        assert q_gap(log, pi_e, 1.0, pi_b, min_visits=4).states == []


def test_a_given_model_is_used():
    problem = deterministic_lift(7)
    log = problem.sample(5)
    assert q_gap(log, problem.pi_e, 1.0, model=problem.mdp) == lift(problem.mdp)


@pytest.mark.parametrize(("epsilon", "min_visits"), [(-1.0, 0), (float("nan"), 0), (1.0, -1), (1.0, 1.5)])
def test_bad_thresholds_are_refused(epsilon, min_visits):
    problem = deterministic_lift(7)
    named = "epsilon" if min_visits == 0 else "min_visits"
    with pytest.raises(dw.errors.OptionError, match=f"{named} must be"):
        q_gap(problem.sample(5), problem.pi_e, epsilon, min_visits=min_visits)


def test_a_policy_row_by_row_has_no_set_of_states():
    log = dw.Trajectories.from_episodes([[(0, 0, 0.0), (0, 1, 1.0)], [(1, 0, 5.0), (0, 1, 2.0)]])
    rows = dw.RowPolicy([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5], [0.3, 0.7]])
    with pytest.raises(dw.errors.EstimationError, match="needs a label for each state, and policies that"):
        q_gap(log, rows, 1.0, np.full((2, 2), 0.5), model=dw.GivenQ(np.zeros((4, 2))))
