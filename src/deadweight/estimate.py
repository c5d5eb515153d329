"""The verbs: `estimate` for one estimator, `evaluate` for a table of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from deadweight.basics.progress import LOGGER, expect_passes, is_watched
from deadweight.diagnostics.passes_ahead import Table
from deadweight.errors import OptionError, did_you_mean
from deadweight.estimating import (
    DEFAULT_TABLE,
    DEFAULT_WITHOUT_MODEL,
    answer,
    answered_table,
    distinct,
    with_baseline,
)
from deadweight.estimators.estimator import Estimator
from deadweight.estimators.names import estimator_of
from deadweight.log.sources import Source
from deadweight.question.asking import Policy, ask
from deadweight.question.core import Question
from deadweight.question.opened_source import opened
from deadweight.question.options import read_options
from deadweight.results import FLAGS, Estimate, Evaluation
from deadweight.sums.log_fingerprint import learnt_here

__all__ = ["Policy", "Source", "answer", "estimate", "evaluate"]

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
        question (`deadweight.question.core.Question`) and returns any of these, flags in its log's order.
      gamma: discount in (0, 1].
      interval: kind of confidence interval, or None.
      level: its confidence level.
      also: parts of the estimate that take work of their own, to be made even if the interval does not need
        them: "std_error", "bias", "ess_steps", "influence".
      workers: threads on a log in memory, which has two by itself from a million steps on; processes on
        Parquet. The result does not depend on it.
      ray_address: for Parquet, the Ray cluster that does the work, or "local" to start one.
      **options: see `deadweight.question.options.Options`.

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
