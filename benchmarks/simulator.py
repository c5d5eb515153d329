"""The simulator against a plain Python loop over the same MDP: paired steps per second.

Each round times the loop, the simulator and the loop again. Run: `python benchmarks/simulator.py`.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from deadweight.domains import Problem, stochastic_lift, taxi


def plain_loop(problem: Problem, episodes: int, seed: int) -> int:
    """One step after the other with `Generator.choice`, as the textbook has it; the number of steps."""
    mdp, pi = problem.mdp, problem.pi_b.probs
    rng = np.random.default_rng(seed)
    log = []
    for _ in range(episodes):
        state = rng.choice(mdp.n_states, p=mdp.d0)
        t = 0
        while state < mdp.n_states and t != problem.horizon:
            action = rng.choice(mdp.n_actions, p=pi[state])
            row = state * mdp.n_actions + action
            lo, hi = mdp.P.indptr[row], mdp.P.indptr[row + 1]
            entry = lo + rng.choice(hi - lo, p=mdp.P.data[lo:hi])
            reward = mdp.r[state, action] if mdp.transition_rewards is None else mdp.transition_rewards[entry]
            log.append((state, action, reward, pi[state, action]))
            state = mdp.P.indices[entry]
            t += 1
    return len(log)


def rate(steps: int, start: float) -> float:
    """Steps per second since `start`."""
    return steps / (time.perf_counter() - start)


def main(rounds: int = 5) -> int:
    """Print the median ratio for two domains; the exit code is 1 when one is below 100."""
    worst = np.inf
    for problem, episodes, few in ((stochastic_lift(17), 100_000, 200), (taxi(5, horizon=50), 10_000, 40)):
        ratios, rates = [], []
        for round_ in range(rounds):
            start = time.perf_counter()
            before = rate(plain_loop(problem, few, round_), start)
            start = time.perf_counter()
            ours = rate(problem.sample(episodes, round_).n_steps, start)
            start = time.perf_counter()
            after = rate(plain_loop(problem, few, round_), start)
            ratios.append(2 * ours / (before + after))
            rates.append(ours)
        low, middle, high = np.percentile(ratios, [25, 50, 75])
        print(
            f"{problem.name:22s} {middle:6.0f}x a plain loop ({low:.0f} to {high:.0f}), "
            f"{np.median(rates) / 1e6:.1f} M steps/s"
        )
        worst = min(worst, middle)
    return int(worst < 100)


if __name__ == "__main__":
    sys.exit(main())
