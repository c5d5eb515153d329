"""`deadweight domains`: the four domains with their sizes and exact values."""

from __future__ import annotations

from collections.abc import Iterator

from deadweight.cli.tables import print_table
from deadweight.domains import Problem, deterministic_lift, inventory, stochastic_lift, taxi
from deadweight.negligible.lift import lift

SIZES = (7, 9, 11, 13, 15, 17)
HORIZONS = (10, 50, 250, 1000)
HEADINGS = ("domain", "states", "actions", "horizon", "value of pi_e", "value of pi_b", "lift states")


def problems() -> Iterator[Problem]:
    """Every domain in the settings of the paper."""
    yield from (deterministic_lift(size) for size in SIZES)
    yield from (stochastic_lift(size, reward=reward) for reward in ("exact", "published") for size in SIZES)
    for demand in ("round", "ceil"):
        yield from (inventory(10, demand, reward) for reward in ("textbook", "published"))
    yield from (taxi(5, horizon) for horizon in HORIZONS)


def row(problem: Problem) -> tuple[str, ...]:
    """One line of the table, as text."""
    mdp = problem.mdp
    return (
        problem.name,
        f"{mdp.n_states:,}",
        str(mdp.n_actions),
        "until the end" if problem.horizon is None else f"{problem.horizon:,}",
        f"{problem.true_value:.10f}",
        f"{problem.behaviour_value:.10f}",
        ranges(lift(mdp).states),
    )


def ranges(indices: list[int]) -> str:
    """Sorted indices with runs shortened.

    >>> ranges([1, 2, 3, 5])
    '1-3, 5'
    """
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "none"


def domains() -> None:
    """Print the domains with sizes, horizons, exact values of both policies, and lift states."""
    print_table(HEADINGS, [row(problem) for problem in problems()], left=(0, len(HEADINGS) - 1))
