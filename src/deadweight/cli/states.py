"""`deadweight states`: what each state costs in variance and bias, and the epsilon path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadweight.cli.before import check_behaviour
from deadweight.cli.doctor import parse_columns
from deadweight.cli.ends import assume, parse_time_limit
from deadweight.cli.evaluate import behaviour_of
from deadweight.cli.output import out_json, tell
from deadweight.cli.streams import Ticker, is_streamed, streamed_behaviour
from deadweight.cli.tables import print_table
from deadweight.diagnostics.state_report import RULE_FOR, StateReport, state_report
from deadweight.io import read_policy
from deadweight.io.open import open_log
from deadweight.mdp.tabular import check_gamma
from deadweight.negligible import EpsilonPath, epsilon_path
from deadweight.negligible.automatic import read_rule

STATE_HEADINGS = ("state", "visits", "chi2", "variance cost", "bias", "gap", "dropped")
PATH_HEADINGS = ("epsilon", "dropped", "estimate", "std error", "bias", "corrected", "ESS", "chosen")
# As for the automatic drop: a state is dropped only where the actions that matter were seen.
MIN_VISITS = 3


@dataclass(frozen=True)
class Request:
    """The options of the command, as they were typed."""

    log: Path
    target: Path
    behaviour: str
    drop: str
    gamma: float
    top: int
    columns: str
    json: bool
    workers: int = 1
    ray_address: str | None = None
    stream: bool | None = None
    time_limit: str = "infer"


def states(request: Request) -> None:
    """Check, read, report, print."""
    time_limit = parse_time_limit(request.time_limit)
    check_gamma(request.gamma)
    if request.drop != "none":
        read_rule(request.drop)
    check_behaviour(request.behaviour)
    pi_e = read_policy(str(request.target))
    columns = parse_columns(request.columns)

    streamed = is_streamed(
        request.log, request.stream, request.workers, request.ray_address, request.behaviour, request.drop
    )
    pi_b = streamed_behaviour(request.behaviour) if streamed else None
    with open_log(
        request.log,
        columns=columns,
        workers=request.workers,
        ray_address=request.ray_address,
        stream=streamed,
        watch=Ticker().tell,
        time_limit=time_limit,
        tell=assume,
    ) as log:
        if not streamed:
            log, pi_b = behaviour_of(log, request.behaviour)
        drop, gamma = None if request.drop == "none" else request.drop, request.gamma
        report = state_report(log, pi_e, pi_b, drop=drop, gamma=gamma)
        path = epsilon_path(RULE_FOR, log, pi_e, pi_b, min_visits=MIN_VISITS, gamma=gamma)
    if request.json:
        out_json(_document(report, path))
    else:
        _print(report, path, request.top)


def _print(report: StateReport, path: EpsilonPath, top: int) -> None:
    dropped = int(report.dropped.sum())
    tell(f"{len(report):,} visited states, dearest in variance first; {dropped} are dropped.\n")
    print_table(STATE_HEADINGS, report.cells()[:top])
    if len(report) > top:
        tell(f"... and {len(report) - top:,} more (--top {len(report)} shows them all).")
    tell(f"\nThe path of {RULE_FOR}: what it says as more states are dropped.\n")
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
