"""`deadweight states`: what each state costs in variance and bias, and the epsilon path."""

from __future__ import annotations

from typing import Any

from deadweight.cli.process import out_json, print_table, tell, tell_words
from deadweight.cli.request import Request
from deadweight.diagnostics.states import HEADINGS, RULE_FOR, StateReport, state_report
from deadweight.negligible.path import EpsilonPath, epsilon_path
from deadweight.tools.arithmetic import table_number

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


def states(request: Request) -> int:
    """Check, read, report, print; the exit code."""
    request.check()
    assert request.target is not None, "the command needs it"
    pi_e, gamma = request.policy(request.target), request.gamma
    with request.opened() as (log, pi_b):
        report = state_report(log, pi_e, pi_b, drop=request.drop_rule, gamma=gamma)
        path = epsilon_path(RULE_FOR, log, pi_e, pi_b, min_visits=MIN_VISITS, gamma=gamma)
    if request.json:
        out_json(_document(report, path))
    else:
        _print(report, path, request.top)
    return 0


def _print(report: StateReport, path: EpsilonPath, top: int) -> None:
    dropped = int(report.dropped.sum())
    shown = f"{len(report):,} visited states, those that cost most variance first"
    tell(f"{shown}; {dropped} dropped for {RULE_FOR}.\n")
    print_table(HEADINGS, report.cells()[:top])
    tell_words(STATE_WORDS)
    if len(report) > top:
        tell(f"... and {len(report) - top:,} more (--top {len(report)} shows them all).")
    tell(f"\nThe path of {RULE_FOR}: what it says as more states are dropped.\n")
    form = table_number(path.estimate)
    rows = [
        [
            f"{path.epsilon[level]:.4g}",
            str(path.n_dropped[level]),
            form(path.estimate[level]),
            form(path.std_error[level]),
            form(path.bias[level], "+"),
            form(path.corrected[level]),
            f"{path.ess[level]:.1f}",
            "<-" if level == path.chosen else "",
        ]
        for level in range(len(path))
    ]
    print_table(PATH_HEADINGS, rows, left=())
    tell_words(PATH_WORDS)


def _document(report: StateReport, path: EpsilonPath) -> dict[str, Any]:
    columns = ("epsilon", "n_dropped", "estimate", "std_error", "bias", "corrected", "ess")
    # An infinite chi2 is null: JSON has no infinity.
    states = [{**row, "chi2": row["chi2"] if row["chi2"] < float("inf") else None} for row in report.rows()]
    levels = {name: getattr(path, name).tolist() for name in columns}
    return {"states": states, "path": {"estimator": path.name, "chosen": int(path.chosen), **levels}}
