"""The states of a report: what each costs in variance, and what dropping it costs in bias."""

from __future__ import annotations

from dataclasses import dataclass

from deadweight.diagnostics.state_report import state_report_of
from deadweight.log.labels import visible
from deadweight.question.core import Question
from deadweight.question.drops import Drop
from deadweight.results.saved import saved

MOST_STATES = 200


@saved
@dataclass(frozen=True)
class StateRow:
    """One visited state; see `deadweight.diagnostics.state_report.StateReport`."""

    label: str
    visits: int
    chi2: float
    variance_cost: float
    bias: float
    gap: float
    dropped: bool


@saved
@dataclass(frozen=True)
class StatesContent:
    """The states with the highest variance cost, how many are left out, and how many are dropped in all."""

    rows: list[StateRow]
    left_out: int
    n_dropped: int


def states_content(question: Question, drop: Drop) -> StatesContent:
    """The state report of a question with pi_e for all actions and a drop of states."""
    report = state_report_of(question, drop)
    rows = [
        StateRow(
            visible(row["state"]),
            row["visits"],
            row["chi2"],
            row["variance_cost"],
            row["bias"],
            row["gap"],
            row["dropped"],
        )
        for row in report.rows()[:MOST_STATES]
    ]
    return StatesContent(rows, max(0, len(report.labels) - MOST_STATES), int(report.dropped.sum()))
