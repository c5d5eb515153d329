"""The mean of the weights against the variance that it must have, on logs worked by hand and on demos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deadweight_studies.problems import random_problem
from scipy.stats import binom

import deadweight as dw
from deadweight.diagnostics.tails import second_moment
from deadweight.diagnostics.weight_report import is_contradicted, stated_policy
from deadweight.io.stream import open_stream
from deadweight.question.question import ask
from deadweight.question.ratio_check import Stated
from deadweight.tools.thresholds import FALSE_ALARMS

SOUND = random_problem(6, 3, 8, seed=9)
LOG = SOUND.sample(400, seed=4)
FLAGS = {"mean-weight", "behaviour-miscalibrated"}


def bandit(first: int, second: int, **columns) -> dw.Trajectories:
    """One step an episode in one state: so many times the first action, so many times the second."""
    actions = np.repeat([0, 1], [first, second])
    n = len(actions)
    return dw.Trajectories(np.zeros(n, dtype=int), actions, actions * 1.0, np.arange(n + 1), **columns)


def test_a_bandit_by_hand() -> None:
    """Ratios 1.2 and .8 with probability 1/2 each have variance .04, however often each was drawn."""
    log, pi_e, pi_b = bandit(240, 160), [[0.6, 0.4]], [[0.5, 0.5]]
    z = (0.6 * 1.2 + 0.4 * 0.8 - 1) / np.sqrt(0.04 / 400)
    found = dw.estimate("WIS", log, pi_e, pi_b)
    assert found.mean_weight_z == pytest.approx(z, rel=1e-9)
    assert dw.diagnostics.weights(log, pi_e, pi_b).mean_z == pytest.approx(z, rel=1e-9)
    logged = bandit(240, 160, propensities=np.full(400, 0.5))
    assert dw.estimate("WIS", logged, pi_e).mean_weight_z == pytest.approx(z, rel=1e-9)
    assert dw.estimate("WIS", log, pi_e, pi_b, interval=None).mean_weight_z is None


def test_second_moments_multiply_over_independent_steps() -> None:
    episodes = [[(0, i % 2, 0.0), (0, i // 2 % 2, 0.0), (0, i // 4 % 2, 0.0)] for i in range(40)]
    question = ask(dw.Trajectories.from_episodes(episodes), [[0.6, 0.4]], [[0.5, 0.5]])
    stated = stated_policy(question)
    # A model of one state goes on after a third of the visits; after three steps all have ended.
    ahead, moment = 2 / 3, 1.0
    for _ in range(3):
        moment = 1.04 * (1 - ahead + ahead * moment)
    assert second_moment(question, stated.second_moments(np.array([[0.6, 0.4]])), 10.0) == pytest.approx(
        moment
    )
    assert second_moment(question, stated.second_moments(np.array([[0.6, 0.4]])), 1.05) == np.inf


def test_a_cut_without_a_successor_takes_nothing_from_the_second_moment() -> None:
    """Half of all steps are the last of a cut episode: where they lead is what the others show."""
    episodes = [[(0, i % 2, 0.0), (0, i // 2 % 2, 0.0)] for i in range(40)]
    log = dw.Trajectories.from_episodes(episodes, terminated=[False] * 40, time_limit=2)
    question = ask(log, [[0.6, 0.4]], [[0.5, 0.5]])
    second = stated_policy(question).second_moments(np.array([[0.6, 0.4]]))
    assert second_moment(question, second, 10.0) == pytest.approx(1.04**2)


def test_nothing_is_said_where_a_mean_of_zero_is_no_surprise() -> None:
    found = dw.estimate("WIS", bandit(40, 0), [[0.1, 0.9]], [[0.9, 0.1]])
    assert found.mean_weight_z is None
    unsupported = dw.estimate("WIS", bandit(400, 0), [[0.5, 0.5]], [[1.0, 0.0]])
    assert unsupported.mean_weight_z is None
    assert not FLAGS & set(unsupported.flags)


def test_skewed_weights_of_exact_probabilities_raise_no_doubt() -> None:
    """Their own standard error puts these means 6.5 and more of it away from 1."""
    for size in (7, 11, 17):
        lift = dw.domains.stochastic_lift(size)
        log = lift.sample(1000, seed=0)
        for name in ("WIS", "BLEND"):
            assert not FLAGS & set(dw.estimate(name, log, lift.pi_e, lift.pi_b).flags)
        logged = dw.Trajectories(
            log.states, log.actions, log.rewards, log.offsets, propensities=log.propensities
        )
        assert not FLAGS & set(dw.estimate("WIS", logged, lift.pi_e).flags)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_probabilities_that_are_off_by_two_are_found(factor: float) -> None:
    table = SOUND.pi_b.probs.copy()
    table[:, 1] *= factor
    wrong = np.where(LOG.actions == 1, np.minimum(LOG.propensities * factor, 1.0), LOG.propensities)
    logged = LOG.with_propensities(wrong)
    for name in ("WPDIS", "WDR", "BLEND"):
        for found in (
            dw.estimate(name, LOG, SOUND.pi_e, table / table.sum(axis=1, keepdims=True)),
            dw.estimate(name, logged, SOUND.pi_e),
        ):
            assert FLAGS & set(found.flags)
    assert not FLAGS & set(dw.estimate("BLEND", LOG, SOUND.pi_e).flags)
    assert not FLAGS & set(dw.estimate("BLEND", LOG, SOUND.pi_e, SOUND.pi_b).flags)


def test_an_action_that_is_off_in_many_states_of_a_few_visits() -> None:
    """No pair tells by itself, and ratios average 1 where pi_e leans as the wrong table does."""
    problem = random_problem(60, 5, 15, seed=15)
    table = problem.pi_b.probs.copy()
    table[:, 2] *= 2.0
    wrong = table / table.sum(axis=1, keepdims=True)
    log = problem.sample(100, seed=1)
    assert "behaviour-miscalibrated" in dw.estimate("WPDIS", log, wrong, wrong).flags
    logged = log.with_propensities(np.minimum(table, 1.0)[log.states, log.actions])
    assert "behaviour-miscalibrated" in dw.estimate("WPDIS", logged, wrong).flags
    assert "behaviour-miscalibrated" not in dw.estimate("WPDIS", log, wrong, problem.pi_b).flags


def test_actions_that_depend_on_each_other() -> None:
    """Each step by itself is what the probabilities say; who starts with an action keeps to it."""
    episodes = [[(s, i % 2, 0.0) for s in range(5)] for i in range(400)]
    found = dw.estimate("WIS", dw.Trajectories.from_episodes(episodes), [[0.6, 0.4]] * 5, [[0.5, 0.5]] * 5)
    assert "mean-weight" in found.flags
    assert "behaviour-miscalibrated" not in found.flags


@pytest.mark.parametrize(("n", "p"), [(5, 0.02), (40, 0.3), (300, 0.9), (20, 1e-6)])
def test_no_more_false_alarms_than_promised(n: int, p: float) -> None:
    taken = np.arange(n + 1)
    tables = [Stated(np.array([[k, n - k]], dtype=float), np.array([[p, 1 - p]])) for k in taken]
    alarms = np.array([one.is_contradicted(None) for one in tables])
    assert binom.pmf(taken, n, p)[alarms].sum() <= FALSE_ALARMS
    assert alarms[-1] == (n * np.log(1 / p) > np.log(4 / FALSE_ALARMS))


def test_probabilities_that_vary_wildly_within_a_pair_say_nothing() -> None:
    """One action in a hundred where p is .01, nine in ten elsewhere: the rare ones may all be missing."""
    alarms = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        p = np.where(np.arange(400) % 2 == 0, 0.01, 0.9)
        taken = rng.random(400) < p
        log = bandit(0, 400).with_propensities(np.where(taken, p, 1 - p))
        log = dw.Trajectories(
            log.states, taken.astype(int), log.rewards, log.offsets, propensities=log.propensities
        )
        alarms += "behaviour-miscalibrated" in dw.estimate("WIS", log, [[0.5, 0.5]]).flags
    assert alarms == 0


@pytest.mark.filterwarnings("ignore::deadweight.errors.Assumption")
def test_a_stream_says_the_same(tmp_path: Path) -> None:
    wrong = np.minimum(LOG.propensities * np.where(LOG.actions == 0, 1.3, 1.0), 1.0)
    episode = np.repeat(np.arange(LOG.n_episodes), np.diff(LOG.offsets))
    step = np.arange(LOG.n_steps) - LOG.offsets[episode]
    columns = {"episode": episode, "step": step, "state": LOG.states, "action": LOG.actions}
    table = pa.table({**columns, "reward": LOG.rewards, "behaviour_prob": wrong})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=300)
    names = ["BEHAVIOUR", "WPDIS", "BLEND"]
    memory = dw.evaluate(dw.read(table), SOUND.pi_e, None, names)
    stream = dw.evaluate(open_stream(tmp_path / "log.parquet", part_rows=500), SOUND.pi_e, None, names)
    for name in names:
        assert stream[name].flags == memory[name].flags
    assert stream["WPDIS"].mean_weight_z == pytest.approx(memory["WPDIS"].mean_weight_z, rel=1e-9)
    assert "behaviour-miscalibrated" in memory["BLEND"].flags


def looking(kind: str, seed: int, n: int, shape: tuple[int, int]) -> dw.Trajectories:
    """Logged probabilities that depend on more than the state: the last action, or how ill somebody is."""
    states, actions = shape
    rng = np.random.default_rng(seed)
    base = rng.dirichlet(np.full(actions, 2.0), states)
    episodes, logged = [], []
    for _ in range(n):
        severity, last, steps, chances = rng.normal(), int(rng.integers(actions)), [], []
        for _ in range(6):
            s = int(rng.integers(states))
            if kind == "sticky":
                p = np.where(np.arange(actions) == last, 0.9, 0.1 / (actions - 1))
            else:
                p = base[s] * np.exp(3.0 * severity * np.arange(actions))
                p /= p.sum()
            last = int(rng.choice(actions, p=p))
            steps.append((s, last, float(rng.normal())))
            chances.append(float(p[last]))
        episodes.append(steps)
        logged.append(chances)
    return dw.Trajectories.from_episodes(episodes, propensities=logged, time_limit=6)


@pytest.mark.parametrize("kind", ["sticky", "severity"])
@pytest.mark.parametrize("shape", [(30, 3), (3, 2)])
def test_exact_probabilities_that_depend_on_more_than_the_state(kind: str, shape: tuple[int, int]) -> None:
    """Of rare ones few are seen, so that those which are stand for more than they are."""
    pi_e = np.full(shape, 1.0 / shape[1])
    found = halved = 0
    for seed in range(10):
        log = looking(kind, seed, 150, shape)
        table = dw.evaluate(log, pi_e, None, ["BEHAVIOUR", "WPDIS", "BLEND"], background=False)
        flags = {flag for name in table for flag in table[name].flags}
        found += bool(flags & {"mean-weight", "behaviour-miscalibrated"})
        wrong = np.where(log.actions == 0, log.propensities / 2, log.propensities)
        halved += is_contradicted(ask(log.with_propensities(wrong), pi_e))
    assert found == 0
    assert halved >= 6
