"""What a table must satisfy to be a log: the checks of severity "error", which `read` and the doctor share.

So what `read` refuses and what the doctor calls an error are the same by construction.
"""

from __future__ import annotations

from deadweight.io.findings import MOST_SHOWN, Check, Finding, Found, Severity
from deadweight.io.requirements import feature_values, probabilities, structure, values
from deadweight.io.table import LogTable

REQUIREMENTS: tuple[Check[LogTable], ...] = (*values.CHECKS, *structure.CHECKS, *probabilities.CHECKS)
OF_FEATURES: tuple[Check[LogTable], ...] = feature_values.CHECKS


def unmet(table: LogTable) -> tuple[list[Finding], set[str]]:
    """Findings of all checks whose columns are there and have no error yet, and the columns with errors."""
    findings, spoiled = [], set[str]()
    for check in (*REQUIREMENTS, *OF_FEATURES):
        if table.has(*check.needs) and spoiled.isdisjoint(check.needs):
            found = check.run(table)
            if found is not None:
                findings.append(finding(check.code, check.severity, check.title, found, table))
                spoiled.update(found.columns or check.needs)
    return findings, spoiled


def finding(code: str, severity: Severity, title: str, found: Found, table: LogTable) -> Finding:
    """What a check found, with the places of the first few rows."""
    rows = tuple(table.place(int(row)) for row in found.rows[:MOST_SHOWN])
    problem = (
        found.problem.replace("column ", "Column ", 1)
        if found.problem.startswith("column ")
        else found.problem
    )
    return Finding(code, severity, title, problem, found.fix, len(found.rows), rows, found.rows)
