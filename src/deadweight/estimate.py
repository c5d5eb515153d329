"""The verbs: `estimate` for one estimator, `evaluate` for a table of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from deadweight._version import __version__
from deadweight.answers import FEW_EPISODES, Answers, Plan
from deadweight.drops import NOTHING_DROPPED, Drop, drop_of
from deadweight.errors import OptionError
from deadweight.estimators.names import recipe
from deadweight.evaluation import Evaluation
from deadweight.inference import check_interval, interval_maker
from deadweight.inference.episodes import influences
from deadweight.io.open import Source, with_log
from deadweight.misfit import Misfit
from deadweight.negligible.automatic import states_by_rule
from deadweight.negligible.coverage import NEARLY_ALL
from deadweight.options import read_options
from deadweight.question import Log, Policy, Question, ask
from deadweight.results import Estimate, Interval

__all__ = ["Policy", "Source", "answer", "estimate", "evaluate"]

DEFAULT_TABLE = ("BEHAVIOUR", "DM", "WIS", "WSIS", "WPDIS", "WSPDIS", "C-WSPDIS", "WDR", "WDRSIS")
DEFAULT_WITHOUT_PI_E = ("BEHAVIOUR", "WIS", "WPDIS")


def estimate(
    name: str,
    log: Source,
    pi_e: Policy = None,
    pi_b: Policy = None,
    *,
    drop: Any = "auto",
    gamma: float = 1.0,
    interval: str | None = "auto",
    level: float = 0.95,
    workers: int = 1,
    ray_address: str | None = None,
    **options: Any,
) -> Estimate:
    """The value of pi_e by one estimator.

    Args:
      name: such as "WPDIS" or "WSPDIS"; `deadweight.ESTIMATORS` lists them.
      log: episodes of the behaviour policy: a log in memory, a stream, or the path (or paths) of one on disk.
        Parquet that is larger than a part is read part by part, see `deadweight.io.stream`.
      pi_e: evaluation policy; None takes the log's target_prob.
      pi_b: behaviour policy; None takes the log's propensities.
      drop: what a state-based name drops; a plain name ignores it. See `deadweight.drops`.
      gamma: discount in (0, 1].
      interval: kind of confidence interval, or None.
      level: its confidence level.
      workers: threads on a log in memory, processes on Parquet; the result does not depend on it.
      ray_address: for Parquet, the Ray cluster that does the work, or "local" to start one.
      **options: see `deadweight.options.Options`.

    Example:
      >>> from deadweight import Trajectories
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0)]])
      >>> estimate("WIS", log, [[0.25, 0.75]], [[0.5, 0.5]]).value
      2.5
    """

    def use(found: Log) -> Estimate:
        question = ask(found, pi_e, pi_b, gamma, read_options(options), workers)
        return answer(question, [name], drop, interval, level)[name]

    return with_log(log, use, workers=workers, ray_address=ray_address)


def evaluate(
    log: Source,
    pi_e: Policy = None,
    pi_b: Policy = None,
    estimators: Sequence[str] | None = None,
    drop: Any = "auto",
    *,
    baseline: float | None = None,
    gamma: float = 1.0,
    interval: str | None = "auto",
    level: float = 0.95,
    workers: int = 1,
    ray_address: str | None = None,
    **options: Any,
) -> Evaluation:
    """A table of estimates that share one model and one pass over the log.

    Args:
      estimators: names; None takes a sensible table with the naive average and the direct method in it.
      baseline: the value to beat; None compares with the behaviour policy.

    The other arguments are those of `estimate`.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(7)
      >>> ev = evaluate(lift.sample(1000), lift.pi_e, lift.pi_b, ["BEHAVIOUR", "WIS"])
      >>> ev["WIS"].value, ev.verdict.answer
      (1.0, 'better')
    """

    against = _number_to_beat(baseline)

    def use(found: Log) -> Evaluation:
        question = ask(found, pi_e, pi_b, gamma, read_options(options), workers)
        return _table(question, estimators, drop, against, interval, level)

    return with_log(log, use, workers=workers, ray_address=ray_address)


def _number_to_beat(baseline: Any) -> float | None:
    """The baseline of `evaluate`, checked before any work is done."""
    if baseline is None:
        return None
    # A table of probabilities is a policy, whatever its class.
    number = baseline if isinstance(baseline, Real) or getattr(baseline, "ndim", None) == 0 else math.nan
    if not math.isfinite(number):
        found = f"{baseline}" if isinstance(baseline, Real) else f"{type(baseline).__name__}"
        raise OptionError(
            f"baseline must be None (the behaviour policy) or a number, the value to beat; found {found}.",
            fix="To compare with another policy evaluate that one on the same log as well, and look whether "
            "the two intervals overlap.",
        )
    return float(number)


def _table(
    question: Question,
    estimators: Sequence[str] | None,
    drop: Any,
    baseline: float | None,
    interval: str | None,
    level: float,
) -> Evaluation:
    default = DEFAULT_WITHOUT_PI_E if question.pair.pi_e is None else DEFAULT_TABLE
    names = list(dict.fromkeys(default if estimators is None else estimators))
    if not names:
        raise OptionError("estimators must name at least one estimator; found none.")
    compared = [] if baseline is not None or "BEHAVIOUR" in names else ["BEHAVIOUR"]
    estimates = answer(question, [*names, *compared], drop, interval, level)
    conventions = {
        "finished": question.options.finished,
        "gamma": question.gamma,
        "unseen": question.options.unseen,
        "solve": question.options.solve,
        "time_limit": question.known_time_limit,
        "drop": drop if isinstance(drop, str) or drop is None else "given",
        "interval": interval,
        "level": level,
        "version": __version__,
    }
    against = estimates["BEHAVIOUR"] if baseline is None else baseline
    return Evaluation({name: estimates[name] for name in names}, question, against, conventions)


def answer(
    question: Question, names: Sequence[str], drop: Any, interval: str | None, level: float
) -> dict[str, Estimate]:
    """Estimates of several names, which share their passes over the log."""
    check_interval(interval, level, question.options)
    plans = [_plan(question, name, drop) for name in names]
    centres = [plan.corrected for plan in plans if interval == "auto" and plan.corrected is not plan]
    answers = Answers(question, [*plans, *centres])
    makers = [interval_maker(interval, level, answers, plan, _chooser(plan, drop)) for plan in plans]
    checks = [check for plan in plans if interval == "auto" for check in plan.counterparts]
    answers.prepare(interval is not None, checks)
    if interval is not None:
        answers.prepare_std_errors()
    results = {
        plan.name: _dress(answers, plan, maker, level, interval)
        for plan, maker in zip(plans, makers, strict=True)
    }
    if interval is not None:
        for result in results.values():
            result.settle()
    return results


def _plan(question: Question, name: str, drop: Any) -> Plan:
    made = recipe(name)
    return Plan(question, name, made, _resolve(question, name, drop) if made.state_based else NOTHING_DROPPED)


def _chooser(plan: Plan, drop: Any) -> Callable[[Question], Drop] | None:
    """The rule that chooses the plan's drop from a log; None where the user gave the drop itself."""
    if not (plan.recipe.state_based and isinstance(drop, str)):
        return None
    return lambda question: _resolve(question, plan.name, drop)


def _resolve(question: Question, name: str, drop: Any) -> Drop:
    """The drop of a state-based name; without one it is the automatic choice."""
    if isinstance(drop, str):
        return Drop(states=states_by_rule(question, name, drop))
    return drop_of(question, drop)


def _dress(
    answers: Answers,
    plan: Plan,
    maker: Callable[[Estimate], Interval] | None,
    level: float,
    kind: str | None,
) -> Estimate:
    """The estimate as the user sees it."""
    fit, ess, share = answers.fit(plan), answers.ess(plan), answers.dropped_share(plan)
    misfit = answers.misfit(plan)
    return Estimate(
        plan.name,
        fit.value,
        n_episodes=plan.question.n,
        std_error=lambda: answers.std_error(plan),
        make_interval=maker,
        level=level,
        ess=ess,
        ess_steps=lambda: answers.ess_steps(plan),
        bias=lambda: answers.bias(plan),
        drop=plan.drop,
        dropped_share=share,
        flags=(*fit.flags, *_flags(plan, ess, share, kind), *_model_flags(plan, misfit)),
        details={**fit.details, "mean_weight_z": answers.mean_weight_z(plan), "model_check": misfit},
        influence=lambda: influences(answers, plan.corrected if kind == "auto" else plan),
    )


def _flags(plan: Plan, ess: float | None, share: float, kind: str | None) -> list[str]:
    question, found = plan.question, []
    if ess is not None and ess < FEW_EPISODES:
        found.append("low-ess")
    if plan.recipe.state_based and share >= NEARLY_ALL:
        found.append("all-dropped")
    if plan.recipe.state_based and share == 0.0:
        found.append("none-dropped")
    if question.cut_early > 0:
        found.append("truncated")
    if plan.name != "BEHAVIOUR" and _lacks_support(question):
        found.append("no-support")
    if kind == "auto" and plan.recipe.product and question.options.cross_check and not plan.counterparts:
        found.append("unchecked")
    return found


def _model_flags(plan: Plan, misfit: Misfit | None) -> list[str]:
    """What must be known of the model behind an estimate."""
    found = ["model-misfit"] if misfit is not None and misfit.found else []
    if plan.uses_model and plan.question.has_end and plan.question.settled is None:
        found.append("model-unsettled")
    return found


def _lacks_support(question: Question) -> bool:
    """Whether pi_e acts in a visited state where pi_b never does."""
    pi_e, pi_b = question.pair.pi_e, question.pair.pi_b
    if pi_e is None or pi_b is None:
        return False
    states = ((pi_e > 0) & (pi_b == 0)).any(axis=1)
    return bool(states.any() and (question.visits[states] > 0).any())
