"""The covariance test against plain loops: paired timings, and the cost of a set as states grow.

Each round times the reference, the candidate several times, and the reference again; the ratio of a round is
the mean of its two references over the candidate. Run: `python benchmarks/covariance.py`.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from deadweight_studies.benchmark.timing import Ratio, ratio

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


def against_loops(log: Trajectories, pi_e: np.ndarray, pi_b: np.ndarray, rounds: int) -> Ratio:
    """Reference time over candidate time."""
    plain = reference.Log([[(int(s), int(a), float(r)) for s, a, r in episode] for episode in log])

    def loops() -> object:
        return reference.covariance_test(plain, pi_e, pi_b)

    return ratio(lambda: covariance(log, pi_e, pi_b), loops, rounds, repeats=20).inverse


def main(rounds: int = 5) -> int:
    """Print quartiles; the exit code is 1 when a median is below 500, or sets of 200 states cost more."""
    warnings.simplefilter("ignore", DropWarning)
    worst = np.inf
    for problem in (deterministic_lift(17), stochastic_lift(17)):
        log = problem.sample(EPISODES)
        measured = against_loops(log, problem.pi_e.probs, problem.pi_b.probs, rounds)
        worst = min(worst, report(f"{problem.name}, 15 states, 121 sets", measured))
    worst = min(worst, report("random log, 15 states, H = 30", against_loops(*random_log(15, 30), rounds)))
    few, many = random_log(15, 30), random_log(200, 30)
    each = ratio(lambda: covariance(*many), lambda: [covariance(*few) for _ in range(20)], rounds, repeats=3)
    share = each.times(20 * 121 / 20_101)  # sets of one or two states
    spread = f"({share.low:.3f} to {share.high:.3f})"
    print(f"a set of 200 states costs {share.median:.3f}x one of 15 states {spread}")
    return int(worst < 500 or share.median > 1)


def report(name: str, measured: Ratio) -> float:
    """Print the quartiles and give the median."""
    print(
        f"{name}: {measured.median:,.0f}x faster than the loops ({measured.low:,.0f} to {measured.high:,.0f})"
    )
    return measured.median


if __name__ == "__main__":
    sys.exit(main())
