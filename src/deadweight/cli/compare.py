"""`deadweight compare`: from a log and several policies to a ranking, a recommendation, and an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deadweight.answers.intervals import check_interval
from deadweight.cli.process import Gate, finish, print_table, say, tell, tell_flags, tell_words
from deadweight.cli.request import Request, document, read_baseline, say_findings, say_unused_cut_weights
from deadweight.errors import OptionError, did_you_mean
from deadweight.io.policy_files import require_file
from deadweight.io.schema import Finding
from deadweight.log.interface import as_log
from deadweight.question.asked import Options
from deadweight.results.comparison import BASELINE, HEADINGS, Comparison
from deadweight.results.estimate import remarks
from deadweight.verbs.compare import compare as compare_log

ANY = "any"


def compare(request: Request) -> int:
    """Compare and print; the exit code is 0, or that of a closed gate."""
    paths, baseline = check(request)
    policies = {name: request.policy(path) for name, path in paths.items()}
    findings: list[Finding] = []
    with request.opened(request.look_into(findings)) as (log, pi_b):
        known = as_log(log).known
        if known is not None:
            say(f"Comparing {len(policies)} policies on {sum(known.sizes):,} episodes ...")
        comparison = compare_log(
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
    files = request.report_of(comparison, "\nReport: {}")
    gate = gate_of(request.winner, comparison)
    best = comparison[comparison.ranking[0]].headline
    say_unused_cut_weights(request.cut_weights, comparison.conventions, best.flags)
    if request.json:
        whole = document(comparison, findings, {"episodes": comparison.n_episodes}, "report")
        return finish(gate.exit_code, files, {**whole, **gate.entry})
    _print(comparison, findings)
    return finish(gate.exit_code, files, closing=gate.words())


def gate_of(asked: str | None, comparison: Comparison) -> Gate:
    """Whether a policy, or any, is shown to be better than the baseline, and nothing grave is said of it."""
    if asked is None:
        return Gate(None, True, "better")
    names = comparison.ranking if asked == ANY else [asked]
    better = [name for name in names if name in comparison.better]
    doubts = [comparison[name].verdict.doubts for name in better]
    answers = {comparison.difference(name).answer for name in names}
    answer = next(answer for answer in ("better", "cannot tell", "worse") if answer in answers)
    opens = any(not flags for flags in doubts)
    return Gate(asked, opens, answer, next(filter(None, doubts), ()))


def check(request: Request) -> tuple[dict[str, Path], Any]:
    """The files by name and the baseline; what would be refused after the work is refused before it."""
    request.check()
    check_interval("auto", request.level, Options(cut_weights=request.cut_weights))
    files = parse_targets(request.targets)
    baseline = read_baseline(request.rival, list(files))
    gate = request.winner
    if gate is not None and gate != ANY and gate not in files:
        raise OptionError(
            f"--gate must be {ANY} or the name of a policy; found {gate!r}."
            f"{did_you_mean(gate, [ANY, *files])}",
            fix=f"Policies: {', '.join(files)}.",
        )
    if gate is not None and gate == baseline:
        raise OptionError(
            f"--gate {gate} can never open: it is the baseline as well.",
            fix="For example --gate new --baseline behaviour.",
        )
    for path in files.values():
        require_file(path)
    request.check_report(read=files.values())
    return files, baseline


def parse_targets(targets: list[str]) -> dict[str, Path]:
    """Files by name, of `name=FILE` or `FILE` two times or more.

    >>> list(parse_targets(["now=old.csv", "plans/new.csv"]))
    ['now', 'new']
    """
    files: dict[str, Path] = {}
    for target in targets:
        name, equals, path = (word.strip() for word in target.partition("="))
        if not equals:
            name, path = Path(target.strip()).stem, target.strip()
        if not (name and path):
            raise OptionError(
                f"--target takes a file, or a name and a file, name=FILE; found {target!r}.",
                fix="For example --target old=old.csv --target new=new.csv.",
            )
        if name in files:
            raise OptionError(f"Two policies are called {name!r}.", fix="Give each a name of its own.")
        if name in (ANY, BASELINE):
            raise OptionError(f"No policy may be called {name!r}.", fix="Choose another name.")
        files[name] = Path(path).expanduser()
    if len(files) < 2:
        raise OptionError(
            f"A comparison needs two policies or more; found {len(files)}.",
            fix="Give --target name=FILE for each; for one policy use deadweight evaluate.",
        )
    return files


def _print(comparison: Comparison, findings: list[Finding]) -> None:
    say_findings(findings)
    print_table(HEADINGS, comparison.rows(), left=(0, len(HEADINGS) - 1))
    tell(f"\nRecommendation: {'none' if comparison.recommendation is None else comparison.recommendation}.")
    for reason in comparison.reasons:
        tell_words(f"  {reason}")
    headlines = [comparison[name].headline for name in comparison.ranking]
    flags = remarks((estimate.about, estimate.flags) for estimate in headlines)
    tell_flags([(flag, comparison.with_flag(flag), said) for flag, _, said in flags])
