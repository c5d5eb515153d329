"""The study of improve: what the alternatives do where it can be checked, and one small part of it."""

from __future__ import annotations

import numpy as np
import pytest
from deadweight_studies import improvement as study
from deadweight_studies.improvement import candidate_that_passed, model_optimum, spibb

from deadweight import TabularMDP, TabularPolicy, policy_value, simulate

P = np.array([[[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]], [[0.3, 0.3, 0.4], [0.1, 0.7, 0.2]]])
MDP = TabularMDP(P, [[0.0, 1.0], [0.5, -0.5]], [0.5, 0.5], 8)
PI_B = TabularPolicy([[0.7, 0.3], [0.4, 0.6]])
LOG = simulate(MDP, PI_B, 500, seed=0)


def test_there_are_enough_problems():
    names = list(study.cells())
    assert len([name for name in names if not name.startswith("near-optimal")]) >= 13
    assert len([name for name in names if name.startswith("near-optimal")]) >= 6


@pytest.mark.parametrize("name", [name for name in study.cells() if name.startswith("near-optimal")])
def test_near_optimal_policies_have_little_to_gain(name: str):
    """What the best policy gains is a small part of what is lost by acting at random."""
    cell = study.cells()[name]
    mdp, horizon = cell.problem.mdp, cell.problem.horizon
    best = np.eye(mdp.n_actions)[study._best_values(mdp, horizon or 200).argmax(axis=1)]
    random = np.full(mdp.r.shape, 1 / mdp.n_actions)
    top, own, low = (policy_value(mdp, pi, horizon) for pi in (best, cell.problem.pi_b, random))
    assert (top - own) / (top - low) == pytest.approx(study.LOSS, rel=1e-3)


def test_the_models_optimum_is_the_best_of_all_policies_of_the_model():
    from deadweight import fit_mdp

    model = fit_mdp(LOG)
    every = [np.eye(2)[[a, b]] for a in range(2) for b in range(2)]
    found = model_optimum(LOG, PI_B)
    assert policy_value(model, found) == pytest.approx(max(policy_value(model, pi) for pi in every))


def test_spibb_leaves_rare_pairs_alone():
    visits = np.zeros((2, 2))
    np.add.at(visits, (LOG.states, LOG.actions), 1)
    np.testing.assert_array_equal(spibb(LOG, PI_B, int(visits.max()) + 1), PI_B.probs)
    fewest = int(visits.min()) + 1
    found, rare = spibb(LOG, PI_B, fewest), visits < fewest
    np.testing.assert_allclose(found[rare], PI_B.probs[rare])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(spibb(LOG, PI_B, 1), model_optimum(LOG, PI_B))


def test_a_candidate_passes_or_nothing_changes():
    found = candidate_that_passed(LOG, PI_B, "WDR", np.random.default_rng(0))
    assert policy_value(MDP, found, 8) > policy_value(MDP, PI_B, 8)
    few = LOG.select(np.arange(6))
    np.testing.assert_array_equal(
        candidate_that_passed(few, PI_B, "PDIS", np.random.default_rng(0)), PI_B.probs
    )


def test_a_run_is_a_function_of_its_number_and_a_line_of_its_runs():
    made = [study.run("random 8 x 3", number) for number in range(2)]
    assert made[0] == study.run("random 8 x 3", 0)
    line = study.line("random 8 x 3", made)
    assert set(line.gain) == set(study.VARIANTS)
    assert line.gain[study.OURS] == np.mean([one["found"][study.OURS][0] for one in made])
    # 1.66 over 20 logs: the two of them are far from nothing, and from the best that there is.
    assert 1.0 < line.gain[study.OURS] < 1.9
    assert line.worse[study.OURS] == 0.0
    assert 0.5 < line.relative(study.OURS) <= 1.1
    table = study.table([line])
    assert table.count("| improve |") == 1
    assert "random 8 x 3" in table


def test_what_lasts_longer_than_any_window_is_a_group_of_its_own():
    names = [name for name in study.cells() if name.startswith("real: ")]
    assert names == ["real: toxic dose", "real: pays 5 later", "real: graph"]
    assert list(study.cells())[-3:] == names  # seeds of the others stay
    made = study.run(names[0], 0)
    line = study.line(names[0], [made])
    assert line.group == "real"
    # The model sees the good of a dose and not its harm: what is best by it is worse.
    assert line.worse[study.OPTIMUM] == 1.0
    assert "| real kinds (1): gain / best | worse, mean | at most |" in study.table([line])
