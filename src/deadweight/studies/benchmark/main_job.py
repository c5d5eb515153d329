"""The main job: a default `evaluate` with its verdict, in memory, against a read of the columns it needs.

A default table has BLEND, nine other estimates, the paths behind four automatic drops, intervals, a verdict
and what a report shows. Everything else that is timed here is a part of it.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np

from deadweight.basics.threads import one_processor
from deadweight.estimate import estimate, evaluate
from deadweight.log.trajectories import Trajectories
from deadweight.negligible.epsilon_path import EpsilonPath, epsilon_path
from deadweight.studies.benchmark.growth import exponent, fastest, slope
from deadweight.studies.benchmark.logs import Setting, ragged, setting
from deadweight.studies.benchmark.paired import Work, ratio
from deadweight.studies.benchmark.result import Result

STEPS = 100
PATHS = ("WSPDIS", "C-WSPDIS", "WDRSIS", "WSIS")
EPISODES = (5_000, 10_000, 20_000, 40_000)
HORIZONS = (50, 100, 200, 400)
STATES = (25, 50, 100)
DROPPABLE = (25, 50, 100, 200)  # states, and so levels


def main_job(scale: float) -> list[Result]:
    """Default evaluate on 2,000,000 steps of 50 states and 4 actions, and on 100,000."""
    made = setting(max(2, int(20_000 * scale)), STEPS)
    uneven = ragged(made.log.n_episodes, STEPS)
    read, job = read_of(made.log), job_of(made)
    name = f"default evaluate, {made.log.n_steps:,} steps"
    against_read, against_equal = ratio(job, read, 5), ratio(job_of(uneven), job, 3)
    return [
        Result(f"{name}, against a read of states, actions and rewards", str(against_read), "at most 150x"),
        Result(f"{name} of ragged episodes, against equal ones", str(against_equal), "at most 1.5x"),
        Result(f"{name}, extra memory, of its input", _extra_memory(job, made.log), "at most 60 %"),
        _seconds(scale),
    ]


def paths(scale: float) -> list[Result]:
    """The path of each kind of name, 25 levels and more, against the same read."""
    made = setting(max(2, int(20_000 * scale)), STEPS)
    read = read_of(made.log)
    return [
        Result(
            f"path of {name}, {made.log.n_steps:,} steps, against the read",
            str(ratio(partial(epsilon_path, name, made.log, made.pi_e, made.pi_b, 3), read, 5)),
            "at most 60x",
        )
        for name in PATHS
    ]


def columns(scale: float) -> list[Result]:
    """WPDIS with probabilities from two columns of the log, against a read of its three columns."""
    made = setting(max(2, int(100_000 * scale)), STEPS)
    both = made.in_columns
    assert both.propensities is not None
    assert both.target_probs is not None
    read = reading(both.propensities, both.target_probs, both.rewards)
    found = ratio(partial(estimate, "WPDIS", both, interval=None), read)
    what = f"WPDIS, probabilities from columns, {both.n_steps:,} steps, against a read of its columns"
    return [Result(what, str(found), "at most 2.5x")]


def threads(scale: float) -> list[Result]:
    """One processor against two, on a log in memory; it takes two that nobody else uses."""
    made = setting(max(2, int(100_000 * scale)), STEPS)

    def alone() -> None:
        with one_processor():
            evaluate(made.log, made.pi_e, made.pi_b)

    what = f"default evaluate, {made.log.n_steps:,} steps, on one processor over on two"
    return [Result(what, str(ratio(alone, job_of(made), 2)), "at least 1.6x")]


def main_growth(scale: float) -> list[Result]:
    """How the cost of a default evaluate grows with episodes, horizon and states, and a path's with levels.

    A log of uniform states has up to states x actions x states transitions. Tables of them are looked up at
    every step, so that the cost in states is between that of the steps, 0, and that of the tables, 2.
    """

    def powers(what: str, made: dict[int, Setting]) -> Result:
        small = _cpu_seconds(job_of(setting(20, STEPS)), 3)
        power = slope({size: job_of(one) for size, one in made.items()}, small, runs=2)
        return Result(f"default evaluate: cost grows as {what} to the power", f"{power:.2f}", "at most 1.05")

    return [
        powers("episodes", {n: setting(max(20, int(n * scale)), STEPS) for n in EPISODES}),
        powers("steps", {h: setting(max(20, int(5_000 * scale)), h) for h in HORIZONS}),
        powers("states", {s: setting(max(20, int(10_000 * scale)), STEPS, s) for s in STATES}),
        _growth_in_levels(setting(max(20, int(10_000 * scale)), STEPS, max(DROPPABLE))),
    ]


def _growth_in_levels(made: Setting) -> Result:
    """Of a path of WSIS, on one log: states where the policies agree may be dropped, and no others."""
    never = made.log.n_steps + 1

    def path_with(states: int) -> Callable[[], EpsilonPath]:
        agreeing = made.pi_e.copy()
        agreeing[:states] = made.pi_b[:states]
        return partial(epsilon_path, "WSIS", made.log, agreeing, made.pi_b, never)

    paths = [path_with(states) for states in (0, *DROPPABLE)]
    alone, *spent = fastest(paths, runs=3)
    power = exponent([len(path()) for path in paths[1:]], spent, alone)
    return Result("path of WSIS: cost grows as levels to the power", f"{power:.2f}", "at most 1.05")


def job_of(made: Setting) -> Work:
    """What people type."""
    return partial(evaluate, made.log, made.pi_e, made.pi_b)


def read_of(log: Trajectories) -> Work:
    """A read of states, actions and rewards."""
    return reading(log.states, log.actions, log.rewards)


def reading(*some: np.ndarray) -> Callable[[], None]:
    """A read of columns."""

    def read() -> None:
        for column in some:
            column.sum()

    return read


def _extra_memory(job: Work, log: Trajectories) -> str:
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1] / (log.states.nbytes + log.actions.nbytes + log.rewards.nbytes)
    tracemalloc.stop()
    return f"{peak:.0%}"


def _seconds(scale: float) -> Result:
    made = setting(max(2, int(1_000 * scale)), STEPS)
    spent = _cpu_seconds(job_of(made), 7)
    return Result(
        f"default evaluate, {made.log.n_steps:,} steps, CPU seconds", f"{spent:.2f}", "at most 0.35"
    )


def _cpu_seconds(job: Work, runs: int) -> float:
    """Median CPU seconds of this process, all threads."""
    job()
    found = []
    for _ in range(runs):
        start = time.process_time()
        job()
        found.append(time.process_time() - start)
    return float(np.median(found))
