"""`deadweight states`: what each state costs in variance and bias, and the epsilon path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deadweight.cli.log_options import LogOptions
from deadweight.cli.output import out_json, print_table, tell, tell_words
from deadweight.diagnostics.states import RULE_FOR, StateReport, state_report
from deadweight.domains import deterministic_lift, inventory, stochastic_lift, taxi
from deadweight.mdp.feature_worlds import cart_pole, continuous_lift, navigation, sepsis_like
from deadweight.mdp.problem import TRUTH_EPISODES, FeatureProblem, Problem
from deadweight.negligible.path import EpsilonPath, epsilon_path
from deadweight.negligible.state_tests import lift
from deadweight.tools.arithmetic import TableNumber, table_number

STATE_HEADINGS = ("state", "visits", "chi2", "variance cost", "bias", "gap", "dropped")
PATH_HEADINGS = ("epsilon", "dropped", "estimate", "std error", "bias", "corrected", "ESS", "chosen")
STATE_WORDS = (
    "chi2: variance of one ratio there. variance cost: by how much its ratios raise the logarithm of the "
    "weights' mean square. bias: what dropping it adds to the value, the others being dropped as here, in "
    "units of the return. gap: the largest difference that an action makes there."
)
PATH_WORDS = (
    "epsilon: states with a gap up to it are dropped. corrected: the estimate minus the bias. <-: the level "
    f"chosen for {RULE_FOR}; the estimates inside BLEND, on which a verdict rests, choose a level of their "
    "own (deadweight evaluate names it)."
)
# As for the automatic drop: a state is dropped only where the actions that matter were seen.
MIN_VISITS = 3


@dataclass(frozen=True, kw_only=True)
class Request(LogOptions):
    """The options of the command, as they were typed."""

    top: int


def states(request: Request) -> None:
    """Check, read, report, print."""
    request.check()
    assert request.given.target is not None, "the command needs it"
    pi_e, gamma = request.given.policy(request.given.target), request.gamma
    with request.opened() as (log, pi_b):
        report = state_report(log, pi_e, pi_b, drop=request.drop_rule, gamma=gamma)
        path = epsilon_path(RULE_FOR, log, pi_e, pi_b, min_visits=MIN_VISITS, gamma=gamma)
    if request.json:
        out_json(_document(report, path))
    else:
        _print(report, path, request.top)


def _print(report: StateReport, path: EpsilonPath, top: int) -> None:
    dropped = int(report.dropped.sum())
    shown = f"{len(report):,} visited states, those that cost most variance first"
    tell(f"{shown}; {dropped} dropped for {RULE_FOR}.\n")
    print_table(STATE_HEADINGS, report.cells()[:top])
    tell_words(STATE_WORDS)
    if len(report) > top:
        tell(f"... and {len(report) - top:,} more (--top {len(report)} shows them all).")
    tell(f"\nThe path of {RULE_FOR}: what it says as more states are dropped.\n")
    print_table(PATH_HEADINGS, _path_rows(path), left=())
    tell_words(PATH_WORDS)


def _path_rows(path: EpsilonPath) -> list[list[str]]:
    form = table_number(path.estimate)
    return [_path_cells(path, level, form) for level in range(len(path))]


def _path_cells(path: EpsilonPath, level: int, form: TableNumber) -> list[str]:
    return [
        f"{path.epsilon[level]:.4g}",
        str(path.n_dropped[level]),
        form(path.estimate[level]),
        form(path.std_error[level]),
        form(path.bias[level], "+"),
        form(path.corrected[level]),
        f"{path.ess[level]:.1f}",
        "<-" if level == path.chosen else "",
    ]


def _document(report: StateReport, path: EpsilonPath) -> dict[str, Any]:
    columns = ("epsilon", "n_dropped", "estimate", "std_error", "bias", "corrected", "ess")
    # An infinite chi2 is null: JSON has no infinity.
    states = [{**row, "chi2": row["chi2"] if row["chi2"] < float("inf") else None} for row in report.rows()]
    levels = {name: getattr(path, name).tolist() for name in columns}
    return {"states": states, "path": {"estimator": path.name, "chosen": int(path.chosen), **levels}}


# --------------------------------------------------------------------------------------------------------
# `deadweight domains`: the domains with states, and those with features, with their sizes and values.

SIZES = (7, 9, 11, 13, 15, 17)
HORIZONS = (10, 50, 250, 1000)
HEADINGS = ("domain", "states", "actions", "horizon", "lift states", "value of pi_e", "value of pi_b")
FEATURE_HEADINGS = ("domain", "features", "actions", "horizon", "value of pi_e", "value of pi_b")


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
        "until end" if problem.horizon is None else f"{problem.horizon:,}",
        ranges(lift(mdp).states),
        f"{problem.true_value:.10f}",
        f"{problem.behaviour_value:.10f}",
    )


def feature_problems() -> Iterator[FeatureProblem]:
    """Every domain whose states are described by features, as it comes."""
    yield from (made() for made in (continuous_lift, navigation, cart_pole, sepsis_like))


def feature_row(problem: FeatureProblem) -> tuple[str, ...]:
    """One line of the second table, values with two standard errors."""
    return (
        problem.name,
        str(len(problem.feature_names)),
        str(len(problem.world.action_names)),
        f"{problem.horizon:,}",
        f"{problem.true_value:.4f} +- {2 * problem.true_value_error:.4f}",
        f"{problem.behaviour_value:.4f} +- {2 * problem.behaviour_value_error:.4f}",
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
    """Print the domains with sizes, horizons, values of both policies, and lift states.

    Values of domains with states are exact; those of domains with features are means of simulated returns.
    """
    print_table(HEADINGS, [row(problem) for problem in problems()], left=(0, 4))
    tell_words(f"\nWith features, by {TRUTH_EPISODES:,} simulated returns, give or take two standard errors:")
    print_table(FEATURE_HEADINGS, [feature_row(problem) for problem in feature_problems()])
