"""`deadweight evaluate`: from a log and a policy to a table, a verdict, and an exit code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadweight.cli.before import check_behaviour, check_file, check_number
from deadweight.cli.doctor import doctor_command, parse_columns
from deadweight.cli.ends import assume, parse_time_limit
from deadweight.cli.output import out_json, say, tell
from deadweight.cli.streams import Ticker, is_streamed, streamed_behaviour
from deadweight.cli.tables import print_table
from deadweight.doctor import Diagnosis, examine, examine_part
from deadweight.errors import DataError, OptionError, did_you_mean
from deadweight.estimate import evaluate as evaluate_log
from deadweight.estimators.names import estimator_of
from deadweight.inference import check_interval
from deadweight.io import read_policy
from deadweight.io.findings import Finding
from deadweight.io.open import open_log
from deadweight.io.table import LogTable
from deadweight.log.interface import LogLike, in_memory
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import check_gamma
from deadweight.negligible.automatic import read_rule
from deadweight.policy.behaviour import cross_fitted_propensities
from deadweight.policy.policies import TabularPolicy
from deadweight.question.options import read_options
from deadweight.results import Verdict, remarks
from deadweight.results.evaluation import HEADINGS, Evaluation

GATES = ("better", "worse", "cannot tell", "not-worse")
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
    title: str | None
    min_effect: float
    columns: str
    json: bool
    workers: int = 1
    ray_address: str | None = None
    stream: bool | None = None
    time_limit: str = "infer"


def evaluate(request: Request) -> int:
    """Evaluate and print; the exit code is 1 only if a gate was asked for and the verdict is another."""
    check(request)
    time_limit = parse_time_limit(request.time_limit)
    target = None if request.target is None else read_policy(str(request.target))
    streamed = is_streamed(
        request.log, request.stream, request.workers, request.ray_address, request.behaviour, request.drop
    )
    pi_b = streamed_behaviour(request.behaviour) if streamed else None
    findings: list[Finding] = []

    def look(table: LogTable, whole: bool) -> None:
        findings.extend(_sound(request, examine(table, target, time_limit)) if whole else examine_part(table))

    with open_log(
        request.log,
        columns=parse_columns(request.columns),
        workers=request.workers,
        ray_address=request.ray_address,
        stream=streamed,
        watch=Ticker().tell,
        time_limit=time_limit,
        tell=assume,
        look=look,
    ) as log:
        if not streamed:
            log, pi_b = behaviour_of(log, request.behaviour)
            _say(f"Evaluating {log.n_episodes:,} episodes ({log.n_steps:,} steps) ...")
        return _show(request, _evaluated(request, log, target, pi_b), tuple(findings))


def _sound(request: Request, found: Diagnosis) -> tuple[Finding, ...]:
    """What the doctor says about a log without errors."""
    if not found.ok:
        raise DataError(
            f"{request.log} cannot be evaluated: {found.errors[0].problem}"
            + (f" ({len(found.errors) - 1} more errors.)" if len(found.errors) > 1 else ""),
            fix="See all of them, with what to do, by: "
            + doctor_command(request.log, request.target, request.columns),
        )
    return found.findings


def check(request: Request) -> None:
    """Refuse, before any work, what would be refused after it."""
    if request.gate is not None and request.gate not in GATES:
        raise OptionError(
            f"--gate must be one of {', '.join(GATES)}; found {request.gate!r}."
            f"{did_you_mean(request.gate, GATES)}"
        )
    if not 0 <= request.min_effect < math.inf:
        raise OptionError(f"--min-effect must be a finite number of at least 0; found {request.min_effect}.")
    for name in _names(request.estimators) or ():
        estimator_of(name)
    if request.drop != "none":
        read_rule(request.drop)
    check_gamma(request.gamma)
    check_interval(_interval(request), request.level, read_options(_range_option(request.return_range)))
    _baseline(request.baseline)
    parse_columns(request.columns)
    check_behaviour(request.behaviour)
    if request.report is not None:
        check_file(request.report, read=(request.log, request.target))


def _evaluated(
    request: Request, log: LogLike, target: TabularPolicy | None, pi_b: TabularPolicy | None
) -> Evaluation:
    return evaluate_log(
        log,
        target,
        pi_b,
        _names(request.estimators),
        _drop(request.drop),
        baseline=_baseline(request.baseline),
        gamma=request.gamma,
        interval=_interval(request),
        level=request.level,
        background=request.report is not None,
        **_range_option(request.return_range),
    )


def _show(request: Request, ev: Evaluation, findings: tuple[Finding, ...]) -> int:
    """Write and print; the exit code."""
    written = None if request.report is None else ev.report(request.report, request.title)
    if request.json:
        out_json(_document(ev, findings, written))
    else:
        _print(ev, findings, written)
    return 0 if request.gate is None or is_open(request.gate, ev.verdict, request.min_effect) else GATE_CLOSED


def is_open(gate: str, found: Verdict, least: float = 0.0) -> bool:
    """Whether a verdict is what a gate asks for, with differences of `least` and less taken for none.

    "better" then wants all of the interval above `least`, "worse" all of it below -`least`, and "not-worse"
    all of it above -`least`, whatever the answer. "cannot tell" is what is neither better nor worse.
    """
    lower, upper = found.interval
    if gate == "not-worse":
        return found.sound and lower >= -least
    better = found.answer == "better" and lower > least
    worse = found.answer == "worse" and upper < -least
    return {"better": better, "worse": worse, "cannot tell": not (better or worse)}[gate]


def behaviour_of(log: LogLike, choice: str) -> tuple[Trajectories, TabularPolicy | None]:
    """The log and pi_b by "column" (logged propensities), "counts" (estimated) or a file."""
    log = in_memory(log)[0]
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


def _interval(request: Request) -> str | None:
    return None if request.interval == "none" else request.interval


def _drop(text: str) -> str | None:
    return None if text == "none" else text


def _baseline(text: str) -> float | None:
    if text == "behaviour":
        return None
    try:
        value = float(text)
    except ValueError:
        raise OptionError(f"--baseline must be 'behaviour' or a number; found {text!r}.") from None
    check_number(value, "--baseline")
    return value


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
        "log": {"episodes": ev.n_episodes, "longest": ev.longest},
        "warnings": [finding.to_dict() for finding in findings],
        "report": None if written is None else str(written),
    }


def _print(ev: Evaluation, findings: tuple[Finding, ...], written: Path | None) -> None:
    print_table(HEADINGS, ev.rows(), left=(0, len(HEADINGS) - 1))
    tell(f"\nVerdict: {ev.verdict.answer}.")
    for reason in ev.verdict.sentences:
        tell(f"  {reason}")
    flags = remarks((estimate.about, estimate.flags) for estimate in ev.estimates.values())
    if flags:
        tell("\nFlags:")
    for flag, names, said in flags:
        tell(f"  {flag} ({', '.join(names)}): {said}")
    for finding in findings:
        _say(f"{finding.severity.capitalize()} {finding.code}: {finding.problem}")
    conventions = ev.conventions
    tell(
        f"\nConventions: ended episodes {conventions['finished']}, gamma {conventions['gamma']:g}, drop "
        f"{conventions['drop']}, {conventions['level']:.0%} interval {conventions['interval']}"
        + ("." if conventions["time_limit"] is None else f", time limit {conventions['time_limit']:,} steps.")
    )
    if written is not None:
        tell(f"Report: {written}")


def _say(text: str) -> None:
    say(text)
