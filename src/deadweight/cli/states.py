"""`deadweight states`: what each state costs in variance and bias, and the epsilon path."""

from __future__ import annotations

import json as json_module
from typing import Any

from deadweight.cli.evaluate import behaviour_of
from deadweight.cli.tables import print_table
from deadweight.diagnostics.states import RULE_FOR, StateReport, state_report
from deadweight.io import read, read_policy
from deadweight.negligible import EpsilonPath, epsilon_path

STATE_HEADINGS = ("state", "visits", "chi2", "variance cost", "bias", "gap", "dropped")
PATH_HEADINGS = ("epsilon", "dropped", "estimate", "std error", "bias", "corrected", "ESS", "chosen")
# As for the automatic drop: a state is dropped only where the actions that matter were seen.
MIN_VISITS = 3


def states(log_path: str, target: str, behaviour: str, drop: str, gamma: float, top: int, json: bool) -> None:
    """Read, report, print."""
    log, pi_b = behaviour_of(read(log_path), behaviour)
    pi_e = read_policy(target)
    report = state_report(log, pi_e, pi_b, drop=None if drop == "none" else drop, gamma=gamma)
    path = epsilon_path(RULE_FOR, log, pi_e, pi_b, min_visits=MIN_VISITS, gamma=gamma)
    if json:
        print(json_module.dumps(_document(report, path), indent=2, allow_nan=False, default=str))
        return
    dropped = int(report.dropped.sum())
    print(f"{len(report):,} visited states, dearest in variance first; {dropped} are dropped.\n")
    print_table(STATE_HEADINGS, report.cells()[:top])
    if len(report) > top:
        print(f"... and {len(report) - top:,} more (--top {len(report)} shows them all).")
    print(f"\nThe path of {RULE_FOR}: what it says as more states are dropped.\n")
    print_table(PATH_HEADINGS, [_path_cells(path, k) for k in range(len(path))], left=())


def _path_cells(path: EpsilonPath, level: int) -> list[str]:
    return [
        f"{path.epsilon[level]:.4g}",
        str(path.n_dropped[level]),
        f"{path.estimate[level]:.4f}",
        f"{path.std_error[level]:.4f}",
        f"{path.bias[level]:+.4f}",
        f"{path.corrected[level]:.4f}",
        f"{path.ess[level]:.1f}",
        "<-" if level == path.chosen else "",
    ]


def _document(report: StateReport, path: EpsilonPath) -> dict[str, Any]:
    columns = ("epsilon", "n_dropped", "estimate", "std_error", "bias", "corrected", "ess")
    # An infinite chi2 is null: JSON has no infinity.
    states = [{**row, "chi2": row["chi2"] if row["chi2"] < float("inf") else None} for row in report.rows()]
    levels = {name: getattr(path, name).tolist() for name in columns}
    return {"states": states, "path": {"estimator": path.name, "chosen": int(path.chosen), **levels}}
