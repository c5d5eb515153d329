"""The old policies of a report: what each has made of the log, and how much of it the new policy can use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deadweight.inference.per_episode import per_episode
from deadweight.question.core import Question
from deadweight.results.saved import saved
from deadweight.sums.blocks import Block
from deadweight.sums.old_policies import ids_of, members_of
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray


@saved
@dataclass(frozen=True)
class OldPolicyRow:
    """One of several old policies.

    Attributes:
      id: its label.
      episodes, share, mean_return: of the log.
      ess: effective episodes among its own, with all weights kept.
      drift: how the world that it met differs from that of the others, in words; empty where nothing was
        found.
    """

    id: Any
    episodes: int
    share: float
    mean_return: float
    ess: float
    drift: str


def old_policy_rows(question: Question) -> tuple[OldPolicyRow, ...]:
    """One for each old policy; none where there is one only, or the ids of a stored log are not read."""
    found = question.old_policies
    if len(found) < 2 or not question.parts.has_behaviour_ids:
        return ()
    ids = tuple(one.id for one in found)
    member, weights = per_episode(question, partial(_final_logs, Weighting(question.pair), ids))
    return tuple(
        OldPolicyRow(
            one.id,
            one.episodes,
            one.share,
            one.mean_return,
            _ess(weights[member == j]),
            one.drift if one.drifted else "",
        )
        for j, one in enumerate(found)
    )


def _final_logs(weighting: Weighting, ids: tuple[Any, ...], block: Block) -> FloatArray:
    """(2, m) the number of each episode's old policy, and the logarithm of its final weight."""
    return np.stack([members_of(ids_of(block), ids), weighting.on(block).running.last.logs()[:, 0]])


def _ess(logs: FloatArray) -> float:
    """Kish's effective sample size of weights given by their logarithms."""
    if not np.isfinite(logs).any():
        return 0.0
    weights = np.exp(logs - logs.max())
    return float(weights.sum() ** 2 / np.square(weights).sum())
