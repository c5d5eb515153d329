"""The verbs: `estimate` for one estimator, `evaluate` for a table of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from deadweight.blocks import Block
from deadweight.drops import NOTHING_DROPPED, Drop, given_drop
from deadweight.errors import EstimationError
from deadweight.estimators.base import Family, Fit
from deadweight.estimators.names import Recipe, missing_advantage, recipe
from deadweight.estimators.product import normaliser_members
from deadweight.fold import fold
from deadweight.intervals import interval_maker
from deadweight.options import read_options
from deadweight.policies import TabularPolicy, pair_policies
from deadweight.question import Question
from deadweight.results import Estimate, Evaluation
from deadweight.summaries import Kish, Moments
from deadweight.trajectories import Trajectories
from deadweight.typing import FloatArray
from deadweight.weighting import Weighting

DEFAULT_TABLE = ("BEHAVIOUR", "DM", "WIS", "WSIS", "WPDIS", "WSPDIS", "C-WSPDIS", "WDR", "WDRSIS")
DEFAULT_WITHOUT_PI_E = ("BEHAVIOUR", "WIS", "WPDIS")
NEARLY_ALL = 0.95
FEW_EPISODES = 10.0

Policy = TabularPolicy | npt.ArrayLike | None


def estimate(
    name: str,
    log: Trajectories,
    pi_e: Policy = None,
    pi_b: Policy = None,
    *,
    drop: Any = "default",
    gamma: float = 1.0,
    interval: str | None = "auto",
    level: float = 0.95,
    workers: int = 1,
    **options: Any,
) -> Estimate:
    """The value of pi_e by one estimator.

    Args:
      name: such as "WPDIS" or "WSPDIS"; `deadweight.ESTIMATORS` lists them.
      log: episodes of the behaviour policy.
      pi_e: evaluation policy; None takes the log's target_prob.
      pi_b: behaviour policy; None takes the log's propensities.
      drop: what a state-based name drops; a plain name ignores it. See `deadweight.drops`.
      gamma: discount in (0, 1].
      interval: kind of confidence interval, or None.
      level: its confidence level.
      workers: threads; the result does not depend on it.
      **options: see `deadweight.options.Options`.

    Example:
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0)]])
      >>> estimate("WIS", log, [[0.25, 0.75]], [[0.5, 0.5]]).value
      2.5
    """
    question = Question([log], pair_policies(log, pi_e, pi_b), gamma, read_options(options), workers)
    return answer(question, [name], drop, interval, level)[name]


def evaluate(
    log: Trajectories,
    pi_e: Policy = None,
    pi_b: Policy = None,
    estimators: Sequence[str] | None = None,
    drop: Any = "auto",
    *,
    gamma: float = 1.0,
    interval: str | None = "auto",
    level: float = 0.95,
    workers: int = 1,
    **options: Any,
) -> Evaluation:
    """A table of estimates that share one model and one pass over the log.

    Args:
      estimators: names; None takes a sensible table with the naive average and the direct method in it.

    The other arguments are those of `estimate`.
    """
    question = Question([log], pair_policies(log, pi_e, pi_b), gamma, read_options(options), workers)
    default = DEFAULT_WITHOUT_PI_E if question.pair.pi_e is None else DEFAULT_TABLE
    names = list(default if estimators is None else estimators)
    conventions = {"finished": question.options.finished, "gamma": gamma, "unseen": question.options.unseen}
    return Evaluation(answer(question, names, drop, interval, level), conventions)


def answer(
    question: Question, names: Sequence[str], drop: Any, interval: str | None, level: float
) -> dict[str, Estimate]:
    """Estimates of several names: one fold for all sums, one more for their standard errors."""
    plans = [_plan(question, name, drop) for name in names]
    makers = [interval_maker(interval, level, plan.corrects_itself) for plan in plans]
    fits = _first_pass(question, plans)
    results = {
        plan.name: _dress(question, plan, fits, maker, level)
        for plan, maker in zip(plans, makers, strict=True)
    }
    if interval is not None:
        _second_pass(question, plans, fits)
        for result in results.values():
            result.settle()
    return results


@dataclass(frozen=True, eq=False)
class _Plan:
    """What one name needs: its family, and that of its bias."""

    name: str
    recipe: Recipe
    drop: Drop
    weighting: Weighting
    family: Family
    bias: Family | None

    @property
    def corrects_itself(self) -> bool:
        return self.recipe.corrected or self.recipe.contains_correction


class _Fits:
    """Sums of all families, and standard errors once they are known."""

    def __init__(self, question: Question, sums: dict[Hashable, Any]) -> None:
        self.question = question
        self.sums = sums
        self.std_errors: dict[str, float] = {}
        self.by_name: dict[str, Fit] = {}

    def fit(self, plan: _Plan) -> Fit:
        if plan.name not in self.by_name:
            self.by_name[plan.name] = plan.family.finish(self.sums[plan.family.key], plan.recipe.weighted)
        return self.by_name[plan.name]

    def bias(self, plan: _Plan) -> float | None:
        if plan.weighting.drop is None:
            return 0.0
        if plan.bias is None:
            return None
        # Estimators without products have no weights of their own: theirs is the self-normalised bias.
        weighted = plan.recipe.weighted or not plan.recipe.product
        return 0.0 - plan.bias.finish(self.sums[plan.bias.key], weighted).value

    def ess(self, plan: _Plan) -> float | None:
        return float(self.sums[_ess_key(plan)].ess[0]) if plan.recipe.product else None


def _plan(question: Question, name: str, drop: Any) -> _Plan:
    made = recipe(name)
    resolved = _resolve(question, name, drop) if made.state_based else NOTHING_DROPPED
    weighting = resolved.weighting(question.pair)
    bias = None
    if weighting.drop is not None and question.pair.pi_e is not None:
        bias = missing_advantage(question, weighting, made.whole_episode)
    return _Plan(name, made, resolved, weighting, made.build(question, weighting), bias)


def _resolve(question: Question, name: str, drop: Any) -> Drop:
    """The drop of a state-based name; without one it is the automatic choice."""
    if len(question.parts) == 1:
        return given_drop(None if isinstance(drop, str) else drop, question.pair, question.parts[0])
    raise EstimationError("A drop needs a log in one piece.")


def _ess_key(plan: _Plan) -> Hashable:
    return ("ess", plan.weighting.key)


def _first_pass(question: Question, plans: Sequence[_Plan]) -> _Fits:
    """One fold for the sums of all families."""
    families = {family.key: family for plan in plans for family in (plan.family, plan.bias) if family is not None}
    weightings = {_ess_key(plan): plan.weighting for plan in plans if plan.recipe.product}

    def summarise(block: Block) -> list[Any]:
        sums: list[Any] = [family.summarise(block) for family in families.values()]
        return sums + [Kish.of(weighting.running(block).last) for weighting in weightings.values()]

    sums = fold(question.parts, summarise, question.workers)
    return _Fits(question, dict(zip([*families, *weightings], sums, strict=True)))


def _second_pass(question: Question, plans: Sequence[_Plan], fits: _Fits) -> None:
    """One fold for the influence functions of all estimates that need it."""
    open_plans = [plan for plan in plans if fits.fit(plan).influence is not None and plan.name not in fits.std_errors]
    if not open_plans:
        return
    influences = [fits.fit(plan).influence for plan in open_plans]

    def summarise(block: Block) -> list[Moments]:
        return [Moments.of(influence(block)) for influence in influences if influence is not None]

    moments = fold(question.parts, summarise, question.workers)
    for plan, moment in zip(open_plans, moments, strict=True):
        fits.std_errors[plan.name] = moment.std_error


def _dress(question: Question, plan: _Plan, fits: _Fits, maker: Any, level: float) -> Estimate:
    """The estimate as the user sees it."""
    fit = fits.fit(plan)

    def std_error() -> float:
        _second_pass(question, [plan], fits)
        return fits.std_errors[plan.name]

    def ess_steps() -> FloatArray:
        def summarise(block: Block) -> list[Kish]:
            members = normaliser_members(block, question.options.finished)
            return [Kish.of(plan.weighting.running(block), members)]

        steps: Kish = fold(question.parts, summarise, question.workers)[0]
        return steps.ess

    ess = fits.ess(plan)
    share = _dropped_share(question, plan)
    return Estimate(
        plan.name,
        fit.value,
        n_episodes=question.n,
        std_error=std_error if fit.std_error is None else fit.std_error,
        make_interval=maker,
        level=level,
        ess=ess,
        ess_steps=ess_steps if plan.recipe.product else None,
        bias=fits.bias(plan),
        drop=plan.drop,
        dropped_share=share,
        flags=(*fit.flags, *_flags(question, plan, ess, share)),
        details=fit.details,
    )


def _dropped_share(question: Question, plan: _Plan) -> float:
    drop = plan.weighting.drop
    if drop is None:
        return 0.0
    if plan.weighting.per_step:
        return float(drop.mean())
    return float(question.visits[drop].sum() / question.visits.sum())


def _flags(question: Question, plan: _Plan, ess: float | None, share: float) -> list[str]:
    found = []
    if ess is not None and ess < FEW_EPISODES:
        found.append("low-ess")
    if plan.recipe.state_based and share >= NEARLY_ALL:
        found.append("all-dropped")
    if plan.recipe.state_based and share == 0.0:
        found.append("none-dropped")
    if question.terminated < question.n:
        found.append("truncated")
    if plan.name != "BEHAVIOUR" and _lacks_support(question):
        found.append("no-support")
    return found


def _lacks_support(question: Question) -> bool:
    """Whether pi_e acts in a visited state where pi_b never does."""
    pi_e, pi_b = question.pair.pi_e, question.pair.pi_b
    if pi_e is None or pi_b is None:
        return False
    states = ((pi_e > 0) & (pi_b == 0)).any(axis=1)
    return bool(states.any() and (question.visits[states] > 0).any())


