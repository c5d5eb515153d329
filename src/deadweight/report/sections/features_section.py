"""Features: which steps are dropped, in words; where actions matter; whether the old policy is right."""

from __future__ import annotations

from deadweight.background.feature_words import FeaturesContent, Piece
from deadweight.report.charts.calibration_chart import calibration_chart
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import count, share, significant, values_like
from deadweight.report.sections.pieces import figure, note, row, section, table

GAPS = ("Range", "Steps", "Mean Q gap", "Dropped")
ALONE = "If it alone changed"
MOST_Z = 3.0


def features_section(features: FeaturesContent) -> Markup:
    """What stands in place of the list of states where states have no labels."""
    return section(
        "states",
        "States",
        element("p", str(features)),
        _where_it_matters(features),
        _calibrated(features),
    )


def _where_it_matters(features: FeaturesContent) -> list[Markup]:
    """The gap along the features that explain most of it."""
    if not features.gaps:
        return []
    words = (
        "Q gap: the most that one action can matter at a step, in the model. Ranges hold about as many "
        "steps each; the features that explain most of the gap come first. " + _dependence(features)
    )
    tables = [_gap_table(name, explained, pieces) for name, explained, pieces in features.gaps]
    return [element("h3", "Where it matters what is done, by feature"), note(words), *tables]


def _gap_table(name: str, explained: float, pieces: list[Piece]) -> Markup:
    rows = []
    form = values_like(max(piece.gap for piece in pieces))
    for piece in pieces:
        cells = [count(piece.steps), form(piece.gap), share(piece.dropped)]
        cells += [] if piece.alone is None else [form(piece.alone)]
        rows.append(row(f"{significant(piece.low)} to {significant(piece.high)}", cells))
    heads = GAPS if pieces[0].alone is None else (*GAPS, ALONE)
    return table(f"{name}: explains {share(explained)} of the gap's variance", heads, [rows])


def _dependence(features: FeaturesContent) -> str:
    """What the last column says, where the model can be asked."""
    if not features.gaps or features.gaps[0][2][0].alone is None:
        return ""
    return (
        f'"{ALONE}": the mean gap of all steps if this one feature had the median of the range and the '
        "others were what they are (partial dependence). Where it goes another way than the mean gap, "
        "features that change along with this one are behind the mean."
    )


def _calibrated(features: FeaturesContent) -> list[Markup]:
    """The picture of predicted against observed shares of actions, and what z says."""
    wrong = abs(features.z) > MOST_Z
    said = (
        f"Ratios of the right old policy have mean 1. Here their mean is {abs(features.z):.1f} standard "
        f"errors {'above' if features.z > 0 else 'below'} that"
        + (
            ": the probabilities of the old policy are wrong, and so are all weights."
            if wrong
            else ", which may be chance."
        )
    )
    parts = [element("h3", "Are the probabilities of the old policy right?"), element("p", said)]
    if features.calibration:
        parts.append(
            figure(
                calibration_chart(features.calibration),
                "Each mark is an action in a tenth of the steps, with two standard errors. Right "
                "probabilities lie on the line.",
            )
        )
    return parts
