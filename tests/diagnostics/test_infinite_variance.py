"""Infinite variance of the weights, on chains whose second moments are known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from deadweight_studies.problems import late_reward

import deadweight as dw
from deadweight.diagnostics.tails import has_infinite_variance, radii
from deadweight.domains import deterministic_lift, stochastic_lift
from deadweight.log.interface import InMemory
from deadweight.question.question import Question, ask


def waiting(stays: int, ends: int, cut: bool = False) -> dw.Trajectories:
    """One state; each action stays in `stays` of its steps for every `ends` in which it ends."""
    episodes = []
    for action in (0, 1):
        episodes += [[(0, action, 1.0)] * (stays // ends + 1)] * ends
    return dw.Trajectories.from_episodes(episodes, terminated=[not cut] * len(episodes))


@pytest.mark.parametrize(("above", "infinite"), [(-0.01, False), (0.01, True)])
def test_one_state(above: float, infinite: bool) -> None:
    """Every action stays in two of three steps: finite while 2 (p^2 + q^2) 2/3 < 1, so up to a root."""
    p = 0.5 + np.sqrt(0.125) + above
    second = 2 * np.array([p**2, (1 - p) ** 2])
    assert (second.sum() * 2 / 3 >= 1) == infinite
    few = waiting(20, 10)
    found = list(radii(ask(few, [[p, 1 - p]], [[0.5, 0.5]])))
    assert len(found) == infinite
    if infinite:
        assert found[0].value == pytest.approx(second.sum() * 2 / 3, rel=1e-9)
        # Thirty steps of each action count as forty, ten of them from all sixty steps of the state.
        weight = second / 40 + (second / 4).sum() / 60
        expected = np.sqrt(2 / 9 * (30 * weight**2).sum())
        assert found[0].std_error == pytest.approx(expected, rel=1e-9)
    # So little above 1 a short log says nothing, and a long one does.
    many = few.select(np.tile(np.arange(few.n_episodes), 400))
    for log, expected_flag in ((few, False), (many, infinite)):
        question = ask(log, [[p, 1 - p]], [[0.5, 0.5]])
        assert has_infinite_variance(question) == expected_flag
        assert not has_infinite_variance(question, np.array([True]))


def random_log(seed: int) -> tuple[dw.Trajectories, np.ndarray, np.ndarray]:
    """Five states, three actions, episodes that go on in five of six steps."""
    rng = np.random.default_rng(seed)
    pi_b = rng.dirichlet(np.full(3, 3.0), 5)
    pi_e = rng.dirichlet(np.full(3, 0.5), 5)
    moves = rng.dirichlet(np.full(5, 0.5), (5, 3))
    episodes = []
    for _ in range(40):
        s, steps = int(rng.integers(5)), []
        while not steps or rng.random() < 5 / 6:
            a = int(rng.choice(3, p=pi_b[s]))
            steps.append((s, a, 0.0))
            s = int(rng.choice(5, p=moves[s, a]))
        episodes.append(steps)
    return dw.Trajectories.from_episodes(episodes), pi_e, pi_b


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dropped", [None, [False, True, False, True, False]])
def test_against_plain_loops(seed: int, dropped: list[bool] | None) -> None:
    log, pi_e, pi_b = random_log(seed)
    second = pi_e**2 / pi_b
    if dropped is not None:
        second[dropped] = pi_b[dropped]
    steps = [
        (s, a, after)
        for states, actions in ((log.states[i:j], log.actions[i:j]) for i, j in pairwise(log.offsets))
        for s, a, after in zip(states, actions, [*states[1:], -1], strict=True)
    ]
    visits = np.zeros((5, 3))
    for s, a, _ in steps:
        visits[s, a] += 1
    shrunk = second / (visits + 10)
    weight = shrunk + ((second - shrunk * visits).sum(axis=1) / visits.sum(axis=1))[:, None]
    M = np.zeros((5, 5))
    for s, a, after in steps:
        if after >= 0:
            M[s, after] += weight[s, a]
    of_right, right = np.linalg.eig(M)
    of_left, left = np.linalg.eig(M.T)
    value = of_right.real.max()
    v, u = np.abs(right[:, of_right.real.argmax()].real), np.abs(left[:, of_left.real.argmax()].real)
    variance = 0.0
    for s in range(5):
        ahead = [v[after] if after >= 0 else 0.0 for state, _, after in steps if state == s]
        variance += u[s] ** 2 * np.var(ahead) * sum(weight[s, a] ** 2 for state, a, _ in steps if state == s)
    mask = None if dropped is None else np.array(dropped)
    found = list(radii(ask(log, pi_e, pi_b), mask))
    if value < 1:
        assert found == []
        return
    assert found[0].value == pytest.approx(value, rel=1e-8)
    assert found[0].std_error == pytest.approx(np.sqrt(variance) / (u @ v), rel=1e-6)
    parts = Question(InMemory(log.split(3)), ask(log, pi_e, pi_b).pair)
    assert list(radii(parts, mask)) == found


def test_states_that_do_not_lead_back_to_each_other() -> None:
    """The first state lasts for three steps, the second for two; each has a radius of its own."""
    log = dw.Trajectories.from_episodes(
        [[(0, a, 0.0)] * 3 + [(1, b, 0.0)] * 2 for a in (0, 1) for b in (0, 1)]
    )
    question = ask(log, [[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]])
    assert sorted(one.value for one in radii(question)) == pytest.approx([2 / 2, 2 * 2 / 3], rel=1e-9)


def test_noise_of_a_radius_is_its_spread_over_logs() -> None:
    """A task just below 1: the radius is above it in many logs, the flag on hardly any."""
    problem = late_reward(30, 3, seed=35)  # 0.9956 in the exact table
    found = []
    for seed in range(60):
        question = ask(problem.sample(300, seed=seed), problem.pi_e, problem.pi_b)
        found.append((list(radii(question)), has_infinite_variance(question)))
    above = [some[0] for some, _ in found if some]
    assert 10 < len(above) < 40
    assert sum(flag for _, flag in found) <= 4  # 1.2 are expected
    lift = stochastic_lift(7)
    values = []
    for seed in range(40):
        (one,) = radii(ask(lift.sample(300, seed=seed), lift.pi_e, lift.pi_b))
        values.append((one.value, one.std_error))
    spread, claimed = np.std(values, axis=0)[0], np.mean(values, axis=0)[1]
    assert 0.8 * spread < claimed < 3 * spread  # the actions of a state are taken together


def test_episodes_that_are_cut_have_bounded_weights() -> None:
    assert not has_infinite_variance(ask(waiting(20, 10, cut=True), [[1.0, 0.0]], [[0.5, 0.5]]))
    assert has_infinite_variance(ask(waiting(20, 10), [[1.0, 0.0]], [[0.5, 0.5]]))


def test_lifts() -> None:
    """Uncut stochastic lifts have infinite variance, with their lift states dropped as well or not at all."""
    for size in (7, 11):
        problem = stochastic_lift(size)
        assert has_infinite_variance(ask(problem.sample(300, seed=size), problem.pi_e, problem.pi_b))
    sure = deterministic_lift(9)
    question = ask(sure.sample(300, seed=1), sure.pi_e, sure.pi_b)
    assert not has_infinite_variance(question, np.ones(question.pair.n_states, dtype=bool))
