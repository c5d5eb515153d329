"""What is timed, and against what. Each case returns a line with the measured ratio and what was aimed at."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deadweight.benchmark.logs import setting
from deadweight.benchmark.paired import ratio, seconds
from deadweight.estimate import estimate, evaluate
from deadweight.mdp import TabularMDP, gaps

PLAIN = ("IS", "WIS", "PDIS", "WPDIS")
STATE_BASED = ("SIS", "WSIS", "SPDIS", "WSPDIS")
IMPORT_TIME = "import time, numpy; t = time.process_time(); import deadweight; print(time.process_time() - t)"


@dataclass(frozen=True)
class Result:
    """One line: what was measured, and what was aimed at."""

    name: str
    measured: str
    aim: str


def fused_pass(scale: float) -> list[Result]:
    """IS + WIS + PDIS + WPDIS together, against a read of the three columns they need."""
    made = setting(int(100_000 * scale), 100)
    log = made.log

    def read() -> None:
        for column in (log.states, log.actions, log.rewards):
            column.sum()

    def plain() -> None:
        evaluate(log, made.pi_e, made.pi_b, PLAIN, interval=None)

    def masked() -> None:
        evaluate(log, made.pi_e, made.pi_b, STATE_BASED, drop=made.mask, interval=None)

    what = f"IS + WIS + PDIS + WPDIS, {log.n_steps:,} steps"
    found = [
        Result(f"{what}, against a read of their columns", str(ratio(plain, read)), "at most 6x"),
        Result("the same with a state mask", str(ratio(masked, read)), "at most 9x"),
    ]
    tracemalloc.start()
    plain()
    peak = tracemalloc.get_traced_memory()[1] / (log.states.nbytes + log.actions.nbytes + log.rewards.nbytes)
    tracemalloc.stop()
    return [*found, Result("extra memory of that pass, of its input", f"{peak:.1%}", "at most 10 %")]


def incremental(scale: float) -> list[Result]:
    """INCRIS with ten windows against PDIS on the same log."""
    made = setting(1_000, 100)

    def one(name: str) -> Callable[[], object]:
        return lambda: estimate(name, made.log, made.pi_e, made.pi_b, interval=None)

    return [
        Result("INCRIS(10) against PDIS, 1,000 x 100", str(ratio(one("INCRIS"), one("PDIS"))), "at most 60x")
    ]


def q_gaps(scale: float) -> list[Result]:
    """Q gaps against the bare backward recursion with scipy products."""
    rng = np.random.default_rng(0)
    n_states, n_actions, horizon = 2_000, 6, int(1_000 * scale)
    P = np.zeros((n_states * n_actions, n_states + 1))
    for _ in range(16):
        P[np.arange(len(P)), rng.integers(n_states, size=len(P))] += 0.999 / 16
    P[:, -1] += 1.0 - P.sum(axis=1)
    from scipy import sparse

    mdp = TabularMDP(
        sparse.csr_array(P), rng.normal(size=(n_states, n_actions)), np.full(n_states, 1 / n_states)
    )
    pi = rng.dirichlet(np.ones(n_actions), n_states)

    def recursion() -> None:
        v = np.zeros(n_states + 1)
        for _ in range(horizon):
            q = mdp.r.ravel() + mdp.P @ v
            v[:-1] = (pi * q.reshape(pi.shape)).sum(axis=1)

    found = ratio(lambda: gaps(mdp, pi, horizon), recursion, rounds=5)
    what = f"Q gaps, 2,000 x 6 x {horizon:,}, against Q = r + P @ V step by step"
    return [Result(what, str(found), "at most 1.5x")]


def bootstrap(scale: float) -> list[Result]:
    """Whole-episode bootstrap, per resample."""
    made, resamples = setting(int(100_000 * scale), 10), 50
    n, rng = made.log.n_episodes, np.random.default_rng(0)
    weights, returns = rng.random(n), rng.normal(size=n)

    def by_index() -> None:
        for _ in range(resamples):
            rows = rng.integers(n, size=n)
            w = weights[rows]
            (w * returns[rows]).sum() / w.sum()

    def ours(name: str) -> Callable[[], object]:
        return lambda: estimate(
            name, made.log, made.pi_e, made.pi_b, interval="bootstrap", resamples=resamples
        )

    def again() -> None:  # two resamples only: it is slow
        for _ in range(2):
            some = made.log.select(rng.integers(n, size=n))
            estimate("WPDIS", some, made.pi_e, made.pi_b, interval=None)

    wis = ratio(ours("WIS"), by_index, rounds=5)
    wpdis = ratio(again, ours("WPDIS"), rounds=5)
    faster = wpdis.median * resamples / 2
    return [
        Result(f"bootstrap of WIS, {n:,} episodes, against index resampling", str(wis), "at most 1x"),
        Result(f"bootstrap of WPDIS, {n:,} x 10, recomputing over ours", f"{faster:.0f}x", "at least 50x"),
    ]


def growth(scale: float) -> list[Result]:
    """Exponents of cost in the number of episodes and in the horizon."""
    found = []
    for name in ("WPDIS", "INCRIS"):
        by_n = [(n, _best(name, n, 50)) for n in (int(f * scale) for f in (5_000, 20_000, 80_000))]
        by_h = [(h, _best(name, int(4_000 * scale), h)) for h in (25, 100, 400)]
        for what, pairs in (("episodes", by_n), ("horizon", by_h)):
            x, y = np.log(np.array(pairs)).T
            slope = float(np.polyfit(x, y, 1)[0])
            found.append(Result(f"{name}: cost grows as {what} to the power", f"{slope:.2f}", "at most 1.05"))
    return found


def _best(name: str, episodes: int, horizon: int) -> float:
    """The fastest of a few runs: growth is about work, not about what else the machine does."""
    made = setting(max(episodes, 2), horizon)
    return min(
        seconds(lambda: estimate(name, made.log, made.pi_e, made.pi_b, interval=None)) for _ in range(5)
    )


def start_up(scale: float) -> list[Result]:
    """CPU seconds that importing deadweight adds to importing numpy."""
    found = [float(subprocess.check_output([sys.executable, "-c", IMPORT_TIME])) for _ in range(5)]
    return [
        Result("CPU seconds of `import deadweight` beyond numpy", f"{np.median(found):.2f}", "at most 0.3")
    ]


CASES: dict[str, Callable[[float], list[Result]]] = {
    "fused-pass": fused_pass,
    "incremental": incremental,
    "q-gaps": q_gaps,
    "bootstrap": bootstrap,
    "growth": growth,
    "start-up": start_up,
}
