"""`deadweight improve`: from a log to a short list of changes, a policy in a file, and an exit code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.answers.intervals import check_interval
from deadweight.cli.failures import File, finish, report_files
from deadweight.cli.log_options import OBSERVED, LogOptions, check_file, say_findings
from deadweight.cli.output import print_table, say, tell, tell_words
from deadweight.errors import OptionError
from deadweight.io.policy_files import check_policy_name, write_policy
from deadweight.io.schema import Finding
from deadweight.log.interface import Log, as_log
from deadweight.log.labels import visible
from deadweight.log.policies import TabularPolicy
from deadweight.question.asked import Options
from deadweight.results.improvement import HEADINGS, Change, Improvement
from deadweight.verbs.improve import improve as improve_log
from deadweight.verbs.recipe import Recipe

NO_CHANGE = 1


@dataclass(frozen=True, kw_only=True)
class Request(LogOptions):
    """The options of the command, as they were typed."""

    out: Path
    caution: float
    min_visits: int
    strict: bool
    level: float
    seed: int
    report: Path | None
    title: str | None
    reward: str | None = None


def improve(request: Request) -> int:
    """Learn, print and write; the exit code is 1 if nothing is changed."""
    check(request)
    findings: list[Finding] = []
    asked = replace(request, behaviour=OBSERVED) if request.behaviour == "counts" else request
    with asked.opened(request.look_into(findings)) as (log, pi_b):
        found = as_log(log)
        if found.known is not None:
            say(f"Learning from {sum(found.known.sizes):,} episodes ({found.n_steps:,} steps) ...")
        made = improve_log(
            log,
            pi_b,
            caution=request.caution,
            min_visits=request.min_visits,
            gate="strict" if request.strict else True,
            level=request.level,
            gamma=request.gamma,
            seed=request.seed,
            evaluation=False,
        )
        policy = made.policy if pi_b is not None else _where_it_was_seen(made.policy, found)
    said = f"\nPolicy: {request.out}" + (
        "" if made.changes else " (what was done before: nothing is changed)"
    )
    files = [
        File("policy", request.out, lambda: write_policy(policy, request.out), said),
        *report_files(request.report, lambda to: made.report(to, request.title, request.reward)),
    ]
    code = 0 if made.answer == "improved" else NO_CHANGE
    if request.json:
        return finish(code, files, _document(made, findings))
    _print(made, findings)
    return finish(code, files)


def check(request: Request) -> None:
    """Refuse, before any work, what would be refused after it."""
    request.check()
    Recipe(request.caution, request.min_visits)
    check_interval("auto", request.level, Options())
    check_policy_name(request.out)
    check_file(request.out, "--out", read=request.inputs, json=request.json)
    if request.report is not None:
        check_file(request.report, read=request.inputs, json=request.json)
        if request.report.resolve() == request.out.resolve():
            raise OptionError("--out and --report name the same file.", fix="Give each a name of its own.")


def _where_it_was_seen(policy: TabularPolicy, log: Log) -> TabularPolicy:
    """Rows of the states that the log visits: of others nobody knows what was done there."""
    seen = log.labels.visited()[0]
    assert policy.state_labels is not None
    assert policy.action_labels is not None
    rows = np.flatnonzero(seen)
    states = [policy.state_labels[row] for row in rows]
    return TabularPolicy(policy.probs[rows], states, list(policy.action_labels), policy.trained_on)


def _document(made: Improvement, findings: list[Finding]) -> dict[str, Any]:
    return {
        **made.to_dict(),
        "log": {"episodes": made.n_episodes, "states": made.n_states},
        "warnings": [finding.to_dict() for finding in findings],
        "policy": None,
        "report": None,
    }


def _print(made: Improvement, findings: list[Finding]) -> None:
    say_findings(findings)
    tell(f"Answer: {made.answer}.")
    for reason in made.sentences:
        tell_words(f"  {reason}")
    shown = made.changes or made.considered
    if shown:
        tell("\nChanges, the most valuable first:" if made.changes else "\nConsidered, and not made:")
        print_table(HEADINGS, [_cells(change) for change in shown], left=(0, 1, 2))


def _cells(change: Change) -> list[str]:
    return [
        visible(change.state),
        visible(change.new),
        change.instead_of,
        f"{change.gain:+.4g} ± {change.std_error:.2g}",
        f"{change.visits:,} times",
    ]
