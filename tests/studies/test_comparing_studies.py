"""The studies of comparisons, mixtures and cuts: what they count exactly, and one run of each."""

from __future__ import annotations

import numpy as np
import pytest
from deadweight_studies import comparison as comparison_study
from deadweight_studies import cuts as cut_study
from deadweight_studies import mixtures as mixture_study
from deadweight_studies.problems import study_problems

import deadweight as dw


def test_candidates_depend_on_what_is_shown_and_end_with_the_old_policy():
    cell = next(one for one in study_problems() if one.name == "hidden 8 x 3")
    drawn = comparison_study.candidates(cell, 6, np.random.default_rng(0))
    assert len(drawn) == 6
    np.testing.assert_array_equal(drawn[-1], cell.problem.pi_b.probs)
    for probs in drawn:
        np.testing.assert_allclose(probs.sum(axis=1), 1.0)
        for label in range(cell.shown.max() + 1):
            assert np.ptp(probs[cell.shown == label], axis=0).max() < 1e-12


def test_what_is_said_is_held_against_the_truth():
    lift = dw.domains.deterministic_lift(7)
    found = dw.compare(lift.sample(300, seed=0), {"new": lift.pi_e, "old": lift.pi_b}, lift.pi_b)
    said = comparison_study.judged(found, np.array([1.0, -4.0]), -4.0)
    assert said["familywise error"] == 0.0
    assert said["holds the best"] == 1.0
    assert said["size of the set"] == 1.0
    assert said["regret of the first"] == 0.0
    turned = comparison_study.judged(found, np.array([-9.0, -4.0]), -4.0)
    assert turned["familywise error"] == 1.0
    assert turned["false better"] == 1.0
    assert turned["holds the best"] == 0.0
    assert turned["regret of the first"] == 1.0


def test_the_separate_interval_is_that_of_an_evaluation_at_the_divided_level():
    river = next(one for one in study_problems() if one.name == "river")
    log = river.sample(3)
    both = [dw.evaluate(log, river.pi_e, river.pi_b, level=level).headline for level in (0.95, 0.9975)]
    mixed = both[0].blend
    wider = comparison_study.at_level(mixed.half_width, mixed.contradiction, 0.9975)
    assert wider == pytest.approx(both[1].blend.half_width, rel=1e-9)
    assert comparison_study.at_level(mixed.half_width, mixed.contradiction, 0.95) == pytest.approx(
        mixed.half_width, rel=1e-12
    )


def test_one_run_of_the_comparison_is_repeatable_and_its_table_has_every_cell():
    first = comparison_study.run("river x 5", 0)
    assert first == comparison_study.run("river x 5", 0)
    line = comparison_study.Line("river", 5, first["said"], 1)
    assert comparison_study.table([line]).count("| river |") == 1


def test_real_kinds_come_last_and_are_a_group_of_their_own():
    names = list(comparison_study.cells())
    real = [f"{name} x {count}" for count in comparison_study.COUNTS for name in comparison_study.REAL]
    assert names[-len(real) :] == real
    said = comparison_study.run("toxic dose x 5", 0)["said"]
    text = comparison_study.table([comparison_study.Line("toxic dose", 5, said, 1)])
    assert "| **5** | **1 real problems** | 1 |" in text


@pytest.mark.parametrize("mix", [*mixture_study.MIXES, mixture_study.BLIND])
def test_shares_of_a_mix_are_whole_and_its_logs_hold_their_own_propensities(mix):
    problem = next(one for one in study_problems() if one.name == "random 8 x 3").problem
    policies = mixture_study.old_policies(mix, problem)
    assert sum(part for part, _ in policies) == pytest.approx(1.0)
    log = mixture_study.sample(problem, mix, 20, np.random.SeedSequence(0))
    rows = np.repeat(log.behaviour_ids.astype(int), log.lengths)
    own = np.stack([policy for _, policy in policies])[rows, log.states, log.actions]
    np.testing.assert_allclose(log.propensities, own)


def test_a_run_of_the_mixtures():
    name = f"{mixture_study.MIXES[0]}: random 8 x 3"
    assert set(mixture_study.run(name, 0)["errors"]) == {
        "WPDIS own",
        "WPDIS mixture",
        "WDR own",
        "WDR mixture",
    }


@pytest.mark.parametrize("cut", cut_study.CUTS)
def test_logs_are_cut_as_said(cut: str) -> None:
    problem = next(one for one in study_problems() if one.name == "random 8 x 3").problem
    whole = problem.sample(400, 0)
    log, share = cut_study.cut_log(problem, whole, cut, np.random.default_rng(0))
    early = ~log.terminated & (log.lengths < problem.mdp.horizon)
    assert share == np.mean(early) == log.n_cut_early / 400
    assert 0.15 < share < 0.7
    for k in np.flatnonzero(early)[:5]:
        lo, hi = log.offsets[k : k + 2]
        start = whole.offsets[k]
        np.testing.assert_array_equal(log.states[lo:hi], whole.states[start : start + hi - lo])
    kept = np.flatnonzero(~early)
    np.testing.assert_array_equal(log.terminated[kept], whole.terminated[kept])


def test_a_run_of_the_cuts() -> None:
    found = cut_study.run("by state: random 8 x 3", 0)
    assert set(found["covered"]) == set(found["errors"])
    assert len(found["errors"]) == 2 * len(cut_study.NAMES)
    ratio = cut_study.MSERatio(0.5, 0.1)
    line = cut_study.Line(
        "by state", "river", 0.4, (ratio,) * 5, ((1, 2),) * 5, cut_study.Counter(["state"] * 2), 2
    )
    text = cut_study.table([line])
    assert "| by state | 40% | 0.500 ± 0.100 |" in text
    assert "| by state | 0.50 -> 1.00 |" in text
