"""Legacy streams: equal to drawing one number after the other, and to the paper's printed digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from deadweight_studies.reproduction.worlds import lift_log, taxi_log

from deadweight.errors import PolicyError

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "taxi"


@pytest.mark.parametrize("run", [0, 3])
def test_lift_episodes_one_number_at_a_time(run):
    log = lift_log(9, run, episodes=40)
    for k, episode in enumerate(log):
        stream = np.random.RandomState(1000 * run + k)
        position, t = 0, 0
        while abs(position) < 4:
            action = int(stream.choice(2, p=[0.5, 0.5]))
            state = position + 3
            if position in (0, -3, 3):
                position += 2 * action - 1
            else:
                position += int(np.sign(position))
            reward = position if abs(position) == 4 else -1
            assert episode[t] == (state, action, reward)
            t += 1
        assert t == len(episode)


@pytest.mark.parametrize(("size", "plain", "kept"), [(7, 0.0067, 0.0019), (17, 0.3026, 0.0031)])
def test_lift_errors_are_the_papers(size, plain, kept):
    errors = []
    for run in range(50):
        log = lift_log(size, run)
        first = log.offsets[:-1]
        rho = 2.0 * log.actions
        position = log.states - size // 2 + 1
        lifted = (position != 0) & (abs(position) != size // 2 - 1)
        returns = np.add.reduceat(log.rewards, first)
        estimates = [
            np.mean(np.multiply.reduceat(k, first) * returns) for k in (rho, np.where(lifted, 1.0, rho))
        ]
        errors.append(np.subtract(estimates, 1.0))
    mse = np.mean(np.square(errors), axis=0)
    assert mse.round(4).tolist() == [plain, kept]


def taxi_steps(
    pi: np.ndarray, seed: int, episodes: int, horizon: int, length: int
) -> list[tuple[int, int, int]]:
    """The described stream, drawn call by call."""
    stream = np.random.RandomState(seed)
    far = length - 1
    corners = [(0, 0), (0, far), (far, 0), (far, far)]
    steps = []
    for _ in range(episodes):
        x, y, status, load = stream.randint(length), stream.randint(length), stream.randint(16), 4
        for _ in range(horizon):
            state = load + 5 * (status + 16 * (length * x + y))
            action = int(stream.choice(6, 1, p=pi[state])[0])
            reward = 20 if action == 5 and load < 4 and corners[load] == (x, y) else -1
            steps.append((state, action, reward))
            if action < 4:
                dx, dy = [(1, 0), (0, 1), (-1, 0), (0, -1)][action]
                x, y = min(max(x + dx, 0), far), min(max(y + dy, 0), far)
            elif action == 5:
                load = 4
            for c, corner in enumerate(corners):
                if action == 4 and corner == (x, y) and status >> c & 1:
                    status -= 1 << c
                    load = stream.randint(4)
                    while load == c:
                        load = stream.randint(4)
            for c, (appear, vanish) in enumerate(
                zip((0.3, 0.05, 0.1, 0.2), (0.05, 0.1, 0.1, 0.05), strict=True)
            ):
                u = stream.rand()
                if u < (vanish if status >> c & 1 else appear):
                    status ^= 1 << c
    return steps


@pytest.mark.parametrize("length", [2, 5])
def test_taxi_rollouts_one_number_at_a_time(length):
    pi = np.random.default_rng(0).dirichlet([1, 1, 1, 1, 6, 3], 80 * length * length)
    log = taxi_log(pi, seed=4, episodes=6, horizon=60, length=length)
    labels = np.asarray(log.state_labels)[log.states]
    steps = taxi_steps(pi, 4, 6, 60, length)
    assert list(zip(labels.tolist(), log.actions.tolist(), log.rewards.tolist(), strict=True)) == steps
    assert not log.terminated.any()
    longer = taxi_log(pi, seed=4, episodes=1, horizon=61, length=length)
    assert log.state_labels[log.next_states[59]] == longer.state_labels[longer.states[60]]


@pytest.mark.skipif(
    not PUBLISHED.exists(), reason="the paper's taxi policies (pi18.npy, pi19.npy) are not here"
)
def test_taxi_runs_are_the_papers():
    pi_b, pi_e = (np.load(PUBLISHED / f"{name}.npy") for name in ("pi18", "pi19"))
    behaviour = np.array([taxi_log(pi_b, k, 100, 10).rewards.sum() / 100 for k in range(20)])
    target = np.mean([taxi_log(pi_e, k, 100, 10).rewards.sum() / 100 for k in range(20)])
    assert round(np.mean((behaviour - target) ** 2), 4) == 0.4485


def test_a_policy_of_the_wrong_shape_is_refused():
    with pytest.raises(PolicyError, match=r"shape \(2000, 6\)"):
        taxi_log(np.full((320, 6), 1 / 6), seed=0)
