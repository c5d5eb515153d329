"""Per-episode quantities in the order of the log: whole weights and returns, and influence functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.plans import Compute, Plan
from deadweight.errors import DataError
from deadweight.question.core import Question
from deadweight.sums import reduction
from deadweight.sums.blocks import Block, discounted_sum
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray, IntArray


def first_episodes(question: Question) -> IntArray:
    """(parts,) the number, in the whole log, of each part's first episode."""
    return np.cumsum([0, *question.sizes[:-1]])


def per_episode(question: Question, compute: Compute) -> FloatArray:
    """compute(block), (m,) or (k, m), of all episodes in the order of the log.

    On a stored log `compute` travels to other processes: a named function or an object, not a closure.
    """
    return reduction.per_episode(question.parts, compute, question.workers)


@dataclass(frozen=True, eq=False)
class WholeEpisodes:
    """log B_i (-inf where B_i = 0) and G_i of every episode, (n,) each."""

    log_weights: FloatArray
    returns: FloatArray

    def above(self, lowest: float) -> FloatArray:
        """(n,) log of B (G - lowest)."""
        with np.errstate(divide="ignore"):
            return self.log_weights + np.log(np.maximum(self.returns - lowest, 0.0))

    def below(self, highest: float) -> FloatArray:
        """(n,) log of B (highest - G)."""
        with np.errstate(divide="ignore"):
            return self.log_weights + np.log(np.maximum(highest - self.returns, 0.0))


def whole_episodes(plan: Plan) -> WholeEpisodes:
    """Whole-episode weights with the plan's drop, and returns; BEHAVIOUR weighs every episode by one."""
    weighting = None if plan.estimator.is_naive else plan.weighting
    compute = partial(_weights_and_returns, weighting, plan.question.gamma)
    return WholeEpisodes(*per_episode(plan.question, compute))


def _weights_and_returns(weighting: Weighting | None, gamma: float, block: Block) -> FloatArray:
    """(2, m) logarithms of the whole weights, and returns."""
    if weighting is None:
        return np.stack([np.zeros(block.n), block.returns(gamma)])
    return np.stack([weighting.on(block).running.last.logs()[:, 0], block.returns(gamma)])


def check_returns(returns: FloatArray, lowest: float, highest: float, first: int = 0) -> None:
    """Refuse a range that an observed return leaves; `first` is the number of the first episode."""
    slack = 1e-9 * max(abs(lowest), abs(highest), highest - lowest)
    outside = np.flatnonzero((returns < lowest - slack) | (returns > highest + slack))
    if outside.size:
        episode = int(outside[0])
        raise DataError(
            f"The return of episode {first + episode} is {returns[episode]:.6g}, outside "
            f"return_range=({lowest:g}, {highest:g})"
            + (f"; {outside.size - 1} more episodes are outside." if outside.size > 1 else "."),
            fix="Widen return_range to all returns that an episode can have, discounted as the estimate is.",
        )


def check_range(question: Question) -> None:
    """Refuse a range of possible returns that a logged one leaves; nothing where none was given."""
    possible = question.options.return_range
    if possible is not None:
        check_returns(per_episode(question, partial(logged_returns, question.gamma)), *possible)


def logged_returns(gamma: float, block: Block) -> FloatArray:
    """(m,) discounted returns as they were logged, whatever a row stands for."""
    if block.standing is None:
        return block.returns(gamma)
    return discounted_sum(block.rewards / block.standing[0], gamma)


def influences(answers: Answers, plan: Plan) -> FloatArray:
    """(n,) influence of each episode on the estimate, centred: the estimate is about truth + their mean."""
    return centred_influences(plan.question, answers.influence(plan))


def centred_influences(question: Question, influence: Compute) -> FloatArray:
    """(n,) values of an influence that is known up to a constant, so that their mean is zero."""
    values = per_episode(question, influence)
    with np.errstate(over="ignore", invalid="ignore"):
        centred: FloatArray = values - values.mean()
    return centred
