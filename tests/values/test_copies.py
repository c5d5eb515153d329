"""Copies of episodes: found where chance cannot have made them, and nowhere else."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deadweight_studies.problems import study_problems
from deadweight_studies.real_kinds import model_fail

import deadweight as dw
from deadweight.answers.answering import Answers
from deadweight.diagnostics.flags import contents_of, copies_of
from deadweight.domains import deterministic_lift, stochastic_lift
from deadweight.io.open import open_log
from deadweight.log.interface import LogLike, in_memory
from deadweight.question.question import ask
from deadweight.sums.blocks import blocks
from deadweight.values import equal_episodes
from deadweight.values.equal_episodes import Copies, chance_of_equals, equal_rewards, marks_of
from deadweight.values.model import count


def found_in(log: LogLike, pi: np.ndarray | dw.TabularPolicy, workers: int = 1) -> Copies:
    answers = Answers(ask(log, pi, pi, workers=workers), [])
    answers.sum(contents_of(answers.question))
    found = copies_of(answers)
    assert found is not None
    return found


def with_copies(log: dw.Trajectories, share: float, seed: int) -> dw.Trajectories:
    n = log.n_episodes
    again = np.random.default_rng(seed).choice(n, int(share * n), replace=False)
    return log.select(np.concatenate([np.arange(n), again]))


def coins(n: int, seed: int, length: int = 4, real: bool = False) -> dw.Trajectories:
    """Two states and two actions by coins."""
    rng = np.random.default_rng(seed)
    rewards = rng.normal(size=n * length) if real else rng.integers(0, 2, n * length).astype(float)
    return dw.Trajectories(
        rng.integers(0, 2, n * length),
        rng.integers(0, 2, n * length),
        rewards,
        np.arange(0, n * length + 1, length),
        time_limit=length,
    )


COIN = np.full((2, 2), 0.5)


def test_equal_marks_are_equal_episodes() -> None:
    log = coins(400, 0, length=3)
    block = next(blocks(log))
    contents = [
        tuple(column[lo:hi].tobytes() for column in (log.states, log.actions, log.rewards))
        for lo, hi in itertools.pairwise(log.offsets.tolist())
    ]
    assert len(set(marks_of(block, 2).tolist())) == len(set(contents)) < 400


def test_order_within_an_episode_and_signs_of_zero() -> None:
    log = dw.Trajectories.from_episodes(
        [[(0, 0, 1.0), (1, 0, 2.0)], [(1, 0, 2.0), (0, 0, 1.0)], [(0, 0, 0.0)], [(0, 0, -0.0)]]
    )
    marks = np.concatenate([marks_of(block, 1) for block in blocks(log)])
    assert marks[0] != marks[1]
    assert marks[2] == marks[3]


def test_the_chance_is_that_of_all_pairs_of_a_known_chain() -> None:
    """Coins: two steps are equal in state and action with 1/4 each, and in states alone with 1/2 each."""
    log = coins(200000, 0, length=2)
    counts = count([log], 2, 2)
    alike = np.ones(4)
    for power, habits, expected in ((2, False, 1 / 16), (2, True, 1 / 4), (3, False, 1 / 256)):
        # Shares of 200,000 and more coins are a hundredth off at most; there are four of them.
        found = chance_of_equals(counts, alike, power, 2, habits)
        assert found == pytest.approx(expected, rel=0.03)
    assert chance_of_equals(counts, 0.0 * alike, 2, 2, False) == 0.0


def test_how_often_rewards_are_equal() -> None:
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 3, 3000)
    sometimes = np.where(rng.random(3000) < 0.5, rng.normal(size=3000), 0.0)
    found = equal_rewards(pairs, np.choose(pairs, [rng.normal(size=3000), sometimes, np.zeros(3000)]), 4)
    assert found == pytest.approx([0.0, 0.25, 1.0, 1.0], abs=3 * 0.5 / np.sqrt(1000))
    for rewards in (rng.integers(0, 10**6, 3000).astype(float), rng.integers(0, 9, 3000) / 8, 0.5 * pairs):
        assert equal_rewards(pairs, rewards, 3).tolist() == [1.0, 1.0, 1.0]


def test_every_way_of_reading_finds_the_same(tmp_path: Path) -> None:
    log = with_copies(coins(600, 1), 0.05, 2)
    episode = np.repeat(np.arange(log.n_episodes), log.lengths)
    table = {
        "episode": episode,
        "step": np.arange(log.n_steps) - log.offsets[episode],
        "state": log.states,
        "action": log.actions,
        "reward": log.rewards,
    }
    pq.write_table(pa.table(table), tmp_path / "log.parquet", row_group_size=200)
    expected = found_in(log, COIN)
    assert expected.pairs > 0
    assert found_in(log, COIN, workers=2) == expected
    with open_log(tmp_path / "log.parquet", part_rows=200, time_limit=4) as stream:
        assert len(stream) > 3
        found = found_in(stream, COIN)
    assert found.pairs == expected.pairs
    assert found.expected == pytest.approx(expected.expected, rel=1e-9)


def test_a_share_of_a_long_log_shows_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    log = with_copies(coins(2000, 1, real=True), 0.2, 2)
    monkeypatch.setattr(equal_episodes, "MOST_COMPARED", 600)
    found = found_in(log, COIN)
    assert found.found
    assert 0.25 * 400 - 4 * 9 < found.pairs < 0.25 * 400 + 4 * 9, "binomial: a deviation of 9"


@pytest.mark.parametrize("place", range(4))
def test_no_false_alarm_on_small_discrete_problems(place: int) -> None:
    lift = (deterministic_lift(7), stochastic_lift(7))[place % 2]
    for seed in range(25):
        if place < 2:
            log, pi = lift.sample(1000, seed), lift.pi_b
        else:
            log, pi = coins(5000, seed, length=place - 1), COIN
        assert not found_in(log, pi).found


@pytest.mark.parametrize("name", ["inventory", "taxi, 10 steps", "river", "random 8 x 3", "hidden 8 x 3"])
def test_five_of_a_hundred_are_found(name: str) -> None:
    problem = next(one for one in study_problems() if one.name.startswith(name))
    for seed in range(3):
        log = problem.sample(seed)
        assert not found_in(log, problem.pi_b).found
        assert found_in(with_copies(log, 0.05, seed), problem.pi_b).found


def test_one_equal_pair_where_hardly_one_is_expected_is_no_copy() -> None:
    """A pair with a chance of 1 in 50 is 7 deviations of 0.14 off, and comes once in 50 logs."""
    assert not Copies(1, 0.02, 0.02**0.5).found
    assert not Copies(2, 0.02, 0.02**0.5).found  # 1 in 5,000
    assert Copies(4, 0.02, 0.02**0.5).found  # 7e-9, below that of five standard deviations
    assert Copies(1, 0.0, 0.0, real=True).found


def test_a_model_that_the_log_refutes_does_not_tell_how_many_are_equal() -> None:
    """ModelFail: two steps in one visible state, which a model takes for endings by chance."""
    problem = model_fail(128)
    log = problem.sample(0)
    assert found_in(log, problem.pi_b).found
    flags = dw.evaluate(log, problem.pi_e, problem.pi_b, ["BLEND", "BEHAVIOUR"]).headline.flags
    assert "model-misfit" in flags
    assert "copies" not in flags


def test_real_rewards_show_a_single_copy() -> None:
    log = coins(3000, 3, length=2, real=True)
    assert not found_in(log, COIN).found
    assert found_in(log.select(np.append(np.arange(3000), 7)), COIN).found
    single = coins(3000, 3, length=1, real=True)
    assert not found_in(with_copies(single, 0.5, 0), COIN).found, "of one step nothing is told"


def test_those_who_bought_nothing_are_no_copies() -> None:
    """One in ten buys, for an amount in cents; the others are alike because nothing happened."""
    rng = np.random.default_rng(5)
    n = 4000
    buys = np.repeat(rng.random(n) < 0.1, 3)
    rewards = np.where(buys, rng.lognormal(3.0, 1.0, 3 * n).round(2), 0.0)
    log = dw.Trajectories(
        rng.integers(0, 3, 3 * n), rng.integers(0, 2, 3 * n), rewards, np.arange(n + 1) * 3, time_limit=3
    )
    pi = np.full((3, 2), 0.5)
    assert not found_in(log, pi).found
    assert found_in(with_copies(log, 0.05, 0), pi).found


def test_nothing_is_learnt_from_copies() -> None:
    """Halves that share episodes would judge what was learnt from them."""
    rng = np.random.default_rng(3)
    log = dw.Trajectories(
        rng.integers(0, 6, 800), rng.integers(0, 3, 800), rng.normal(size=800), np.arange(201) * 4
    )
    found = dw.improve(log.select(np.tile(np.arange(200), 10)), np.full((6, 3), 1 / 3))
    assert found.gate.lower > 0, "the gate alone would let it through"
    assert found.answer == "no change"
    assert any("than chance allows" in reason for reason in found.reasons)


def test_a_verdict_on_copies_is_not_sound() -> None:
    log = with_copies(coins(1000, 4, real=True), 0.2, 4)
    ev = dw.evaluate(log, [[0.4, 0.6]] * 2, COIN)
    assert "copies" in ev.headline.flags
    assert "copies" in ev.verdict.doubts
    assert (ev.verdict.answer, ev.verdict.sound) == ("cannot tell", False)
    plain = dw.evaluate(log, [[0.4, 0.6]] * 2, COIN, ["BEHAVIOUR", "WPDIS"])
    assert "copies" in plain["WPDIS"].flags
    assert (plain.verdict.answer, plain.verdict.sound) == ("cannot tell", False)
    assert "copies" not in dw.evaluate(coins(1000, 4, real=True), [[0.4, 0.6]] * 2, COIN).headline.flags
    assert in_memory(log).n_episodes == 1200
