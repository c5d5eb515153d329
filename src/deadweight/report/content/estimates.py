"""The estimates of a report: one row each, plain and state-based ones of a family together."""

from __future__ import annotations

from dataclasses import dataclass

from deadweight.estimators.names import recipe
from deadweight.evaluation import Evaluation
from deadweight.results import Estimate

BASELINES = {"BEHAVIOUR": "average return of the log", "DM": "fitted model alone"}
FAMILIES = {
    "IS": "whole-episode weights",
    "PDIS": "per-decision weights",
    "INCRIS": "incremental weights",
    "DR": "doubly robust",
    "SDRE": "state density ratio",
    "MIS": "marginalised weights",
    "TMIS": "marginalised, by table",
    "CIS": "conditional weights",
}


@dataclass(frozen=True)
class EstimateRow:
    """What a report says about one estimate.

    Attributes:
      name: the estimator; `words` says what it is.
      kind: "baseline", "plain", "state-based" or "corrected".
      family: the plain estimator that it belongs to.
      value: the estimate; `centre` is that of its interval.
      lower, upper, sampling_error, bias_allowance: of the interval; None where none was asked for.
      n_dropped: number of dropped states; `dropped_share` is that of the logged steps.
    """

    name: str
    words: str
    kind: str
    family: str
    value: float
    centre: float
    lower: float | None
    upper: float | None
    sampling_error: float | None
    bias_allowance: float | None
    ess: float | None
    bias: float | None
    n_dropped: int
    dropped_share: float
    flags: tuple[str, ...]


def estimate_rows(evaluation: Evaluation) -> list[EstimateRow]:
    """Baselines first, then the families in the order of the evaluation, plain before state-based."""
    rows = [_row(estimate) for estimate in evaluation.estimates.values()]
    families = list(dict.fromkeys(row.family for row in rows))
    kinds = ("baseline", "plain", "state-based", "corrected")
    return sorted(
        rows, key=lambda row: (row.kind != "baseline", families.index(row.family), kinds.index(row.kind))
    )


def plain_twin(name: str) -> str:
    """The plain estimator that a state-based one grew from.

    >>> [plain_twin(name) for name in ("WSIS", "C-WSPDIS", "WDRSIS", "SSDRE", "WPDIS")]
    ['WIS', 'WPDIS', 'WDR', 'SDRE', 'WPDIS']
    """
    if not recipe(name).state_based:
        return name
    base = name.removeprefix("C-")
    return base.removesuffix("SIS") if base.endswith("DRSIS") else base.replace("S", "", 1)


def _row(estimate: Estimate) -> EstimateRow:
    name, made = estimate.name, recipe(estimate.name)
    kind = "baseline" if name in BASELINES else "plain"
    if made.state_based:
        kind = "corrected" if made.corrected else "state-based"
    lower, upper = estimate.interval or (None, None)
    return EstimateRow(
        name=name,
        words=_words(name),
        kind=kind,
        family=plain_twin(name),
        value=estimate.value,
        centre=estimate.centre,
        lower=lower,
        upper=upper,
        sampling_error=estimate.sampling_error,
        bias_allowance=estimate.bias_allowance,
        ess=estimate.ess,
        bias=estimate.bias if made.state_based else None,
        n_dropped=len(estimate.dropped),
        dropped_share=estimate.dropped_share,
        flags=estimate.flags,
    )


def _words(name: str) -> str:
    if name in BASELINES:
        return BASELINES[name]
    made, family = recipe(name), plain_twin(name)
    words = [FAMILIES[family.removeprefix("W")]]
    if made.weighted:
        words.append("self-normalised")
    if made.state_based:
        words.append("states dropped")
    if made.corrected:
        words.append("bias corrected")
    return ", ".join(words)
