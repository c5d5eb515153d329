"""Evidence: the estimates that BLEND mixes, with the covariance of their full influences.

Two passes over the log: one for the sums of all estimates and of their starts, one for the influences. What a
question has computed already (model, values, the drop of WDRSIS) is used again.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from deadweight.answers.plans import Answers, Plan
from deadweight.basics.arithmetic import divide, sums_by
from deadweight.blend.mixing import CROSS_FITTED, Evidence
from deadweight.estimators.base import Fit
from deadweight.estimators.builders import doubly_robust_by
from deadweight.estimators.full_influence import Influence, Together, full_influence, starts_of
from deadweight.estimators.names import BUILT_IN
from deadweight.estimators.product import ProductFamily
from deadweight.estimators.starts import StartFamily
from deadweight.estimators.windowed import ModelSteps, windowed
from deadweight.question.core import MOST_VALUES, Question, Values
from deadweight.question.drops import NOTHING_DROPPED, Drop
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Field
from deadweight.sums.reduction import reduce_log
from deadweight.sums.running import Running
from deadweight.sums.summaries import CoMoments, Kish
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray

FOLDS = 5
LONGEST_WINDOW = 3


@dataclass(frozen=True, eq=False)
class _Piece:
    """A self-normalised estimate with its starts."""

    name: str
    family: ProductFamily
    values: Values[Field]
    shape: tuple[int, int]

    @cached_property
    def starts(self) -> StartFamily | None:
        return starts_of(self.family, self.values, self.shape)


def gather(question: Question, drop: Drop, answers: Answers | None = None) -> Evidence:
    """All estimates of a question that a blend needs.

    Args:
      question: with pi_e of all actions, and a model that can be solved.
      drop: of WDRSIS.
      answers: sums that are there already are not made again.
    """
    return _Gatherer(question, drop, answers or Answers(question, ())).evidence()


class _Gatherer:
    def __init__(self, question: Question, drop: Drop, answers: Answers) -> None:
        self.question, self.answers = question, answers
        self.plans = {
            name: Plan(question, BUILT_IN[name], drop if name == "WDRSIS" else NOTHING_DROPPED)
            for name in ("WDR", "WDRSIS", "DM", "BEHAVIOUR", "WPDIS", "WIS")
        }
        self.steps = ModelSteps(question)
        self.surprise = Surprise(self.steps)
        self.sizes = WindowSizes(question, self.steps, LONGEST_WINDOW)

    def evidence(self) -> Evidence:
        question, answers = self.question, self.answers
        pieces = self._pieces()
        wanted: list[Any] = [plan.family for plan in self.plans.values()]
        wanted += [self.plans["WDR"].starts, self.plans["WDRSIS"].starts, self.surprise, self.sizes]
        for piece in pieces:
            wanted += [piece.family, piece.starts]
        weightings = [self.plans[name].weighting for name in ("WDR", "WDRSIS")]
        answers.sum([one for one in wanted if one is not None], weightings)
        found: dict[str, tuple[float, Influence]] = {}
        for name, plan in self.plans.items():
            found[name] = answers.fit(plan).value, answers.influence(plan)
        for piece in pieces:
            fit, influence = self._finished(piece)
            value = fit.value
            if piece.name.startswith("WIN"):
                value += found["DM"][0]
                influence = Together((influence, found["DM"][1]))
            found[piece.name] = value, influence
        influences = [influence for _, influence in found.values()]
        joint: CoMoments = reduce_log(question.parts, partial(_joint, influences), question.workers)[0]
        return Evidence(
            tuple(found),
            np.array([value for value, _ in found.values()]),
            joint.covariance_of_means,
            question.n,
            answers.ess(self.plans["WDR"]) or 0.0,
            answers.ess(self.plans["WDRSIS"]) or 0.0,
            self._windowed_size(),
            unseen_variance=self._unseen_variance(),
            shared_bias=self._shared_bias(found["DM"][0]),
        )

    @cached_property
    def _cross_fitted(self) -> Values[Field] | None:
        """Values of models that have not seen the episodes that they serve; None where there are none."""
        question = self.question
        size = FOLDS * question.values.q.values.size
        if question.options.model is not None or question.n < FOLDS or size > MOST_VALUES:
            return None
        return question.cross_fitted(FOLDS)

    def _pieces(self) -> list[_Piece]:
        question, values = self.question, self._cross_fitted
        shape = (question.pair.n_states, question.pair.n_actions)
        pieces = [
            _Piece(f"WIN{window}", windowed(question, self.steps, window), question.values, shape)
            for window in (LONGEST_WINDOW, 2)
        ]
        if values is not None:
            for name, plan in zip(CROSS_FITTED, ("WDR", "WDRSIS"), strict=True):
                family = doubly_robust_by(question, self.plans[plan].weighting, values)
                pieces.append(_Piece(name, family, values, shape))
        return pieces

    def _finished(self, piece: _Piece) -> tuple[Fit, Influence]:
        sums = self.answers.found(piece.family)
        fit = piece.family.finish(sums, weighted=True)
        own, starts = fit.influence, piece.starts
        assert own is not None  # they are all self-normalised
        if starts is None:
            return fit, own
        with_sums = (starts, self.answers.found(starts))
        return fit, full_influence(own, sums, True, with_sums, piece.values.fits)

    def _windowed_size(self) -> float:
        """Effective episodes of the longest window, on average over the steps that pi_e reaches."""
        ess, alive = self.answers.found(self.sizes).ess, self.steps.alive
        return float(ess @ alive[: len(ess)] / alive.sum())

    def _unseen_variance(self) -> float:
        r"""sum (occ_e(s) pi_e(a|s) / (n(s,a) + 1))^2 g^2(s): what pairs that were hardly seen could do."""
        question = self.question
        if question.options.model is not None:
            return 0.0
        sums: SquaresByState = self.answers.found(self.surprise)
        overall = divide(sums.squares.sum(), sums.visits.sum())
        squares = (sums.squares + overall) / (sums.visits + 1.0)
        reached = self.steps.occupancy(question)[:, None] * self.steps.pi_e
        return float((np.square(reached / (question.counts.visits() + 1.0)).sum(axis=1) * squares).sum())

    def _shared_bias(self, direct: float) -> float:
        """The jackknife's estimate of the bias of DM, from leaving out one fold after the other."""
        values = self._cross_fitted
        if values is None:
            return 0.0
        without = [float(fitted.model.d0 @ fitted.v[0]) for fitted in values.fits]
        return (FOLDS - 1) * (float(np.mean(without)) - direct)


@dataclass(frozen=True, eq=False)
class SquaresByState:
    """Squared errors of the model's state values, and steps, by state; merges."""

    squares: FloatArray  # (S,)
    visits: FloatArray  # (S,)

    def merge(self, other: SquaresByState) -> SquaresByState:
        """Both together."""
        return SquaresByState(self.squares + other.squares, self.visits + other.visits)


class Surprise:
    """The squares of r + gamma V_{t+1}(s') - V_t(s) by state."""

    def __init__(self, steps: ModelSteps) -> None:
        self.steps = steps

    @property
    def key(self) -> Hashable:
        """One for each model."""
        return ("surprise", self.steps)

    def summarise(self, block: Block) -> SquaresByState:
        """Of the steps of a block whose successor is known."""
        steps, size = self.steps, self.steps.v.shape[1] - 1
        errors = steps.errors(block)
        known = errors.known
        t, s = block.times[known], block.states[known]
        found = errors.delta[known] + steps.q[t, s, block.actions[known]] - steps.v[t, s]
        return SquaresByState(sums_by(s, np.square(found), size), sums_by(s, size=size))


class WindowSizes:
    """Effective sample sizes of windowed weights, step by step."""

    def __init__(self, question: Question, steps: ModelSteps, window: int) -> None:
        self.weighting, self.steps, self.window = Weighting(question.pair), steps, window

    @property
    def key(self) -> Hashable:
        """One for each model and window."""
        return ("window-sizes", self.steps, self.window)

    def summarise(self, block: Block) -> Kish:
        """Of the steps of a block whose successor is known."""
        weights = self.steps.weights(self.weighting.on(block), self.window)
        return Kish.of(Running(weights), self.steps.errors(block).known)


def _joint(influences: list[Influence], block: Block) -> list[CoMoments]:
    return [CoMoments.of(np.stack([influence(block) for influence in influences]))]
