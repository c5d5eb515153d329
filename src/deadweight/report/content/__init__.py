"""Content: what a report shows, as plain values. How it looks is the business of charts and sections."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any

from deadweight._version import __version__
from deadweight.background.data import DataCard
from deadweight.background.feature_words import FeaturesContent
from deadweight.background.headline_path import PathContent
from deadweight.background.state_costs import StatesContent
from deadweight.background.weights_after_dropping import WeightsContent
from deadweight.report.content.estimate_rows import EstimateRow, estimate_rows
from deadweight.results import Estimate, Verdict
from deadweight.results.evaluation import Evaluation

__all__ = ["Content", "gather"]


@dataclass(frozen=True)
class Baseline:
    """What the verdict compares with."""

    name: str
    value: float


@dataclass(frozen=True)
class Content:
    """Everything that a report shows.

    `drop_rule` is the rule that the estimates drop by: "auto", another one, "given", or "None".
    `truth` is the exact value of the new policy where somebody knows it.
    `path` and `states` are None where the log cannot give them; `without_states` then says why.
    """

    title: str
    reward: str | None
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
    truth: float | None = None
    features: FeaturesContent | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values."""
        return asdict(self)


def gather(
    evaluation: Evaluation,
    title: str | None = None,
    today: date | None = None,
    reward: str | None = None,
    truth: float | None = None,
) -> Content:
    """What a report on this evaluation shows.

    Args:
      evaluation: made by `evaluate`.
      title: heading of the report.
      reward: what the reward is, in words.
      truth: the exact value of the new policy, where it is known.
      today: date of the report; None takes the present one (UTC).
    """
    headline, background = evaluation.headline, evaluation.background
    made_on = datetime.now(UTC).date() if today is None else today
    rows = estimate_rows(evaluation)
    about = [("deadweight", __version__), ("Date", made_on.isoformat())]
    return Content(
        title=title or "Off-policy evaluation",
        reward=reward,
        verdict=evaluation.verdict,
        baseline=_baseline(evaluation),
        headline=next(row for row in rows if row.name == headline.name),
        estimates=rows,
        drop_rule=str(evaluation.conventions.get("drop")),
        path=background.path,
        weights=background.weights,
        states=background.states,
        without_states=background.without_states,
        data=background.data,
        conventions=[*background.conventions, *about],
        confidence=background.confidence,
        made_on=made_on.isoformat(),
        version=__version__,
        truth=truth,
        features=background.features,
    )


def _baseline(evaluation: Evaluation) -> Baseline:
    given = evaluation.baseline
    return Baseline("old policy", given.value) if isinstance(given, Estimate) else Baseline("baseline", given)
