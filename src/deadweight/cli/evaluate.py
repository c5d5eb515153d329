"""`deadweight evaluate`: from a log and a policy to a table, a verdict, and an exit code."""

from __future__ import annotations

import math
from typing import Any

from deadweight.answers.intervals import check_interval
from deadweight.cli.process import Gate, finish, print_table, say, tell, tell_flags, tell_words
from deadweight.cli.request import (
    Request,
    document,
    read_baseline,
    say_findings,
    say_unused_cut_weights,
    words_of,
)
from deadweight.errors import OptionError, did_you_mean, how_many
from deadweight.estimators.estimator import estimator_of
from deadweight.io.schema import Finding
from deadweight.log.interface import as_log
from deadweight.question.asked import CutWeights, read_options
from deadweight.results.comparison import CutBounds
from deadweight.results.estimate import remarks
from deadweight.results.evaluation import HEADINGS, Evaluation, Verdict
from deadweight.verbs.cut_bounds import cut_bounds
from deadweight.verbs.estimate import evaluate as evaluate_log

GATES = ("better", "worse", "cannot tell", "not-worse")


def evaluate(request: Request) -> int:
    """Evaluate and print; the exit code is 0, or that of a closed gate."""
    settings = check(request)
    target = request.target_policy()
    findings: list[Finding] = []
    with request.opened(request.look_into(findings, target)) as (log, pi_b):
        lengths = as_log(log)
        if lengths.known is not None:
            episodes = how_many(sum(lengths.known.sizes), "episode")
            say(f"Evaluating {episodes} ({how_many(lengths.n_steps, 'step')}) ...")
        names = words_of(request.estimators) or None
        ev = evaluate_log(log, target, pi_b, names, background=request.report is not None, **settings)
        bounds = None
        if request.cut_range:
            remaining = _two_numbers(request.cut_range, "--cut-range")
            bounds = cut_bounds(log, target, pi_b, names, remaining=remaining, **settings)
        return _show(request, ev, findings, bounds)


def check(request: Request) -> dict[str, Any]:
    """The arguments that `evaluate` and `cut_bounds` have in common: checked before any work is done.

    Of the options of estimators only those are named that were asked for.
    """
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
    for name in words_of(request.estimators):
        estimator_of(name)
    options: dict[str, Any] = {}
    if request.return_range:
        options["return_range"] = _two_numbers(request.return_range, "--return-range")
    if request.cut_weights is not None:
        options["cut_weights"] = request.cut_weights
    interval = None if request.interval == "none" else request.interval
    check_interval(interval, request.level, read_options(options))
    baseline = read_baseline(request.baseline)
    if request.cut_range:
        _two_numbers(request.cut_range, "--cut-range")
    request.check_report()
    settings = {"drop": request.drop_rule, "baseline": baseline, "gamma": request.gamma}
    return {**settings, "interval": interval, "level": request.level, **options}


def _show(request: Request, ev: Evaluation, findings: list[Finding], bounds: CutBounds | None) -> int:
    """Print, then write; the exit code."""
    opens = request.gate is None or is_open(request.gate, ev.verdict, request.min_effect)
    gate = Gate(request.gate, opens, ev.verdict.answer, ev.verdict.doubts)
    files = request.report_of(ev)
    say_unused_cut_weights(request.cut_weights, ev.conventions, ev.headline.flags)
    if request.json:
        whole = document(ev, findings, {"episodes": ev.n_episodes, "longest": ev.longest}, "report")
        cut = {} if bounds is None else {"cut": bounds.to_dict()}
        return finish(gate.exit_code, files, {**whole, **cut, **gate.entry})
    _print(ev, findings)
    if bounds is not None:
        tell_words(f"\nCut episodes:\n{bounds}")
    return finish(gate.exit_code, files, closing=gate.words(request.min_effect))


def is_open(gate: str, verdict: Verdict, least: float = 0.0) -> bool:
    """Whether a verdict is what a gate asks for, with differences of `least` and less taken for none.

    "better" then wants all of the interval above `least`, "worse" all of it below -`least`, and "not-worse"
    all of it above -`least`, whatever the answer. "cannot tell" is what is neither better nor worse. A grave
    doubt about the verdict keeps all of them closed but the last.
    """
    lower, upper = verdict.interval
    if verdict.doubts and gate != "cannot tell":
        return False
    if gate == "not-worse":
        return verdict.sound and lower >= -least
    better = verdict.answer == "better" and lower > least
    worse = verdict.answer == "worse" and upper < -least
    return {"better": better, "worse": worse, "cannot tell": not (better or worse)}[gate]


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


def _print(ev: Evaluation, findings: list[Finding]) -> None:
    say_findings(findings)
    print_table(HEADINGS, ev.rows(), left=(0, len(HEADINGS) - 1))
    tell(f"\nVerdict: {ev.verdict.answer}.")
    for reason in ev.verdict.sentences:
        tell_words(f"  {reason}")
    flags = remarks((estimate.about, estimate.flags) for estimate in ev.estimates.values())
    tell_flags([flag for flag in flags if flag[1] != [ev.headline.name] or flag[2] not in ev.verdict.reasons])
    conventions = ev.conventions
    tell_words(
        f"\nConventions: ended episodes {conventions['finished']}, gamma {conventions['gamma']:g}, drop "
        f"{conventions['drop']}, {conventions['level']:.0%} interval {conventions['interval']}"
        + ("." if conventions["time_limit"] is None else f", time limit {conventions['time_limit']:,} steps.")
    )
    if conventions["cut_weights"] is not None:
        tell_words(f"Cut episodes: {CutWeights(**conventions['cut_weights']).sentence}")
