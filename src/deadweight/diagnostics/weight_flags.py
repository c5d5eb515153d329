"""Flags about weights and rewards: heavy tails, a mean that is not 1, infinite variance, late rewards.

`watched` says what is to be summed of the log for them, in a pass that is made anyway; `weight_flags` and
`flags_of_full_weights` read those sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deadweight.answers.answering import Answers
from deadweight.answers.plans import FEW_EPISODES, Plan
from deadweight.blend.mixing import WHOLE_WEIGHTS
from deadweight.diagnostics.infinite_variance import has_infinite_variance
from deadweight.diagnostics.mean_weight import FAR_FROM_ONE, mean_weight_z
from deadweight.diagnostics.pareto import LargestWeights
from deadweight.estimators.family import Summed
from deadweight.estimators.names import PER_DECISION
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED, Drop
from deadweight.question.ratio_check import InverseProbabilities
from deadweight.sums.reward_timing import RewardTiming
from deadweight.sums.weighting import Weighting

# Share of a mix below which the flags of one of its parts do not concern it.
SMALL_SHARE = 0.01


def watched(question: Question, plans: Iterable[Plan]) -> list[Summed]:
    """What the flags of these plans need to be summed."""
    weighted = [plan for plan in plans if plan.estimator.is_product]
    found: list[Summed] = [LargestWeights(plan.weighting, question.n) for plan in weighted]
    if question.pair.pi_b is None and question.parts.has_states:
        found.append(InverseProbabilities(question.pair.n_actions))
    if any(_is_per_decision(plan) for plan in weighted):
        found.append(RewardTiming())
    return found


def weight_flags(answers: Answers, plan: Plan) -> list[str]:
    """Flags of an estimate that rests on products of ratios; none for others."""
    if not plan.estimator.is_product:
        return []
    question = answers.question
    answers.sum(watched(question, [plan]))
    found = _flags_of(answers, plan.weighting, plan.drop)
    if _is_per_decision(plan) and answers.found(RewardTiming()).is_late:
        found.append("late-reward")
    if plan.weighting.drop is not None and undropped_size(answers) < FEW_EPISODES:
        found.append("low-ess-undropped")
    return found


def flags_of_full_weights(answers: Answers, shares: Mapping[str, float]) -> list[str]:
    """Flags of a mix: those of the full weights where they have a share in it."""
    share = sum(shares.get(name, 0.0) for name in WHOLE_WEIGHTS)
    weighting = NOTHING_DROPPED.weighting(answers.question.pair)
    found = _flags_of(answers, weighting, NOTHING_DROPPED) if share >= SMALL_SHARE else []
    return [*found, "low-ess-undropped"] if undropped_size(answers) < FEW_EPISODES else found


def undropped_size(answers: Answers) -> float:
    """Effective episodes with all ratios kept."""
    return answers.size_of(NOTHING_DROPPED.weighting(answers.question.pair))


def _flags_of(answers: Answers, weighting: Weighting, drop: Drop) -> list[str]:
    question = answers.question
    largest = LargestWeights(weighting, question.n)
    answers.sum([largest], [weighting])
    found = []
    if answers.found(largest).is_heavy:
        found.append("heavy-tail")
    z = mean_weight_z(answers, weighting)
    if z is not None and abs(z) > FAR_FROM_ONE:
        found.append("mean-weight")
    if _diverges(question, drop):
        found.append("infinite-variance")
    return found


def _diverges(question: Question, drop: Drop) -> bool:
    """Whether the weights have infinite variance, as far as a table of states can tell."""
    if drop.steps is not None or not (question.can_solve_model and question.parts.has_states):
        return False
    return has_infinite_variance(question, drop.mask(question.pair.n_states))


def _is_per_decision(plan: Plan) -> bool:
    return plan.estimator.scheme == PER_DECISION
