"""`deadweight domains`: the domains with states, and those with features, with their sizes and values."""

from __future__ import annotations

from collections.abc import Iterator

from deadweight.cli.process import print_table, tell_words
from deadweight.cli.request import Request
from deadweight.domains import deterministic_lift, inventory, stochastic_lift, taxi
from deadweight.mdp.feature_worlds import cart_pole, continuous_lift, navigation, sepsis_like
from deadweight.mdp.problem import TRUTH_EPISODES, FeatureProblem, Problem
from deadweight.negligible.state_tests import lift

SIZES = (7, 9, 11, 13, 15, 17)
HORIZONS = (10, 50, 250, 1000)
HEADINGS = ("domain", "states", "actions", "horizon", "lift states", "value of pi_e", "value of pi_b")
FEATURE_WORLDS = (continuous_lift, navigation, cart_pole, sepsis_like)
FEATURE_HEADINGS = ("domain", "features", "actions", "horizon", "value of pi_e", "value of pi_b")


def problems() -> Iterator[Problem]:
    """The domains in the settings of the paper."""
    yield from (deterministic_lift(size) for size in SIZES)
    yield from (stochastic_lift(size, reward=reward) for reward in ("exact", "published") for size in SIZES)
    for demand in ("round", "ceil"):
        yield from (inventory(10, demand, reward) for reward in ("textbook", "published"))
    yield from (taxi(5, horizon) for horizon in HORIZONS)


def row(problem: Problem) -> tuple[str, ...]:
    """A line of the first table."""
    mdp = problem.mdp
    return (
        problem.name,
        f"{mdp.n_states:,}",
        str(mdp.n_actions),
        "until end" if problem.horizon is None else f"{problem.horizon:,}",
        ranges(lift(mdp).states),
        f"{problem.true_value:.10f}",
        f"{problem.behaviour_value:.10f}",
    )


def feature_row(problem: FeatureProblem) -> tuple[str, ...]:
    """A line of the second table, values with two standard errors."""
    return (
        problem.name,
        str(len(problem.feature_names)),
        str(len(problem.world.action_names)),
        f"{problem.horizon:,}",
        f"{problem.true_value:.4f} +- {2 * problem.true_value_error:.4f}",
        f"{problem.behaviour_value:.4f} +- {2 * problem.behaviour_value_error:.4f}",
    )


def ranges(indices: list[int]) -> str:
    """Sorted indices with runs shortened, such as "1-3, 5"."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "none"


def domains(request: Request) -> int:
    """Print the domains with sizes, horizons, values of both policies, and lift states; the exit code.

    Values of domains with states are exact; those of domains with features are means of simulated returns.
    """
    print_table(HEADINGS, [row(problem) for problem in problems()], left=(0, 4))
    tell_words(f"\nWith features, by {TRUTH_EPISODES:,} simulated returns, give or take two standard errors:")
    print_table(FEATURE_HEADINGS, [feature_row(world()) for world in FEATURE_WORLDS])
    return 0
