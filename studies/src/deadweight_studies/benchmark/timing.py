"""Paired timings: the reference right before and right after the candidate, one ratio a round.

Machines are shared and noisy; seconds are not comparable between runs, ratios of neighbours are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP
from deadweight.typing import BoolArray, FloatArray
from deadweight.verbs.estimate import estimate

Work = Callable[[], object]


@dataclass(frozen=True)
class Ratio:
    """Quartiles of candidate time over reference time."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{_short(self.median)}x ({_short(self.low)} to {_short(self.high)})"

    def times(self, factor: float) -> Ratio:
        """The ratio where the reference did 1 / factor of the work that it stands for."""
        return Ratio(self.low * factor, self.median * factor, self.high * factor)

    @property
    def inverse(self) -> Ratio:
        """Reference time over candidate time: how many times faster the candidate is."""
        return Ratio(1 / self.high, 1 / self.median, 1 / self.low)


def _short(number: float) -> str:
    """Three digits, or all that stand before the point."""
    return f"{number:,.{2 if number < 10 else 1 if number < 100 else 0}f}"


def seconds(work: Work) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(candidate: Work, reference: Work, rounds: int = 9, repeats: int = 1) -> Ratio:
    """How many times the reference the candidate takes; both are called once before the first round.

    With `repeats` a round calls the candidate so many times, where it is much shorter than the reference.
    """
    reference(), candidate()
    ratios = []
    for _ in range(rounds):
        before = seconds(reference)
        mine = seconds(lambda: [candidate() for _ in range(repeats)]) / repeats
        ratios.append(2 * mine / (before + seconds(reference)))
    return Ratio(*(float(q) for q in np.percentile(ratios, [25, 50, 75])))


@dataclass(frozen=True)
class Result:
    """One line: what was measured, and what was aimed at ("" where nothing was)."""

    name: str
    measured: str
    aim: str = ""


# --- Problems: uniform states and actions, so that nothing is easier than it would be in earnest

N_STATES, N_ACTIONS = 50, 4


@dataclass(frozen=True, eq=False)
class Setting:
    """A log with two policies and a state mask."""

    log: Trajectories
    pi_e: FloatArray
    pi_b: FloatArray
    mask: BoolArray

    @property
    def in_columns(self) -> Trajectories:
        """The log with both policies' probabilities of what was done."""
        log, taken = self.log, (self.log.states, self.log.actions)
        old, new = self.pi_b[taken], self.pi_e[taken]
        return Trajectories(*taken, log.rewards, log.offsets, propensities=old, target_probs=new)


def setting(episodes: int, horizon: int, n_states: int = N_STATES) -> Setting:
    """Episodes of equal length, 50 states, 4 actions, policies that differ moderately."""
    rng = np.random.default_rng(0)
    steps = episodes * horizon
    log = Trajectories(
        rng.integers(n_states, size=steps),
        rng.integers(N_ACTIONS, size=steps),
        rng.normal(size=steps),
        np.arange(0, steps + 1, horizon),
    )
    pi_e, pi_b = (rng.dirichlet(np.full(N_ACTIONS, 20.0), n_states) for _ in range(2))
    return Setting(log, pi_e, pi_b, rng.random(n_states) < 0.5)


def ragged(episodes: int, mean: int) -> Setting:
    """That setting with episodes of one to twice as many steps."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 2 * mean, size=episodes)
    problem = setting(1, int(lengths.sum()))
    log = Trajectories(
        problem.log.states,
        problem.log.actions,
        problem.log.rewards,
        np.concatenate([[0], np.cumsum(lengths)]),
    )
    return Setting(log, problem.pi_e, problem.pi_b, problem.mask)


def sparse_problem(n_states: int, n_actions: int = 6, successors: int = 16) -> tuple[TabularMDP, FloatArray]:
    """An MDP with so many successors of each state and action, and a policy."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    pairs = n_states * n_actions
    to = np.column_stack(
        [rng.integers(n_states, size=(pairs, successors)), np.full((pairs, 1), n_states)]
    ).ravel()
    share = np.tile(np.append(np.full(successors, 0.999 / successors), 0.001), pairs)
    rows = np.repeat(np.arange(pairs), successors + 1)
    P = sparse.csr_array((share, (rows, to)), shape=(pairs, n_states + 1))
    mdp = TabularMDP(P, rng.normal(size=(n_states, n_actions)), np.full(n_states, 1 / n_states))
    return mdp, rng.dirichlet(np.ones(n_actions), n_states)


# --- Against what one would write by hand in numpy: ratios looked up, padded, multiplied, summed

HORIZON = 100


def one_liners(scale: float) -> list[Result]:
    """IS, PDIS and WPDIS, each by itself."""
    problem = setting(int(100_000 * scale), HORIZON)
    what = f"{problem.log.n_episodes:,} x {HORIZON}, against a line of numpy"
    results = []
    for name, by_hand in BY_HAND.items():

        def ours(name: str = name) -> float:
            return estimate(name, problem.log, problem.pi_e, problem.pi_b, interval=None).value

        def theirs(by_hand: Callable[[Setting], float] = by_hand) -> float:
            return by_hand(problem)

        np.testing.assert_allclose(ours(), theirs(), rtol=1e-9)
        results.append(Result(f"{name}, {what}", str(ratio(ours, theirs, rounds=5)), "at most 1x"))
    return results


def _ratios(problem: Setting) -> FloatArray:
    ratios: FloatArray = (problem.pi_e / problem.pi_b)[problem.log.states, problem.log.actions].reshape(
        -1, HORIZON
    )
    return ratios


def _rewards(problem: Setting) -> FloatArray:
    rewards: FloatArray = problem.log.rewards.reshape(-1, HORIZON)
    return rewards


def _is(problem: Setting) -> float:
    return float((np.prod(_ratios(problem), axis=1) * _rewards(problem).sum(axis=1)).mean())


def _pdis(problem: Setting) -> float:
    return float((np.cumprod(_ratios(problem), axis=1) * _rewards(problem)).sum(axis=1).mean())


def _wpdis(problem: Setting) -> float:
    w = np.cumprod(_ratios(problem), axis=1)
    return float(((w * _rewards(problem)).sum(axis=0) / w.sum(axis=0)).sum())


BY_HAND: dict[str, Callable[[Setting], float]] = {"IS": _is, "PDIS": _pdis, "WPDIS": _wpdis}
