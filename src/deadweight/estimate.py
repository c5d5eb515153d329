"""The verbs: `estimate` for one estimator, `evaluate` for a table of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from deadweight._version import __version__
from deadweight.answers.misfit import Misfit
from deadweight.answers.plans import FEW_EPISODES, Answers, Plan
from deadweight.background import background_of
from deadweight.blend.estimates import blend_estimate, check_blend
from deadweight.errors import OptionError, did_you_mean
from deadweight.estimators.estimator import Estimator
from deadweight.estimators.names import DOUBLY_ROBUST, NAIVE, WS, estimator_of
from deadweight.inference import PAIRED, check_interval, make_interval
from deadweight.inference.episodes import influences
from deadweight.io.open import Source, open_log
from deadweight.negligible.automatic import states_by_rule
from deadweight.negligible.extremes import NEARLY_ALL
from deadweight.question.core import Policy, Question, ask
from deadweight.question.drops import NOTHING_DROPPED, Drop, drop_of
from deadweight.question.options import read_options
from deadweight.results import Estimate, Evaluation, headline_of
from deadweight.results.base import ABSENT
from deadweight.verdict import table_verdict

__all__ = ["Policy", "Source", "answer", "estimate", "evaluate"]

DEFAULT_TABLE = ("BEHAVIOUR", "DM", "WIS", "WSIS", "WPDIS", "WSPDIS", "C-WSPDIS", "WDR", "WDRSIS")
DEFAULT_WITHOUT_PI_E = ("BEHAVIOUR", "WIS", "WPDIS")
# Parts of an estimate that are made only if they are asked for, or an interval needs them.
ALSO = ("std_error", "bias", "ess_steps", "influence")
# More steps than this are not listed one by one unless somebody asks.
MOST_STEPS = 10_000


def estimate(
    name: str | Estimator,
    log: Source,
    pi_e: Policy = None,
    pi_b: Policy = None,
    *,
    drop: Any = "auto",
    gamma: float = 1.0,
    interval: str | None = "auto",
    level: float = 0.95,
    also: Sequence[str] = (),
    workers: int = 1,
    ray_address: str | None = None,
    **options: Any,
) -> Estimate:
    """The value of pi_e by one estimator.

    Args:
      name: such as "WPDIS" or "WSPDIS"; `deadweight.ESTIMATORS` lists them. Or an `Estimator`.
      log: episodes of the behaviour policy: a log in memory, a stream, or the path (or paths) of one on disk.
        Parquet that is larger than a part is read part by part, see `deadweight.io.stream`.
      pi_e: evaluation policy; None takes the log's target_prob.
      pi_b: behaviour policy; None takes the log's propensities.
      drop: what a state-based name drops; a plain name ignores it. See `deadweight.question.drops`. A
        function is given the question (`deadweight.question.core.Question`) and returns any of these.
      gamma: discount in (0, 1].
      interval: kind of confidence interval, or None.
      level: its confidence level.
      also: parts of the estimate that take work of their own, to be made even if the interval does not need
        them: "std_error", "bias", "ess_steps", "influence".
      workers: threads on a log in memory, processes on Parquet; the result does not depend on it.
      ray_address: for Parquet, the Ray cluster that does the work, or "local" to start one.
      **options: see `deadweight.question.options.Options`.

    Example:
      >>> from deadweight import Trajectories
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0)]])
      >>> estimate("WIS", log, [[0.25, 0.75]], [[0.5, 0.5]]).value
      2.5
    """

    with open_log(log, workers=workers, ray_address=ray_address) as found:
        question = ask(found, pi_e, pi_b, gamma, read_options(options), workers)
        steps = ["ess_steps"] if interval is not None and question.horizon <= MOST_STEPS else []
        wanted = [*_checked_also(also), *steps]
        made = estimator_of(name)
        return answer(question, [made], drop, interval, level, wanted)[made.name][1]


def evaluate(
    log: Source,
    pi_e: Policy = None,
    pi_b: Policy = None,
    estimators: Sequence[str | Estimator] | None = None,
    drop: Any = "auto",
    *,
    baseline: float | None = None,
    gamma: float = 1.0,
    interval: str | None = "auto",
    level: float = 0.95,
    also: Sequence[str] = (),
    background: bool | None = None,
    workers: int = 1,
    ray_address: str | None = None,
    **options: Any,
) -> Evaluation:
    """A table of estimates that share one model and one pass over the log.

    Args:
      estimators: names, or `Estimator` objects; None takes a sensible table with the naive average and the
        direct method in it.
      baseline: the value to beat; None compares with the behaviour policy.
      background: make what `report` shows beside the estimates; None makes it where there is an interval.

    The other arguments are those of `estimate`.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(7)
      >>> ev = evaluate(lift.sample(1000), lift.pi_e, lift.pi_b, ["BEHAVIOUR", "WIS"])
      >>> ev["WIS"].value, ev.verdict.answer
      (1.0, 'better')
    """
    against = _number_to_beat(baseline)
    with open_log(log, workers=workers, ray_address=ray_address) as found:
        question = ask(found, pi_e, pi_b, gamma, read_options(options), workers)
        wanted = interval is not None if background is None else background
        return _table(question, estimators, drop, against, interval, level, _checked_also(also), wanted)


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
    estimators: Sequence[str | Estimator] | None,
    drop: Any,
    baseline: float | None,
    interval: str | None,
    level: float,
    also: Sequence[str],
    background: bool,
) -> Evaluation:
    default = DEFAULT_WITHOUT_PI_E if question.pair.pi_e is None else DEFAULT_TABLE
    wanted = _distinct(default if estimators is None else estimators)
    naive = NAIVE.variant()
    compared = [] if baseline is not None or naive in wanted else [naive]
    found = answer(question, [*wanted, *compared], drop, interval, level, also, paired=baseline is None)
    estimates = {made.name: found[made.name][1] for made in wanted}
    against = found[naive.name][1] if baseline is None else baseline
    headline = headline_of(estimates)
    facts = background_of(question, headline, found[headline.name][0].drop) if background else ABSENT
    conventions = {
        "finished": question.options.finished,
        "gamma": question.gamma,
        "unseen": question.options.unseen,
        "solve": question.options.solve,
        "time_limit": question.known_time_limit,
        "drop": _said(drop),
        "interval": interval,
        "level": level,
        "version": __version__,
    }
    return Evaluation(
        estimates,
        against,
        conventions,
        table_verdict(estimates, against, {made.name: made.scheme.verdict for made in wanted}),
        question.n,
        question.horizon,
        facts,
    )


def _distinct(estimators: Sequence[str | Estimator]) -> list[Estimator]:
    """Each estimator once; two with one name would be one line of the table."""
    if isinstance(estimators, str | Estimator):
        estimators = [estimators]
    wanted = list(dict.fromkeys(estimator_of(given) for given in estimators))
    if not wanted:
        raise OptionError("estimators must name at least one estimator; found none.")
    names = [made.name for made in wanted]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise OptionError(f"Two different estimators are called {twice[0]!r}.", fix="Rename one of them.")
    return wanted


def _said(drop: Any) -> str | None:
    """The drop as conventions name it."""
    if drop is None or isinstance(drop, str):
        return drop
    return str(getattr(drop, "__name__", type(drop).__name__)) if callable(drop) else "given"


def answer(
    question: Question,
    estimators: Sequence[Estimator],
    drop: Any,
    interval: str | None,
    level: float,
    also: Sequence[str] = (),
    paired: bool = False,
) -> dict[str, tuple[Plan, Estimate]]:
    """Estimates by several estimators, which share their passes over the log, each with its plan.

    Args:
      also: parts of an estimate to be made though nothing else needs them, see `ALSO`.
      paired: whether estimates are compared with the mean return of the same episodes.
    """
    check_interval(interval, level, question.options)
    mixes = [made for made in estimators if made.is_mix]
    for made in mixes:
        check_blend(question, made.name, also)
    plans = [_plan(question, made, drop) for made in estimators if not made.is_mix]
    centres = {plan: plan.corrected if interval == "auto" else plan for plan in plans}
    others = [centre for plan, centre in centres.items() if centre is not plan]
    answers = Answers(question, [*plans, *others])
    checks = [check for plan in plans if interval == "auto" for check in plan.counterparts]
    with_errors = interval is not None or "std_error" in also
    answers.prepare(interval is not None or "bias" in also, checks, with_errors)
    if with_errors:
        compared = paired and interval in PAIRED and question.n > 1
        answers.prepare_std_errors(
            paired=[
                centre
                for plan, centre in centres.items()
                if compared and plan.estimator.about.known_noise and math.isfinite(answers.fit(centre).value)
            ]
        )
    found = {
        plan.name: (plan, _estimate(answers, plan, centres[plan], drop, interval, level, also))
        for plan in plans
    }
    for made in mixes:
        plan = Plan(question, made, _drop_of_mix(question, plans, drop))
        found[made.name] = plan, blend_estimate(answers, plan, interval, level)
    return {made.name: found[made.name] for made in estimators}


def _drop_of_mix(question: Question, plans: Sequence[Plan], drop: Any) -> Drop:
    """The drop of WDRSIS, which may be in the table already."""
    robust = DOUBLY_ROBUST.variant(WS)
    known = next((plan.drop for plan in plans if plan.estimator == robust), None)
    return _resolve(question, robust, drop) if known is None else known


def _checked_also(also: Sequence[str]) -> list[str]:
    names = [also] if isinstance(also, str) else list(also)
    for name in names:
        if name not in ALSO:
            raise OptionError(
                f"also takes a list of names among {', '.join(ALSO)}; found {name!r}."
                f"{did_you_mean(str(name), ALSO)}"
            )
    return names


def _plan(question: Question, made: Estimator, drop: Any) -> Plan:
    return Plan(question, made, _resolve(question, made, drop) if made.is_state_based else NOTHING_DROPPED)


def _chooser(plan: Plan, drop: Any) -> Callable[[Question], Drop] | None:
    """The rule that chooses the plan's drop from a log; None where the user gave the drop itself."""
    if not (plan.estimator.is_state_based and (isinstance(drop, str) or callable(drop))):
        return None
    return lambda question: _resolve(question, plan.estimator, drop)


def _resolve(question: Question, made: Estimator, drop: Any) -> Drop:
    """The drop of a state-based estimator: by a rule in words or as a function, or as it was given."""
    if isinstance(drop, str):
        return Drop(states=states_by_rule(question, made, drop))
    return drop_of(question, drop(question) if callable(drop) else drop)


def _estimate(
    answers: Answers,
    plan: Plan,
    centre: Plan,
    drop: Any,
    interval: str | None,
    level: float,
    also: Sequence[str],
) -> Estimate:
    """The estimate as the user sees it; `centre` is what its interval is centred on."""
    fit, ess, share = answers.fit(plan), answers.ess(plan), answers.dropped_share(plan)
    known = interval is not None

    def part(name: str, make: Callable[[], Any], wanted: bool = False) -> Any:
        return make() if wanted or name in also else ABSENT

    bounds, own = None, plan.estimator.scheme.interval
    if interval is not None and own is not None:
        bounds = own(answers, plan, level)
    elif interval is not None:
        bounds = make_interval(interval, level, answers, plan, _chooser(plan, drop))
    misfit = answers.misfit(plan)
    free = fit.influence is None and plan.starts is None  # the first pass has it
    return Estimate(
        about=plan.estimator.about,
        value=fit.value,
        n_episodes=plan.question.n,
        level=level,
        bounds=bounds,
        ess=ess,
        mean_weight_z=answers.mean_weight_z(plan),
        dropped=plan.drop.labels,
        drop_origin=plan.drop.origin,
        dropped_share=share,
        flags=(*fit.flags, *_flags(plan, ess, share, interval), *_model_flags(plan, misfit)),
        paired_std_error=answers.paired_std_error(centre),
        model_check=misfit,
        details=fit.details,
        std_error=part("std_error", lambda: answers.std_error(plan), known or free),
        bias=part("bias", lambda: answers.bias(plan), known or plan.weighting.drop is None),
        ess_steps=part("ess_steps", lambda: answers.ess_steps(plan), not plan.estimator.is_product),
        influence=part("influence", lambda: influences(answers, centre)),
    )


def _flags(plan: Plan, ess: float | None, share: float, kind: str | None) -> list[str]:
    question, found = plan.question, []
    if ess is not None and ess < FEW_EPISODES:
        found.append("low-ess")
    if plan.estimator.is_state_based and share >= NEARLY_ALL:
        found.append("all-dropped")
    if plan.estimator.is_state_based and share == 0.0:
        found.append("none-dropped")
    if question.cut_early > 0:
        found.append("truncated")
    if not plan.estimator.is_naive and _lacks_support(question):
        found.append("no-support")
    if (
        kind == "auto"
        and plan.estimator.is_product
        and question.options.cross_check
        and not plan.counterparts
    ):
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
