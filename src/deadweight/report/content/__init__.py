"""Content: what a report shows, as plain values. How it looks is the business of charts and sections."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any

from deadweight._version import __version__
from deadweight.background.conventions import conventions
from deadweight.background.data import DataCard, data_card
from deadweight.background.path import PathContent, path_content
from deadweight.background.states import StatesContent, states_content
from deadweight.background.weights import WeightsContent, weights_content
from deadweight.evaluation import Evaluation
from deadweight.report.content.estimates import EstimateRow, estimate_rows
from deadweight.results import Estimate
from deadweight.verdict import Verdict

__all__ = ["Content", "gather"]

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Baseline:
    """What the verdict compares with."""

    name: str
    value: float


@dataclass(frozen=True)
class Content:
    """Everything that a report shows.

    `drop_rule` is the rule that the estimates drop by: "auto", another one, "given", or "None".
    `path` and `states` are None where the log cannot give them; `without_states` then says why.
    """

    title: str
    verdict: Verdict
    baseline: Baseline
    headline: EstimateRow
    estimates: list[EstimateRow]
    drop_rule: str
    path: PathContent | None
    weights: WeightsContent
    states: StatesContent | None
    without_states: str
    data: DataCard
    conventions: list[tuple[str, str]]
    confidence: float
    made_on: str
    version: str

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values."""
        return asdict(self)


def gather(evaluation: Evaluation, title: str | None = None, today: date | None = None) -> Content:
    """What a report on this evaluation shows.

    Args:
      evaluation: made by `evaluate`.
      title: heading of the report.
      today: date of the report; None takes the present one (UTC).
    """
    question, headline = evaluation.question, evaluation.headline
    made_on = datetime.now(UTC).date() if today is None else today
    confidence = headline.level if headline.interval is not None else CONFIDENCE
    all_actions = question.pair.pi_e is not None
    of_states = all_actions and headline.drop.steps is None
    rows = estimate_rows(evaluation)
    return Content(
        title=title or "Off-policy evaluation",
        verdict=evaluation.verdict,
        baseline=_baseline(evaluation),
        headline=next(row for row in rows if row.name == headline.name),
        estimates=rows,
        drop_rule=str(evaluation.conventions.get("drop")),
        path=path_content(question, confidence) if all_actions else None,
        weights=weights_content(question, headline.drop),
        states=states_content(question, headline.drop) if of_states else None,
        without_states=_why_not(all_actions),
        data=data_card(question),
        conventions=conventions(question, headline, made_on),
        confidence=confidence,
        made_on=made_on.isoformat(),
        version=__version__,
    )


def _baseline(evaluation: Evaluation) -> Baseline:
    given = evaluation.baseline
    return (
        Baseline("behaviour policy", given.value)
        if isinstance(given, Estimate)
        else Baseline("baseline", given)
    )


def _why_not(all_actions: bool) -> str:
    if all_actions:
        return "Single steps were dropped, not states: there is no list of states to show."
    return (
        "The log holds the evaluation policy for the actions taken only. What a state costs, and what "
        "happens when it is dropped, can be said when the policy is known for all actions."
    )
