"""Every flag about weights, drops and contradictions: beside a log on which its sentence is true, and one
on which it would not be."""

from __future__ import annotations

import numpy as np
import pytest
from deadweight_studies.problems import late_reward, previous_action, random_problem

import deadweight as dw
from deadweight.diagnostics.tails import Largest, tail_shape
from deadweight.estimators.estimator import NAMED
from deadweight.results import FLAGS, remark
from deadweight.sums.blocks import blocks
from deadweight.sums.ends import RewardTiming, Timing

SOUND = random_problem(6, 3, 8, seed=9)
LOG = SOUND.sample(400, seed=4)
ALL_STATES = list(range(6))


def flags(name: str, log, pi_e, pi_b, **options) -> tuple[str, ...]:
    return dw.estimate(name, log, pi_e, pi_b, **options).flags


def bandit(weights: np.ndarray, rewards: np.ndarray) -> tuple[dw.Trajectories, np.ndarray]:
    """One step an episode, with the weights given: pi_e is certain of the one action there is."""
    n = len(weights)
    log = dw.Trajectories(
        np.zeros(n, dtype=int), np.zeros(n, dtype=int), rewards, np.arange(n + 1), propensities=1 / weights
    )
    return log, np.ones((1, 1))


def test_a_heavy_tail() -> None:
    rng = np.random.default_rng(0)
    weights = 1.0 + rng.pareto(1.0, size=2000)
    log, pi_e = bandit(weights, rng.normal(size=2000))
    assert "heavy-tail" in flags("WIS", log, pi_e, None)
    assert dw.diagnostics.weights(log, pi_e).pareto_k > 0.7
    light, _ = bandit(1.0 + rng.random(2000), rng.normal(size=2000))
    assert "heavy-tail" not in flags("WIS", light, pi_e, None)
    assert "heavy-tail" not in flags("BEHAVIOUR", log, pi_e, None)
    # Weights that are the same up to rounding have no tail at all.
    alike, _ = bandit(2.0 + 1e-15 * rng.pareto(1.0, size=2000), rng.normal(size=2000))
    assert "heavy-tail" not in flags("WIS", alike, pi_e, None)


@pytest.mark.parametrize("written", [np.nextafter(1 / 3, 0.0), np.nextafter(1 / 3, 1.0), 0.3333333])
def test_weights_of_one_up_to_rounding_average_one(written: float) -> None:
    """The last digits of probabilities in a file are no reason to doubt them."""
    rng = np.random.default_rng(0)
    log = dw.Trajectories(
        np.zeros(60, dtype=int), rng.integers(3, size=60), rng.normal(5, 1, size=60), np.arange(61),
        propensities=np.full(60, written),
    )  # fmt: skip
    found = dw.evaluate(log, np.full((1, 3), 1 / 3), None, ["BEHAVIOUR", "WPDIS"], baseline=0.0)
    assert found["WPDIS"].mean_weight_z == dw.diagnostics.weights(log, np.full((1, 3), 1 / 3)).mean_z == 0.0
    assert found.verdict.answer == "better"


def test_rounding_contradicts_nothing() -> None:
    """All episodes earn the same, and model and weights agree on it but for the last digits."""
    unit = 1e-6  # of which sums are not exact
    paths = [[(0, 1.0), (1, 1.0), (0, 2.0), (4, 1.0)], [(0, 3.0), (1, 0.0), (0, 1.0), (2, 1.0)]]
    log = dw.Trajectories.from_episodes([[(s, 0, unit * r) for s, r in path] for path in paths])
    found = dw.evaluate(log, np.ones((5, 1)), np.ones((5, 1)))
    assert found["WPDIS"].bounds.disagreement > found["WPDIS"].sampling_error  # rounding of the model's value
    assert [name for name in found if "contradicted" in found[name].flags] == []


def test_weights_that_do_not_average_one() -> None:
    wrong = dw.Trajectories(
        LOG.states, LOG.actions, LOG.rewards, LOG.offsets, propensities=np.full(LOG.n_steps, 0.9)
    )
    found = dw.estimate("WPDIS", wrong, SOUND.pi_e)
    assert "behaviour-miscalibrated" in found.flags
    assert found.mean_weight_z is None  # with such probabilities weights would have any mean
    assert not {"mean-weight", "behaviour-miscalibrated"} & set(flags("WPDIS", LOG, SOUND.pi_e, SOUND.pi_b))


def test_rewards_that_come_last() -> None:
    late = late_reward(20, 3, seed=16)
    log = late.sample(200, seed=1)
    for name, said in (("WPDIS", True), ("C-WSPDIS", True), ("WIS", False), ("WDR", False), ("DM", False)):
        assert ("late-reward" in flags(name, log, late.pi_e, late.pi_b)) == said
    assert "late-reward" not in flags("WPDIS", LOG, SOUND.pi_e, SOUND.pi_b)
    # One length for all: the last step has all episodes.
    same = dw.Trajectories.from_episodes([[(0, 0, 0.0), (0, 1, 1.0)], [(0, 1, 0.0), (0, 0, 0.0)]] * 10)
    assert "late-reward" not in flags("WPDIS", same, [[0.5, 0.5]], [[0.4, 0.6]])


def test_timing_by_blocks_is_that_of_the_whole() -> None:
    episodes = [[(0, 0, 0.0), (0, 0, 1.0)], [(0, 0, 2.0)], [(0, 0, 0.0)] * 3]
    log = dw.Trajectories.from_episodes(episodes)
    found = [RewardTiming().summarise(block) for block in blocks(log)]
    merged = found[0]
    for other in found[1:]:
        merged = merged.merge(other)
    assert merged.is_late
    assert not merged.merge(Timing(early=True, earlier=True, paid=True, shortest=1, longest=1)).is_late
    assert not Timing(early=False, earlier=False, paid=False, shortest=1, longest=2).is_late


@pytest.mark.parametrize(
    ("rewards", "late"),
    [([0, 0, 1, 0], True), ([0, 1, 0, 0], False), ([0, 0, 1, 1], False)],
)
def test_a_last_row_for_the_state_in_which_an_episode_has_ended(rewards: list[int], late: bool) -> None:
    episodes = [[(0, 0, float(reward)) for reward in rewards], [(0, 0, 0.0), (0, 0, 1.0), (0, 0, 0.0)]]
    (block,) = blocks(dw.Trajectories.from_episodes(episodes))
    assert RewardTiming().summarise(block).is_late == late


def test_the_largest_of_two_halves_are_those_of_the_whole() -> None:
    logs = np.random.default_rng(1).normal(size=50)
    merged = Largest.of(logs[:20], 7).merge(Largest.of(logs[20:], 7))
    np.testing.assert_array_equal(np.sort(merged.logs), np.sort(logs)[-7:])
    assert (merged.n, merged.log_sum) == (50, pytest.approx(np.log(np.exp(logs).sum())))


def test_clusters_of_nearly_equal_weights_are_no_tail() -> None:
    rng = np.random.default_rng(2)
    logs = np.log(np.where(np.arange(400) < 12, 4.0, 2.0) * (1 + 0.01 * rng.random(400)))
    assert tail_shape(np.sort(logs)[-61:]) > 0.7
    assert not Largest.of(logs, 61).is_heavy
    assert Largest.of(np.log1p(rng.pareto(0.6, size=400)), 61).is_heavy


def test_infinite_variance_where_the_lift_is_not_cut() -> None:
    lift = dw.domains.stochastic_lift(11)
    log = lift.sample(1000, seed=0)
    ev = dw.evaluate(log, lift.pi_e, lift.pi_b, background=False)
    for name in ("WIS", "WPDIS", "WDR"):
        assert "infinite-variance" in ev[name].flags
    for name in ("BEHAVIOUR", "DM"):
        assert "infinite-variance" not in ev[name].flags
    # All ratios dropped: all weights are one.
    everything = dw.estimate("C-WSPDIS", log, lift.pi_e, lift.pi_b, drop=list(range(9)))
    assert "infinite-variance" not in everything.flags
    assert "infinite-variance" not in flags("WPDIS", LOG, SOUND.pi_e, SOUND.pi_b)


def test_a_drop_that_nothing_can_check() -> None:
    long = random_problem(8, 2, 60, seed=4)
    log = long.sample(30, seed=2)
    dropped = list(range(7))
    few = dw.estimate("WPDIS", log, long.pi_e, long.pi_b)
    assert few.ess < 10
    ev = dw.evaluate(log, long.pi_e, long.pi_b, ["BEHAVIOUR", "C-WSPDIS", "BLEND"], drop=dropped)
    assert "low-ess-undropped" in ev["C-WSPDIS"].flags
    assert "low-ess-undropped" in ev["BLEND"].flags
    assert ev["BLEND"].shares.get("WDR", 0.0) == 0.0
    assert "low-ess-undropped" not in flags("C-WSPDIS", LOG, SOUND.pi_e, SOUND.pi_b, drop=[1])
    alone = dw.evaluate(log, long.pi_e, long.pi_b, ["BEHAVIOUR", "C-WSPDIS"], drop=dropped)
    assert alone.verdict.answer == "cannot tell"
    assert "BLEND" in alone.verdict.next_step


def test_a_hidden_past_is_contradicted_by_what_drops_nothing() -> None:
    """The model sees no gap, a free rule drops all, and only the undropped estimate knows better."""
    cell = previous_action("hidden", 6, 2, horizon=8, seed=11, episodes=2000)
    log = cell.sample(3)
    ev = dw.evaluate(log, cell.pi_e, cell.pi_b, drop="auto:free", background=False)
    truth = cell.problem.true_value
    for name in ("C-WSPDIS", "WDRSIS"):
        found = ev[name]
        assert "contradicted" in found.flags
        assert found.bounds.disagreement > found.sampling_error
        assert found.interval[0] <= truth <= found.interval[1]
        assert abs(found.centre - ev["WDR"].value) <= found.bias_allowance + 1e-12
    assert "contradicted" in ev["BLEND"].flags
    assert ev["BLEND"].contradiction > 0


def test_a_hidden_past_leaves_an_anchored_drop_nothing_to_contradict() -> None:
    """The default holds every level against what drops nothing: it stays away from a wrong model."""
    cell = previous_action("hidden", 6, 2, horizon=8, seed=11, episodes=2000)
    ev = dw.evaluate(cell.sample(3), cell.pi_e, cell.pi_b, ["C-WSPDIS", "WDR", "WDRSIS"], background=False)
    for name in ("C-WSPDIS", "WDRSIS"):
        found = ev[name]
        assert "all-dropped" not in found.flags
        assert found.interval[0] <= cell.problem.true_value <= found.interval[1]


def test_sound_rows_have_no_flags() -> None:
    found = dw.evaluate(LOG, SOUND.pi_e, SOUND.pi_b, ["BEHAVIOUR", "DM", "WIS", "WPDIS", "WDR"])
    assert [found[name].flags for name in found] == [()] * 5


def test_nothing_but_the_model_is_left() -> None:
    ev = dw.evaluate(LOG, SOUND.pi_e, SOUND.pi_b, ["BEHAVIOUR", "C-WSPDIS", "WDRSIS"], drop=ALL_STATES)
    rows = {row[0]: row for row in ev.rows()}
    assert rows["C-WSPDIS"][3] == rows["WDRSIS"][3] == "none: model only"
    assert ev["WDRSIS"].ess == LOG.n_episodes
    unchecked = dw.evaluate(
        LOG, SOUND.pi_e, SOUND.pi_b, ["BEHAVIOUR", "WDRSIS"], drop=ALL_STATES, cross_check=False
    )
    assert unchecked.verdict.answer == "cannot tell"
    assert "no other estimate" in unchecked.verdict.reasons[-1]


@pytest.mark.parametrize("name", ["BLEND", "BEHAVIOUR", "DM", "WIS", "C-WSPDIS", "WDR"])
def test_possible_returns_clip_every_interval(name: str) -> None:
    returns = np.add.reduceat(LOG.rewards, LOG.offsets[:-1])
    possible = (float(returns.min()), float(returns.max()))
    few = LOG.select(range(8))
    bounds = dw.estimate(name, few, SOUND.pi_e, SOUND.pi_b, return_range=possible).interval
    free = dw.estimate(name, few, SOUND.pi_e, SOUND.pi_b).interval
    assert bounds == (max(free[0], possible[0]), min(free[1], possible[1]))
    with pytest.raises(dw.errors.DataError, match="outside"):
        dw.estimate(name, LOG, SOUND.pi_e, SOUND.pi_b, return_range=(possible[0], possible[1] - 0.1))


@pytest.mark.parametrize("kind", ["student-t", "bootstrap", "bca"])
def test_an_interval_beyond_the_possible_returns_is_no_certainty(kind: str) -> None:
    """With ratios that are far too large IS lies beyond all returns: not the highest one is left, but all."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 600)
    log = dw.Trajectories(np.tile([0, 1, 2], 200), actions, actions, np.arange(201) * 3)
    new, wrong = [[0.05, 0.95]] * 3, [[0.8, 0.2]] * 3
    found = dw.estimate("IS", log, new, wrong, interval=kind, return_range=(0, 3), resamples=100)
    assert found.value > 3
    assert found.interval == (0.0, 3.0)


@pytest.mark.parametrize("flag", list(FLAGS))
def test_every_flag_has_a_sentence_for_every_estimator(flag: str) -> None:
    for made in NAMED.values():
        said = remark(flag, made.about)
        assert said.endswith(".")
        assert said[0].isupper()


def test_the_vocabulary_is_there() -> None:
    assert {
        *("model-misfit", "heavy-tail", "mean-weight", "late-reward", "infinite-variance"),
        *("low-ess-undropped", "model-unstable", "behaviour-miscalibrated", "behaviour-filled"),
        "contradicted",
    } <= set(FLAGS)


def test_a_given_drop_without_an_interval_needs_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    lift = dw.domains.deterministic_lift(9)
    log = lift.sample(50)

    def no_counts(*_: object) -> None:
        raise AssertionError("somebody fits a model")

    monkeypatch.setattr("deadweight.question.asked.counts_by_fold", no_counts)
    found = dw.evaluate(log, lift.pi_e, lift.pi_b, ["SIS", "WSPDIS"], drop=[1, 2], interval=None)
    assert found["WSPDIS"].dropped_share > 0
