"""What is timed, and against what. Each case returns a line with the measured ratio and what was aimed at."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable

import numpy as np

from deadweight.estimate import estimate, evaluate
from deadweight.mdp.tabular import gaps
from deadweight.question.options import Options
from deadweight.studies.benchmark.from_files import command_line, parquet
from deadweight.studies.benchmark.growth import growth
from deadweight.studies.benchmark.logs import setting, sparse_problem
from deadweight.studies.benchmark.main_job import columns, main_growth, main_job, paths, threads
from deadweight.studies.benchmark.many_policies import many_policies
from deadweight.studies.benchmark.of_features import features, features_million
from deadweight.studies.benchmark.one_liners import one_liners
from deadweight.studies.benchmark.paired import ratio
from deadweight.studies.benchmark.peers import peers
from deadweight.studies.benchmark.result import Result

PLAIN = ("IS", "WIS", "PDIS", "WPDIS")
STATE_BASED = ("SIS", "WSIS", "SPDIS", "WSPDIS")
IMPORT_TIME = (
    "import time, numpy; t = time.process_time(); import deadweight; {}; print(time.process_time() - t)"
)


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
        Result(f"{what}, against a read of their columns", str(ratio(plain, read)), "at most 2.5x"),
        Result("the same with a state mask", str(ratio(masked, read)), "at most 4x"),
    ]
    tracemalloc.start()
    plain()
    peak = tracemalloc.get_traced_memory()[1] / (log.states.nbytes + log.actions.nbytes + log.rewards.nbytes)
    tracemalloc.stop()
    return [*found, Result("extra memory of that pass, of its input", f"{peak:.1%}", "at most 10 %")]


def incremental(scale: float) -> list[Result]:
    """INCRIS with ten windows against PDIS on the same log; a call is short, so that a round has many."""
    made, calls = setting(1_000, 100), max(1, int(30 * scale))

    def often(name: str) -> Callable[[], object]:
        return lambda: [estimate(name, made.log, made.pi_e, made.pi_b, interval=None) for _ in range(calls)]

    found = ratio(often("INCRIS"), often("PDIS"))
    return [Result("INCRIS(10) against PDIS, 1,000 x 100", str(found), "at most 60x")]


def q_gaps(scale: float) -> list[Result]:
    """Q gaps against the bare backward recursion with scipy products."""
    mdp, pi = sparse_problem(2_000)
    horizon = int(1_000 * scale)

    def recursion() -> None:
        v = np.zeros(mdp.n_states + 1)
        for _ in range(horizon):
            q = mdp.r.ravel() + mdp.P @ v
            v[:-1] = (pi * q.reshape(pi.shape)).sum(axis=1)

    found = ratio(lambda: gaps(mdp, pi, horizon), recursion, rounds=5)
    what = f"Q gaps, 2,000 x 6 x {horizon:,}, against Q = r + P @ V step by step"
    return [Result(what, str(found), "at most 1.5x")]


def bootstrap(scale: float) -> list[Result]:
    """Whole-episode bootstrap, per resample, with as many resamples as there are by default.

    A resample of ours has its share of the estimate itself and of its standard error.
    """
    made, resamples = setting(int(100_000 * scale), 10), Options().resamples
    n, rng = made.log.n_episodes, np.random.default_rng(0)
    weights, returns = rng.random(n), rng.normal(size=n)
    some, few = resamples // 5, 4  # of the references: they are slow

    def by_index() -> None:
        for _ in range(some):
            rows = rng.integers(n, size=n)
            w = weights[rows]
            (w * returns[rows]).sum() / w.sum()

    def again() -> None:
        for _ in range(few):
            resampled = made.log.select(rng.integers(n, size=n))
            estimate("WPDIS", resampled, made.pi_e, made.pi_b, interval=None)

    def ours(name: str) -> Callable[[], object]:
        return lambda: estimate(name, made.log, made.pi_e, made.pi_b, interval="bootstrap")

    wis = ratio(ours("WIS"), by_index, rounds=5).times(some / resamples)
    wpdis = ratio(ours("WPDIS"), again, rounds=5).times(few / resamples).inverse
    return [
        Result(f"bootstrap of WIS, {n:,} episodes, against index resampling", str(wis), "at most 1x"),
        Result(f"bootstrap of WPDIS, {n:,} x 10, recomputing over ours", str(wpdis), "at least 50x"),
    ]


def start_up(scale: float) -> list[Result]:
    """CPU seconds beyond those of importing numpy: of the package, and of what a first evaluation imports."""
    return [
        Result("CPU seconds of `import deadweight` beyond numpy", _importing("pass"), "at most 0.3"),
        Result("the same with `deadweight.evaluate`", _importing("deadweight.evaluate"), "at most 0.3"),
    ]


def _importing(use: str) -> str:
    command = [sys.executable, "-c", IMPORT_TIME.format(use)]
    return f"{np.median([float(subprocess.check_output(command)) for _ in range(5)]):.2f}"


CASES: dict[str, Callable[[float], list[Result]]] = {
    "main-job": main_job,
    "paths": paths,
    "command-line": command_line,
    "parquet": parquet,
    "main-growth": main_growth,
    "columns": columns,
    "threads": threads,
    "fused-pass": fused_pass,
    "one-liners": one_liners,
    "peers": peers,
    "incremental": incremental,
    "q-gaps": q_gaps,
    "bootstrap": bootstrap,
    "many-policies": many_policies,
    "growth": growth,
    "start-up": start_up,
    "features": features,
    "features-million": features_million,
}
# Too long for a run of everything.
ONLY_IF_NAMED = ("features-million",)
