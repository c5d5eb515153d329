"""The epsilon path of WSIS on a taxi log, 800 levels, against one call of importance sampling, in pairs.

The model, its Q values and the gaps are made beforehand: they are not part of either. A whole path, model
included, is timed beside it. Run: `python benchmarks/path.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from deadweight_studies.benchmark.timing import Ratio, ratio, seconds

from deadweight.domains import taxi
from deadweight.estimators.estimator import estimator_of
from deadweight.negligible.levels import level_by_level, make_levels
from deadweight.negligible.path import epsilon_path
from deadweight.negligible.sweep import sweep
from deadweight.question.question import ask
from deadweight.verbs.estimate import estimate

OFTEN = 8  # calls for one path, which takes longer


def against(candidate: Callable[[], object], call: Callable[[], object], rounds: int, repeats: int) -> Ratio:
    """Candidate time over that of one short call."""
    return ratio(candidate, lambda: [call() for _ in range(OFTEN)], rounds, repeats).times(OFTEN)


def main(episodes: int = 500, horizon: int = 30) -> None:
    """Print the ratios."""
    problem = taxi(5, horizon=horizon)
    log = problem.sample(episodes)
    question = ask(log, problem.pi_e, problem.pi_b)
    levels = make_levels(question)
    _ = question.delta

    def one_call() -> object:
        return estimate("IS", log, problem.pi_e, problem.pi_b, interval=None)

    def path(name: str) -> Callable[[], object]:
        return lambda: sweep(question, estimator_of(name), levels)

    one_call()
    print(f"{log.n_steps:,} steps, {len(levels):,} levels; one call {seconds(one_call) * 1e3:.2f} ms")
    for name in ("WSIS", "SIS", "C-SIS", "C-WSIS"):
        print(f"path of {name}, against one estimate('IS') call: {against(path(name), one_call, 5, 2)}")
    everything = against(lambda: epsilon_path("WSIS", log, problem.pi_e, problem.pi_b), one_call, 3, 1)
    print(f"path of WSIS with model, Q values and gaps, against the same: {everything}")
    one_by_one = ratio(lambda: level_by_level(question, estimator_of("WSIS"), levels), path("WSIS"), 1)
    print(f"level by level, against the path of WSIS: {one_by_one}")


if __name__ == "__main__":
    main()
