"""The verbs: `estimate` for one estimator, `evaluate` for a table of them.

Whoever has a question already, as a comparison of several policies has, asks for `answered_table`. Behind it
is a list of tasks that share their passes over the log (`deadweight.answers.rounds`): the rows with the paths
of their automatic drops, the mix, and every check of the log in `CHECKS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any

from deadweight._version import __version__
from deadweight.answers.answering import Answers
from deadweight.answers.blend import blend_estimate, check_blend
from deadweight.answers.candidates import candidates_of
from deadweight.answers.intervals import (
    PAIRED,
    ReturnExtent,
    check_interval,
    check_range,
    influences,
    make_interval,
    settled_interval,
)
from deadweight.answers.plans import Plan, plan_of
from deadweight.answers.rounds import OfInfluences, Sums, Task, carry_out, together
from deadweight.answers.trust import confounding_test
from deadweight.diagnostics.background import background_of, background_sums
from deadweight.diagnostics.dropping import PATH_OF
from deadweight.diagnostics.flags import contents_of, mix_flags, order_job, row_flags, watched
from deadweight.diagnostics.weight_report import mean_weight_z
from deadweight.errors import OptionError, did_you_mean
from deadweight.estimators.estimator import MODEL, NAIVE, Estimator, estimator_of
from deadweight.log.interface import Source
from deadweight.negligible.rules import automatic_paths, chooser_of, resolved
from deadweight.question.asked import read_options
from deadweight.question.drops import NOTHING_DROPPED, Drop
from deadweight.question.question import Policy, Question, ask, opened
from deadweight.results.estimate import FLAGS, Estimate, Interval
from deadweight.results.evaluation import Evaluation, headline_of
from deadweight.results.saved import ABSENT
from deadweight.sums.reduction import learnt_here
from deadweight.tools.progress import LOGGER
from deadweight.verbs.verdict import table_verdict

DEFAULT_TABLE = ("BLEND", "BEHAVIOUR", "DM", "WIS", "WSIS", "WPDIS", "WSPDIS", "C-WSPDIS", "WDR", "WDRSIS")
# Where there is no pi_e of all actions, or there are too many states for a model: the first of WDR, WPDIS and
# WIS that can be had is the headline, and WDR cannot.
DEFAULT_WITHOUT_MODEL = ("BEHAVIOUR", "WIS", "WPDIS")


def default_names(question: Question) -> tuple[str, ...]:
    """The estimators of a table that nobody has chosen."""
    if question.can_solve_model:
        return DEFAULT_TABLE
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
    naive, with_naive = NAIVE.variant(), with_baseline(wanted, baseline)
    asked = TableAsked(with_naive, drop, interval, level, also, paired=baseline is None, shown=background)
    answered = answer(question, asked)
    estimates = {with_naive.name: answered[with_naive.name][1] for with_naive in wanted}
    against = answered[naive.name][1] if baseline is None else baseline
    headline = headline_of(estimates)
    facts = background_of(question, headline, answered[headline.name][0].drop) if background else ABSENT
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
        table_verdict(
            estimates, against, {with_naive.name: with_naive.scheme.verdict for with_naive in wanted}
        ),
        question.n,
        question.horizon,
        facts,
    )
    return table, answered[headline.name][0]


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
    names = [estimator.name for estimator in wanted]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise OptionError(f"Two different estimators are called {twice[0]!r}.", fix="Rename one of them.")
    return wanted


def _said(drop: Any) -> str | None:
    """The drop as conventions name it."""
    if drop is None or isinstance(drop, str):
        return drop
    return str(getattr(drop, "__name__", type(drop).__name__)) if callable(drop) else "given"


@dataclass(frozen=True)
class TableAsked:
    """What is asked for of a table.

    Attributes:
      estimators: which are its rows.
      drop, interval, level: those of `evaluate`.
      also: parts of an estimate to be made though nothing else needs them, see `ALSO`.
      paired: whether estimates are compared with the mean return of the same episodes.
      shown: whether a report will show what is behind the table; its weights and path are made on the way.
    """

    estimators: Sequence[Estimator]
    drop: Any
    interval: str | None
    level: float
    also: Sequence[str] = ()
    paired: bool = False
    shown: bool = False

    @property
    def mixes(self) -> list[Estimator]:
        """The estimators that mix others."""
        return [estimator for estimator in self.estimators if estimator.is_mix]

    @property
    def with_errors(self) -> bool:
        """Whether standard errors are made."""
        return self.interval is not None or "std_error" in self.also


@dataclass(frozen=True, eq=False)
class Rows:
    """The estimators of a table but for its mixes, with their drops.

    Attributes:
      plans: in the order in which they were asked for.
      centres: for each plan the one that its interval is centred on.
      answers: what was summed for them.
    """

    plans: list[Plan]
    centres: dict[Plan, Plan]
    answers: Answers

    @classmethod
    def of(cls, question: Question, asked: TableAsked) -> Rows:
        """The plans of what is asked; their drops are known."""
        plans = [
            Plan(
                question,
                each,
                resolved(question, each, asked.drop) if each.is_state_based else NOTHING_DROPPED,
            )
            for each in asked.estimators
            if not each.is_mix
        ]
        centres = {plan: plan.corrected if asked.interval == "auto" else plan for plan in plans}
        others = [centre for plan, centre in centres.items() if centre is not plan]
        return cls(plans, centres, Answers(question, [*plans, *others]))


def answer(question: Question, asked: TableAsked) -> dict[str, tuple[Plan, Estimate]]:
    """Estimates by several estimators, which share their passes over the log, each with its plan."""
    if asked.interval is not None:
        check_interval(asked.interval, asked.level, question.options)
    if question.options.return_range is not None:
        check_range(question)
    for mix in asked.mixes:
        check_blend(question, mix.name)
    evidence = [candidates_of(question) for _ in asked.mixes]
    rows, *gathered = carry_out(question, _rows(question, asked), *evidence)
    estimates = {plan.name: (plan, _estimate(rows, plan, asked)) for plan in rows.plans}
    for mix, candidates in zip(asked.mixes, gathered, strict=True):
        estimates[mix.name] = _mixed(rows.answers, mix, candidates, asked)
    return {estimator.name: estimates[estimator.name] for estimator in asked.estimators}


def _rows(question: Question, asked: TableAsked) -> Task[Rows]:
    """The rows of a table, with all that was summed for them and for what checks the log."""
    by_rule = isinstance(asked.drop, str) and asked.drop != "auto"  # which may be misspelt
    if asked.shown or by_rule or any(each.is_state_based for each in asked.estimators):
        shown = estimator_of(PATH_OF) if asked.shown else None
        yield from automatic_paths(question, asked.estimators, asked.drop, shown)
    rows = Rows.of(question, asked)
    checks = [check(question, rows, asked) for check in CHECKS]
    yield from together(_sums_and_errors(rows, asked), *checks)
    return rows


def _sums_and_errors(rows: Rows, asked: TableAsked) -> Task[None]:
    """What the estimates are, their biases and standard errors."""
    answers, interval = rows.answers, asked.interval
    counterparts = [check for plan in rows.plans if interval == "auto" for check in plan.counterparts]
    yield answers.wanted(interval is not None or "bias" in asked.also, counterparts, asked.with_errors)
    if asked.with_errors:
        compared = asked.paired and interval in PAIRED and answers.question.n > 1
        yield from answers.std_errors(
            paired=[
                centre
                for plan, centre in rows.centres.items()
                if compared and plan.estimator.about.known_noise and math.isfinite(answers.fit(centre).value)
            ]
        )


def _rests_on_model(rows: Rows, asked: TableAsked) -> bool:
    return asked.with_errors and (bool(asked.mixes) or any(plan.uses_model for plan in rows.plans))


def _weights_checked(question: Question, rows: Rows, asked: TableAsked) -> Task[None]:
    if asked.interval is not None:
        yield Sums([*watched(question, rows.plans), ReturnExtent(question.gamma)])


def _confounding_checked(question: Question, rows: Rows, asked: TableAsked) -> Task[None]:
    if _rests_on_model(rows, asked):
        yield from confounding_test(question)


def _copies_checked(question: Question, rows: Rows, asked: TableAsked) -> Task[None]:
    # How many episodes are equal by chance a model tells, which is fitted for the checks of weights as well.
    fitted = asked.interval == "auto" and any(plan.counterparts for plan in rows.plans)
    if asked.interval is not None and (fitted or _rests_on_model(rows, asked)):
        yield Sums(contents_of(question))


def _order_checked(question: Question, rows: Rows, asked: TableAsked) -> Task[None]:
    if asked.mixes and asked.interval is not None:
        yield Sums([plan_of(question, MODEL.variant(), NOTHING_DROPPED).summed])
        yield OfInfluences([order_job(rows.answers)])


def _background_summed(question: Question, rows: Rows, asked: TableAsked) -> Task[None]:
    if asked.shown and asked.mixes:  # a mix in the table is its headline
        yield Sums(background_sums(question, _drop_beside(question, asked.drop)))


# What is summed beside the estimates, for flags (`deadweight.diagnostics.flags`) and for a report.
CHECKS: tuple[Callable[[Question, Rows, TableAsked], Task[None]], ...] = (
    _weights_checked,
    _confounding_checked,
    _copies_checked,
    _order_checked,
    _background_summed,
)


def _mixed(answers: Answers, mix: Estimator, candidates: Any, asked: TableAsked) -> tuple[Plan, Estimate]:
    """The estimate of a mix, with the plan of what a report shows beside it."""
    question = answers.question
    beside = _drop_beside(question, asked.drop) if asked.shown else NOTHING_DROPPED
    plan = Plan(question, mix, beside)
    estimate = blend_estimate(
        answers, plan, candidates, asked.interval, asked.level, "influence" in asked.also
    )
    if estimate.bounds is not None:
        estimate = estimate.with_changes(bounds=settled_interval(estimate.bounds, answers))
    return plan, estimate.with_changes(flags=(*estimate.flags, *mix_flags(answers, plan, estimate)))


def _drop_beside(question: Question, drop: Any) -> Drop:
    """What a report shows beside a mix, which drops nothing: the drop of the estimator of its path."""
    return resolved(question, estimator_of(PATH_OF), drop)


def _estimate(rows: Rows, plan: Plan, asked: TableAsked) -> Estimate:
    """The estimate of a plan as the user sees it."""
    answers, centre, known = rows.answers, rows.centres[plan], asked.interval is not None
    fit, ess, share = answers.fit(plan), answers.ess(plan), answers.dropped_share(plan)

    def part(name: str, make: Callable[[], Any], wanted: bool = False) -> Any:
        return make() if wanted or name in asked.also else ABSENT

    bounds = _interval(rows, plan, asked)
    misfit = answers.misfit(plan)
    free = fit.influence is None and plan.starts is None  # the sums have its error
    return Estimate(
        about=plan.estimator.about,
        value=fit.value,
        n_episodes=plan.question.n,
        level=asked.level,
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


def _interval(rows: Rows, plan: Plan, asked: TableAsked) -> Interval | None:
    if asked.interval is None:
        return None
    answers, interval = rows.answers, plan.estimator.scheme.interval
    if interval is not None:
        bounds = interval(answers, plan, asked.level)
    else:
        choose = chooser_of(plan, asked.drop) if plan.estimator.is_state_based else None
        bounds = make_interval(asked.interval, asked.level, answers, plan, choose)
    return settled_interval(bounds, answers)


# Parts of an estimate that are made only if they are asked for, or an interval needs them.
ALSO = ("std_error", "bias", "ess_steps", "influence")
TRAINED = "trained-on-log"
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
      name: such as "WPDIS" or "WSPDIS"; `deadweight.ESTIMATORS` lists them, all but "BLEND", which is a mix
        of others. Or an `Estimator`.
      log: episodes of the behaviour policy: a log in memory, a stream, or the path (or paths) of one on disk.
        Parquet that is larger than a part is read part by part, see `deadweight.io.stream`.
      pi_e: evaluation policy; None takes the log's target_prob.
      pi_b: behaviour policy; None takes the log's propensities. Of several old policies a mapping of the
        log's `behaviour_ids` to policies, see `mixture_propensities`.
      drop: what a state-based name drops; a plain name ignores it. See `deadweight.question.drops`. One flag
        for each step is in the order of the table that the log was read from. A function is given the
        question (`deadweight.question.question.Question`) and returns any of these, flags in its log's order.
      gamma: discount in (0, 1].
      interval: kind of confidence interval, or None.
      level: its confidence level.
      also: parts of the estimate that take work of their own, to be made even if the interval does not need
        them: "std_error", "bias", "ess_steps", "influence".
      workers: threads on a log in memory, which has two by itself from a million steps on; processes on
        Parquet. The result does not depend on it.
      ray_address: for Parquet, the Ray cluster that does the work, or "local" to start one.
      **options: see `deadweight.question.asked.Options`.

    Example:
      >>> from deadweight import Trajectories
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0)]])
      >>> estimate("WIS", log, [[0.25, 0.75]], [[0.5, 0.5]]).value
      2.5
    """

    chosen, estimator = read_options(options), estimator_of(name)
    with opened(log, workers=workers, ray_address=ray_address) as source:
        question = ask(source, pi_e, pi_b, gamma, chosen, workers)
        steps = ["ess_steps"] if interval is not None and question.horizon <= MOST_STEPS else []
        wanted = [*_checked_also(also), *steps]
        _, row = answer(question, TableAsked([estimator], drop, interval, level, wanted))[estimator.name]
        return _marked(row) if learnt_here(pi_e, question.parts, workers) else row


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
    """A table of estimates that share one model and their passes over the log.

    Args:
      log, pi_e, pi_b, drop, gamma, interval, level, also, workers, ray_address: those of `estimate`.
      estimators: names, or `Estimator` objects; None takes a sensible table with the naive average and the
        direct method in it.
      baseline: the value to beat; None compares with the behaviour policy.
      background: make what `report` shows beside the estimates; None makes it where there is an interval.
      options: those of `estimate`.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(7)
      >>> ev = evaluate(lift.sample(1000), lift.pi_e, lift.pi_b, ["BEHAVIOUR", "WIS"])
      >>> ev["WIS"].value, ev.verdict.answer
      (1.0, 'better')
    """
    against, chosen = _number_to_beat(baseline), read_options(options)
    with opened(log, workers=workers, ray_address=ray_address) as source:
        question = ask(source, pi_e, pi_b, gamma, chosen, workers)
        wanted = interval is not None if background is None else background
        also = _checked_also(also)
        table, _ = answered_table(question, estimators, drop, against, interval, level, also, wanted)
        done = of_learnt_policy(table) if learnt_here(pi_e, question.parts, workers) else table
        LOGGER.info(
            "evaluated %d episodes: %s, by %s", done.n_episodes, done.verdict.answer, done.headline.name
        )
        return done


def of_learnt_policy(table: Evaluation) -> Evaluation:
    """The table of a policy that was learnt from the same log: flagged, and without a verdict."""
    estimates = {name: _marked(row) for name, row in table.estimates.items()}
    reasons = (FLAGS[TRAINED], *table.verdict.reasons)
    doubted = replace(table.verdict, answer="cannot tell", reasons=reasons, sound=False, next_step=None)
    return table.with_changes(estimates=estimates, verdict=doubted)


def _marked(estimate: Estimate) -> Estimate:
    return estimate if estimate.about.naive else estimate.with_changes(flags=(*estimate.flags, TRAINED))


def _number_to_beat(baseline: Any) -> float | None:
    """The baseline of `evaluate`, checked before any work is done."""
    if baseline is None:
        return None
    # A table of probabilities is a policy, whatever its class.
    number = baseline if isinstance(baseline, Real) or getattr(baseline, "ndim", None) == 0 else math.nan
    if not math.isfinite(number):
        shown = f"{baseline}" if isinstance(baseline, Real) else f"{type(baseline).__name__}"
        raise OptionError(
            f"baseline must be None (the behaviour policy) or a number, the value to beat; found {shown}.",
            fix="To compare with another policy use deadweight.compare, which pairs the two episode by "
            "episode: compare(log, {'new': pi_e, 'other': policy}, pi_b).",
        )
    return float(number)


def _checked_also(also: Sequence[str]) -> list[str]:
    names = [also] if isinstance(also, str) else list(also)
    for name in names:
        if name not in ALSO:
            raise OptionError(
                f"also takes a list of names among {', '.join(ALSO)}; found {name!r}."
                f"{did_you_mean(str(name), ALSO)}",
                fix='For example also=["std_error", "ess_steps"].',
            )
    return names
