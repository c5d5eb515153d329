"""`deadweight evaluate`: from a log and a policy to a table, a verdict, and an exit code."""

from __future__ import annotations

import json as json_module
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadweight.behaviour import cross_fitted_propensities
from deadweight.cli.doctor import doctor_command, parse_columns
from deadweight.cli.ends import parse_time_limit, tell
from deadweight.cli.streams import is_streamed, streamed_behaviour, with_stream
from deadweight.cli.tables import print_table
from deadweight.doctor import examine
from deadweight.errors import DataError, OptionError
from deadweight.estimate import evaluate as evaluate_log
from deadweight.evaluation import HEADINGS, Evaluation
from deadweight.io import read_policy
from deadweight.io.findings import Finding
from deadweight.io.table import open_table
from deadweight.policies import TabularPolicy
from deadweight.question import Log
from deadweight.results import remarks
from deadweight.trajectories import Trajectories

ANSWERS = ("better", "worse", "cannot tell")
GATE_CLOSED = 1


@dataclass(frozen=True)
class Request:
    """The options of the command, as they were typed."""

    log: Path
    target: Path | None
    behaviour: str
    estimators: str
    drop: str
    gamma: float
    interval: str
    level: float
    return_range: str
    baseline: str
    gate: str | None
    report: Path | None
    columns: str
    json: bool
    workers: int = 1
    ray_address: str | None = None
    stream: bool | None = None
    time_limit: str = "infer"


def evaluate(request: Request) -> int:
    """Evaluate and print; the exit code is 1 only if a gate was asked for and the verdict is another."""
    if request.gate is not None and request.gate not in ANSWERS:
        raise OptionError(f"--gate must be one of {', '.join(ANSWERS)}; found {request.gate!r}.")
    time_limit = parse_time_limit(request.time_limit)
    target = None if request.target is None else read_policy(str(request.target))
    if is_streamed(request.log, request.stream, request.workers, request.ray_address):
        columns = parse_columns(request.columns)
        pi_b = streamed_behaviour(request.behaviour)
        return with_stream(
            request.log,
            columns,
            request.workers,
            request.ray_address,
            time_limit,
            lambda log: _show(request, _evaluated(request, log, target, pi_b), ()),
        )
    table = open_table(str(request.log), parse_columns(request.columns))
    found = examine(table, target, time_limit)
    if not found.ok:
        raise DataError(
            f"{request.log} cannot be evaluated: {found.errors[0].problem}"
            + (f" ({len(found.errors) - 1} more errors.)" if len(found.errors) > 1 else ""),
            fix="See all of them, with what to do, by: "
            + doctor_command(request.log, request.target, request.columns),
        )
    from deadweight.io.read import log_of

    log, pi_b = behaviour_of(log_of(table, time_limit, tell), request.behaviour)
    _say(f"Evaluating {log.n_episodes:,} episodes ({log.n_steps:,} steps) ...")
    return _show(request, _evaluated(request, log, target, pi_b), found.findings)


def _evaluated(
    request: Request, log: Log, target: TabularPolicy | None, pi_b: TabularPolicy | None
) -> Evaluation:
    return evaluate_log(
        log,
        target,
        pi_b,
        _names(request.estimators),
        _drop(request.drop),
        baseline=_baseline(request.baseline),
        gamma=request.gamma,
        interval=None if request.interval == "none" else request.interval,
        level=request.level,
        **_range_option(request.return_range),
    )


def _show(request: Request, ev: Evaluation, findings: tuple[Finding, ...]) -> int:
    """Write and print; the exit code."""
    written = None if request.report is None else ev.report(request.report)
    if request.json:
        print(json_module.dumps(_document(ev, findings, written), indent=2, allow_nan=False))
    else:
        _print(ev, findings, written)
    return GATE_CLOSED if request.gate is not None and ev.verdict.answer != request.gate else 0


def behaviour_of(log: Trajectories, choice: str) -> tuple[Trajectories, TabularPolicy | None]:
    """The log and pi_b by "column" (logged propensities), "counts" (estimated) or a file."""
    if choice == "column":
        if log.propensities is None:
            raise DataError(
                "The log has no column behaviour_prob, and --behaviour was not given.",
                fix="Add the column, or use --behaviour counts to estimate it, or --behaviour FILE.",
            )
        return log, None
    if choice == "counts":
        return log.with_propensities(cross_fitted_propensities(log)), None
    return log, read_policy(choice)


def _names(text: str) -> list[str] | None:
    names = [name.strip() for name in text.split(",") if name.strip()]
    return names or None


def _drop(text: str) -> str | None:
    return None if text == "none" else text


def _baseline(text: str) -> float | None:
    if text == "behaviour":
        return None
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"--baseline must be 'behaviour' or a number; found {text!r}.") from None


def _range_option(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        lowest, highest = (float(end) for end in text.split(","))
    except ValueError:
        raise OptionError(
            f"--return-range takes the lowest and the highest possible return; found {text!r}.",
            fix="For example --return-range 0,1.",
        ) from None
    return {"return_range": (lowest, highest)}


def _document(ev: Evaluation, findings: tuple[Finding, ...], written: Path | None) -> dict[str, Any]:
    return {
        **ev.to_dict(),
        "log": {"episodes": ev.question.n, "longest": ev.question.horizon},
        "warnings": [finding.to_dict() for finding in findings],
        "report": None if written is None else str(written),
    }


def _print(ev: Evaluation, findings: tuple[Finding, ...], written: Path | None) -> None:
    print_table(HEADINGS, ev.rows(), left=(0, len(HEADINGS) - 1))
    print(f"\nVerdict: {ev.verdict.answer}.")
    for reason in ev.verdict.reasons:
        print(f"  {reason}")
    flags = remarks((name, estimate.flags) for name, estimate in ev.estimates.items())
    if flags:
        print("\nFlags:")
    for flag, names, said in flags:
        print(f"  {flag} ({', '.join(names)}): {said}")
    for finding in findings:
        _say(f"{finding.severity.capitalize()} {finding.code}: {finding.problem}")
    conventions = ev.conventions
    print(
        f"\nConventions: ended episodes {conventions['finished']}, gamma {conventions['gamma']:g}, drop "
        f"{conventions['drop']}, {conventions['level']:.0%} interval {conventions['interval']}"
        + ("." if conventions["time_limit"] is None else f", time limit {conventions['time_limit']:,} steps.")
    )
    if written is not None:
        print(f"Report: {written}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
