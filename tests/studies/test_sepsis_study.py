"""The sepsis study: its tables from runs that are made up, and what it says where the table is missing."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest
from deadweight_studies import sepsis as sepsis_study
from deadweight_studies.problems import StudyProblem

from deadweight.domains import deterministic_lift
from deadweight.errors import MissingExtra


def made(value: float, half: float, verdict: str) -> dict[str, object]:
    row = [value, value - half, value + half]
    return {
        "rows": dict.fromkeys(sepsis_study.ROWS, row),
        "verdict": verdict,
        "null": "better",
        "infinite": True,
    }


def test_tables_count_what_runs_say() -> None:
    task = StudyProblem("lift", deterministic_lift(5), 10)
    truth = task.values[0]
    text = sepsis_study.tables(task, [made(truth + 0.3, 0.1, "wrong"), made(truth - 0.4, 0.5, "right")])
    assert "| BLEND | 1 of 2 | 0.600 | 1.000 | 0.3536 |" in text
    assert "| BEHAVIOUR |  |" in text
    assert "| verdicts: right, cannot tell, wrong | 1, 0, 1 |" in text
    assert "| logs with the flag infinite-variance on WPDIS | 2 |" in text


def test_a_table_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise PackageNotFoundError

    monkeypatch.setattr(sepsis_study, "sepsis", missing)
    sepsis_study.cell.cache_clear()
    with pytest.raises(MissingExtra, match="sepsis study"):
        sepsis_study.cell()
