"""The verb `compare`: which of several policies, and is it better than what was done?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from deadweight.answers.intervals import check_interval
from deadweight.errors import OptionError, PolicyError, did_you_mean
from deadweight.estimators.estimator import Estimator, estimator_of
from deadweight.log.interface import Log, Source, as_log, check_gamma
from deadweight.question.asked import Facts, Options, read_options
from deadweight.question.question import Policy, Question, ask, opened
from deadweight.question.understanding import one_behaviour
from deadweight.results.comparison import (
    BASELINE,
    ROUNDING,
    SAME,
    UNSOUND,
    Comparison,
    Differences,
    quoted,
)
from deadweight.results.estimate import GRAVE, remark
from deadweight.results.evaluation import Evaluation
from deadweight.sums.reduction import learnt_here
from deadweight.verbs.contenders import (
    Behaviours,
    Contender,
    Contest,
    Draws,
    Model,
    behaviour_value,
    contender_of,
    known_value,
    model_of,
    where_they_differ,
)
from deadweight.verbs.estimate import TRAINED, answered_table, default_names, of_learnt_policy

MOST_NAMED = 6
BEHAVIOUR_IN_WORDS = "the old policy"
# Each has a path of its own, and none a say in the comparison: in the tables where they are asked for only.
LEFT_OUT = ("WSIS", "WSPDIS", "C-WSPDIS")


@dataclass(frozen=True, eq=False)
class Entry:
    """A policy that was evaluated."""

    evaluation: Evaluation  # as by itself
    contender: Contender
    model: Model | None  # where it goes in the fitted model, and what that earns
    trained: bool  # whether it was learnt from this log
    weak: str | None  # why its evaluation allows no verdict; None where it does


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
      **options: see `deadweight.question.asked.Options`.

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
    more = [estimator_of(name) for name in ([estimators] if isinstance(estimators, str) else estimators)]
    with opened(log, workers=workers, ray_address=ray_address) as source:
        parts, behaviour, filled = one_behaviour(as_log(source), pi_b)
        asker = _Asker(parts, behaviour, gamma, chosen, workers, filled, more)
        entries = {name: asker.entry(name, policy, drop, level) for name, policy in given.items()}
        rival = _rival(asker, baseline, entries, drop, level)
    contest = Contest([entry.contender for entry in entries.values()], rival.contender, draws)
    return _comparison(entries, rival, contest, asker.behaviours, level)


@dataclass(eq=False)
class _Asker:
    """Questions about one policy after the other; what is known of the log is found once."""

    parts: Log
    pi_b: Any
    gamma: float
    options: Options
    workers: int
    filled: bool  # whether gaps of the behaviour policy were filled
    more: Sequence[Estimator]  # beside those of the comparison
    facts: Facts | None = None
    first: Question | None = None
    behaviours: Behaviours = field(default_factory=Behaviours)

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
        flags = ("behaviour-filled",) if self.filled else ()
        asked = replace(asked, behaviour_flags=(*flags, *asked.behaviour_flags), keeps_influences=True)
        if self.first is None:
            self.first = asked
        if self.facts is None and asked.parts.has_states:  # a policy row by row has rows for states
            self.facts = asked.facts
        return asked

    def entry(self, name: str, policy: Policy, drop: Any, level: float) -> Entry:
        """A policy evaluated, with what a comparison needs to know of it."""
        question = self.question(name, policy)
        trained = learnt_here(policy, self.parts, self.workers)
        names = [name for name in default_names(question) if name not in LEFT_OUT]
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
class _Rival:
    """The baseline of the comparison."""

    words: str  # what to call it
    contender: Contender
    name: str | None = None  # of the policy that it is, where it is one of them
    behaves: bool = False  # whether it is the behaviour policy
    model: Model | None = None  # of a policy that is none of them


def _rival(asker: _Asker, baseline: Any, entries: Mapping[str, Entry], drop: Any, level: float) -> _Rival:
    assert asker.first is not None
    if baseline is None:
        return _Rival(BEHAVIOUR_IN_WORDS, behaviour_value(asker.first), behaves=True)
    if isinstance(baseline, str):
        return _Rival(baseline, entries[baseline].contender, name=baseline)
    if is_number(baseline):
        return _Rival(f"{float(baseline):g}", known_value(float(baseline), asker.first.n))
    entry = asker.entry(BASELINE, baseline, drop, level)
    return _Rival("the baseline policy", entry.contender, model=entry.model)


def _comparison(
    entries: Mapping[str, Entry], rival: _Rival, contest: Contest, behaviours: Behaviours, level: float
) -> Comparison:
    names = list(entries)
    differences = _differences(entries, rival, contest)
    ranking = _ranked({name: entry.contender.value for name, entry in entries.items()})
    trained = [name for name in names if entries[name].trained]
    may_be_best, regret = _best(names, contest, trained)
    answers = {name: differences.verdict(names.index(name), None).answer for name in names}
    better, worse = ([name for name in ranking if answers[name] == answer] for answer in ("better", "worse"))
    first = next(iter(entries.values())).evaluation
    models = {name: entry.model for name, entry in entries.items()}
    comparison = Comparison(
        evaluations={name: entry.evaluation for name, entry in entries.items()},
        ranking=ranking,
        candidates=[name for name in ranking if name in may_be_best],
        better=better,
        worse=worse,
        regret_bound=dict(zip(names, regret, strict=True)),
        recommendation=better[0] if better else None,
        reasons=(),
        differences=differences,
        where=where_they_differ(models, ranking, rival.model, rival.behaves, behaviours),
        ess={name: entry.contender.ess for name, entry in entries.items()},
        level=level,
        n_episodes=first.n_episodes,
        conventions={**first.conventions, "interval": "simultaneous", "resamples": contest.draws.resamples},
    )
    sparse = [name for name, entry in entries.items() if entry.contender.sparse]
    return comparison.with_changes(reasons=reasons(comparison, trained, sparse))


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


def _differences(entries: Mapping[str, Entry], rival: _Rival, contest: Contest) -> Differences:
    names, count = list(entries), len(entries)
    half = np.zeros((count, count))
    for k in range(count):
        for j in range(k):
            half[k, j] = half[j, k] = contest.half_width(k, j, contest.between_all)
    place = names.index(rival.name) if rival.name is not None else None
    against = [(0.0, 0.0) if k == place else contest.from_baseline(k) for k in range(count)]
    unsound = {}
    for name, entry in entries.items():
        if entry.trained:
            unsound[name] = TRAINED
        elif entry.weak is not None:
            unsound[name] = entry.weak
        elif rival.behaves and entry.contender.acts_as_logged:
            unsound[name] = SAME
    return Differences(
        names=tuple(names),
        values=np.array([entry.contender.value for entry in entries.values()]),
        half_widths=half,
        baseline=rival.words,
        baseline_value=rival.contender.value,
        baseline_half_widths=np.array(against),
        unsound=unsound,
    )


def _best(names: list[str], contest: Contest, trained: list[str]) -> tuple[set[str], list[float]]:
    """Names of those who may be the best, and how much is lost at most by each against one of them.

    A policy that was learnt from this log looks better than it is: it pushes nobody out, and what may be lost
    by it cannot be told.
    """
    rivals = [j for j, name in enumerate(names) if name not in trained]
    quantiles = [contest.from_all_others(k) for k in range(len(names))]
    kept = [
        k
        for k, c in enumerate(quantiles)
        if all(contest.difference(j, k) <= contest.pushes_out(j, k, c) for j in rivals if j != k)
    ]
    regret = [
        max([0.0, *(contest.difference(j, k) + contest.half_width(j, k, c) for j in kept if j != k)])
        if names[k] not in trained
        else math.inf
        for k, c in enumerate(quantiles)
    ]
    return {names[k] for k in kept}, regret


# --- Arguments, refused before any work where they cannot be compared


def checked_policies(policies: Any, baseline: Any) -> dict[str, Policy]:
    """The policies by name; the baseline is checked with them."""
    if not isinstance(policies, Mapping):
        raise OptionError(
            f"policies must be a mapping of names to policies; found {type(policies).__name__}.",
            fix='For example {"old rule": pi_a, "new rule": pi_b}.',
        )
    given = dict(policies)
    if len(given) < 2:
        raise OptionError(
            f"A comparison needs two policies or more; found {len(given)}.",
            fix="For one policy use deadweight.evaluate, which compares it with the old policy.",
        )
    for name in given:
        if not isinstance(name, str) or not name.strip():
            raise OptionError(f"Names of policies must be text; found {name!r}.", fix="Give each one a name.")
        if name == BASELINE:
            raise OptionError(f"No policy may be called {BASELINE!r}.", fix="Choose another name.")
    if isinstance(baseline, str) and baseline not in given:
        raise OptionError(
            f"baseline={baseline!r} is none of the policies.{did_you_mean(baseline, given)}",
            fix=f"Policies: {', '.join(given)}. None compares with the old policy.",
        )
    if is_number(baseline) and not math.isfinite(float(baseline)):
        raise OptionError(
            f"baseline must be a finite number; found {baseline}.",
            fix="For example baseline=0.75, or baseline=None for the old policy.",
        )
    return given


def is_number(baseline: Any) -> bool:
    """Whether a baseline is a value to beat, and no policy."""
    return isinstance(baseline, Real) or getattr(baseline, "ndim", None) == 0


def checked_draws(level: float, resamples: Any, seed: Any) -> Draws:
    """The draws that simulate noise."""
    for name, value, least in (("resamples", resamples, 100), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise OptionError(
                f"{name} must be a whole number of at least {least}; found {value!r}.",
                fix="For example resamples=1000, seed=0.",
            )
    return Draws(level, resamples, seed)


# --- The comparison in words that a reader without statistics can follow


def reasons(cmp: Comparison, trained: Sequence[str], sparse: Sequence[str]) -> tuple[str, ...]:
    """Sentences: the recommendation and why, the policies that may be the best, and what to beware of.

    Args:
      cmp: the comparison, without reasons.
      trained: policies that were learnt from the log.
      sparse: policies for which the log is sparse.
    """
    said = [_first(cmp), _recommended(cmp), _best_in_words(cmp)]
    if trained:
        said.append(
            f"{named(trained)} {'was' if len(trained) == 1 else 'were'} learnt from this log, and "
            f"{'looks' if len(trained) == 1 else 'look'} better on it than on others: nothing is claimed of "
            f"{'it' if len(trained) == 1 else 'them'}. Judge by episodes that were not used for learning."
        )
    same = [name for name, why in cmp.differences.unsound.items() if why == SAME]
    if same:
        said.append(
            f"{named(same)} {'does' if len(same) == 1 else 'do'} what the old policy does, with the "
            "same probabilities: there is no difference to find."
        )
    silent = [name for name in sparse if _says_more_alone(cmp, name)]
    if silent:
        said.append(
            f"Of {named(silent)} an evaluation alone would claim more. The log is sparse for "
            f"{'it' if len(silent) == 1 else 'them'}: estimates by episodes that no model was fitted to lie "
            "apart, and a comparison allows for all of that."
        )
    return (*said, *_doubts(cmp))


def _says_more_alone(cmp: Comparison, name: str) -> bool:
    """Whether a policy's own evaluation has a verdict that the comparison with the same baseline has not."""
    if cmp.baseline != BEHAVIOUR_IN_WORDS or cmp.difference(name).answer != "cannot tell":
        return False
    return cmp[name].verdict.answer != "cannot tell"


def _doubts(cmp: Comparison) -> Iterator[str]:
    """Sentences on what is weak about evaluations, by flag and by reason."""
    for flag in GRAVE:
        names = [name for name in cmp.with_flag(flag) if name not in cmp.differences.unsound]
        if names:
            yield f"Of {named(names)}: {remark(flag, cmp[names[0]].headline.about)}"
    by_reason: dict[str, list[str]] = {}
    for name, why in cmp.differences.unsound.items():
        if why not in UNSOUND:
            by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        yield f"Nothing is claimed of {named(names)}. {why}"


def _first(cmp: Comparison) -> str:
    top = cmp.ranking[0]
    headline = cmp.evaluations[top].headline
    said = (
        f"{quoted(top)} ranks first of {len(cmp.ranking)}: {headline.name} puts it at {headline.value:.4g} "
        "for each episode"
    )
    if cmp.baseline == top:
        return f"{said}; it is the one that the others are compared with."
    if cmp.baseline == f"{cmp.baseline_value:g}":  # a number, whose name is its value
        return f"{said}, against {cmp.baseline}, the value to beat."
    return f"{said}, against {cmp.baseline_value:.4g} for {_baseline_in_words(cmp)}."


def _recommended(cmp: Comparison) -> str:
    number = "both" if len(cmp.ranking) == 2 else f"all {len(cmp.ranking)}"
    together = f"with {cmp.level:.0%} confidence for {number} policies together"
    if cmp.recommendation is None:
        return f"No policy is shown to be better than {_baseline_in_words(cmp)}, {together}."
    chosen = cmp.recommendation
    low, high = cmp.difference(chosen).interval
    others = [name for name in cmp.better if name != chosen]
    more = f"; so {'is' if len(others) == 1 else 'are'} {named(others)}" if others else ""
    return (
        f"{quoted(chosen)} is better than {_baseline_in_words(cmp)}, by {low:.4g} to {high:.4g} for each "
        f"episode, {together}{more}."
    )


def _best_in_words(cmp: Comparison) -> str:
    kept = cmp.candidates
    lost = cmp.regret_bound[cmp.ranking[0]]
    if len(kept) == 1:
        others = [name for name in cmp.ranking if name != kept[0]]
        worse = f"{quoted(others[0])} is" if len(others) == 1 else "All others are"
        return f"{worse} shown to be worse than {quoted(kept[0])}."
    if not math.isfinite(lost):
        at_most = f"What may be lost by choosing {quoted(cmp.ranking[0])} cannot be told."
    else:
        at_most = (
            f"By choosing {quoted(cmp.ranking[0])} at most {lost:.4g} for each episode is lost against the "
            "best of them."
        )
    return f"The best of all is one of {len(kept)}: {named(kept)}. {at_most}"


def _baseline_in_words(cmp: Comparison) -> str:
    return quoted(cmp.baseline) if cmp.baseline in cmp.ranking else cmp.baseline


def named(names: Sequence[str]) -> str:
    """Names in a sentence, the first few where there are many."""
    shown = [quoted(name) for name in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        return f"{', '.join(shown)} and {len(names) - MOST_NAMED} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
