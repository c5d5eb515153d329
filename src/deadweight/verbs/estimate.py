"""The verbs: `estimate` for one estimator, `evaluate` for a table of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any

from deadweight._version import __version__
from deadweight.answers import trust as confounding
from deadweight.answers.answering import Answers
from deadweight.answers.blend import blend_estimate, check_blend
from deadweight.answers.candidates import Gatherer
from deadweight.answers.intervals import PAIRED, ReturnExtent, check_interval, make_interval, settled_interval
from deadweight.answers.plans import Plan
from deadweight.answers.student_t import check_range, influences
from deadweight.diagnostics.background import background_of, background_sums
from deadweight.diagnostics.flags import contents_of, mix_flags, order_job, row_flags, watched
from deadweight.diagnostics.headline_path import PATH_OF
from deadweight.diagnostics.weight_report import mean_weight_z
from deadweight.errors import OptionError, did_you_mean
from deadweight.estimators.estimator import Estimator
from deadweight.estimators.names import NAIVE, estimator_of
from deadweight.log.interface import Source
from deadweight.negligible.rules import chooser_of, planned, prepare_automatic, read_rule, resolved
from deadweight.question.asked import read_options
from deadweight.question.drops import NOTHING_DROPPED, Drop
from deadweight.question.question import Policy, Question, ask, opened
from deadweight.results.estimate import Estimate
from deadweight.results.evaluation import Evaluation, headline_of
from deadweight.results.flags import FLAGS
from deadweight.results.saved import ABSENT
from deadweight.sums.reduction import learnt_here
from deadweight.tools.progress import LOGGER, expect_passes, is_watched
from deadweight.values.crossfit import FOLDS
from deadweight.verbs.verdict import table_verdict

# --------------------------------------------------------------------------------------------------------
# From a question to estimates that share their passes over the log, and to a table with its verdict.
#
# The verbs (`deadweight.verbs.estimate`) make a question of what the user passes and come here; so does
# whoever has a question already, as a comparison of several policies has. `deadweight.verbs.estimate` follows
# `answer` step by step, to say beforehand how many passes there will be.

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
      also: parts of an estimate to be made though nothing else needs them, see `ALSO`.
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


# --------------------------------------------------------------------------------------------------------
# How many passes over its log a table of estimates will take, told from what it is asked for.
#
# Whoever waits wants to know before the work begins. The numbers here follow `estimating.answer` step by
# step; what only the log decides, such as a path with very many levels, comes on top (`unforeseen_passes`).
# None where it depends on more than that: intervals that resample, or that look at every episode by itself.


@dataclass(frozen=True, eq=False)
class Table:
    """A table that is asked for; arguments as those of `deadweight.verbs.estimate.answer`."""

    question: Question
    estimators: Sequence[Estimator]
    drop: Any
    interval: str | None
    also: Sequence[str] = ()
    shown: bool = False

    @property
    def passes(self) -> int | None:
        """All of them; None where nobody can tell."""
        if not self._is_foreseeable:
            return None
        return self._before_sums + self._paths + 1 + self._after_sums + self._background

    @property
    def _is_foreseeable(self) -> bool:
        question, options = self.question, self.question.options
        plain_sums = options.finished == "absorb" and not question.by_duration and options.cut_weights is None
        own_model = options.model is not None or options.cross_fit
        plain_drop = self.drop != "auto:free" and not callable(self.drop)
        # Without a count of its transitions a stored log does not know its horizon, which flags may need.
        counted = question.parts.known is not None or self.interval != "student-t" or self._mixed
        # A mix has the model checked, in a pass of its own where no other estimate has it checked already.
        checked = not self._mixed or any(made.uses_model and not made.is_mix for made in self.estimators)
        return (
            (self.interval is None or self.interval in PAIRED)
            and options.return_range is None
            and question.parts.has_states
            and plain_sums
            and plain_drop
            and counted
            and checked
            and not own_model
            and all(made.scheme.interval is None for made in self.estimators)
        )

    @property
    def _mixed(self) -> bool:
        return any(made.is_mix for made in self.estimators)

    @property
    def _automatic(self) -> bool:
        return isinstance(self.drop, str) and read_rule(self.drop)[0] == "auto"

    @property
    def _has_paths(self) -> bool:
        """Whether paths are made before the sums."""
        wanted = self._mixed or any(made.is_state_based for made in self.estimators)
        return self._automatic and (wanted or self._shows_path)

    @property
    def _shows_path(self) -> bool:
        return self.shown and self.question.has_values

    @property
    def _with_errors(self) -> bool:
        # The mean return has its standard error from the sums.
        wanted = any(not made.is_naive for made in self.estimators)
        return wanted and (self.interval is not None or "std_error" in self.also)

    @property
    def _before_sums(self) -> int:
        """Counts, those of the folds apart where nobody took them along, and how episodes end."""
        if not self._uses_model:
            return 0
        # A log that is read in parts, or that paths are made of first, is counted by fold from the first.
        by_fold = self._mixed or self._has_paths or not self.question.parts.has_rows
        apart = self._shows_path and not by_fold
        return 1 + apart + (not self.question.parts.knows_limit)

    @property
    def _uses_model(self) -> bool:
        if not self.question.has_values:
            return False
        checked = self.interval == "auto" and self.question.options.cross_check
        biased = self.interval is not None or "bias" in self.also
        return (
            self._has_paths
            or self._shows_path
            or any(made.uses_model or made.is_mix for made in self.estimators)
            or any(
                (checked and made.counterpart is not None) or (biased and made.is_state_based)
                for made in self.estimators
            )
        )

    @property
    def _paths(self) -> int:
        return 2 if self._has_paths else 0

    @property
    def _after_sums(self) -> int:
        """Influences, and what is asked for of each estimate by itself."""
        # Without standard errors a mix has passes of its own: for its evidence, and to check the model.
        found = self._with_errors if not self._mixed else 1 if self._with_errors else 2
        if "ess_steps" in self.also:
            found += sum(made.is_product for made in self.estimators)
        return found + len(self.estimators) * ("influence" in self.also)

    @property
    def _background(self) -> int:
        """Weights and returns where no mix takes them along; the path where no drop has needed it."""
        if not self.shown:
            return 0
        return (not self._mixed) + (4 if self._shows_path and not self._has_paths else 0)


# --------------------------------------------------------------------------------------------------------

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

    chosen, made = read_options(options), estimator_of(name)
    with opened(log, workers=workers, ray_address=ray_address) as found:
        question = ask(found, pi_e, pi_b, gamma, chosen, workers)
        steps = ["ess_steps"] if interval is not None and question.horizon <= MOST_STEPS else []
        wanted = [*_checked_also(also), *steps]
        _foresee(question, [made], drop, interval, wanted, False, 0.0)
        found_one = answer(question, [made], drop, interval, level, wanted)[made.name][1]
        return _marked(found_one) if learnt_here(pi_e, question.parts, workers) else found_one


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
    with opened(log, workers=workers, ray_address=ray_address) as found:
        question = ask(found, pi_e, pi_b, gamma, chosen, workers)
        wanted = interval is not None if background is None else background
        also = _checked_also(also)
        _foresee(question, estimators, drop, interval, also, wanted, against)
        table, _ = answered_table(question, estimators, drop, against, interval, level, also, wanted)
        done = of_learnt_policy(table) if learnt_here(pi_e, question.parts, workers) else table
        LOGGER.info(
            "evaluated %d episodes: %s, by %s", done.n_episodes, done.verdict.answer, done.headline.name
        )
        return done


def _foresee(
    question: Question,
    estimators: Sequence[str | Estimator] | None,
    drop: Any,
    interval: str | None,
    also: Sequence[str],
    shown: bool,
    baseline: float | None,
) -> None:
    """Tell whoever watches how many passes will follow; a default table is taken for one with a model."""
    if is_watched():
        names = DEFAULT_TABLE if question.has_values else DEFAULT_WITHOUT_MODEL
        wanted = distinct(names if estimators is None else estimators)
        made = with_baseline(wanted, baseline)
        expect_passes(Table(question, made, drop, interval, also, shown).passes)


def of_learnt_policy(table: Evaluation) -> Evaluation:
    """The table of a policy that was learnt from the same log: flagged, and without a verdict."""
    estimates = {name: _marked(one) for name, one in table.estimates.items()}
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
        found = f"{baseline}" if isinstance(baseline, Real) else f"{type(baseline).__name__}"
        raise OptionError(
            f"baseline must be None (the behaviour policy) or a number, the value to beat; found {found}.",
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
