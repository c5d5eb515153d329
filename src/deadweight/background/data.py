"""The data card of a report: what was logged, and what is known about the two policies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.background.sums import LogSums
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
      unseen_mass: mean probability that pi_e gives, in the visited states, to actions never logged there;
        None where pi_e is known for logged actions only.
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


def data_card(question: Question, sums: LogSums) -> DataCard:
    """The card of the log that a question is about."""
    pair, episodes = question.pair, sums.episodes
    return DataCard(
        episodes=question.n,
        steps=int(episodes.lengths.sum()),
        lengths=np.quantile(episodes.lengths, QUARTILES).tolist(),
        states=pair.n_states,
        visited_states=int((question.visits > 0).sum()),
        actions=pair.n_actions,
        truncated_share=1 - question.terminated / question.n,
        rewards=(episodes.lowest, episodes.highest),
        returns=np.quantile(episodes.returns, QUARTILES).tolist(),
        mean_return=float(episodes.returns.mean()),
        unseen_mass=None if pair.pi_e is None else support_of(question).unseen_mass,
        behaviour_logged=pair.pi_b is None,
        evaluation_logged=pair.pi_e is None,
    )
