"""BLEND against plain loops, and what must hold for any blend."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
import reference as ref
from reference import blend as plain
from reference import weighted
from scipy import stats
from strategies import random_policy

import deadweight as dw
from deadweight.blend.candidates import OF_MODEL, Evidence, is_bearable
from deadweight.blend.evidence import gather
from deadweight.blend.mixing import blend
from deadweight.estimators.full_influence import full_influence, starts_of
from deadweight.estimators.windowed import ModelSteps, windowed
from deadweight.question.asking import ask
from deadweight.question.drops import given_drop
from deadweight.sums.blocks import blocks
from deadweight.testing import influences

STATES, ACTIONS = 4, 3


def make_case(
    n: int, seed: int, even: bool = False
) -> tuple[dw.Trajectories, ref.Log, np.ndarray, np.ndarray]:
    """A log with ragged episodes, unseen pairs and cut ends; `even`: policies that hardly differ."""
    rng = np.random.default_rng(seed)
    pi_b = random_policy(rng, STATES, ACTIONS) * 0.7 + 0.3 / ACTIONS
    pi_e = random_policy(rng, STATES, ACTIONS) * 0.7 + 0.3 / ACTIONS
    pi_e = 0.9 * pi_b + 0.1 * pi_e if even else pi_e
    episodes, following = [], []
    for i in range(n):
        states = rng.integers(STATES, size=1 + i % 4)
        actions = np.where(states == 2, 0, rng.integers(ACTIONS, size=states.size))
        episodes.append([(int(s), int(a), float(rng.normal())) for s, a in zip(states, actions, strict=True)])
        following.append([*states[1:].tolist(), -1 if i % 3 else int(rng.integers(STATES))])
    terminated = [i % 4 != 0 for i in range(n)]
    log = dw.Trajectories.from_episodes(episodes, terminated, following)
    return log, ref.Log(episodes, terminated, following), pi_e, pi_b


@pytest.mark.parametrize(
    ("n", "seed", "even", "drop", "gamma", "level"),
    [
        (20, 1, True, [1], 0.9, 0.95),
        (18, 2, False, [0, 3], 1.0, 0.95),
        (12, 3, False, [0, 1, 2, 3], 0.9, 0.8),
        (9, 4, False, [2], 1.0, 0.99),
    ],
)
def test_against_plain_loops(
    n: int, seed: int, even: bool, drop: list[int], gamma: float, level: float
) -> None:
    log, loops, pi_e, pi_b = make_case(n, seed, even)
    question = ask(log, pi_e, pi_b, gamma)
    evidence = gather(question, given_drop(drop, question.pair, log))
    found = blend(replace(evidence, useless=False), level)
    expected = plain.blend(loops, pi_e, pi_b, set(drop), gamma, level)
    values = dict(zip(evidence.names, evidence.values, strict=True))
    for name, value in expected.estimates.items():
        assert values[name] == pytest.approx(value, rel=1e-10), name
    assert found.value == pytest.approx(expected.value, rel=1e-10)
    assert found.half_width == pytest.approx(expected.half_width, rel=1e-10)
    assert found.contradiction == pytest.approx(expected.contradiction, rel=1e-10)
    assert found.baseline_error == pytest.approx(expected.baseline_error, rel=1e-10)
    assert dict(found.shares) == pytest.approx(expected.shares, rel=1e-10, abs=1e-12)
    assert sum(found.shares.values()) == pytest.approx(1.0)
    doubted, weights = (
        blend(one, level)
        for one in (
            replace(evidence, useless=True),
            replace(evidence, useless=False, weights_only=True, left_out=OF_MODEL),
        )
    )
    assert set(weights.shares) <= {"WPDIS", "WIS"}
    assert (doubted.value, doubted.shares) == (found.value, found.shares)
    reach = abs(weights.value - found.value) + weights.half_width
    assert doubted.half_width == max(found.half_width, reach)


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
    influence = full_influence(
        fit.influence, sums, True, (starts, starts.summarise(block)), question.values.fits
    )
    direct = influences("DM", log, pi_e, pi_b, gamma=0.9)

    def estimate(omega: weighted.Omega) -> float:
        return weighted.windowed(loops, pi_e, pi_b, omega, 0.9, window, steps.ratios, steps.alive)

    assert direct[1] is not None
    assert fit.value + direct[0].value == pytest.approx(estimate(np.ones(16)), rel=1e-12)
    found = influence(block) + direct[1]
    expected = weighted.influence(estimate, 16)
    assert found - found.mean() == pytest.approx(expected - expected.mean(), rel=1e-6, abs=1e-6)


def weights_only(late: bool, ess: float) -> Evidence:
    names = ("WPDIS", "WIS", "BEHAVIOUR")
    return Evidence(
        names, np.array([3.0, 1.0, 0.0]), np.diag([1.0, 4.0, 1.0]), 100, ess, ess, 0.0, model=False, late=late
    )


def test_without_a_model_a_reward_that_comes_last_is_left_to_whole_episodes() -> None:
    late, on_the_way = blend(weights_only(True, 40.0)), blend(weights_only(False, 40.0))
    assert (late.value, late.shares, late.contradiction) == (1.0, {"WIS": 1.0}, 0.0)
    assert on_the_way.shares["WPDIS"] == pytest.approx(0.8)  # by their variances, which are 1 and 4


def test_weights_alone_have_degrees_of_freedom_below_one() -> None:
    """Student's t with ESS - 1 degrees of freedom, also below one; one episode says nothing of the next."""
    noise = NormalDist().cdf(2.5)
    for ess in (1.5, 3.0, 40.0):
        found = blend(weights_only(True, ess))
        assert found.half_width == pytest.approx(
            stats.t.ppf(noise, ess - 1) * 2.0, rel=1e-9
        )  # its variance is 4
    assert blend(weights_only(True, 1.0)).half_width == np.inf
    assert blend(weights_only(False, 0.0)).half_width == np.inf


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


def test_weights_alone_are_as_sure_as_their_effective_episodes() -> None:
    many, some, few = (blend(weights_only(True, ess)).half_width for ess in (1e9, 40.0, 4.0))
    assert many == pytest.approx(2.5 * 2.0)
    assert few > 1.5 * many > some > many


def evidence_of(
    values: dict[str, float], errors: dict[str, float], sizes: tuple[float, ...], **more
) -> Evidence:
    """Estimates with independent errors, besides that of a mean return of zero."""
    names = (*values, "BEHAVIOUR")
    found = np.array([*values.values(), 0.0])
    return Evidence(
        names, found, np.diag([*(errors[name] ** 2 for name in values), 0.01]), 10**12, *sizes, **more
    )


FIVE = dict.fromkeys(("WDR", "WDRSIS", "WIN3", "WIN2", "DM"), 1.0)
NOISE = dict(zip(FIVE, (0.5, 0.4, 0.3, 0.2, 0.1), strict=True))


def test_few_effective_episodes_leave_more_to_the_model() -> None:
    """Their standard errors are too small: by 1 + 12 / ESS in the variance of what they add to the model."""
    many = blend(evidence_of(FIVE, NOISE, (1e9, 1e9, 1e9)))
    few = blend(evidence_of(FIVE, NOISE, (12.0, 12.0, 12.0)))
    assert few.shares["DM"] > many.shares["DM"]
    assert many.shares["DM"] == pytest.approx(100 / sum(error**-2 for error in NOISE.values()), rel=1e-6)


def test_a_model_that_windows_deny_is_left_out_although_full_weights_cannot_tell() -> None:
    values = {"WDR": 1.0, "WDRSIS": 1.0, "WIN3": 2.0, "WIN2": 2.0, "DM": 1.0}
    errors = {**NOISE, "WDR": 5.0, "WDRSIS": 5.0, "WIN3": 0.1, "WIN2": 0.1}
    found = blend(evidence_of(values, errors, (1e9, 1e9, 1e9)))
    assert found.shares["DM"] < 0.05
    assert found.against == "DM"
    assert found.value > 1.9


def test_a_drop_that_leaves_less_than_a_window_counts_as_nearly_the_model() -> None:
    kept, nearly = (blend(evidence_of(FIVE, NOISE, (50.0, dropped, 300.0))) for dropped in (200.0, 900.0))
    assert list(kept.shares) == ["WDR", "WDRSIS", "WIN3", "WIN2", "DM"]
    assert list(nearly.shares) == ["WDR", "WIN3", "WIN2", "WDRSIS", "DM"]


def test_half_of_what_a_model_says_is_allowed_for_once_it_is_shown_to_be_wrong() -> None:
    values = {**FIVE, "DM": 9.0}
    found = blend(evidence_of(values, {**NOISE, "WDR": 0.1}, (1e9, 1e9, 1e9)))
    (model,) = (part for part in found.parts if part.name == "DM")
    distance = 9.0 - found.value
    assert distance / 2 - 0.2 < model.beyond < distance / 2
    assert found.contradiction == model.beyond


def test_a_gain_is_never_surer_than_the_mean_return() -> None:
    names = (*FIVE, "BEHAVIOUR")
    everything = np.ones(len(names))
    paired = Evidence(names, everything, np.full((6, 6), 1.0) + np.diag([1e-6] * 6), 1000, 1e9, 1e9, 1e9)
    assert blend(paired).baseline_error == pytest.approx(2.5, rel=1e-3)


def test_without_a_model_doubly_robust_stays_where_it_helps_and_ends_are_known() -> None:
    values = {"WDR": 1.0, "WPDIS": 2.0, "WIS": 2.0}
    sharp, blunt = {"WDR": 0.1, "WPDIS": 1.0, "WIS": 2.0}, {"WDR": 1.5, "WPDIS": 1.0, "WIS": 2.0}
    for errors, some_cut, names in (
        (sharp, True, {"WDR", "WPDIS", "WIS"}),
        (sharp, False, {"WPDIS", "WIS"}),
        (blunt, True, {"WPDIS", "WIS"}),
    ):
        found = blend(evidence_of(values, errors, (40.0, 40.0, 0.0), model=False, some_cut=some_cut))
        assert set(found.shares) == names


def test_a_misfit_is_borne_where_weights_alone_leave_more_open() -> None:
    values = {**FIVE, "WPDIS": 1.0, "WIS": 1.0}
    evidence = evidence_of(values, {**NOISE, "WPDIS": 1.0, "WIS": 0.2}, (40.0, 40.0, 40.0))
    assert is_bearable(evidence, 0.499)
    assert not is_bearable(evidence, 0.501)
    late = replace(evidence, late=True)  # then WIS is what is left
    assert is_bearable(late, 0.099)
    assert not is_bearable(late, 0.101)
    assert not is_bearable(replace(evidence, heard=True), 0.001)  # values that were given
    rows = evidence_of({"WDR": 1.0, "DM": 1.0, "WPDIS": 1.0}, {**NOISE, "WPDIS": 1.0}, (40.0, 40.0, 0.0))
    assert not is_bearable(rows, 0.001)


def test_the_interval_allows_for_a_misfit_that_is_borne() -> None:
    fits, off = (blend(evidence_of(FIVE, NOISE, (1e9, 1e9, 1e9), misfit=by)) for by in (0.0, 0.3))
    assert (fits.contradiction, off.contradiction, off.misfit) == (0.0, 0.3, 0.3)
    assert off.value == fits.value
    assert off.half_width == pytest.approx(fits.half_width * NormalDist().inv_cdf(0.95) / 1.959964 + 0.3)
    assert off.baseline_error > fits.baseline_error
    without = blend(replace(weights_only(False, 40.0), misfit=9.0))  # the model is not in it
    assert without.misfit == 0.0


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
