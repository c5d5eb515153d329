"""`deadweight evaluate`: from a log and a policy to a table, a verdict, and an exit code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadweight.answers.intervals import check_interval
from deadweight.cli.failures import Gate, finish, report_files
from deadweight.cli.log_options import (
    LogOptions,
    check_file,
    check_number,
    say_findings,
    say_unused_cut_weights,
)
from deadweight.cli.output import print_table, say, tell, tell_flags, tell_words
from deadweight.errors import OptionError, did_you_mean, how_many
from deadweight.estimators.estimator import estimator_of
from deadweight.io.schema import Finding
from deadweight.log.interface import LogLike, as_log
from deadweight.log.policies import TabularPolicy
from deadweight.question.asked import CutWeights, read_options
from deadweight.question.question import Policy
from deadweight.results.comparison import CutBounds
from deadweight.results.evaluation import HEADINGS, Evaluation, Verdict
from deadweight.results.flags import remarks
from deadweight.verbs.cut_bounds import cut_bounds
from deadweight.verbs.estimate import evaluate as evaluate_log

GATES = ("better", "worse", "cannot tell", "not-worse")


@dataclass(frozen=True, kw_only=True)
class Request(LogOptions):
    """The options of the command, as they were typed."""

    estimators: str
    interval: str
    level: float
    return_range: str
    baseline: str
    gate: str | None
    report: Path | None
    title: str | None
    min_effect: float
    cut_range: str = ""
    cut_weights: str | None = None
    reward: str | None = None


def evaluate(request: Request) -> int:
    """Evaluate and print; the exit code is 0, or that of a closed gate."""
    check(request)
    target = request.target()
    findings: list[Finding] = []
    with request.opened(request.look_into(findings, target)) as (log, pi_b):
        found = as_log(log)
        if found.known is not None:
            episodes = how_many(sum(found.known.sizes), "episode")
            say(f"Evaluating {episodes} ({how_many(found.n_steps, 'step')}) ...")
        ev = _evaluated(request, log, target, pi_b)
        bounds = _bounds(request, log, target, pi_b) if request.cut_range else None
        return _show(request, ev, tuple(findings), bounds)


def check(request: Request) -> None:
    """Refuse, before any work, what would be refused after it."""
    request.check()
    if request.gate is not None and request.gate not in GATES:
        raise OptionError(
            f"--gate must be one of {', '.join(GATES)}; found {request.gate!r}."
            f"{did_you_mean(request.gate, GATES)}",
            fix="For example --gate better; in quotes: --gate 'cannot tell'.",
        )
    if not 0 <= request.min_effect < math.inf:
        raise OptionError(
            f"--min-effect must be a finite number of at least 0; found {request.min_effect}.",
            fix="For example --min-effect 0.5.",
        )
    if request.min_effect and request.gate is None:
        raise OptionError(
            "--min-effect says which difference counts for --gate, and there is no --gate.",
            fix=f"For example --gate better --min-effect {request.min_effect:g}.",
        )
    for name in _names(request.estimators) or ():
        estimator_of(name)
    check_interval(_interval(request), request.level, read_options(_options(request)))
    _baseline(request.baseline)
    if request.cut_range:
        _two_numbers(request.cut_range, "--cut-range")
    if request.report is not None:
        check_file(request.report, read=request.inputs, json=request.json)


def _evaluated(request: Request, log: LogLike, target: TabularPolicy | None, pi_b: Policy) -> Evaluation:
    names, background = _names(request.estimators), request.report is not None
    return evaluate_log(log, target, pi_b, names, background=background, **_settings(request))


def _settings(request: Request) -> dict[str, Any]:
    return {
        "drop": request.drop_rule,
        "baseline": _baseline(request.baseline),
        "gamma": request.gamma,
        "interval": _interval(request),
        "level": request.level,
        **_options(request),
    }


def _bounds(request: Request, log: LogLike, target: TabularPolicy | None, pi_b: Policy) -> CutBounds:
    remaining = _two_numbers(request.cut_range, "--cut-range")
    names = _names(request.estimators)
    return cut_bounds(log, target, pi_b, names, remaining=remaining, **_settings(request))


def _show(
    request: Request, ev: Evaluation, findings: tuple[Finding, ...], bounds: CutBounds | None = None
) -> int:
    """Print, then write; the exit code."""
    opens = request.gate is None or is_open(request.gate, ev.verdict, request.min_effect)
    gate = Gate(request.gate, opens, ev.verdict.answer, ev.verdict.doubts)
    files = report_files(request.report, lambda to: ev.report(to, request.title, request.reward))
    say_unused_cut_weights(request.cut_weights, ev.conventions, ev.headline.flags)
    if request.json:
        cut = {} if bounds is None else {"cut": bounds.to_dict()}
        return finish(gate.exit_code, files, {**_document(ev, findings), **cut, **gate.entry})
    _print(ev, findings)
    if bounds is not None:
        tell_words(f"\nCut episodes:\n{bounds}")
    return finish(gate.exit_code, files, closing=gate.words(request.min_effect))


def is_open(gate: str, found: Verdict, least: float = 0.0) -> bool:
    """Whether a verdict is what a gate asks for, with differences of `least` and less taken for none.

    "better" then wants all of the interval above `least`, "worse" all of it below -`least`, and "not-worse"
    all of it above -`least`, whatever the answer. "cannot tell" is what is neither better nor worse. A grave
    doubt about the verdict keeps all of them closed but the last.
    """
    lower, upper = found.interval
    if found.doubts and gate != "cannot tell":
        return False
    if gate == "not-worse":
        return found.sound and lower >= -least
    better = found.answer == "better" and lower > least
    worse = found.answer == "worse" and upper < -least
    return {"better": better, "worse": worse, "cannot tell": not (better or worse)}[gate]


def _names(text: str) -> list[str] | None:
    names = [name.strip() for name in text.split(",") if name.strip()]
    return names or None


def _interval(request: Request) -> str | None:
    return None if request.interval == "none" else request.interval


def _baseline(text: str) -> float | None:
    if text == "behaviour":
        return None
    try:
        value = float(text)
    except ValueError:
        raise OptionError(
            f"--baseline must be 'behaviour' or a number; found {text!r}.",
            fix="For example --baseline 0.75, or --baseline behaviour.",
        ) from None
    check_number(value, "--baseline")
    return value


def _options(request: Request) -> dict[str, Any]:
    text = request.return_range
    possible = {"return_range": _two_numbers(text, "--return-range")} if text else {}
    return possible if request.cut_weights is None else {**possible, "cut_weights": request.cut_weights}


def _two_numbers(text: str, option: str) -> tuple[float, float]:
    try:
        lowest, highest = (float(end) for end in text.split(","))
    except ValueError:
        what = (
            "possible return" if option == "--return-range" else "that a cut episode could still have earned"
        )
        raise OptionError(
            f"{option} takes the lowest and the highest {what}; found {text!r}.",
            fix=f"For example {option} 0,1.",
        ) from None
    return lowest, highest


def _document(ev: Evaluation, findings: tuple[Finding, ...]) -> dict[str, Any]:
    return {
        **ev.to_dict(),
        "log": {"episodes": ev.n_episodes, "longest": ev.longest},
        "warnings": [finding.to_dict() for finding in findings],
        "report": None,
    }


def _print(ev: Evaluation, findings: tuple[Finding, ...]) -> None:
    say_findings(findings)
    print_table(HEADINGS, ev.rows(), left=(0, len(HEADINGS) - 1))
    tell(f"\nVerdict: {ev.verdict.answer}.")
    for reason in ev.verdict.sentences:
        tell_words(f"  {reason}")
    flags = remarks((estimate.about, estimate.flags) for estimate in ev.estimates.values())
    tell_flags([one for one in flags if one[1] != [ev.headline.name] or one[2] not in ev.verdict.reasons])
    conventions = ev.conventions
    tell_words(
        f"\nConventions: ended episodes {conventions['finished']}, gamma {conventions['gamma']:g}, drop "
        f"{conventions['drop']}, {conventions['level']:.0%} interval {conventions['interval']}"
        + ("." if conventions["time_limit"] is None else f", time limit {conventions['time_limit']:,} steps.")
    )
    if conventions["cut_weights"] is not None:
        tell_words(f"Cut episodes: {CutWeights(**conventions['cut_weights']).sentence}")
