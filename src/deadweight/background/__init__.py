"""Background: what stands behind the numbers of an evaluation, as plain values that a report can show.

It is made with the evaluation, in one pass over the log beside those of the estimates and the path of
dropping, so that a report can be written where the log is no longer at hand. What grows with the number of
states or of steps is cut to what a page shows.
"""

from __future__ import annotations

from dataclasses import dataclass

from deadweight.background.conventions import conventions
from deadweight.background.data import DataCard, data_card
from deadweight.background.feature_words import FeaturesContent, features_content
from deadweight.background.headline_path import PathContent, path_content
from deadweight.background.one_pass import log_sums
from deadweight.background.state_costs import StatesContent, states_content
from deadweight.background.weights_after_dropping import WeightsContent, weights_content
from deadweight.question.core import Question
from deadweight.question.drops import Drop
from deadweight.results import Estimate
from deadweight.results.saved import saved

__all__ = ["Background", "background_of"]

CONFIDENCE = 0.95


@saved
@dataclass(frozen=True, eq=False)
class Background:
    """What a report shows beside the estimates and the verdict.

    `path` and `states` are None where the log cannot give them; `without_states` then says why.
    """

    data: DataCard
    weights: WeightsContent
    path: PathContent | None
    states: StatesContent | None
    without_states: str
    conventions: list[tuple[str, str]]
    confidence: float
    features: FeaturesContent | None = None


def background_of(question: Question, headline: Estimate, drop: Drop) -> Background:
    """The background of a table whose headline has this drop."""
    confidence = headline.level if headline.interval is not None else CONFIDENCE
    all_actions = question.has_values
    of_states = all_actions and question.parts.has_states and drop.steps is None
    sums = log_sums(question, drop)
    return Background(
        data=data_card(question, sums),
        weights=weights_content(question, sums),
        path=path_content(question, confidence) if all_actions else None,
        states=states_content(question, drop) if of_states else None,
        without_states=_why_not(all_actions, question.parts.has_states),
        conventions=conventions(question, headline, drop.origin),
        confidence=confidence,
        features=features_content(question),
    )


def _why_not(all_actions: bool, labelled: bool) -> str:
    if not labelled:
        return "The states of this log have no labels: there is no list of states to show."
    if all_actions:
        return "Single steps were dropped, not states: there is no list of states to show."
    return (
        "The log holds the evaluation policy for the actions taken only. What a state costs, and what "
        "happens when it is dropped, can be said when the policy is known for all actions."
    )
