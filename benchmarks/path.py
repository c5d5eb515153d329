"""The epsilon path of WSIS on a taxi log against one pass of importance sampling: paired timings.

Each round times the IS pass, the path, and the IS pass again; the ratio of a round is path over the mean of
its two passes. The model, its Q values and the gaps are made beforehand: they are not part of either. A whole
call, model included, is timed beside it. Run: `python benchmarks/path.py`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from deadweight.domains import taxi
from deadweight.estimate import estimate
from deadweight.estimating import answer
from deadweight.estimators.names import estimator_of
from deadweight.negligible.epsilon_path import epsilon_path
from deadweight.negligible.levels import Levels, make_levels
from deadweight.negligible.path_columns import level_by_level
from deadweight.negligible.sweep import sweep
from deadweight.question.core import Question
from deadweight.sums.pairs import pair_policies


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


def report(name: str, found: np.ndarray) -> float:
    """Print the quartiles and give the median."""
    low, middle, high = np.percentile(found, [25, 50, 75])
    print(f"{name}: {middle:.2f}x ({low:.2f} to {high:.2f})")
    return float(middle)


def main(episodes: int = 500, horizon: int = 30) -> int:
    """Print the ratios; the exit code is 1 when the path of WSIS takes more than five passes."""
    problem = taxi(5, horizon=horizon)
    log = problem.sample(episodes)
    question = Question([log], pair_policies(log, problem.pi_e, problem.pi_b))
    levels = make_levels(question)
    _ = question.delta

    def one_pass() -> object:
        return answer(question, ["IS"], None, None, 0.95)

    def whole_call() -> object:
        return estimate("IS", log, problem.pi_e, problem.pi_b, interval=None)

    def path(name: str, some: Levels = levels) -> Callable[[], object]:
        return lambda: sweep(question, estimator_of(name), some)

    print(f"{log.n_steps:,} steps, {len(levels):,} levels; one IS pass {seconds(one_pass, 20) * 1e3:.2f} ms")
    middle = report("path of WSIS, against one IS pass", ratios(path("WSIS"), one_pass))
    report("path of WSIS, against one estimate('IS') call", ratios(path("WSIS"), whole_call))
    for name in ("SIS", "C-SIS", "C-WSIS"):
        report(f"path of {name}, against one IS pass", ratios(path(name), one_pass, 3, 1))
    everything = ratios(lambda: epsilon_path("WSIS", log, problem.pi_e, problem.pi_b), whole_call, 3, 1)
    report("path of WSIS with model, Q values and gaps, against one estimate('IS') call", everything)
    one_by_one = ratios(lambda: level_by_level(question, "WSIS", levels), path("WSIS"), 1, 1)
    report("level by level, against the path of WSIS", one_by_one)
    return int(middle > 5)


if __name__ == "__main__":
    sys.exit(main())
