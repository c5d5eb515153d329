"""The covariance test against plain loops: paired timings, and the cost of a set as states grow.

Each round times the reference, the candidate several times, and the reference again; the ratio of a round is
the mean of its two references over the candidate. Run: `python benchmarks/covariance.py`.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from deadweight.domains import deterministic_lift, stochastic_lift
from deadweight.log.trajectories import Trajectories
from deadweight.negligible import DropWarning, covariance

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import reference

EPISODES = 1000


def random_log(n_states: int, horizon: int, seed: int = 0) -> tuple[Trajectories, np.ndarray, np.ndarray]:
    """Episodes of independent states and three actions, with the two policies."""
    rng = np.random.default_rng(seed)
    pi_b = np.full((n_states, 3), 1 / 3)
    pi_e = 0.9 * pi_b + 0.1 * rng.dirichlet(np.ones(3), n_states)
    size = EPISODES * horizon
    states, actions = rng.integers(n_states, size=size), rng.integers(3, size=size)
    offsets = np.arange(0, size + 1, horizon)
    return Trajectories(states, actions, rng.normal(size=size), offsets), pi_e, pi_b


def seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """Mean seconds of a call."""
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - start) / repeats


def against_loops(log: Trajectories, pi_e: np.ndarray, pi_b: np.ndarray, rounds: int) -> np.ndarray:
    """Reference time over candidate time, one ratio a round."""
    plain = reference.Log([[(int(s), int(a), float(r)) for s, a, r in episode] for episode in log])
    found = []
    for _ in range(rounds):
        before = seconds(lambda: reference.covariance_test(plain, pi_e, pi_b))
        mine = seconds(lambda: covariance(log, pi_e, pi_b), 20)
        after = seconds(lambda: reference.covariance_test(plain, pi_e, pi_b))
        found.append((before + after) / 2 / mine)
    return np.array(found)


def main(rounds: int = 5) -> int:
    """Print quartiles; the exit code is 1 when a median is below 500, or sets of 200 states cost more."""
    warnings.simplefilter("ignore", DropWarning)
    worst = np.inf
    for problem in (deterministic_lift(17), stochastic_lift(17)):
        log = problem.sample(EPISODES)
        found = against_loops(log, problem.pi_e.probs, problem.pi_b.probs, rounds)
        worst = min(worst, report(f"{problem.name}, 15 states, 121 sets", found))
    worst = min(worst, report("random log, 15 states, H = 30", against_loops(*random_log(15, 30), rounds)))
    few, many = random_log(15, 30), random_log(200, 30)
    shares = []
    for _ in range(rounds):
        before = seconds(lambda: covariance(*few), 20)
        large = seconds(lambda: covariance(*many), 3)
        after = seconds(lambda: covariance(*few), 20)
        shares.append((large / 20_101) / ((before + after) / 2 / 121))
    low, middle, high = np.percentile(shares, [25, 50, 75])
    print(f"a set of 200 states costs {middle:.3f}x one of 15 states ({low:.3f} to {high:.3f})")
    return int(worst < 500 or middle > 1)


def report(name: str, found: np.ndarray) -> float:
    """Print the quartiles and give the median."""
    low, middle, high = np.percentile(found, [25, 50, 75])
    print(f"{name}: {middle:,.0f}x faster than the loops ({low:,.0f} to {high:,.0f})")
    return float(middle)


if __name__ == "__main__":
    sys.exit(main())
