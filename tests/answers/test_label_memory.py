"""Whether labels tell which label follows: by loops, by chance, and what a model of such labels may do."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from deadweight_studies.automatic import NoiseLabels
from deadweight_studies.problems import random_problem, river

import deadweight as dw
from deadweight.answers.model_tests import is_forgetful, memory, pay
from deadweight.answers.trust import cross_checks_of
from deadweight.question.question import ask
from deadweight.values.model import Counts, count


def counts_of(log: dw.Trajectories) -> Counts:
    return count([log], log.n_states, log.n_actions)


def by_chance(seed: int, n: int = 200, labels: int = 8) -> dw.Trajectories:
    rng = np.random.default_rng(seed)
    states, actions = (
        rng.choice(labels, size=(n, 6), p=rng.dirichlet(np.full(labels, 3.0))),
        rng.integers(2, size=(n, 6)),
    )
    return dw.Trajectories(states.ravel(), actions.ravel(), np.zeros(6 * n), np.arange(0, 6 * n + 1, 6))


def test_by_loops() -> None:
    log = by_chance(1, n=12, labels=3)
    following: dict[tuple[int, int], list[int]] = {}
    for i, j in pairwise(log.offsets):
        for t in range(i, j - 1):
            following.setdefault((log.states[t], log.actions[t]), []).append(log.states[t + 1])
    twins = [one == other for some in following.values() for one, other in combinations(some, 2)]
    every = [s for some in following.values() for s in some]
    chance = sum((every.count(s) / len(every)) ** 2 for s in set(every))
    expected = (sum(twins) - len(twins) * chance) / (len(twins) * (1 - chance))
    assert memory(counts_of(log))[0] == pytest.approx(expected, rel=1e-12)


def test_labels_that_decide_what_follows() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 0.0), (1, 0, 0.0), (2, 0, 0.0), (0, 0, 0.0)]] * 3)
    assert memory(counts_of(log))[0] == pytest.approx(1.0)
    assert not is_forgetful(counts_of(log))


def test_by_chance_it_is_nothing_up_to_its_standard_error() -> None:
    z = np.array(
        [found / error for found, error in (memory(counts_of(by_chance(seed))) for seed in range(200))]
    )
    # The mean is a little below 0, since p comes from the same steps.
    assert -1.0 < z.mean() < 4 / np.sqrt(200)
    assert z.std() == pytest.approx(1.0, rel=4 / np.sqrt(2 * 200))
    assert all(is_forgetful(counts_of(by_chance(seed, n=1500))) for seed in range(10))


def test_a_short_log_leaves_it_open() -> None:
    assert not is_forgetful(counts_of(by_chance(0, n=4)))
    one_step = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(1, 0, 1.0)]])
    assert memory(counts_of(one_step)) == (math.inf, math.inf)
    assert not is_forgetful(counts_of(one_step))


def test_states_that_are_the_last_action_have_a_memory() -> None:
    rng = np.random.default_rng(3)
    actions = rng.integers(3, size=(100, 8))
    states = np.concatenate([np.zeros((100, 1), dtype=int), actions[:, :-1]], axis=1)
    log = dw.Trajectories(states.ravel(), actions.ravel(), np.zeros(800), np.arange(0, 801, 8))
    assert memory(counts_of(log))[0] == pytest.approx(1.0)


def test_a_model_of_labels_by_chance_is_of_no_use() -> None:
    task = NoiseLabels("river", river(), 300)
    for seed in range(3):
        log = task.sample(seed)
        witnesses = cross_checks_of(ask(log, task.pi_e, task.pi_b))
        assert witnesses.meaningless
        assert not witnesses.proven
        assert not witnesses.allows
        table = dw.evaluate(log, task.pi_e, task.pi_b, ["BEHAVIOUR", "BLEND", "C-WSPDIS"], background=False)
        assert table["C-WSPDIS"].dropped == []
        if "low-ess-undropped" in table["BLEND"].flags:
            assert table.verdict.answer == "cannot tell"
            assert not table.verdict.sound


def test_states_are_no_labels_by_chance() -> None:
    for problem, n in ((river(), 300), (random_problem(60, 5, 15, seed=15), 100)):
        question = ask(problem.sample(n, seed=1), problem.pi_e, problem.pi_b)
        assert not is_forgetful(question.counts)
        assert not cross_checks_of(question).meaningless


def paying(seed: int, share: float, n: int = 400) -> dw.Trajectories:
    """Contexts by chance in which an action pays, with this standard deviation beside noise of 1."""
    rng = np.random.default_rng(seed)
    states, actions = rng.integers(6, size=(n, 5)), rng.integers(2, size=(n, 5))
    pays = share * rng.normal(size=(6, 2)) + np.array([0.0, 3.0])
    # What all steps of an episode have in common, as in stays of the frail, is none of the labels'.
    shared = rng.normal(size=(n, 1))
    rewards = pays[states, actions] + shared + rng.normal(size=(n, 5))
    return dw.Trajectories(states.ravel(), actions.ravel(), rewards.ravel(), np.arange(0, 5 * n + 1, 5))


def pay_of(log: dw.Trajectories) -> float:
    facts = ask(log, np.tile([0.2, 0.8], (6, 1)), np.full((6, 2), 0.5)).facts
    return pay(facts.counts((6, 2)), facts.counts_without(5, (6, 2))[1])


def test_what_labels_pay_by_loops() -> None:
    log = paying(2, 0.3, n=30)
    fold = np.repeat(np.arange(30) % 5, 5)
    mean = [[log.rewards[(log.actions == a) & (fold == f)].mean() for a in range(2)] for f in range(5)]
    excess = np.zeros((5, 6, 2))
    for i, (start, end) in enumerate(pairwise(log.offsets)):
        for t in range(start, end):
            excess[i % 5, log.states[t], log.actions[t]] += log.rewards[t] - mean[i % 5][log.actions[t]]
    products = np.array([excess[f] * excess[g] for f, g in combinations(range(5), 2)])
    assert pay_of(log) == pytest.approx(products.sum() / np.sqrt(np.square(products).sum()), rel=1e-9)


def test_labels_that_pay_nothing_of_their_own() -> None:
    z = np.array([pay_of(paying(seed, 0.0, n=100)) for seed in range(100)])
    assert abs(z.mean()) < 4 / np.sqrt(100)
    assert z.max() < 4


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_contexts_that_come_by_chance_and_pay_are_not_meaningless(share: float) -> None:
    """As in sessions of unrelated items: labels do not follow from each other, and what they pay is known."""
    log = paying(5, share)
    question = ask(log, np.tile([0.2, 0.8], (6, 1)), np.full((6, 2), 0.5))
    assert is_forgetful(question.counts)
    assert pay_of(log) > 4
    assert not cross_checks_of(question).meaningless
