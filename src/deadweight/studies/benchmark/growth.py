"""How cost grows with episodes, horizon and states: slopes of log(CPU seconds) in log(size).

Growth is about work, not about what else the machine does: each point is the CPU time of the fastest of
several runs, taken in turn over all points, so that a slow minute is no slope. Two things would flatter or
spoil a line through small problems: a fixed cost of every call, which is measured on a log of two episodes
and subtracted, and caches. The smallest log has a million steps, 24 MB. Horizons start at 100, since the
first steps are cheaper for INCRIS(10), which has fewer windows there to choose from.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from deadweight.basics.threads import one_processor
from deadweight.estimate import estimate
from deadweight.mdp.tabular import gaps
from deadweight.negligible.covariance import covariance
from deadweight.studies.benchmark.logs import Setting, setting, sparse_problem
from deadweight.studies.benchmark.paired import Work
from deadweight.studies.benchmark.result import Result

RUNS = 7
NAMES = ("PDIS", "WPDIS", "INCRIS")
EPISODES = (20_000, 40_000, 80_000, 160_000)
STEPS = 50
HORIZONS = (100, 200, 400, 800)
FEWEST = 10_000
STATES = (1_000, 2_000, 4_000, 8_000)
STATES_IN_SETS = (100, 200, 400)


def growth(scale: float) -> list[Result]:
    """Exponents of cost in the number of episodes, the horizon and the number of states."""
    q_gaps = {n: partial(gaps, *sparse_problem(n), max(2, int(50 * scale))) for n in STATES}
    sets = {n: _covariance(setting(max(2, int(1_000 * scale)), 30, n)) for n in STATES_IN_SETS}
    return [
        *_of_estimates("episodes", {n: setting(max(2, int(n * scale)), STEPS) for n in EPISODES}),
        *_of_estimates("horizon", {h: setting(max(2, int(FEWEST * scale)), h) for h in HORIZONS}),
        Result("Q gaps: cost grows as states to the power", f"{slope(q_gaps):.2f}", "at most 1.05"),
        Result("covariance test of all pairs of states", f"{slope(sets):.2f}", "at most 2.05"),
    ]


def slope(work: Mapping[int, Work], fixed: float = 0.0, runs: int = RUNS) -> float:
    """The exponent p of the line through log(seconds - fixed) = p log(size) + constant."""
    return exponent(list(work), fastest(list(work.values()), runs), fixed)


def exponent(sizes: list[int], spent: list[float], fixed: float) -> float:
    """The same of CPU seconds that were measured before."""
    beyond = np.maximum(np.array(spent) - fixed, 1e-9)
    return float(np.polyfit(np.log(sizes), np.log(beyond), 1)[0])


def fastest(work: Sequence[Work], runs: int = RUNS) -> list[float]:
    """CPU seconds of each, the best of the runs.

    On one processor: with two, long logs would have two threads and short ones would not.
    """
    with one_processor():
        for one in work:
            one()
        rounds = [[_cpu_seconds(one) for one in work] for _ in range(runs)]
    return [min(spent) for spent in zip(*rounds, strict=True)]


def _cpu_seconds(work: Work) -> float:
    """Of all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _of_estimates(what: str, by_size: Mapping[int, Setting]) -> list[Result]:
    found, small = [], setting(2, STEPS)
    for name in NAMES:
        fixed = fastest([_estimate(name, small)])[0]
        power = slope({size: _estimate(name, made) for size, made in by_size.items()}, fixed)
        found.append(Result(f"{name}: cost grows as {what} to the power", f"{power:.2f}", "at most 1.05"))
    return found


def _estimate(name: str, made: Setting) -> Work:
    return partial(estimate, name, made.log, made.pi_e, made.pi_b, interval=None)


def _covariance(made: Setting) -> Work:
    return partial(covariance, made.log, made.pi_e, made.pi_b)
