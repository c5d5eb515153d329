"""The estimates of a report: one row each, plain and state-based ones of a family together."""

from __future__ import annotations

from dataclasses import dataclass

from deadweight.results import About, Estimate
from deadweight.results.blend import Blend
from deadweight.results.evaluation import Evaluation


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
