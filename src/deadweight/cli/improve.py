"""`deadweight improve`: from a log to a short list of changes, a policy in a file, and an exit code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from deadweight.answers.intervals import check_interval
from deadweight.cli.process import File, finish, print_table, say, tell, tell_words
from deadweight.cli.request import OBSERVED, Request, check_file, document, say_findings
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


def improve(request: Request) -> int:
    """Learn, print and write; the exit code is 1 if nothing is changed."""
    check(request)
    findings: list[Finding] = []
    without_pi_b = replace(request, behaviour=OBSERVED) if request.behaviour == "counts" else request
    with without_pi_b.opened(request.look_into(findings)) as (opened, pi_b):
        log = as_log(opened)
        if log.known is not None:
            say(f"Learning from {sum(log.known.sizes):,} episodes ({log.n_steps:,} steps) ...")
        improvement = improve_log(
            opened,
            pi_b,
            caution=request.caution,
            min_visits=request.min_visits,
            gate="strict" if request.strict else True,
            level=request.level,
            gamma=request.gamma,
            seed=request.seed,
            evaluation=False,
        )
        policy = improvement.policy if pi_b is not None else _where_it_was_seen(improvement.policy, log)
    unchanged = "" if improvement.changes else " (what was done before: nothing is changed)"
    out = request.out
    files = [
        File("policy", out, lambda: write_policy(policy, out), f"\nPolicy: {out}{unchanged}"),
        *request.report_of(improvement),
    ]
    code = 0 if improvement.answer == "improved" else NO_CHANGE
    if request.json:
        log_size = {"episodes": improvement.n_episodes, "states": improvement.n_states}
        return finish(code, files, document(improvement, findings, log_size, "policy", "report"))
    _print(improvement, findings)
    return finish(code, files)


def check(request: Request) -> None:
    """Refuse, before any work, what would be refused after it."""
    request.check()
    Recipe(request.caution, request.min_visits)
    check_interval("auto", request.level, Options())
    check_policy_name(request.out)
    check_file(request.out, "--out", read=request.inputs, json=request.json)
    request.check_report()
    if request.report is not None and request.report.resolve() == request.out.resolve():
        raise OptionError("--out and --report name the same file.", fix="Give each a name of its own.")


def _where_it_was_seen(policy: TabularPolicy, log: Log) -> TabularPolicy:
    """Rows of the states that the log visits: of others nobody knows what was done there."""
    seen = log.labels.visited()[0]
    assert policy.state_labels is not None
    assert policy.action_labels is not None
    rows = np.flatnonzero(seen)
    states = [policy.state_labels[row] for row in rows]
    return TabularPolicy(policy.probs[rows], states, list(policy.action_labels), policy.trained_on)


def _print(improvement: Improvement, findings: list[Finding]) -> None:
    say_findings(findings)
    tell(f"Answer: {improvement.answer}.")
    for reason in improvement.sentences:
        tell_words(f"  {reason}")
    shown = improvement.changes or improvement.considered
    if shown:
        tell("\nChanges, the most valuable first:" if improvement.changes else "\nConsidered, and not made:")
        print_table(HEADINGS, [_cells(change) for change in shown], left=(0, 1, 2))


def _cells(change: Change) -> list[str]:
    return [
        visible(change.state),
        visible(change.new),
        change.instead_of,
        f"{change.gain:+.4g} ± {change.std_error:.2g}",
        f"{change.visits:,} times",
    ]
