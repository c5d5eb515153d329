"""The epsilon path of WSIS on a taxi log, 800 levels, against one call of importance sampling, in pairs.

Each round times the call, the path, and the call again; the ratio of a round is path over the mean of the
two. The model, its Q values and the gaps are made beforehand: they are not part of either. A whole path,
model included, is timed beside it. Run: `python benchmarks/path.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from deadweight.domains import taxi
from deadweight.estimators.estimator import estimator_of
from deadweight.negligible.levels import Levels, level_by_level, make_levels
from deadweight.negligible.path import epsilon_path
from deadweight.negligible.sweep import sweep
from deadweight.question.question import ask
from deadweight.verbs.estimate import estimate


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Mean seconds of a call."""
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - start) / repeats


def ratios(
    candidate: Callable[[], object], reference: Callable[[], object], rounds: int = 9, repeats: int = 5
) -> np.ndarray:
    """Candidate time over reference time, one ratio a round."""
    found = []
    for _ in range(rounds):
        before, mine = seconds(reference, 4 * repeats), seconds(candidate, repeats)
        found.append(2 * mine / (before + seconds(reference, 4 * repeats)))
    return np.array(found)


def report(name: str, found: np.ndarray) -> None:
    """Print the quartiles."""
    low, middle, high = np.percentile(found, [25, 50, 75])
    print(f"{name}: {middle:.2f}x ({low:.2f} to {high:.2f})")


def main(episodes: int = 500, horizon: int = 30) -> None:
    """Print the ratios."""
    problem = taxi(5, horizon=horizon)
    log = problem.sample(episodes)
    question = ask(log, problem.pi_e, problem.pi_b)
    levels = make_levels(question)
    _ = question.delta

    def one_call() -> object:
        return estimate("IS", log, problem.pi_e, problem.pi_b, interval=None)

    def path(name: str, some: Levels = levels) -> Callable[[], object]:
        return lambda: sweep(question, estimator_of(name), some)

    print(f"{log.n_steps:,} steps, {len(levels):,} levels; one call {seconds(one_call, 20) * 1e3:.2f} ms")
    for name in ("WSIS", "SIS", "C-SIS", "C-WSIS"):
        report(f"path of {name}, against one estimate('IS') call", ratios(path(name), one_call, 5, 2))
    everything = ratios(lambda: epsilon_path("WSIS", log, problem.pi_e, problem.pi_b), one_call, 3, 1)
    report("path of WSIS with model, Q values and gaps, against the same", everything)
    one_by_one = ratios(lambda: level_by_level(question, estimator_of("WSIS"), levels), path("WSIS"), 1, 1)
    report("level by level, against the path of WSIS", one_by_one)


if __name__ == "__main__":
    main()
