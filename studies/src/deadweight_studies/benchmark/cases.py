"""What is timed, and against what. Each case returns a line with the measured ratio and what was aimed at."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module, metadata, util
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.io.stream import open_stream
from deadweight.log.trajectories import Trajectories, episode_of_rows, step_of_rows
from deadweight.mdp.tabular import gaps
from deadweight.negligible.covariance_test import covariance
from deadweight.negligible.path import EpsilonPath, epsilon_path
from deadweight.question.asked import Options
from deadweight.verbs.compare import compare
from deadweight.verbs.estimate import estimate, evaluate
from deadweight_studies.benchmark.timing import (
    N_ACTIONS,
    N_STATES,
    Result,
    Setting,
    Work,
    one_liners,
    ragged,
    ratio,
    setting,
    sparse_problem,
)

# --- How cost grows with episodes, horizon and states

RUNS = 7
NAMES = ("PDIS", "WPDIS", "INCRIS")
GROWING_EPISODES = (20_000, 40_000, 80_000, 160_000)
GROWTH_STEPS = 50
GROWING_HORIZONS = (100, 200, 400, 800)
FEWEST = 10_000
GROWING_STATES = (1_000, 2_000, 4_000, 8_000)
STATES_IN_SETS = (100, 200, 400)


def growth(scale: float) -> list[Result]:
    """Exponents of cost in the number of episodes, the horizon and the number of states.

    These are slopes of log(CPU seconds) in log(size). Growth is about work, not about what else the machine
    does: each point is the CPU time of the fastest of several runs, taken in turn over all points, so that a
    slow minute is no slope. Two things would flatter or spoil a line through small problems: a fixed cost of
    every call, which is measured on a log of two episodes and subtracted, and caches. The smallest log has a
    million steps, 24 MB. Horizons start at 100, since the first steps are cheaper for INCRIS(10), which has
    fewer windows there to choose from.
    """
    q_gaps = {n: partial(gaps, *sparse_problem(n), max(2, int(50 * scale))) for n in GROWING_STATES}
    sets = {n: _covariance(setting(max(2, int(1_000 * scale)), 30, n)) for n in STATES_IN_SETS}
    return [
        *_of_estimates(
            "episodes", {n: setting(max(2, int(n * scale)), GROWTH_STEPS) for n in GROWING_EPISODES}
        ),
        *_of_estimates("horizon", {h: setting(max(2, int(FEWEST * scale)), h) for h in GROWING_HORIZONS}),
        Result("Q gaps: cost grows as states to the power", f"{slope(q_gaps):.2f}", "at most 1.05"),
        Result("covariance test of all pairs of states", f"{slope(sets):.2f}", "at most 2.05"),
    ]


def slope(work: Mapping[int, Work], fixed: float = 0.0, runs: int = RUNS) -> float:
    """The exponent p of the line through log(seconds - fixed) = p log(size) + constant."""
    return exponent(list(work), fastest(list(work.values()), runs), fixed)


def exponent(sizes: list[int], spent: list[float], fixed: float) -> float:
    """That exponent from CPU seconds that were measured before."""
    beyond = np.maximum(np.array(spent) - fixed, 1e-9)
    return float(np.polyfit(np.log(sizes), np.log(beyond), 1)[0])


@contextmanager
def one_processor() -> Iterator[None]:
    """One processor for this process meanwhile, on systems that let it say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def fastest(work: Sequence[Work], runs: int = RUNS) -> list[float]:
    """CPU seconds of each, the best of the runs.

    On one processor: with two, long logs would have two threads and short ones would not.
    """
    with one_processor():
        for job in work:
            job()
        rounds = [[_cpu_seconds_once(job) for job in work] for _ in range(runs)]
    return [min(spent) for spent in zip(*rounds, strict=True)]


def _cpu_seconds_once(work: Work) -> float:
    """CPU seconds of all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _of_estimates(what: str, by_size: Mapping[int, Setting]) -> list[Result]:
    results, small = [], setting(2, GROWTH_STEPS)
    for name in NAMES:
        fixed = fastest([_estimate(name, small)])[0]
        power = slope({size: _estimate(name, problem) for size, problem in by_size.items()}, fixed)
        results.append(Result(f"{name}: cost grows as {what} to the power", f"{power:.2f}", "at most 1.05"))
    return results


def _estimate(name: str, problem: Setting) -> Work:
    return partial(estimate, name, problem.log, problem.pi_e, problem.pi_b, interval=None)


def _covariance(problem: Setting) -> Work:
    return partial(covariance, problem.log, problem.pi_e, problem.pi_b)


# --- The main job from files

FILES = 4
NEEDED = ["episode", "step", "state", "action", "reward", "terminated"]
TABLE = ("IS", "WIS", "PDIS", "WPDIS")


def parquet(scale: float) -> list[Result]:
    """A default evaluate, and four plain estimators, of a folder that is read in parts."""
    problem = setting(max(FILES, int(200_000 * scale)), 100)
    with tempfile.TemporaryDirectory() as folder:
        _write(problem, Path(folder))
        files = sorted(str(path) for path in Path(folder).iterdir())
        decode, every = partial(decode_in_one_thread, files), partial(decode_in_all_threads, files)

        def default() -> None:
            evaluate(open_stream(folder), problem.pi_e, problem.pi_b)

        def few() -> None:
            evaluate(open_stream(folder), problem.pi_e, problem.pi_b, TABLE, interval=None)

        what = f"of Parquet, {problem.log.n_steps:,} rows, against decoding"
        return [
            Result(f"default evaluate {what} in one thread", str(ratio(default, decode, 3)), "at most 8x"),
            Result(
                f"IS, WIS, PDIS and WPDIS {what} in one thread", str(ratio(few, decode, 5)), "at most 1.5x"
            ),
            Result("the same against decoding in all threads", str(ratio(few, every, 5)), "at most 1.6x"),
        ]


def _write(problem: Setting, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    log = problem.log
    episode = episode_of_rows(log)
    step = step_of_rows(log)
    last = np.zeros(log.n_steps, dtype=bool)
    last[log.offsets[1:] - 1] = True
    columns = (episode, step, log.states, log.actions, log.rewards, last)
    table = pa.table(dict(zip(NEEDED, columns, strict=True)))
    for k, rows in enumerate(np.array_split(np.arange(log.n_episodes), FILES)):
        lo, hi = int(log.offsets[rows[0]]), int(log.offsets[rows[-1] + 1])
        pq.write_table(table.slice(lo, hi - lo), folder / f"part-{k}.parquet", row_group_size=250_000)


def decode_in_one_thread(files: list[str]) -> None:
    """Row group by row group, the quickest way that keeps to one thread.

    `read_table(use_threads=False)` does not: it reads ahead on other threads, and kept 1.65 processors busy.
    """
    import pyarrow.parquet as pq

    for file in files:
        with pq.ParquetFile(file, pre_buffer=False) as parquet:
            for number in range(parquet.num_row_groups):
                parquet.read_row_group(number, columns=NEEDED, use_threads=False)


def decode_in_all_threads(files: list[str]) -> None:
    """File by file, in as many threads as Arrow takes by itself."""
    import pyarrow.parquet as pq

    for file in files:
        pq.read_table(file, columns=NEEDED)


def command_line(scale: float) -> list[Result]:
    """`deadweight evaluate` on a CSV of 1,000 x 50 steps in a fresh process."""
    problem = setting(max(2, int(1_000 * scale)), 50)
    with tempfile.TemporaryDirectory() as folder:
        log, policy = Path(folder) / "log.csv", Path(folder) / "policy.csv"
        _write_csv(problem, log, policy)
        command = [sys.executable, "-m", "deadweight", "evaluate", str(log), "--target", str(policy)]
        spent = [_cpu_seconds_of_process(command) for _ in range(3)]
    what = f"CPU seconds of `deadweight evaluate` on a CSV of {problem.log.n_steps:,} rows"
    return [Result(what, f"{np.median(spent):.2f}", "at most 1.6")]


def _write_csv(problem: Setting, log: Path, policy: Path) -> None:
    flat, taken = problem.log, problem.pi_b[problem.log.states, problem.log.actions]
    episode = episode_of_rows(flat)
    step = step_of_rows(flat)
    rows = zip(episode, step, flat.states, flat.actions, flat.rewards, taken, strict=True)
    lines = [f"{i},{t},{s},{a},{r!r},{p!r}" for i, t, s, a, r, p in map(_plain, rows)]
    log.write_text("\n".join(["episode,step,state,action,reward,behaviour_prob", *lines]) + "\n")
    cells = [f"{s},{a},{float(p)!r}" for s, row in enumerate(problem.pi_e) for a, p in enumerate(row)]
    policy.write_text("\n".join(["state,action,prob", *cells]) + "\n")


def _plain(row: tuple[np.generic, ...]) -> list[float]:
    return [value.item() for value in row]


def _cpu_seconds_of_process(command: list[str]) -> float:
    """CPU seconds of a process and its children, all threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "COLUMNS": "120"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- The main job in memory, and parts of it

STEPS = 100
PATHS = ("WSPDIS", "C-WSPDIS", "WDRSIS", "WSIS")
EPISODES = (5_000, 10_000, 20_000, 40_000)
HORIZONS = (50, 100, 200, 400)
STATES = (25, 50, 100)
DROPPABLE = (25, 50, 100, 200)  # states, and so levels


def main_job(scale: float) -> list[Result]:
    """Default evaluate on 2,000,000 steps of 50 states and 4 actions, and on 100,000.

    A default table has BLEND, nine other estimates, the paths behind four automatic drops, intervals, a
    verdict and what a report shows.
    """
    problem = setting(max(2, int(20_000 * scale)), STEPS)
    uneven = ragged(problem.log.n_episodes, STEPS)
    read, job = read_of(problem.log), job_of(problem)
    name = f"default evaluate, {problem.log.n_steps:,} steps"
    against_read, against_equal = ratio(job, read, 5), ratio(job_of(uneven), job, 3)
    return [
        Result(f"{name}, against a read of states, actions and rewards", str(against_read), "at most 150x"),
        Result(f"{name} of ragged episodes, against equal ones", str(against_equal), "at most 1.5x"),
        Result(f"{name}, extra memory, of its input", _extra_memory(job, problem.log), "at most 60 %"),
        _seconds(scale),
    ]


def paths(scale: float) -> list[Result]:
    """The path of each kind of name, 25 levels and more, against the same read."""
    problem = setting(max(2, int(20_000 * scale)), STEPS)
    read = read_of(problem.log)
    return [
        Result(
            f"path of {name}, {problem.log.n_steps:,} steps, against the read",
            str(ratio(partial(epsilon_path, name, problem.log, problem.pi_e, problem.pi_b, 3), read, 5)),
            "at most 60x",
        )
        for name in PATHS
    ]


def columns(scale: float) -> list[Result]:
    """WPDIS with probabilities from two columns of the log, against a read of its three columns."""
    problem = setting(max(2, int(100_000 * scale)), STEPS)
    both = problem.in_columns
    assert both.propensities is not None
    assert both.target_probs is not None
    read = reading(both.propensities, both.target_probs, both.rewards)
    measured = ratio(partial(estimate, "WPDIS", both, interval=None), read)
    what = f"WPDIS, probabilities from columns, {both.n_steps:,} steps, against a read of its columns"
    return [Result(what, str(measured), "at most 2.5x")]


def threads(scale: float) -> list[Result]:
    """One processor against two, on a log in memory; it takes two that nobody else uses."""
    problem = setting(max(2, int(100_000 * scale)), STEPS)

    def alone() -> None:
        with one_processor():
            evaluate(problem.log, problem.pi_e, problem.pi_b)

    what = f"default evaluate, {problem.log.n_steps:,} steps, on one processor over on two"
    return [Result(what, str(ratio(alone, job_of(problem), 2)), "at least 1.6x")]


def main_growth(scale: float) -> list[Result]:
    """How the cost of a default evaluate grows with episodes, horizon and states, and a path's with levels.

    A log of uniform states has up to states x actions x states transitions. Tables of them are looked up at
    every step, so that the cost in states is between that of the steps, 0, and that of the tables, 2.
    """

    def powers(what: str, problems: dict[int, Setting]) -> Result:
        small = _cpu_seconds(job_of(setting(20, STEPS)), 3)
        power = slope({size: job_of(problem) for size, problem in problems.items()}, small, runs=2)
        return Result(f"default evaluate: cost grows as {what} to the power", f"{power:.2f}", "at most 1.05")

    return [
        powers("episodes", {n: setting(max(20, int(n * scale)), STEPS) for n in EPISODES}),
        powers("steps", {h: setting(max(20, int(5_000 * scale)), h) for h in HORIZONS}),
        powers("states", {s: setting(max(20, int(10_000 * scale)), STEPS, s) for s in STATES}),
        _growth_in_levels(setting(max(20, int(10_000 * scale)), STEPS, max(DROPPABLE))),
    ]


def _growth_in_levels(problem: Setting) -> Result:
    """Growth of a path of WSIS, on one log: states where the policies agree may be dropped, and no others."""
    never = problem.log.n_steps + 1

    def path_with(states: int) -> Callable[[], EpsilonPath]:
        agreeing = problem.pi_e.copy()
        agreeing[:states] = problem.pi_b[:states]
        return partial(epsilon_path, "WSIS", problem.log, agreeing, problem.pi_b, never)

    paths = [path_with(states) for states in (0, *DROPPABLE)]
    alone, *spent = fastest(paths, runs=3)
    power = exponent([len(path()) for path in paths[1:]], spent, alone)
    return Result("path of WSIS: cost grows as levels to the power", f"{power:.2f}", "at most 1.05")


def job_of(problem: Setting) -> Work:
    """A default evaluate, which is what people type."""
    return partial(evaluate, problem.log, problem.pi_e, problem.pi_b)


def read_of(log: Trajectories) -> Work:
    """A read of states, actions and rewards."""
    return reading(log.states, log.actions, log.rewards)


def reading(*columns: np.ndarray) -> Callable[[], None]:
    """A read of columns."""

    def read() -> None:
        for column in columns:
            column.sum()

    return read


def _extra_memory(job: Work, log: Trajectories) -> str:
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1] / (log.states.nbytes + log.actions.nbytes + log.rewards.nbytes)
    tracemalloc.stop()
    return f"{peak:.0%}"


def _seconds(scale: float) -> Result:
    problem = setting(max(2, int(1_000 * scale)), STEPS)
    spent = _cpu_seconds(job_of(problem), 7)
    return Result(
        f"default evaluate, {problem.log.n_steps:,} steps, CPU seconds", f"{spent:.2f}", "at most 0.35"
    )


def _cpu_seconds(job: Work, runs: int) -> float:
    """Median CPU seconds of this process, all threads."""
    job()
    spent = []
    for _ in range(runs):
        start = time.process_time()
        job()
        spent.append(time.process_time() - start)
    return float(np.median(spent))


# --- Ten policies compared at once

POLICIES, HORIZON = 10, 20


def many_policies(scale: float) -> list[Result]:
    """On a short log and on a longer one; the evaluation is the default one, with what its report shows."""
    results = []
    for episodes in (500, int(10_000 * scale)):
        problem, rng = setting(episodes, HORIZON), np.random.default_rng(1)
        drawn = [rng.dirichlet(np.full(N_ACTIONS, 20.0), N_STATES) for _ in range(POLICIES)]
        all_of_them = partial(
            compare, problem.log, {f"{k}": policy for k, policy in enumerate(drawn)}, problem.pi_b
        )
        measured = ratio(all_of_them, partial(evaluate, problem.log, drawn[0], problem.pi_b), rounds=5)
        what = f"{POLICIES} policies compared, {problem.log.n_steps:,} steps, against one evaluated"
        results.append(Result(what, str(measured), "at most 6x"))
    return results


# --- Logs with features, in a process of its own, where memory can be seen

FEATURE_STEPS, MANY_STEPS = 200_000, 1_000_000
# The peak of a process never falls: it is read before and after, in kilobytes (in bytes on macOS). On Linux
# `getrusage` would begin with what the parent held.
SCRIPT = """
import json, resource, sys, time
import deadweight as dw
def peak():
    if sys.platform == "linux":
        return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
problem = dw.domains.sepsis_like()
few = problem.sample(200, seed=0)
log = problem.sample(max(20, round(int(sys.argv[1]) * 200 / few.n_steps)), seed=0)
dw.evaluate(few, problem.pi_e, problem.pi_b)
before, began = peak(), time.process_time()
dw.evaluate(log, problem.pi_e, problem.pi_b)
seconds = time.process_time() - began
more = peak() - before
unit = 1 if sys.platform == "darwin" else 1024
sizes = [log.n_steps, log.features.shape[1], log.n_actions]
print(json.dumps([*sizes, seconds, more * unit / 1e9]))
"""


def features(scale: float) -> list[Result]:
    """200,000 steps of the sepsis-like problem."""
    return _measured(int(FEATURE_STEPS * scale), "at most 15", "below 1.0")


def features_million(scale: float) -> list[Result]:
    """A million of them, about a minute."""
    return _measured(int(MANY_STEPS * scale), "at most 60", "")


def _measured(steps: int, most_seconds: str, most_memory: str) -> list[Result]:
    printed = subprocess.check_output([sys.executable, "-c", SCRIPT, str(steps)])
    n_steps, n_features, n_actions, seconds, more = json.loads(printed)
    what = f"default evaluate, {n_steps:,} steps, {n_features} features, {n_actions} actions"
    return [
        Result(f"{what}, CPU seconds", f"{seconds:.1f}", most_seconds),
        Result(f"{what}, more memory at its peak, GB", f"{more:.2f}", most_memory),
    ]


# --- Against other libraries, where they are installed, and only once their numbers agree with ours

SCOPE_RL = {
    "IS": "TrajectoryWiseImportanceSampling",
    "WIS": "SelfNormalizedTIS",
    "PDIS": "PerDecisionImportanceSampling",
    "WPDIS": "SelfNormalizedPDIS",
}


def peers(scale: float) -> list[Result]:
    """IS, WIS, PDIS and WPDIS by SCOPE-RL, over ours from tables and from columns.

    SCOPE-RL reads one flat array a column and the new policy's probabilities of all actions at every step;
    these are problem before the clock starts. Its estimators, like ours, are called once an estimate, checks
    included.
    """
    if util.find_spec("scope_rl") is None:
        return [Result("SCOPE-RL, where it is installed", "not installed")]
    estimators = import_module("scope_rl.ope.discrete")
    version = metadata.version("scope-rl")
    horizon = 100
    problem = setting(int(100_000 * scale), horizon)
    inputs, columns = _scope_rl_inputs(problem, horizon), problem.in_columns
    results = []
    for (name, theirs), form in product(SCOPE_RL.items(), ("tables", "columns")):
        their_call = partial(getattr(estimators, theirs)().estimate_policy_value, **inputs)
        our_call = (
            partial(_of_tables, name, problem) if form == "tables" else partial(_of_columns, name, columns)
        )
        what = f"{name}, {problem.log.n_episodes:,} x {horizon}, SCOPE-RL {version} over ours from {form}"
        if np.isclose(our_call(), their_call(), rtol=1e-9):
            results.append(Result(what, str(ratio(our_call, their_call, rounds=3, repeats=3).inverse)))
        else:
            results.append(Result(what, f"not timed: {their_call():.6g} and {our_call():.6g} disagree"))
    return results


def _of_tables(name: str, problem: Setting) -> float:
    return estimate(name, problem.log, problem.pi_e, problem.pi_b, interval=None).value


def _of_columns(name: str, log: Trajectories) -> float:
    return estimate(name, log, interval=None).value


def _scope_rl_inputs(problem: Setting, horizon: int) -> dict[str, Any]:
    log = problem.log
    return {
        "step_per_trajectory": horizon,
        "action": log.actions,
        "reward": log.rewards,
        "pscore": problem.pi_b[log.states, log.actions],
        "evaluation_policy_action_dist": problem.pi_e[log.states],
    }


# --- Single estimates, their tools, and starting up

PLAIN = ("IS", "WIS", "PDIS", "WPDIS")
STATE_BASED = ("SIS", "WSIS", "SPDIS", "WSPDIS")
IMPORT_TIME = (
    "import time, numpy; t = time.process_time(); import deadweight; {}; print(time.process_time() - t)"
)


def fused_pass(scale: float) -> list[Result]:
    """IS + WIS + PDIS + WPDIS together, against a read of the three columns they need."""
    problem = setting(int(100_000 * scale), 100)
    log = problem.log

    def read() -> None:
        for column in (log.states, log.actions, log.rewards):
            column.sum()

    def plain() -> None:
        evaluate(log, problem.pi_e, problem.pi_b, PLAIN, interval=None)

    def masked() -> None:
        evaluate(log, problem.pi_e, problem.pi_b, STATE_BASED, drop=problem.mask, interval=None)

    what = f"IS + WIS + PDIS + WPDIS, {log.n_steps:,} steps"
    ratios = [
        Result(f"{what}, against a read of their columns", str(ratio(plain, read)), "at most 2.5x"),
        Result("the same with a state mask", str(ratio(masked, read)), "at most 4x"),
    ]
    tracemalloc.start()
    plain()
    peak = tracemalloc.get_traced_memory()[1] / (log.states.nbytes + log.actions.nbytes + log.rewards.nbytes)
    tracemalloc.stop()
    return [*ratios, Result("extra memory of that pass, of its input", f"{peak:.1%}", "at most 10 %")]


def incremental(scale: float) -> list[Result]:
    """INCRIS with ten windows against PDIS on the same log; a call is short, so that a round has many."""
    problem, calls = setting(1_000, 100), max(1, int(30 * scale))

    def often(name: str) -> Callable[[], object]:
        return lambda: [
            estimate(name, problem.log, problem.pi_e, problem.pi_b, interval=None) for _ in range(calls)
        ]

    measured = ratio(often("INCRIS"), often("PDIS"))
    return [Result("INCRIS(10) against PDIS, 1,000 x 100", str(measured), "at most 60x")]


def q_gaps(scale: float) -> list[Result]:
    """Q gaps against the bare backward recursion with scipy products."""
    mdp, pi = sparse_problem(2_000)
    horizon = int(1_000 * scale)

    def recursion() -> None:
        v = np.zeros(mdp.n_states + 1)
        for _ in range(horizon):
            q = mdp.r.ravel() + mdp.P @ v
            v[:-1] = (pi * q.reshape(pi.shape)).sum(axis=1)

    measured = ratio(lambda: gaps(mdp, pi, horizon), recursion, rounds=5)
    what = f"Q gaps, 2,000 x 6 x {horizon:,}, against Q = r + P @ V step by step"
    return [Result(what, str(measured), "at most 1.5x")]


def bootstrap(scale: float) -> list[Result]:
    """Whole-episode bootstrap, per resample, with as many resamples as there are by default.

    A resample of ours has its share of the estimate itself and of its standard error.
    """
    problem, resamples = setting(int(100_000 * scale), 10), Options().resamples
    n, rng = problem.log.n_episodes, np.random.default_rng(0)
    weights, returns = rng.random(n), rng.normal(size=n)
    many, few = resamples // 5, 4  # of the references: they are slow

    def by_index() -> None:
        for _ in range(many):
            rows = rng.integers(n, size=n)
            w = weights[rows]
            (w * returns[rows]).sum() / w.sum()

    def again() -> None:
        for _ in range(few):
            resampled = problem.log.select(rng.integers(n, size=n))
            estimate("WPDIS", resampled, problem.pi_e, problem.pi_b, interval=None)

    def ours(name: str) -> Callable[[], object]:
        return lambda: estimate(name, problem.log, problem.pi_e, problem.pi_b, interval="bootstrap")

    wis = ratio(ours("WIS"), by_index, rounds=5).times(many / resamples)
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
