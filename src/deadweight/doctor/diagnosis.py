"""`doctor`: all checks on one table, and what they found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deadweight.doctor import coverage, episodes, labels, probabilities, rewards, structure, support
from deadweight.doctor.case import Case
from deadweight.io.findings import Check, Finding, Severity, how_many
from deadweight.io.policy_files import read_policy
from deadweight.io.requirements import REQUIREMENTS, finding, unmet
from deadweight.io.table import LogTable, open_table
from deadweight.policy.policies import TabularPolicy
from deadweight.sums.ends import TimeLimit, checked
from deadweight.terminal import printable

ON_THE_TABLE: tuple[Check[Case], ...] = (*structure.CHECKS, *labels.CHECKS)
ON_THE_LOG: tuple[Check[Case], ...] = (
    *episodes.CHECKS,
    *probabilities.CHECKS,
    *coverage.CHECKS,
    *rewards.CHECKS,
)
ON_THE_TARGET: tuple[Check[Case], ...] = support.CHECKS
ORDER: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor found, gravest first.

    Attributes:
      findings: see `Finding`.
      source: what was examined.
      size: rows and, where they can be told apart, episodes, states and actions.
    """

    findings: tuple[Finding, ...]
    source: str
    size: dict[str, int]

    @property
    def errors(self) -> list[Finding]:
        """Findings that keep the log from being evaluated."""
        return [one for one in self.findings if one.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """Findings to look at before trusting an estimate."""
        return [one for one in self.findings if one.severity == "warning"]

    @property
    def ok(self) -> bool:
        """Whether the log can be evaluated."""
        return not self.errors

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {
            "source": self.source,
            "size": self.size,
            "ok": self.ok,
            "counts": {kind: sum(one.severity == kind for one in self.findings) for kind in ORDER},
            "findings": [one.to_dict() for one in self.findings],
        }

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        size = ", ".join(how_many(number, noun) for noun, number in self.size.items())
        lines = [f"{printable(self.source, keep='')}: {size}."]
        for one in self.findings:
            lines += [
                "",
                f"{one.severity:<7} {one.code}  {one.title}",
                f"  {one.problem}",
                f"  Fix: {one.fix}",
            ]
        kinds = [how_many(n, k) for k, n in self.to_dict()["counts"].items() if n and k != "info"]
        if not self.ok:
            closing = f"{' and '.join(kinds)}. The log cannot be evaluated yet; some checks wait for that."
        else:
            closing = f"No errors{' and ' + kinds[0] if kinds else ''}. The log can be evaluated."
        return "\n".join([*lines, "", closing + (" Rows count from 0." if self.findings else "")])


def doctor(
    source: Any,
    target: TabularPolicy | Any | None = None,
    columns: Mapping[str, str] | None = None,
    time_limit: TimeLimit = "infer",
) -> Diagnosis:
    """Examine a log.

    Args:
      source: whatever `deadweight.read` takes.
      target: the policy to be evaluated, or what `deadweight.read_policy` takes.
      columns: our column names -> yours, where they differ.
      time_limit: as for `deadweight.read`; what is inferred is a finding.

    Returns:
      findings with code, rows and remedy. A table that cannot be read at all, is empty or lacks a column is
      an error instead, with a code DW1xx.

    Example:
      >>> log = {"episode": [1, 1], "step": [0, 0], "state": [0, 1], "action": [0, 0], "reward": [1, 2]}
      >>> found = doctor(log)
      >>> [one.code for one in found.errors]
      ['DW203']
    """
    wanted = checked(time_limit)
    table = open_table(source, columns)
    policy = target if isinstance(target, TabularPolicy) or target is None else read_policy(target)
    return examine(table, policy, wanted)


def examine(
    table: LogTable, target: TabularPolicy | None = None, time_limit: TimeLimit = "infer"
) -> Diagnosis:
    """All checks whose columns are there and have no error."""
    findings, spoiled = unmet(table, REQUIREMENTS)
    case, size = Case(table, target, time_limit), {"row": table.n_rows}
    sound = not findings
    findings += _run(ON_THE_TABLE, case, spoiled)
    if sound:
        log = case.log
        size.update({"episode": log.n_episodes, "state": log.n_states, "action": log.n_actions})
        findings += _run(ON_THE_LOG, case, spoiled)
        if target is not None:
            findings += _run(ON_THE_TARGET, case, spoiled)
    ranked = sorted(findings, key=lambda one: ORDER.index(one.severity))
    return Diagnosis(tuple(ranked), table.source, size)


def examine_part(table: LogTable) -> tuple[Finding, ...]:
    """What the first part shows about steps, flags and labels; errors are for whoever reads all parts."""
    _, spoiled = unmet(table, REQUIREMENTS)
    found = _run(ON_THE_TABLE, Case(table), spoiled)
    seen = f"In the first {table.n_rows:,} rows: "
    return tuple(replace(one, problem=seen + one.problem) for one in found if one.severity != "error")


def _run(checks: tuple[Check[Case], ...], case: Case, spoiled: set[str]) -> list[Finding]:
    results = []
    for check in checks:
        there = all(case.table.has(name) or name == "target" for name in check.needs)
        found = check.run(case) if there and spoiled.isdisjoint(check.needs) else None
        if found is not None:
            results.append(finding(check.code, check.severity, check.title, found, case.table))
            spoiled.update(found.columns)
    return results
