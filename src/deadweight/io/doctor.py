"""`doctor`: all checks on one table, and what they found; `mend`: the table again, with what can be mended.

Mended without guessing are the names of columns, dates and blank rewards (as the user says), rows that
stand twice, numbers that are text (0,5 or 50% among them), probabilities written as logarithms or
percentages, and a behaviour probability that cannot be used, which is left out. How episodes end is written
down. Everything else is a question for whoever knows the data, and stays as it is: the table is examined
again, and what is left is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from deadweight.errors import how_many, printable
from deadweight.io.columns import pa, read_numbers
from deadweight.io.doctor_labels import FEATURE_CHECKS, LABEL_CHECKS, Case
from deadweight.io.doctor_policies import PROBABILITY_CHECKS, SAME_WORLD_CHECKS, TARGET_CHECKS
from deadweight.io.doctor_steps import EPISODE_CHECKS, REWARD_CHECKS, STEP_CHECKS, SUPPORT_CHECKS
from deadweight.io.files import from_stdin, replaced
from deadweight.io.policy_files import read_policy
from deadweight.io.requirements import findings_of, unmet
from deadweight.io.schema import FLAGS, Check, Finding, Mending, OpenEpisodes, Severity, show
from deadweight.io.table import FEATURE, LogTable, open_table
from deadweight.log.policies import TabularPolicy
from deadweight.results.shown import html_table
from deadweight.sums.ends import TimeLimit, checked
from deadweight.typing import BoolArray, FloatArray

ON_THE_TABLE: tuple[Check[Case], ...] = (*STEP_CHECKS, *LABEL_CHECKS)
ON_THE_LOG: tuple[Check[Case], ...] = (
    *(*EPISODE_CHECKS, *PROBABILITY_CHECKS, *SUPPORT_CHECKS),
    *(*REWARD_CHECKS, *SAME_WORLD_CHECKS),
)
ON_THE_TARGET, ON_THE_FEATURES = tuple(TARGET_CHECKS), tuple(FEATURE_CHECKS)
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
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """Findings to look at before trusting an estimate."""
        return [finding for finding in self.findings if finding.severity == "warning"]

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
            "counts": {kind: sum(finding.severity == kind for finding in self.findings) for kind in ORDER},
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        return self.written()

    def _repr_html_(self) -> str:
        rows = [
            (finding.severity, finding.code, finding.title, finding.problem, finding.fix)
            for finding in self.findings
        ]
        closing = self.written().rsplit("\n", 1)[-1]
        return html_table(
            ("", "code", "finding", "problem", "fix"), rows, f"Doctor: {self.source}", [closing]
        )

    def written(self, commands: Mapping[str, str] | None = None) -> str:
        """All findings in words, each with the command that belongs to its code."""
        size = ", ".join(how_many(number, noun) for noun, number in self.size.items())
        lines = [f"{printable(self.source, keep='')}: {size}."]
        for f in self.findings:
            lines += ["", f"{f.severity:<7} {f.code}  {f.title}", f"  {f.problem}", f"  Fix: {f.fix}"]
            lines += [f"  Run: {commands[f.code]}"] if commands and f.code in commands else []
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
      >>> [finding.code for finding in found.errors]
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
    findings += findings_of(ON_THE_TABLE, case, table, spoiled)
    if sound:
        log = case.log
        size["episode"] = log.n_episodes
        size |= {"state": log.n_states} if log.has_states else {}
        size |= {"feature": len(log.feature_names)} if log.feature_names else {}
        size["action"] = log.n_actions
        findings += findings_of(ON_THE_LOG, case, table, spoiled)
        if log.features is not None:
            findings += findings_of(ON_THE_FEATURES, case, table, spoiled)
        if target is not None:
            findings += findings_of(ON_THE_TARGET, case, table, spoiled)
    ranked = sorted(findings, key=lambda finding: ORDER.index(finding.severity))
    return Diagnosis(tuple(ranked), table.source, size)


def examine_part(table: LogTable) -> tuple[Finding, ...]:
    """Findings of the first part on steps, flags and labels; errors are for whoever reads all parts."""
    _, spoiled = unmet(table)
    findings = findings_of(ON_THE_TABLE, Case(table), table, spoiled)
    seen = f"In the first {table.n_rows:,} rows: "
    return tuple(replace(f, problem=seen + f.problem) for f in findings if f.severity != "error")


# --- Mend

REWRITTEN: dict[str, tuple[str, Callable[[FloatArray], FloatArray]]] = {
    "DW403": ("logarithms were turned into probabilities", np.exp),
    "DW413": ("logarithms were turned into probabilities", np.exp),
    "DW404": ("percentages were divided by 100", lambda values: values / 100),
    "DW414": ("percentages were divided by 100", lambda values: values / 100),
}
UNUSABLE = ("DW401", "DW402", "DW405", "DW406")
TWICE, AS_TEXT, OPEN = "DW202", "DW336", "DW317"
NUMBERS = ("reward", "behaviour_prob", "target_prob", "duration")
SAID = {
    "cut": "open episodes were cut at their last rows, with rewards of 0",
    "drop": "rows of open episodes were left out",
    "zero": "rewards of open episodes became 0",
}
MENDED = (*REWRITTEN, *UNUSABLE, TWICE, AS_TEXT, OPEN, "DW305", "DW306", "DW223", "DW248")
METADATA = b"deadweight.changes"


@dataclass(frozen=True)
class Change:
    """One thing that was changed: the finding that it answers, the column, how many rows, and in words."""

    code: str
    column: str
    rows: int
    what: str

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Mended:
    """An Arrow table with our names of columns, what was changed in it, and what the doctor says of it."""

    table: Any
    changes: tuple[Change, ...]
    diagnosis: Diagnosis


def mend(table: LogTable, time_limit: TimeLimit = "infer") -> Mended:
    """The table with what the user lets us change in it, mended; `time_limit` as for `deadweight.read`."""
    columns, written = _as_numbers(table)
    findings = {finding.code: finding for finding in examine(table, None, time_limit)}
    changes = [*_called(table), *_as_said(table), *written, *_usable(columns, findings, table.n_rows)]
    # Features and probabilities of each action keep the user's names; inside they have keys of their own.
    rows = pa.table({table.names[ours] if ":" in ours else ours: column for ours, column in columns.items()})
    features = [table.names[ours] for ours in table.names if ours.startswith(FEATURE)] or None
    if TWICE in findings:
        keep = np.setdiff1d(np.arange(table.n_rows), findings[TWICE].all_rows)
        rows = rows.take(keep)
        changes.append(Change(TWICE, "", findings[TWICE].count, "rows equal to another were removed"))
    return _with_ends(rows, features, changes, time_limit, table.mending.open_episodes)


def _called(table: LogTable) -> list[Change]:
    """The changes of names, and the columns that are left out."""
    names = {ours: theirs for ours, theirs in table.names.items() if ours != theirs and ":" not in ours}
    changes = [Change("", ours, table.n_rows, f"was called {show(name)}") for ours, name in names.items()]
    if table.unused:
        shown = ", ".join(show(name) for name in table.unused)
        changes.append(Change("", "", 0, f"columns that a log has no use for were left out: {shown}"))
    return changes


def _as_numbers(table: LogTable) -> tuple[dict[str, Any], list[Change]]:
    """The columns by our names, with blank rewards filled and text written as numbers; and the latter."""
    columns = {ours: table.arrow(ours) for ours in table.names}
    changes = []
    fill, value = _to_fill(table), table.mending.fill_reward
    if value is not None and fill.any() and not table.numbers("reward").unreadable.any():
        filled = np.where(fill, value, table.numbers("reward").values)
        columns["reward"] = pa.array(filled, pa.float64(), from_pandas=True)
    for name in NUMBERS:
        if table.has(name) and table.numbers(name).from_text and not table.numbers(name).unreadable.any():
            columns[name] = pa.array(read_numbers(columns[name]).values, from_pandas=True)
            changes.append(Change(AS_TEXT, name, table.n_rows, "text was written as numbers"))
    return columns, changes


def _usable(columns: dict[str, Any], findings: Mapping[str, Finding], n_rows: int) -> list[Change]:
    """Rewrite in `columns` the probabilities that findings are about, or leave them out; the changes."""
    changes = []
    for code, (what, rewrite) in REWRITTEN.items():
        if code in findings:
            name = "behaviour_prob" if code < "DW410" else "target_prob"
            columns[name] = pa.array(rewrite(read_numbers(columns[name]).values))
            changes.append(Change(code, name, n_rows, what))
    for code in UNUSABLE:
        if code in findings and columns.pop("behaviour_prob", None) is not None:
            what = "the column was left out: it cannot be used; evaluate with --behaviour counts"
            changes.append(Change(code, "behaviour_prob", findings[code].count, what))
    return changes


def _to_fill(table: LogTable) -> BoolArray:
    """(rows,) blank rewards that are filled; open episodes stay blank until it is known how others end."""
    missing = table.numbers("reward").missing
    if table.mending.fill_reward is None or missing.all():
        return np.zeros(table.n_rows, dtype=bool)
    if table.mending.open_episodes is not None:
        return missing & ~table.is_open
    filled = missing.copy()
    filled[table.unsaid_rows] = False
    return filled


def _as_said(table: LogTable) -> list[Change]:
    """The changes that the user asked for, with the number of rows that each concerned."""
    said, changes = table.mending, []
    if said.open_episodes is not None:
        changes.append(Change(OPEN, "reward", int(table.is_open.sum()), SAID[said.open_episodes]))
    if said.fill_reward is not None:
        filled = int(_to_fill(table).sum())
        changes.append(Change("DW305", "reward", filled, f"blank rewards became {said.fill_reward:g}"))
    if said.time_format is not None:
        changes.append(Change("DW306", "step", table.n_rows, f"dates were read as {said.time_format}"))
    return [change for change in changes if change.rows]


def _with_ends(
    rows: Any,
    features: list[str] | None,
    changes: list[Change],
    time_limit: TimeLimit,
    open_episodes: OpenEpisodes | None,
) -> Mended:
    """The table in the order of its episodes, with a column that says how they end, examined again."""
    table = open_table(rows, features=features, mending=Mending(open_episodes=open_episodes))
    diagnosis = examine(table, None, time_limit)
    if not diagnosis.ok:
        return Mended(rows, tuple(change for change in changes if change.code != OPEN), diagnosis)
    if table.is_open.any():
        rows = replaced(rows, "reward", pa.array(table.rewards))
    if table.says_ends:
        rows = _flagged(rows, table)
    else:
        log = Case(table, None, time_limit).log
        cut = np.zeros(table.n_rows, dtype=bool)
        cut[table.last_rows] = ~log.terminated
        rows = rows.append_column("truncated", pa.array(cut))
        n_cut = int((table.terminated & ~log.terminated).sum())
        what = f"added: {how_many(n_cut, 'episode')} of {log.n_episodes:,} cut at a time limit"
        changes.append(Change("DW248" if n_cut else "", "truncated", n_cut, what))
    rows = rows.take(table.order)
    if table.steps.are_times:
        number = np.arange(len(table.order)) - np.repeat(table.offsets[:-1], np.diff(table.offsets))
        rows = replaced(rows, "step", pa.array(number))
        changes.append(Change("DW223", "step", len(number), "times became numbers in their order, from 0"))
    return Mended(rows, tuple(changes), examine(open_table(rows, features=features), None, time_limit))


def _flagged(rows: Any, table: LogTable) -> Any:
    """The table whose flags say of open episodes that they were cut, if they were."""
    cut = table.last_rows[table.flagged_ends & ~table.terminated]
    for name in FLAGS:
        if table.has(name) and cut.size:
            flags = table.flags(name)
            values, missing = flags.values.copy(), flags.missing.copy()
            values[cut], missing[cut] = name == "truncated", False
            rows = replaced(rows, name, pa.array(values, mask=missing))
    return rows
