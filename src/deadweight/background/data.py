"""The data card of a report: what was logged, and what is known about the two policies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.background.old_policy_rows import OldPolicyRow, old_policy_rows
from deadweight.background.one_pass import LogSums
from deadweight.diagnostics.support import support_of
from deadweight.question.core import Question
from deadweight.results.saved import saved

QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@saved
@dataclass(frozen=True)
class DataCard:
    """Facts about a log.

    Attributes:
      lengths, returns: minimum, quartiles and maximum over the episodes.
      visited_states: of the `states` that log and policies know.
      truncated_share: share of the episodes that were cut.
      rewards: smallest and largest.
      old_policies: where several have made the log.
      unseen_mass: mean probability that pi_e gives, in the visited states, to actions never logged there;
        None where pi_e is known for logged actions only, or states have no labels.
      features: names of what describes the states; none where labels do.
    """

    episodes: int
    steps: int
    lengths: list[float]
    states: int
    visited_states: int
    actions: int
    truncated_share: float
    rewards: tuple[float, float]
    returns: list[float]
    mean_return: float
    unseen_mass: float | None
    behaviour_logged: bool
    evaluation_logged: bool
    features: tuple[str, ...] = ()
    old_policies: tuple[OldPolicyRow, ...] = ()


def data_card(question: Question, sums: LogSums) -> DataCard:
    """The card of the log that a question is about."""
    pair, episodes, labelled = question.pair, sums.episodes, question.parts.has_states
    return DataCard(
        episodes=question.n,
        steps=int(episodes.lengths.sum()),
        lengths=np.quantile(episodes.lengths, QUARTILES).tolist(),
        states=pair.n_states if labelled else 0,
        visited_states=int((question.visits > 0).sum()) if labelled else 0,
        actions=pair.n_actions,
        truncated_share=1 - question.terminated / question.n,
        rewards=(episodes.lowest, episodes.highest),
        returns=np.quantile(episodes.returns, QUARTILES).tolist(),
        mean_return=float(episodes.returns.mean()),
        unseen_mass=support_of(question).unseen_mass if pair.pi_e is not None and labelled else None,
        behaviour_logged=pair.pi_b is None,
        evaluation_logged=pair.pi_e is None,
        features=() if labelled else question.parts[0].feature_names,
        old_policies=old_policy_rows(question),
    )
