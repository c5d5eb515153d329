"""`deadweight compare`: from a log and several policies to a ranking, a recommendation, and an exit code."""

from __future__ import annotations

from collections.abc import Mapping
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
from deadweight.errors import OptionError, did_you_mean
from deadweight.io.policy_files import require_file
from deadweight.io.schema import Finding
from deadweight.log.interface import as_log
from deadweight.question.asked import Options
from deadweight.results.comparison import BASELINE, HEADINGS, Comparison
from deadweight.results.flags import remarks
from deadweight.verbs.compare import compare as compare_log

ANY = "any"


@dataclass(frozen=True, kw_only=True)
class Request(LogOptions):
    """The options of the command, as they were typed."""

    targets: list[str]
    baseline: str
    level: float
    resamples: int
    seed: int
    gate: str | None
    report: Path | None
    title: str | None
    reward: str | None = None
    cut_weights: str | None = None


def compare(request: Request) -> int:
    """Compare and print; the exit code is 0, or that of a closed gate."""
    files, baseline = check(request)
    policies = {name: request.given.policy(path) for name, path in files.items()}
    findings: list[Finding] = []
    with request.opened(request.look_into(findings)) as (log, pi_b):
        found = as_log(log)
        if found.known is not None:
            say(f"Comparing {len(policies)} policies on {sum(found.known.sizes):,} episodes ...")
        made = compare_log(
            log,
            policies,
            pi_b,
            baseline=baseline,
            drop=request.drop_rule,
            gamma=request.gamma,
            level=request.level,
            resamples=request.resamples,
            seed=request.seed,
            cut_weights=request.cut_weights,
        )
    report = report_files(
        request.report, lambda to: made.report(to, request.title, request.reward), "\nReport: {}"
    )
    gate = gate_of(request.gate, made)
    say_unused_cut_weights(request.cut_weights, made.conventions, made[made.ranking[0]].headline.flags)
    if request.json:
        return finish(gate.exit_code, report, {**_document(made, findings), **gate.entry})
    _print(made, findings)
    return finish(gate.exit_code, report, closing=gate.words())


def gate_of(asked: str | None, found: Comparison) -> Gate:
    """Whether a policy, or any, is shown to be better than the baseline, and nothing grave is said of it."""
    if asked is None:
        return Gate(None, True, "better")
    names = found.ranking if asked == ANY else [asked]
    doubted = [name for name in names if name in found.better and found[name].verdict.doubts]
    answers = {found.difference(name).answer for name in names}
    answer = next(one for one in ("better", "cannot tell", "worse") if one in answers)
    opens = any(name in found.better and name not in doubted for name in names)
    return Gate(asked, opens, answer, found[doubted[0]].verdict.doubts if doubted else ())


def check(request: Request) -> tuple[dict[str, Path], Any]:
    """The files by name and the baseline; what would be refused after the work is refused before it."""
    request.check()
    check_interval("auto", request.level, Options(cut_weights=request.cut_weights))
    files = parse_targets(request.targets)
    baseline = _baseline(request.baseline, files)
    if request.gate is not None and request.gate != ANY and request.gate not in files:
        raise OptionError(
            f"--gate must be {ANY} or the name of a policy; found {request.gate!r}."
            f"{did_you_mean(request.gate, [ANY, *files])}",
            fix=f"Policies: {', '.join(files)}.",
        )
    if request.gate is not None and request.gate == baseline:
        raise OptionError(
            f"--gate {request.gate} can never open: it is the baseline as well.",
            fix="For example --gate new --baseline behaviour.",
        )
    for path in files.values():
        require_file(path)
    if request.report is not None:
        check_file(request.report, read=(*request.inputs, *files.values()), json=request.json)
    return files, baseline


def parse_targets(targets: list[str]) -> dict[str, Path]:
    """Files by name, of `name=FILE` or `FILE` two times or more.

    >>> list(parse_targets(["now=old.csv", "plans/new.csv"]))
    ['now', 'new']
    """
    found: dict[str, Path] = {}
    for target in targets:
        name, equals, path = (word.strip() for word in target.partition("="))
        if not equals:
            name, path = Path(target.strip()).stem, target.strip()
        if not (name and path):
            raise OptionError(
                f"--target takes a file, or a name and a file, name=FILE; found {target!r}.",
                fix="For example --target old=old.csv --target new=new.csv.",
            )
        if name in found:
            raise OptionError(f"Two policies are called {name!r}.", fix="Give each a name of its own.")
        if name in (ANY, BASELINE):
            raise OptionError(f"No policy may be called {name!r}.", fix="Choose another name.")
        found[name] = Path(path).expanduser()
    if len(found) < 2:
        raise OptionError(
            f"A comparison needs two policies or more; found {len(found)}.",
            fix="Give --target name=FILE for each; for one policy use deadweight evaluate.",
        )
    return found


def _baseline(text: str, files: Mapping[str, Path]) -> float | str | None:
    """None for the behaviour policy, the name of a policy, or a number."""
    if text == "behaviour":
        return None
    if text in files:
        return text
    try:
        value = float(text)
    except ValueError:
        raise OptionError(
            f"--baseline must be behaviour, the name of a policy, or a number; found {text!r}."
            f"{did_you_mean(text, ['behaviour', *files])}",
            fix="For example --baseline behaviour, or --baseline 0.75.",
        ) from None
    check_number(value, "--baseline")
    return value


def _document(found: Comparison, findings: list[Finding]) -> dict[str, Any]:
    return {
        **found.to_dict(),
        "log": {"episodes": found.n_episodes},
        "warnings": [finding.to_dict() for finding in findings],
        "report": None,
    }


def _print(found: Comparison, findings: list[Finding]) -> None:
    say_findings(findings)
    print_table(HEADINGS, found.rows(), left=(0, len(HEADINGS) - 1))
    tell(f"\nRecommendation: {'none' if found.recommendation is None else found.recommendation}.")
    for reason in found.reasons:
        tell_words(f"  {reason}")
    headlines = [found[name].headline for name in found.ranking]
    flags = remarks((one.about, one.flags) for one in headlines)
    tell_flags([(flag, found.with_flag(flag), said) for flag, _, said in flags])
