"""From a question to estimates that share their passes over the log, and to a table with its verdict.

The verbs (`deadweight.estimate`) make a question of what the user passes and come here; so does whoever has a
question already, as a comparison of several policies has. `deadweight.diagnostics.passes_ahead` follows
`answer` step by step, to say beforehand how many passes there will be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from deadweight._version import __version__
from deadweight.answers import confounding
from deadweight.answers.answering import Answers
from deadweight.answers.plans import Plan
from deadweight.background import background_of
from deadweight.background.headline_path import PATH_OF
from deadweight.background.one_pass import background_sums
from deadweight.basics.progress import expect_passes
from deadweight.blend.evidence import Gatherer
from deadweight.blend.headline import blend_estimate, check_blend
from deadweight.diagnostics.copied_episodes import contents_of
from deadweight.diagnostics.log_order import order_job
from deadweight.diagnostics.mean_weight import mean_weight_z
from deadweight.diagnostics.row_flags import mix_flags, row_flags
from deadweight.diagnostics.weight_flags import watched
from deadweight.errors import OptionError
from deadweight.estimators.estimator import Estimator
from deadweight.estimators.names import NAIVE, estimator_of
from deadweight.inference import PAIRED, ReturnExtent, check_interval, make_interval, settled_interval
from deadweight.inference.per_episode import check_range, influences
from deadweight.negligible.asked_drop import chooser_of, planned, resolved
from deadweight.negligible.by_name import prepare_automatic
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED, Drop
from deadweight.results import Estimate, Evaluation, headline_of
from deadweight.results.shared import ABSENT
from deadweight.values.crossfit import FOLDS
from deadweight.verdict import table_verdict

DEFAULT_TABLE = ("BLEND", "BEHAVIOUR", "DM", "WIS", "WSIS", "WPDIS", "WSPDIS", "C-WSPDIS", "WDR", "WDRSIS")
# Where there is no pi_e of all actions, or there are too many states for a model: the first of WDR, WPDIS and
# WIS that can be had is the headline, and WDR cannot.
DEFAULT_WITHOUT_MODEL = ("BEHAVIOUR", "WIS", "WPDIS")


def default_names(question: Question) -> tuple[str, ...]:
    """The estimators of a table that nobody has chosen."""
    if question.can_solve_model:
        return DEFAULT_TABLE
    expect_passes(None)  # it was taken for the other one
    return DEFAULT_WITHOUT_MODEL


def answered_table(
    question: Question,
    estimators: Sequence[str | Estimator] | None,
    drop: Any,
    baseline: float | None,
    interval: str | None,
    level: float,
    also: Sequence[str] = (),
    background: bool = False,
) -> tuple[Evaluation, Plan]:
    """The table of a question, and the plan of its headline; arguments as those of `evaluate`."""
    wanted = distinct(default_names(question) if estimators is None else estimators)
    naive, made = NAIVE.variant(), with_baseline(wanted, baseline)
    found = answer(question, made, drop, interval, level, also, paired=baseline is None, shown=background)
    estimates = {made.name: found[made.name][1] for made in wanted}
    against = found[naive.name][1] if baseline is None else baseline
    headline = headline_of(estimates)
    facts = background_of(question, headline, found[headline.name][0].drop) if background else ABSENT
    conventions = {
        "finished": question.options.finished,
        "gamma": question.discount,
        "unseen": question.options.unseen,
        "solve": question.options.solve,
        "time_limit": question.known_time_limit,
        "cut_weights": None if question.cut_weights is None else asdict(question.cut_weights),
        "drop": _said(drop),
        "interval": interval,
        "level": level,
        "version": __version__,
    }
    table = Evaluation(
        estimates,
        against,
        conventions,
        table_verdict(estimates, against, {made.name: made.scheme.verdict for made in wanted}),
        question.n,
        question.horizon,
        facts,
    )
    return table, found[headline.name][0]


def with_baseline(wanted: list[Estimator], baseline: float | None) -> list[Estimator]:
    """The estimators with the mean return, where they are compared with that."""
    naive = NAIVE.variant()
    return wanted if baseline is not None or naive in wanted else [*wanted, naive]


def distinct(estimators: Sequence[str | Estimator]) -> list[Estimator]:
    """Each estimator once; two with one name would be one line of the table."""
    if isinstance(estimators, str | Estimator):
        estimators = [estimators]
    wanted = list(dict.fromkeys(estimator_of(given) for given in estimators))
    if not wanted:
        raise OptionError(
            "estimators must name at least one estimator; found none.",
            fix='For example ["BLEND", "WPDIS"]; leave it out for a sensible table.',
        )
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
    shown: bool = False,
) -> dict[str, tuple[Plan, Estimate]]:
    """Estimates by several estimators, which share their passes over the log, each with its plan.

    Args:
      also: parts of an estimate to be made though nothing else needs them, see `deadweight.estimate.ALSO`.
      paired: whether estimates are compared with the mean return of the same episodes.
      shown: whether the background will be made as well, whose path is made on the way then.
    """
    check_interval(interval, level, question.options)
    check_range(question)
    mixes = [made for made in estimators if made.is_mix]
    if mixes:
        question.count_folds(FOLDS)
    for made in mixes:
        check_blend(question, made.name)
    _prepare_drops(question, estimators, drop, shown)
    plans = [planned(question, made, drop) for made in estimators if not made.is_mix]
    centres = {plan: plan.corrected if interval == "auto" else plan for plan in plans}
    others = [centre for plan, centre in centres.items() if centre is not plan]
    answers = Answers(question, [*plans, *others])
    checks = [check for plan in plans if interval == "auto" for check in plan.counterparts]
    with_errors = interval is not None or "std_error" in also
    mixed = {made: Gatherer(question, answers) for made in mixes}
    beside = _drop_beside(question, drop) if shown and mixes else NOTHING_DROPPED
    besides = [one for gatherer in mixed.values() for one in gatherer.wanted]
    besides += [*watched(question, plans), ReturnExtent(question.gamma)] if interval is not None else []
    on_model = with_errors and (bool(mixes) or any(plan.uses_model for plan in plans))
    besides += confounding.sums_for(question) if on_model else []
    # How many episodes are equal by chance a model tells, which is fitted for the checks of weights as well.
    besides += contents_of(question) if interval is not None and (on_model or checks) else []
    if shown:  # a blend in the table is its headline
        besides += background_sums(question, beside) if mixes else []
    answers.prepare(interval is not None or "bias" in also, checks, with_errors, besides)
    if with_errors:
        compared = paired and interval in PAIRED and question.n > 1
        answers.prepare_std_errors(
            paired=[
                centre
                for plan, centre in centres.items()
                if compared and plan.estimator.about.known_noise and math.isfinite(answers.fit(centre).value)
            ],
            besides=[
                *(gatherer.job for gatherer in mixed.values()),
                confounding.job_for(answers) if on_model else None,
                order_job(answers) if mixes and interval is not None else None,
            ],
        )
    found = {
        plan.name: (plan, _estimate(answers, plan, centres[plan], drop, interval, level, also))
        for plan in plans
    }
    for made, gatherer in mixed.items():
        plan = Plan(question, made, beside)
        evidence = gatherer.evidence()
        one = blend_estimate(answers, plan, evidence, interval, level, "influence" in also)
        if one.bounds is not None:
            one = one.with_changes(bounds=settled_interval(one.bounds, answers))
        found[made.name] = plan, one.with_changes(flags=(*one.flags, *mix_flags(answers, plan, one)))
    return {made.name: found[made.name] for made in estimators}


def _prepare_drops(question: Question, estimators: Sequence[Estimator], drop: Any, shown: bool) -> None:
    """The paths behind the automatic drops of all names together; `shown` ones need more of them."""
    if not isinstance(drop, str):
        return
    wanted = [made for made in estimators if made.is_state_based]
    prepare_automatic(question, wanted, drop, estimator_of(PATH_OF) if shown else None)


def _drop_beside(question: Question, drop: Any) -> Drop:
    """What a report shows beside a mix, which drops nothing: the drop of the estimator of its path."""
    return resolved(question, estimator_of(PATH_OF), drop)


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
    if interval is not None:
        made = (
            own(answers, plan, level)
            if own
            else make_interval(interval, level, answers, plan, chooser_of(plan, drop))
        )
        bounds = settled_interval(made, answers)
    misfit = answers.misfit(plan)
    free = fit.influence is None and plan.starts is None  # the first pass has it
    return Estimate(
        about=plan.estimator.about,
        value=fit.value,
        n_episodes=plan.question.n,
        level=level,
        bounds=bounds,
        ess=ess,
        mean_weight_z=mean_weight_z(answers, plan.weighting) if known and plan.estimator.is_product else None,
        dropped=plan.drop.labels,
        drop_origin=plan.drop.origin,
        dropped_share=share,
        flags=(*fit.flags, *row_flags(answers, plan, bounds)),
        paired_std_error=answers.paired_std_error(centre),
        model_check=misfit,
        details=fit.details,
        std_error=part("std_error", lambda: answers.std_error(plan), known or free),
        bias=part("bias", lambda: answers.bias(plan), known or plan.weighting.drop is None),
        ess_steps=part("ess_steps", lambda: answers.ess_steps(plan), not plan.estimator.is_product),
        influence=part("influence", lambda: influences(answers, centre)),
    )
