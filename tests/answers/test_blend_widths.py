"""What makes the interval of a blend wide: skewed influences, weights that are missing, its own row."""

from __future__ import annotations

import itertools
import math

import answers.test_given_model as given
import numpy as np
import pytest
from answers.test_blend import late_log
from deadweight_studies.problems import random_problem

import deadweight as dw
from deadweight.answers.blend import Mixture, half_width, skew_factors
from deadweight.answers.candidates import Candidates, Joint, gather
from deadweight.answers.intervals import centred_influences
from deadweight.question.question import ask
from deadweight.tools.thresholds import BIASED, SKEWED, TWICE

PROBLEM = random_problem(6, 3, 8, seed=9)
SAMPLE = PROBLEM.sample(120, seed=4)
LEVELS = (0.8, 0.95, 0.99)


# --- sums of products of three ----------------------------------------------------------------------------


def thirds_by_loops(values: np.ndarray) -> np.ndarray:
    k, m = values.shape
    found = np.zeros((k, k, k))
    for a, b, c in itertools.product(range(k), repeat=3):
        for i in range(m):
            found[a, b, c] += math.prod(values[j, i] - values[j].mean() for j in (a, b, c))
    return found


def test_thirds_of_a_small_log_by_hand() -> None:
    """Deviations -1, -1, 2 and 1, -2, 1: cubes 6 and -6, and 0 + ... of their mixed products."""
    found = Joint.of(np.array([[1.0, 1.0, 4.0], [3.0, 0.0, 3.0]])).thirds
    assert found[0, 0, 0] == 6.0
    assert found[1, 1, 1] == -6.0
    assert found[0, 0, 1] == found[0, 1, 0] == found[1, 0, 0] == 1.0 * 1 + 1.0 * -2 + 4.0 * 1
    assert found[0, 1, 1] == found[1, 0, 1] == found[1, 1, 0] == -1.0 * 1 + -1.0 * 4 + 2.0 * 1


def test_thirds_of_whole_numbers_merge_to_the_last_digit() -> None:
    one, other = np.array([[1.0, 3.0], [2.0, 4.0]]), np.array([[5.0, 7.0], [0.0, -2.0]])
    whole = Joint.of(np.hstack([one, other]))
    assert np.array_equal(Joint.of(one).merge(Joint.of(other)).thirds, whole.thirds)
    assert np.array_equal(Joint.of(other).merge(Joint.of(one)).thirds, whole.thirds)


@pytest.mark.parametrize("seed", range(8))
def test_thirds_of_parts_are_those_of_the_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = 3.0 + rng.exponential(size=(3, 40)) * rng.choice([1.0, 100.0], size=(3, 1))
    borders = np.sort(rng.choice(np.arange(1, 40), size=5, replace=False))  # some parts of one episode
    parts = [Joint.of(part) for part in np.split(values[:, rng.permutation(40)], borders, axis=1)]
    expected = thirds_by_loops(values)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(Joint.of(values).thirds, expected, atol=1e-12 * scale)
    for some in (parts, parts[::-1]):
        merged = some[0]
        for part in some[1:]:
            merged = merged.merge(part)
        assert merged.moments.n == 40
        np.testing.assert_allclose(merged.thirds, expected, atol=1e-11 * scale)
    pairs = [parts[0].merge(parts[1]), parts[2].merge(parts[3]), parts[4].merge(parts[5])]
    tree = pairs[0].merge(pairs[1].merge(pairs[2]))
    np.testing.assert_allclose(tree.thirds, expected, atol=1e-11 * scale)


# --- two sides --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("skewness", [3.5, 8.0, -5.0])
@pytest.mark.parametrize("n", [30, 300, 10**5])
def test_the_wider_side_is_where_halls_transformation_has_the_quantile(
    skewness: float, n: int, level: float
) -> None:
    """T + u T^2 / 3 + u^2 T^3 / 27 + u / 6 is as good as normal: at the end of the interval it is z."""
    from scipy.special import ndtri

    z, u = float(ndtri(0.5 + level / 2)), skewness / math.sqrt(n)
    for side, factor in zip((1.0, -1.0), skew_factors(skewness, n, level), strict=True):
        ended = side * factor * z
        transformed = ended + u * ended**2 / 3 + u**2 * ended**3 / 27 + u / 6
        if factor > 1.0:
            assert transformed == pytest.approx(side * z, rel=1e-9)
        else:  # the normal interval is wide enough there
            assert side * transformed >= z


def test_without_skewness_and_with_many_episodes_both_sides_are_alike() -> None:
    for skewness, n in ((1e-9, 100), (5.0, 10**14)):
        assert skew_factors(skewness, n) == pytest.approx((1.0, 1.0), abs=1e-5)
    wider = [skew_factors(6.0, n)[1] for n in (50, 500, 5000, 50_000)]
    assert wider == sorted(wider, reverse=True)
    assert min(itertools.chain(*(skew_factors(s, 200) for s in (-40.0, -4.0, 4.0, 40.0)))) >= 1.0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("skewness", [0.5, 4.0, 25.0])
def test_the_sides_of_what_is_turned_round_change_places(skewness: float, level: float) -> None:
    assert skew_factors(-skewness, 200, level) == pytest.approx(skew_factors(skewness, 200, level)[::-1])


def evidence_of(third: float, size: float = 1e12) -> Candidates:
    """One estimate of 100 episodes, with a standard error of 1 and this standardised mean of cubes."""
    covariance, thirds = np.diag([1.0, 0.25, 0.25]), np.zeros((3, 3, 3))
    thirds[0, 0, 0] = third
    names = ("LIN", "DM", "BEHAVIOUR")
    return Candidates(
        names, np.zeros(3), covariance, np.full(3, size), 100, 5.0, thirds=thirds, left_out=("DM",)
    )


@pytest.mark.parametrize("skewness", [-6.0, -2.9, 2.9, 6.0])
def test_only_where_influences_are_very_skewed_sides_differ(skewness: float) -> None:
    found = Mixture(evidence_of(skewness)).at(0.95)
    assert found.skewness == pytest.approx(skewness, rel=1e-9)
    sides = skew_factors(skewness, 100) if abs(skewness) > SKEWED else (1.0, 1.0)
    assert found.half_widths == pytest.approx([half_width(side, 0.0) for side in sides], rel=1e-9)
    assert found.half_width == min(found.half_widths)
    larger = [half_width(side * math.hypot(1.0, 0.5), 0.0) for side in sides]  # of the gain
    assert found.baseline_half_widths == pytest.approx(larger, rel=1e-9)


def heavy_log(seed: int = 0, n: int = 120) -> dw.Trajectories:
    """A sample of which two episodes earn two hundred times as much as they would."""
    log = PROBLEM.sample(n, seed=seed)
    rewards = np.abs(log.rewards)
    for episode in (5, 60):
        rewards[log.offsets[episode] : log.offsets[episode + 1]] *= 200.0
    return with_rewards(log, rewards)


def with_rewards(log: dw.Trajectories, rewards: np.ndarray) -> dw.Trajectories:
    return dw.Trajectories(
        log.states,
        log.actions,
        rewards,
        log.offsets,
        propensities=log.propensities,
        terminated=log.terminated,
        time_limit=log.time_limit,
    )


LOGS = {
    "heavy": (heavy_log(), PROBLEM.pi_e, PROBLEM.pi_b),
    "plain": (with_rewards(SAMPLE, SAMPLE.rewards), PROBLEM.pi_e, PROBLEM.pi_b),
    "late": (late_log(0), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.tile([0.6, 0.4], (3, 1))),
}
TURNED = {"better": "worse", "worse": "better", "cannot tell": "cannot tell"}


def settings(kind: str) -> dict[str, str]:
    return {"solve": "longest"} if kind == "late" else {}


def test_heavy_rewards_have_a_flag_and_an_interval_of_two_sides() -> None:
    log, pi_e, pi_b = LOGS["heavy"]
    found = dw.estimate("BLEND", log, pi_e, pi_b)
    assert "heavy-reward" in found.flags
    assert found.blend.skewness > SKEWED
    assert found.interval[1] - found.value > 1.1 * (found.value - found.interval[0])
    assert "heavy-reward" not in dw.estimate("BLEND", *LOGS["plain"]).flags


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("factor", [-1.0, 4.0, -0.37])
def test_rewards_of_another_sign_and_scale(kind: str, factor: float) -> None:
    """Costs for rewards, or cents for euros: the same interval, mirrored and in other units."""
    log, pi_e, pi_b = LOGS[kind]
    scaled = with_rewards(log, factor * log.rewards)
    first, second = (
        dw.evaluate(one, pi_e, pi_b, ["BLEND", "BEHAVIOUR"], background=False, **settings(kind))
        for one in (log, scaled)
    )
    one, other = first["BLEND"], second["BLEND"]
    exactly = {"rel": 1e-9, "abs": 1e-12}
    assert other.value == pytest.approx(factor * one.value, **exactly)
    assert sorted(other.interval) == pytest.approx(sorted(factor * end for end in one.interval), **exactly)
    assert dict(other.shares) == pytest.approx(dict(one.shares), **exactly)
    assert other.blend.skewness == pytest.approx(math.copysign(1.0, factor) * one.blend.skewness, rel=1e-8)
    sides = one.blend.baseline_half_widths if factor > 0 else one.blend.baseline_half_widths[::-1]
    assert other.blend.baseline_half_widths == pytest.approx(
        [abs(factor) * side for side in sides], **exactly
    )
    assert other.flags == one.flags
    answer = first.verdict.answer
    assert second.verdict.answer == (answer if factor > 0 else TURNED[answer])


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("factor", [1e-110, 1e-60, 1e60, 1e103])
def test_rewards_of_any_size_have_the_same_sides(kind: str, factor: float) -> None:
    """Third powers of influences would leave the range of numbers."""
    log, pi_e, pi_b = LOGS[kind]
    one, other = (
        dw.estimate("BLEND", scaled, pi_e, pi_b, **settings(kind)).blend
        for scaled in (log, with_rewards(log, factor * log.rewards))
    )
    assert other.skewness == pytest.approx(one.skewness, rel=1e-8)
    if set(one.shares) == set(other.shares):  # the check of the model has an absolute floor
        assert other.half_widths == pytest.approx([factor * half for half in one.half_widths], rel=1e-8)


def test_a_thousand_conversions_are_not_a_few_episodes() -> None:
    """Rare rewards of one size have skewed influences, and next to no effect on the sides of a long log."""
    rng = np.random.default_rng(0)
    n = 30_000
    actions = rng.integers(0, 2, n)
    rewards = (rng.random(n) < np.where(actions == 1, 0.06, 0.03)).astype(float)
    log = dw.Trajectories(np.zeros(n, int), actions, rewards, np.arange(n + 1))
    found = dw.estimate("BLEND", log, [[0.2, 0.8]], [[0.5, 0.5]])
    assert found.blend.skewness > SKEWED
    assert "heavy-reward" not in found.flags


# --- weights alone ----------------------------------------------------------------------------------------


def ended_by_chance(n: int = 200) -> dw.Trajectories:
    """Steps that are cut at a limit, and said to be terminations: the model does not fit."""
    rng = np.random.default_rng(3)
    states, actions = rng.integers(3, size=(n, 8)), rng.integers(2, size=(n, 8))
    rewards = 1.0 + 0.1 * rng.normal(size=(n, 8))
    return dw.Trajectories(states.ravel(), actions.ravel(), rewards.ravel(), np.arange(0, n * 8 + 1, 8))


SOME, EVEN = np.tile([0.7, 0.3], (3, 1)), np.full((3, 2), 0.5)
# What only weights speak of, and why.
ALONE = {
    "a misfit": lambda: (ended_by_chance(), SOME, EVEN, "WPDIS"),
    "a misfit, few effective episodes": lambda: (
        ended_by_chance(60),
        np.tile([0.95, 0.05], (3, 1)),
        EVEN,
        "WPDIS",
    ),
    "a misfit, late rewards": lambda: (*LOGS["late"], "WIS"),
    "four episodes": lambda: (ended_by_chance(4), SOME, EVEN, "WPDIS"),
    "two episodes": lambda: (ended_by_chance(2), SOME, EVEN, "WPDIS"),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("why", ALONE)
def test_one_number_has_one_interval(why: str, level: float) -> None:
    """A mix of weights alone is one row of the table, and may not be surer than that row."""
    log, pi_e, pi_b, row = ALONE[why]()
    names = ["BLEND", "BEHAVIOUR", "WPDIS", "WIS"]
    with_rules = settings("late") if row == "WIS" else {}
    table = dw.evaluate(log, pi_e, pi_b, names, level=level, background=False, **with_rules)
    assert table["BLEND"].shares == {row: 1.0}
    assert table["BLEND"].value == pytest.approx(table[row].value, rel=1e-12)
    room = 1e-12 * abs(table[row].value)
    assert table["BLEND"].interval[0] <= table[row].interval[0] + room
    assert table["BLEND"].interval[1] >= table[row].interval[1] - room


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("how", given.WRONG)
def test_one_number_has_one_interval_where_a_given_model_is_wrong(how: str, level: float) -> None:
    table = dw.evaluate(
        *(given.LOG, given.PI_E, given.PI_B, ["BLEND", "WPDIS"]),
        level=level,
        model=given.WRONG[how],
        background=False,
    )
    assert table["BLEND"].shares == {"WPDIS": 1.0}
    assert table["BLEND"].interval[0] <= table["WPDIS"].interval[0]
    assert table["BLEND"].interval[1] >= table["WPDIS"].interval[1]


# --- weights that are missing -----------------------------------------------------------------------------

RARELY = 0.12


def model_fail(n: int, seed: int, share: float = RARELY) -> dw.Trajectories:
    """One visible state, two steps: the first action decides what the second step pays.

    The old policy takes action 1 with chance .12, the new one with .88, and that costs 1 in place of paying
    1; the model, which sees one state, knows nothing of it. `share`: how often action 1 really comes first.
    """
    rng = np.random.default_rng(seed)
    first, second = (rng.random(n) < share).astype(int), (rng.random(n) < RARELY).astype(int)
    rewards = np.stack([np.zeros(n), np.where(first == 1, -1.0, 1.0)], axis=1)
    return dw.Trajectories(
        np.zeros(2 * n, int), np.stack([first, second], axis=1).ravel(), rewards.ravel(), np.arange(n + 1) * 2
    )


PI_E, PI_B = np.array([[RARELY, 1 - RARELY]]), np.array([[1 - RARELY, RARELY]])


def test_an_allowance_for_the_decisive_action_that_is_absent() -> None:
    """Nobody begins with action 1: the weights add up to .27 of what they should, returns are from 1 to 1."""
    log = model_fail(60, 1, share=0.0)
    rho = (PI_E / PI_B)[0][log.actions].reshape(-1, 2)
    weights = rho.prod(axis=1)
    lacking = 1.0 - weights.mean() - weights.std() / np.sqrt(60)  # and one standard error
    assert lacking > 0.5
    evidence = gather(ask(log, PI_E, PI_B))
    assert evidence.missing == 0.0  # all returns are 1, as far as the log knows
    known = gather(ask(log, PI_E, PI_B, options=dw.question.asked.Options(return_range=(-1.0, 1.0))))
    assert known.missing == pytest.approx(2.0 * lacking, rel=1e-12)
    mixed = log.select(np.arange(60))
    rewards = mixed.rewards.copy()
    rewards[1::2] = np.linspace(0.0, 3.0, 60)
    spread = gather(ask(with_rewards(mixed, rewards), PI_E, PI_B))
    assert spread.missing == pytest.approx(3.0 * lacking, rel=1e-12)
    discounted = gather(ask(with_rewards(mixed, rewards), PI_E, PI_B, 0.5))
    assert discounted.missing == pytest.approx(1.5 * lacking, rel=1e-12)


def test_weights_that_add_up_to_too_much_miss_nothing() -> None:
    log = model_fail(60, 1, share=0.6)
    assert (PI_E / PI_B)[0][log.actions].reshape(-1, 2).prod(axis=1).mean() > 1.0
    assert gather(ask(log, PI_E, PI_B)).missing == 0.0


# --- what the log could not show --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [30, 400])
def test_what_could_not_be_seen_of_an_error_of_the_model_from_the_rows(n: int) -> None:
    """Three standard errors of the difference of what assumes least from DM, episode by episode."""
    question = ask(PROBLEM.sample(n, seed=1), PROBLEM.pi_e, PROBLEM.pi_b)
    evidence = gather(question)
    mixture = Mixture(evidence)
    first = mixture.order[0]
    assert first == ("WDR cross-fitted" if evidence.ess >= 10 else "LIN")
    own, model = (
        centred_influences(question, evidence.influences[evidence.names.index(name)])
        for name in (first, "DM")
    )
    noise = float((own - model).std(ddof=1)) / math.sqrt(n)
    found = mixture.at(0.95)
    assert found.shares["DM"] > 0
    widened = math.sqrt(1.0 + TWICE / max(evidence.sizes[evidence.names.index(first)], 1.0))
    assert found.undetectable == pytest.approx(BIASED * widened * noise, rel=1e-9)
    table = dw.evaluate(
        question.parts[0], PROBLEM.pi_e, PROBLEM.pi_b, ["BLEND", "BEHAVIOUR"], background=False
    )
    said = f"could not show an error of that model below {found.undetectable:.2g}."
    assert any(said in reason for reason in table.verdict.reasons)
