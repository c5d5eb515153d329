"""The verb `compare`: which of several policies, and is it better than what was done?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deadweight.comparing.arguments import checked_draws, checked_policies, is_number
from deadweight.comparing.contenders import Contender, behaviour_value, contender_of, known_value
from deadweight.comparing.differing import Behaviours, Model, model_of, where_they_differ
from deadweight.comparing.said import BEHAVIOUR_IN_WORDS, reasons
from deadweight.comparing.simultaneous import Contest
from deadweight.errors import PolicyError
from deadweight.estimate import TRAINED, of_learnt_policy
from deadweight.estimating import answered_table, default_names
from deadweight.estimators.estimator import Estimator
from deadweight.estimators.names import estimator_of
from deadweight.inference import check_interval
from deadweight.log.interface import Log, as_log
from deadweight.log.sources import Source
from deadweight.mdp.tabular import check_gamma
from deadweight.question.asking import Policy, ask
from deadweight.question.core import Question
from deadweight.question.facts import Facts
from deadweight.question.one_behaviour import one_behaviour
from deadweight.question.opened_source import opened
from deadweight.question.options import Options, read_options
from deadweight.results import Evaluation
from deadweight.results.comparison import Comparison
from deadweight.results.differences import BASELINE, ROUNDING, SAME, Differences, PairStates
from deadweight.sums.log_fingerprint import learnt_here

# Each has a path of its own, and none a say in the comparison: in the tables where they are asked for only.
LEFT_OUT = ("WSIS", "WSPDIS", "C-WSPDIS")


@dataclass(frozen=True, eq=False)
class Entry:
    """A policy that was evaluated.

    Attributes:
      evaluation: as by itself.
      contender: its value and noise.
      model: where it goes in the fitted model, and what that earns; None without one.
      trained: whether it was learnt from this log.
      weak: why its evaluation allows no verdict; None where it does.
    """

    evaluation: Evaluation
    contender: Contender
    model: Model | None
    trained: bool
    weak: str | None


def compare(
    log: Source,
    policies: Mapping[str, Policy],
    pi_b: Policy = None,
    *,
    baseline: Any = None,
    drop: Any = "auto",
    gamma: float = 1.0,
    level: float = 0.95,
    estimators: Sequence[str | Estimator] = (),
    resamples: int = 1000,
    seed: int = 0,
    workers: int = 1,
    ray_address: str | None = None,
    **options: Any,
) -> Comparison:
    """Several policies on one log: which may be the best, and which beat the baseline.

    The policies are judged by the same episodes, so their differences are known better than their values;
    what is said of all of them holds together, with the confidence `level`.

    Args:
      log: episodes of the behaviour policy, as for `deadweight.evaluate`.
      policies: two or more, by name.
      pi_b: the behaviour policy; None takes the log's propensities.
      baseline: what they have to beat: None for the old policy, the name of one of them, a number, or
        another policy.
      drop: what state-based estimates drop, as for `deadweight.evaluate`.
      gamma: discount in (0, 1].
      level: confidence of all statements together.
      estimators: what the table of each policy has beside the estimates that the comparison rests on; WSIS,
        WSPDIS and C-WSPDIS, which have no say in it and take time, are there only if they are named.
      resamples, seed: of the simulation that makes intervals hold together.
      workers, ray_address: as for `deadweight.evaluate`.
      **options: see `deadweight.question.options.Options`.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(7)
      >>> log = lift.sample(500, seed=0)
      >>> cmp = compare(log, {"right": lift.pi_e, "as now": lift.pi_b}, lift.pi_b)
      >>> cmp.ranking, cmp.better, cmp.recommendation
      (['right', 'as now'], ['right'], 'right')
      >>> cmp.difference("right", "as now").answer
      'better'
    """
    given = checked_policies(policies, baseline)
    chosen = read_options(options)
    check_interval("auto", level, chosen)
    check_gamma(gamma)
    draws = checked_draws(level, resamples, seed)
    more = [estimator_of(one) for one in ([estimators] if isinstance(estimators, str) else estimators)]
    with opened(log, workers=workers, ray_address=ray_address) as found:
        parts, behaviour, filled = one_behaviour(as_log(found), pi_b)
        asker = _Asker(parts, behaviour, gamma, chosen, workers, filled, more)
        entries = {name: asker.entry(name, policy, drop, level) for name, policy in given.items()}
        other = _baseline(asker, baseline, entries, drop, level)
    contest = Contest([one.contender for one in entries.values()], other.contender, draws)
    return _comparison(entries, other, contest, asker.behaviours, level)


class _Asker:
    """Asks about one policy after the other; what is known of the log is found once."""

    def __init__(
        self,
        parts: Log,
        pi_b: Any,
        gamma: float,
        options: Options,
        workers: int,
        filled: bool,
        more: Sequence[Estimator],
    ) -> None:
        self.parts, self.pi_b, self.gamma, self.options, self.workers = parts, pi_b, gamma, options, workers
        self.filled, self.more = filled, more
        self.facts: Facts | None = None
        self.first: Question | None = None
        self.behaviours = Behaviours()

    def question(self, name: str, policy: Policy) -> Question:
        """The question about a policy, with the facts of the log."""
        if policy is None:
            raise PolicyError(
                f"Policy {name!r} is None.", fix="Pass a policy; pi_b is the one that may be None."
            )
        try:
            asked = ask(self.parts, policy, self.pi_b, self.gamma, self.options, self.workers, self.facts)
        except PolicyError as error:
            told = error.problem.replace("pi_e", "it")
            raise PolicyError(f"Policy {name!r} does not fit: {told}", fix=error.fix) from None
        if self.filled:
            asked = replace(asked, behaviour_flags=("behaviour-filled", *asked.behaviour_flags))
        asked = replace(asked, keeps_influences=True)
        if self.first is None:
            self.first = asked
        if self.facts is None and asked.parts.has_states:  # a policy row by row has rows for states
            self.facts = asked.facts
        return asked

    def entry(self, name: str, policy: Policy, drop: Any, level: float) -> Entry:
        """A policy evaluated, with what a comparison needs to know of it."""
        question = self.question(name, policy)
        trained = learnt_here(policy, self.parts, self.workers)
        names = [one for one in default_names(question) if one not in LEFT_OUT]
        wanted = dict.fromkeys([*map(estimator_of, names), *self.more])
        also = [] if "BLEND" in names else ["influence"]
        table, plan = answered_table(question, list(wanted), drop, None, "auto", level, also)
        ess = table["WPDIS"].ess if "WPDIS" in table.estimates else None
        sound = table.verdict.sound
        contender = contender_of(plan, table.headline, ess, sound)
        weak = None if sound else table.verdict.reasons[-1]
        if trained:
            table = of_learnt_policy(table)
        return Entry(table, contender, model_of(question, self.behaviours), trained, weak)


@dataclass(frozen=True, eq=False)
class _Other:
    """What the policies are compared with.

    Attributes:
      words: what to call it.
      contender: its value and noise.
      name: of the policy that it is, where it is one of them.
      behaves: whether it is the behaviour policy.
      model: of a policy that is none of them.
    """

    words: str
    contender: Contender
    name: str | None = None
    behaves: bool = False
    model: Model | None = None


def _baseline(asker: _Asker, baseline: Any, entries: Mapping[str, Entry], drop: Any, level: float) -> _Other:
    assert asker.first is not None
    if baseline is None:
        return _Other(BEHAVIOUR_IN_WORDS, behaviour_value(asker.first), behaves=True)
    if isinstance(baseline, str):
        return _Other(baseline, entries[baseline].contender, name=baseline)
    if is_number(baseline):
        return _Other(f"{float(baseline):g}", known_value(float(baseline), asker.first.n))
    entry = asker.entry(BASELINE, baseline, drop, level)
    return _Other("the baseline policy", entry.contender, model=entry.model)


def _comparison(
    entries: Mapping[str, Entry], other: _Other, contest: Contest, behaviours: Behaviours, level: float
) -> Comparison:
    names = list(entries)
    differences = _differences(entries, other, contest)
    ranking = _ranked({name: entry.contender.value for name, entry in entries.items()})
    trained = [name for name in names if entries[name].trained]
    may_be_best, regret = _best(names, contest, trained)
    answers = {name: differences.verdict(names.index(name), None).answer for name in names}
    better = [name for name in ranking if answers[name] == "better"]
    worse = [name for name in ranking if answers[name] == "worse"]
    first = next(iter(entries.values())).evaluation
    found = Comparison(
        evaluations={name: entry.evaluation for name, entry in entries.items()},
        ranking=ranking,
        candidates=[name for name in ranking if name in may_be_best],
        better=better,
        worse=worse,
        regret_bound=dict(zip(names, regret, strict=True)),
        recommendation=better[0] if better else None,
        reasons=(),
        differences=differences,
        where=_where(entries, ranking, other, behaviours),
        ess={name: entry.contender.ess for name, entry in entries.items()},
        level=level,
        n_episodes=first.n_episodes,
        conventions={**first.conventions, "interval": "simultaneous", "resamples": contest.draws.resamples},
    )
    sparse = [name for name, entry in entries.items() if entry.contender.sparse]
    return found.with_changes(reasons=reasons(found, trained, sparse))


def _ranked(values: Mapping[str, float]) -> list[str]:
    """Names, best first; those whose values differ by rounding only stay in the order in which they came."""
    places = list(values)
    ranking: list[str] = []
    tied: list[str] = []
    for name in sorted(places, key=lambda name: -values[name]):
        if tied and abs(values[tied[-1]] - values[name]) > ROUNDING * abs(values[name]):
            ranking, tied = [*ranking, *sorted(tied, key=places.index)], []
        tied.append(name)
    return [*ranking, *sorted(tied, key=places.index)]


def _where(
    entries: Mapping[str, Entry], ranking: list[str], other: _Other, behaviours: Behaviours
) -> tuple[PairStates, ...]:
    models = {name: entry.model for name, entry in entries.items()}
    return where_they_differ(models, ranking, other.model, other.behaves, behaviours)


def _differences(entries: Mapping[str, Entry], other: _Other, contest: Contest) -> Differences:
    names, count = list(entries), len(entries)
    half = np.zeros((count, count))
    for k in range(count):
        for j in range(k):
            half[k, j] = half[j, k] = contest.half_width(k, j, contest.between_all)
    own = names.index(other.name) if other.name is not None else None
    against = [(0.0, 0.0) if k == own else contest.from_baseline(k) for k in range(count)]
    unsound = {}
    for name, entry in entries.items():
        if entry.trained:
            unsound[name] = TRAINED
        elif entry.weak is not None:
            unsound[name] = entry.weak
        elif other.behaves and entry.contender.acts_as_logged:
            unsound[name] = SAME
    return Differences(
        names=tuple(names),
        values=np.array([entry.contender.value for entry in entries.values()]),
        half_widths=half,
        baseline=other.words,
        baseline_value=other.contender.value,
        baseline_half_widths=np.array(against),
        unsound=unsound,
    )


def _best(names: list[str], contest: Contest, trained: list[str]) -> tuple[set[str], list[float]]:
    """Who may be the best, and how much is lost at most by each against one of those.

    A policy that was learnt from this log looks better than it is: it pushes nobody out, and what may be lost
    by it cannot be told.
    """
    rivals = [j for j, name in enumerate(names) if name not in trained]
    several = [contest.from_all_others(k) for k in range(len(names))]
    kept = [
        k
        for k, c in enumerate(several)
        if all(contest.difference(j, k) <= contest.pushes_out(j, k, c) for j in rivals if j != k)
    ]
    regret = [
        max([0.0, *(contest.difference(j, k) + contest.half_width(j, k, c) for j in kept if j != k)])
        if names[k] not in trained
        else math.inf
        for k, c in enumerate(several)
    ]
    return {names[k] for k in kept}, regret
