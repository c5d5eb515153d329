"""BLEND against plain loops, and what must hold for any blend."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import reference as ref
from reference import blend as plain
from reference import weighted
from strategies import random_policy

import deadweight as dw
from deadweight.answers.answering import Answers
from deadweight.answers.blend import Mixture, half_width
from deadweight.answers.candidates import ORDER, Candidates, checked, gather
from deadweight.answers.intervals import t_error
from deadweight.answers.model_tests import Misfit
from deadweight.estimators.influence import WithModel, full_influences, starts_of
from deadweight.estimators.windowed import ModelSteps, windowed
from deadweight.question.question import ask
from deadweight.sums.blocks import blocks
from deadweight.testing import influences
from deadweight.tools.thresholds import BIASED, SKEWED, TWICE, WIDTH

STATES, ACTIONS = 4, 3


def make_case(
    n: int, seed: int, even: bool = False, heavy: bool = False
) -> tuple[dw.Trajectories, ref.Log, np.ndarray, np.ndarray]:
    """A log with ragged episodes, unseen pairs and cut ends.

    Args:
      n, seed: of the episodes.
      even: policies that hardly differ.
      heavy: two of the episodes earn far more than the others.
    """
    rng = np.random.default_rng(seed)
    pi_b = random_policy(rng, STATES, ACTIONS) * 0.7 + 0.3 / ACTIONS
    pi_e = random_policy(rng, STATES, ACTIONS) * 0.7 + 0.3 / ACTIONS
    pi_e = 0.9 * pi_b + 0.1 * pi_e if even else pi_e
    episodes, following = [], []
    for i in range(n):
        states = rng.integers(STATES, size=1 + i % 4)
        actions = np.where(states == 2, 0, rng.integers(ACTIONS, size=states.size))
        scale = 300.0 if heavy and i % n in (3, 7) else 1.0
        rewards = scale * np.abs(rng.normal(size=states.size)) if heavy else rng.normal(size=states.size)
        episodes.append(list(zip(states.tolist(), actions.tolist(), rewards.tolist(), strict=True)))
        following.append([*states[1:].tolist(), -1 if i % 3 else int(rng.integers(STATES))])
    terminated = [i % 4 != 0 for i in range(n)]
    log = dw.Trajectories.from_episodes(episodes, terminated, following)
    return log, ref.Log(episodes, terminated, following), pi_e, pi_b


@pytest.mark.parametrize(
    ("n", "seed", "gamma", "level", "kind"),
    [
        (20, 1, 0.9, 0.95, "even"),
        (11, 2, 1.0, 0.95, "few"),
        (12, 3, 0.9, 0.8, "few"),
        (40, 4, 1.0, 0.99, "even"),
        (45, 5, 0.95, 0.95, "skewed"),
        (45, 6, 1.0, 0.8, "skewed"),
        (25, 7, 0.9, 0.95, "misfit"),
        (25, 8, 1.0, 0.8, "misfit"),
        (45, 9, 1.0, 0.99, "skewed misfit"),
        (4, 10, 0.9, 0.95, "too few"),
    ],
)
def test_against_plain_loops(n: int, seed: int, gamma: float, level: float, kind: str) -> None:
    even, heavy, misfit = kind in ("even", "skewed"), "skewed" in kind, "misfit" in kind
    log, loops, pi_e, pi_b = make_case(n, seed, even, heavy)
    question = ask(log, pi_e, pi_b, gamma)
    answers = Answers(question, ())
    evidence = checked(question, answers, gather(question), Misfit(0.0, 1.0, 99.0, n, 4) if misfit else None)
    mixture = Mixture(evidence)
    found, expected = mixture.at(level), plain.blend(loops, pi_e, pi_b, gamma, level, misfit)
    gathered = plain.gather(loops, pi_e, pi_b, gamma)
    assert set(evidence.names) == set(gathered.theta)
    for place, name in enumerate(evidence.names):
        assert evidence.values[place] == pytest.approx(gathered.theta[name], rel=1e-10), name
        assert evidence.sizes[place] == pytest.approx(gathered.sizes[name], rel=1e-10), name
    for field in ("value", "std_error", "contradiction", "missing", "undetectable", "skewness"):
        known = getattr(expected, field)
        assert getattr(found, field) == pytest.approx(known, rel=1e-10, nan_ok=True), field
    assert found.shared_bias == pytest.approx(expected.shared, rel=1e-10)
    assert found.half_widths == pytest.approx(expected.half_widths, rel=1e-10)
    assert found.baseline_half_widths == pytest.approx(expected.baseline_half_widths, rel=1e-10)
    assert dict(found.shares) == pytest.approx(expected.shares, rel=1e-10, abs=1e-12)
    assert sum(found.shares.values()) == pytest.approx(1.0)
    # The case is of the kind that it is meant to be.
    assert mixture.by_weights == (misfit or kind == "too few")
    assert mixture.by_weights or (evidence.ess < 10) == (kind == "few")
    assert (abs(found.skewness) > SKEWED) == heavy == (found.half_widths[0] != found.half_widths[1])


@pytest.mark.parametrize("window", [2, 3])
def test_influence_of_windowed_weights(window: int) -> None:
    """Equal to the derivative by one episode's weight, with state ratios held fixed."""
    log, loops, pi_e, pi_b = make_case(16, 5)
    question = ask(log, pi_e, pi_b, 0.9)
    steps = ModelSteps(question)
    family = windowed(question, steps, window)
    starts = starts_of(family, question.values, (STATES, ACTIONS))
    assert starts is not None
    (block,) = blocks(log)
    sums = family.summarise(block)
    fit = family.finish(sums, weighted=True)
    assert fit.influence is not None
    estimated = WithModel(fit.influence, sums, True, (starts, starts.summarise(block)), question.values.fits)
    (influence,) = full_influences([estimated])
    direct = influences("DM", log, pi_e, pi_b, gamma=0.9)

    def estimate(omega: weighted.Omega) -> float:
        return weighted.windowed(loops, pi_e, pi_b, omega, 0.9, window, steps.ratios, steps.alive)

    assert direct[1] is not None
    assert fit.value + direct[0].value == pytest.approx(estimate(np.ones(16)), rel=1e-12)
    found = influence(block) + direct[1]
    expected = weighted.influence(estimate, 16)
    assert found - found.mean() == pytest.approx(expected - expected.mean(), rel=1e-6, abs=1e-6)


def weights_only(late: bool, ess: float, **more) -> Candidates:
    names, sizes = ("WPDIS", "WIS", "BEHAVIOUR"), np.array([ess, ess, 100.0])
    found = Candidates(names, np.array([3.0, 1.0, 0.0]), np.diag([1.0, 4.0, 1.0]), sizes, 100, ess)
    return replace(found, model=False, late=late, **more)


def test_without_a_model_a_reward_that_comes_last_is_left_to_whole_episodes() -> None:
    late, on_the_way = (Mixture(weights_only(late, 40.0)).at(0.95) for late in (True, False))
    assert (late.value, late.shares, late.contradiction) == (1.0, {"WIS": 1.0}, 0.0)
    assert (on_the_way.value, on_the_way.shares, on_the_way.contradiction) == (3.0, {"WPDIS": 1.0}, 0.0)


def test_weights_alone_are_never_surer_than_their_row() -> None:
    """Student's t with ESS - 1 degrees of freedom, also below one; one episode says nothing of the next."""
    for late, error in ((True, 2.0), (False, 1.0)):
        for level in (0.8, 0.95, 0.99):
            for ess in (1.5, 3.0, 40.0, 1e9):
                found = Mixture(weights_only(late, ess, row_distance=0.3)).at(level)
                row = t_error(error, ess, level) + 0.3
                assert found.half_width == pytest.approx(max(half_width(error, 0.0, level), row), rel=1e-12)
                assert found.half_width >= row
            assert Mixture(weights_only(late, 1.0)).at(level).half_width == np.inf
            assert Mixture(weights_only(late, 0.0)).at(level).half_widths == (np.inf, np.inf)


def test_an_allowance_for_missing_weight_is_for_weights_alone() -> None:
    without, found = (
        Mixture(weights_only(True, 1e9, lacking=lacking, extent=70.0)).at(0.95) for lacking in (0.0, 0.1)
    )
    assert (without.missing, without.contradiction) == (0.0, 0.0)
    assert (found.missing, found.contradiction) == (7.0, 7.0)
    assert found.half_width == pytest.approx(half_width(2.0, 7.0))
    with_model = Mixture(replace(evidence_of(FIVE, NOISE, 1e9), lacking=0.1, extent=70.0)).at(0.95)
    assert (with_model.missing, with_model.contradiction) == (0.0, 0.0)


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_without_any_overlap_everything_is_open(shift: float) -> None:
    """Weights that are all zero have the value 0 by convention: how far the model is from it says nothing."""
    log = dw.Trajectories.from_episodes([[(0, 0, shift + i % 3)] for i in range(40)])
    found = dw.evaluate(log, [[0.0, 1.0]], [[0.5, 0.5]])
    assert found["WIS"].interval == found["BLEND"].interval == (-np.inf, np.inf)
    assert found.verdict.answer == "cannot tell"


def test_one_episode_with_all_the_weight_leaves_everything_open() -> None:
    """Episodes that end at random, so that the model is out, and one of them with actions of its own."""
    episodes = [[(0, i % 2, float(i % 3)), (0, i // 2 % 2, 1.0)] for i in range(40)]
    log = dw.Trajectories.from_episodes([[(0, 2, 1.0), (0, 2, 3.0)], *episodes[1:]])
    rare = 1e-3
    found = dw.evaluate(log, [[0.3, 0.3, 0.4]], [[0.5 - rare / 2, 0.5 - rare / 2, rare]])
    assert found["WPDIS"].ess == pytest.approx(1.0, abs=1e-3)
    lower, upper = found["BLEND"].interval
    assert lower < -1e6 < 1e6 < upper


def test_rounding_is_no_contradiction() -> None:
    """Every episode earns 40: all weights agree, up to the last digit, and nothing is noisy."""
    actions = np.tile([0] * 39 + [1], 20)
    log = dw.Trajectories(np.zeros(800, int), actions, np.ones(800), np.arange(21) * 40)
    found = dw.evaluate(log, [[0.99, 0.01]], [[0.9, 0.1]], ["BLEND", "BEHAVIOUR"])
    assert found["BLEND"].value == pytest.approx(40.0)
    assert found["BLEND"].contradiction == 0.0
    assert "contradicted" not in found["BLEND"].flags
    assert not re.search(r"\binf\b", " ".join(found.verdict.reasons))


def evidence_of(values: dict[str, float], errors: dict[str, float], size: float, **more) -> Candidates:
    """Estimates with independent errors, besides that of a mean return of zero."""
    names = (*values, "BEHAVIOUR")
    found = np.array([*values.values(), 0.0])
    covariance = np.diag([*(errors[name] ** 2 for name in values), 0.01])
    return Candidates(names, found, covariance, np.full(len(names), size), 10**12, size, **more)


FIVE = dict.fromkeys((name for name in ORDER if name not in ("WDR", "WIN1")), 1.0)
NOISE = dict(zip(FIVE, (0.5, 0.4, 0.3, 0.2, 0.1), strict=True))


def test_the_order_goes_from_the_fewest_assumptions_to_the_least_variance() -> None:
    assert list(FIVE) == ["WDR cross-fitted", "LIN", "WIN3", "WIN2", "DM"]
    assert list(Mixture(evidence_of(FIVE, NOISE, 10.0)).at(0.95).shares) == list(FIVE)
    assert list(Mixture(evidence_of(FIVE, NOISE, 9.9)).at(0.95).shares) == ["LIN", "DM"]


def test_whole_weights_take_no_part_where_decisive_episodes_are_missing() -> None:
    """Their mean should be 1; a log in which it is less than one half has others than those that matter."""
    for lacking, first in ((0.5, "WDR cross-fitted"), (0.51, "LIN")):
        found = Mixture(evidence_of(FIVE, NOISE, 40.0, lacking=lacking)).at(0.95)
        assert next(iter(found.shares)) == first


def test_few_effective_episodes_leave_more_to_the_model() -> None:
    """Their standard errors are too small: by 1 + 12 / ESS in the variance of what they add to the model."""
    many, few = (Mixture(evidence_of(FIVE, NOISE, size)).at(0.95) for size in (1e12, TWICE))
    assert few.shares["DM"] > many.shares["DM"]
    assert many.shares["DM"] == pytest.approx(100 / sum(error**-2 for error in NOISE.values()), rel=1e-6)


def test_a_model_that_windows_deny_is_left_out_although_full_weights_cannot_tell() -> None:
    values = {**FIVE, "WIN3": 2.0, "WIN2": 2.0}
    errors = {**NOISE, "WDR cross-fitted": 5.0, "LIN": 5.0, "WIN3": 0.1, "WIN2": 0.1}
    found = Mixture(evidence_of(values, errors, 1e9)).at(0.95)
    assert found.shares["DM"] < 0.05
    assert found.against == "DM"
    assert found.value > 1.9


def test_half_of_what_a_model_says_is_allowed_for_once_it_is_shown_to_be_wrong() -> None:
    values = {**FIVE, "DM": 9.0}
    found = Mixture(evidence_of(values, {**NOISE, "WDR cross-fitted": 0.1}, 1e9)).at(0.95)
    (model,) = (part for part in found.parts if part.name == "DM")
    distance = 9.0 - found.value
    assert distance / 2 - 0.2 < model.beyond < distance / 2
    assert found.contradiction == model.beyond


def test_half_of_what_a_window_says_too_once_what_assumes_least_shows_it_to_be_wrong() -> None:
    """And all of it where only something between the two does."""
    values = {**FIVE, "WIN3": 9.0, "WIN2": 9.0, "DM": 9.0}
    sure = {**NOISE, "WDR cross-fitted": 0.1, "LIN": 0.1}
    found = Mixture(evidence_of(values, sure, 1e9)).at(0.95)
    beyond = {part.name: part.beyond for part in found.parts}
    assert beyond["WIN3"] == pytest.approx((9.0 - found.value) / 2, abs=0.3)
    assert found.contradiction == max(beyond.values()) < 4.5
    unsure = Mixture(evidence_of(values, {**sure, "WDR cross-fitted": 5.0}, 1e9)).at(0.95)
    assert unsure.contradiction > 6.0


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_no_verdict_against_lin(side: float) -> None:
    """All of its distance counts unless it is one standard error on the same side of the mean return."""
    for linear, backed in ((0.55, True), (0.45, False), (-0.2, False)):
        values = {"WDR cross-fitted": 1.0, "LIN": linear, "WIN3": 1.0, "WIN2": 1.0, "DM": 1.0}
        values = {name: side * value for name, value in values.items()}
        errors = {**dict.fromkeys(values, 0.1), "LIN": 0.49}  # with 0.1 of the mean return: 0.5
        mixture = Mixture(evidence_of(values, errors, 1e12))
        found = mixture.at(0.95)
        assert mixture.is_backed == backed
        assert found.contradiction == pytest.approx(0.0 if backed else abs(found.value - side * linear))
        assert (found.half_width < abs(found.value)) == (linear > 0)


def test_a_gain_is_never_surer_than_the_mean_return() -> None:
    names = (*FIVE, "BEHAVIOUR")
    covariance = np.full((6, 6), 1.0) + np.diag([1e-6] * 6)
    paired = Candidates(names, np.ones(6), covariance, np.full(6, 1e9), 1000, 1e9)
    assert Mixture(paired).at(0.95).baseline_error == pytest.approx(WIDTH, rel=1e-3)


def test_what_the_first_estimate_would_not_show_of_an_error_of_the_model() -> None:
    """Three standard errors of its difference from the model, and anything where nothing checks that."""
    found = Mixture(evidence_of(FIVE, NOISE, 1e12)).at(0.95)
    assert found.undetectable == pytest.approx(BIASED * np.hypot(0.5, 0.1), rel=1e-6)
    few = Mixture(evidence_of(FIVE, NOISE, 9.9)).at(0.95)  # LIN comes first
    assert few.undetectable == pytest.approx(BIASED * np.hypot(0.4, 0.1), rel=1e-9)
    assert Mixture(evidence_of({"DM": 1.0}, NOISE, 1e9)).at(0.95).undetectable == np.inf
    assert np.isnan(Mixture(weights_only(True, 40.0)).at(0.95).undetectable)


def test_a_bias_that_all_share_is_for_mixes_with_the_model() -> None:
    with_model, without = (
        Mixture(replace(evidence, shared_bias=-0.4)).at(0.95)
        for evidence in (evidence_of(FIVE, NOISE, 1e9), weights_only(True, 40.0))
    )
    assert (with_model.contradiction, with_model.shared_bias, with_model.against) == (0.4, 0.4, None)
    assert (without.contradiction, without.shared_bias) == (0.0, 0.0)


def late_log(seed: int, n: int = 300) -> dw.Trajectories:
    """Stays that end after a number of days which nothing explains; the outcome comes with the last one."""
    rng = np.random.default_rng(seed)
    episodes = []
    for _ in range(n):
        severity, days = int(rng.integers(3)), []
        for _ in range(rng.integers(2, 9)):
            before, action = severity, int(rng.random() < 0.4)
            if rng.random() < 0.25 + 0.25 * action:
                severity = max(severity - 1, 0)
            elif rng.random() < 0.15:
                severity = min(severity + 1, 2)
            days.append((before, action, 0.0))
        days[-1] = (*days[-1][:2], float(severity == 0))
        episodes.append(days)
    return dw.Trajectories.from_episodes(episodes)


def test_a_late_reward_that_the_model_misses_is_covered() -> None:
    pi_e, pi_b = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.tile([0.6, 0.4], (3, 1))
    found = [dw.estimate("BLEND", late_log(seed), pi_e, pi_b, solve="longest") for seed in range(20)]
    without = [one for one in found if "model-misfit" in one.flags]
    assert len(without) >= 15
    assert all(one.shares == {"WIS": 1.0} for one in without)
    truth = 0.72  # of 100,000 stays under the new rule, to a hundredth
    assert sum(one.interval[0] <= truth <= one.interval[1] for one in without) >= len(without) - 2
