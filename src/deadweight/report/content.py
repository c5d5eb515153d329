"""Content: what a report shows, as plain values. How it looks is the business of charts and sections."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any

from deadweight._version import __version__
from deadweight.diagnostics.background import DataCard, StatesContent, WeightsContent
from deadweight.diagnostics.features import FeaturesContent
from deadweight.diagnostics.headline_path import PathContent
from deadweight.results.estimate import About, Blend, Estimate
from deadweight.results.evaluation import Evaluation, Verdict

# --------------------------------------------------------------------------------------------------------
# The estimates of a report: one row each, plain and state-based ones of a family together.


@dataclass(frozen=True)
class EstimateRow:
    """What a report says about one estimate.

    Attributes:
      about, name: the estimator; `words` says what it is.
      kind: "baseline", "mix", "plain", "state-based" or "corrected".
      family: the plain estimator that it belongs to.
      naive: the average return of the log.
      value: the estimate; `centre` is that of its interval.
      lower, upper, sampling_error, bias_allowance: of the interval; None where none was asked for.
      by_sampling: ends of the part of the interval that is sampling error.
      ess_words: what stands in place of the effective sample size where no ratio is left.
      dropped_share: share of the logged steps that are dropped.
      blend: of a mix, what it is made of.
    """

    about: About
    name: str
    words: str
    kind: str
    family: str
    naive: bool
    value: float
    centre: float
    lower: float | None
    upper: float | None
    by_sampling: tuple[float, float] | None
    sampling_error: float | None
    bias_allowance: float | None
    ess: float | None
    ess_words: str | None
    dropped_share: float
    flags: tuple[str, ...]
    blend: Blend | None


def estimate_rows(evaluation: Evaluation) -> list[EstimateRow]:
    """Baselines first, then the families in the order of the evaluation, plain before state-based."""
    rows = [_row(estimate) for estimate in evaluation.estimates.values()]
    families = list(dict.fromkeys(row.family for row in rows))
    kinds = ("baseline", "mix", "plain", "state-based", "corrected")
    return sorted(
        rows, key=lambda row: (row.kind != "baseline", families.index(row.family), kinds.index(row.kind))
    )


def _row(estimate: Estimate) -> EstimateRow:
    about = estimate.about
    lower, upper = estimate.interval or (None, None)
    return EstimateRow(
        about=about,
        name=about.name,
        words=about.words,
        kind=about.kind,
        family=about.family,
        naive=about.naive,
        value=estimate.value,
        centre=estimate.centre,
        lower=lower,
        upper=upper,
        by_sampling=None if estimate.bounds is None else estimate.bounds.by_sampling,
        sampling_error=estimate.sampling_error,
        bias_allowance=estimate.bias_allowance,
        ess=estimate.ess,
        ess_words=estimate.ess_words,
        dropped_share=estimate.dropped_share,
        flags=estimate.flags,
        blend=estimate.blend,
    )


# --------------------------------------------------------------------------------------------------------


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


__all__ = ["Content", "gather"]
