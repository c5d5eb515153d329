"""`doctor`: all checks on one table, and what they found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deadweight.errors import how_many, printable
from deadweight.io.doctor_case import Case
from deadweight.io.doctor_labels import FEATURE_CHECKS, LABEL_CHECKS
from deadweight.io.doctor_policies import PROBABILITY_CHECKS, SAME_WORLD_CHECKS, TARGET_CHECKS
from deadweight.io.doctor_steps import EPISODE_CHECKS, REWARD_CHECKS, STEP_CHECKS, SUPPORT_CHECKS
from deadweight.io.files import from_stdin
from deadweight.io.policy_files import read_policy
from deadweight.io.requirements import finding, unmet
from deadweight.io.schema import Check, Finding, Mending, OpenEpisodes, Severity
from deadweight.io.table import LogTable, open_table
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.results.shown import html_table
from deadweight.sums.ends import TimeLimit, checked

ON_THE_TABLE: tuple[Check[Case], ...] = (*STEP_CHECKS, *LABEL_CHECKS)
ON_THE_LOG: tuple[Check[Case], ...] = (
    *EPISODE_CHECKS,
    *PROBABILITY_CHECKS,
    *SUPPORT_CHECKS,
    *REWARD_CHECKS,
    *SAME_WORLD_CHECKS,
)
ON_THE_TARGET: tuple[Check[Case], ...] = TARGET_CHECKS
ON_THE_FEATURES: tuple[Check[Case], ...] = FEATURE_CHECKS
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
        return self.written()

    def _repr_html_(self) -> str:
        rows = [(one.severity, one.code, one.title, one.problem, one.fix) for one in self.findings]
        closing = self.written().rsplit("\n", 1)[-1]
        return html_table(
            ("", "code", "finding", "problem", "fix"), rows, f"Doctor: {self.source}", [closing]
        )

    def written(self, commands: Mapping[str, str] | None = None) -> str:
        """All findings in words, each with the command that belongs to its code."""
        size = ", ".join(how_many(number, noun) for noun, number in self.size.items())
        lines = [f"{printable(self.source, keep='')}: {size}."]
        for one in self.findings:
            lines += [
                "",
                f"{one.severity:<7} {one.code}  {one.title}",
                f"  {one.problem}",
                f"  Fix: {one.fix}",
            ]
            lines += [f"  Run: {commands[one.code]}"] if commands and one.code in commands else []
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
    *,
    time_format: str | None = None,
    fill_reward: float | None = None,
    open_episodes: OpenEpisodes | None = None,
    features: Sequence[str] | str | None = None,
) -> Diagnosis:
    """Examine a log.

    Args:
      source: whatever `deadweight.read` takes.
      target: the policy to be evaluated, or what `deadweight.read_policy` takes.
      columns: our column names -> yours, where they differ.
      time_limit: as for `deadweight.read`; what is inferred is a finding.
      time_format, fill_reward, open_episodes: as for `deadweight.read`.
      features: as for `deadweight.read`.

    Returns:
      findings with code, rows and remedy. A table that cannot be read at all, is empty or lacks a column is
      an error instead, with a code DW1xx.

    Example:
      >>> log = {"episode": [1, 1], "step": [0, 0], "state": [0, 1], "action": [0, 0], "reward": [1, 2]}
      >>> found = doctor(log)
      >>> [one.code for one in found.errors]
      ['DW203']
    """
    wanted, mending = checked(time_limit), Mending(time_format, fill_reward, open_episodes)
    policy = target if isinstance(target, TabularPolicy) or target is None else read_policy(target)
    with from_stdin(source) as here:
        return examine(open_table(here, columns, mending, features), policy, wanted)


def examine(
    table: LogTable, target: TabularPolicy | None = None, time_limit: TimeLimit = "infer"
) -> Diagnosis:
    """All checks whose columns are there and have no error."""
    findings, spoiled = unmet(table)
    case, size = Case(table, target, time_limit), {"row": table.n_rows}
    sound = not findings
    findings += _run(ON_THE_TABLE, case, spoiled)
    if sound:
        log = case.log
        size.update(_sizes(log))
        findings += _run(ON_THE_LOG, case, spoiled)
        if log.features is not None:
            findings += _run(ON_THE_FEATURES, case, spoiled)
        if target is not None:
            findings += _run(ON_THE_TARGET, case, spoiled)
    ranked = sorted(findings, key=lambda one: ORDER.index(one.severity))
    return Diagnosis(tuple(ranked), table.source, size)


def _sizes(log: Trajectories) -> dict[str, int]:
    sizes = {"episode": log.n_episodes, "state": log.n_states, "feature": len(log.feature_names)}
    shown = {noun for noun, there in (("state", log.has_states), ("feature", log.feature_names)) if not there}
    return {noun: number for noun, number in sizes.items() if noun not in shown} | {"action": log.n_actions}


def examine_part(table: LogTable) -> tuple[Finding, ...]:
    """What the first part shows about steps, flags and labels; errors are for whoever reads all parts."""
    _, spoiled = unmet(table)
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
