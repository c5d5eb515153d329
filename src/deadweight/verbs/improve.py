"""The verb `improve`: is there a better policy in this log?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.intervals import check_interval
from deadweight.answers.model_tests import check_model
from deadweight.answers.trust import confounding_of
from deadweight.diagnostics.flags import contents_of, copies_of
from deadweight.errors import EstimationError, OptionError
from deadweight.log.interface import LogLike, Source, as_log
from deadweight.log.labels import plain, visible
from deadweight.log.policies import TabularPolicy
from deadweight.question.asked import Options, read_options
from deadweight.question.question import Policy, Question, ask, ask_pair, opened
from deadweight.question.understanding import one_behaviour
from deadweight.results.estimate import FLAGS, WITHHOLDING, advice
from deadweight.results.improvement import Change, Gate, Improvement, PolicyTable
from deadweight.results.saved import ABSENT
from deadweight.sums.pairs import PolicyPair
from deadweight.sums.reduction import fingerprint
from deadweight.tools.arithmetic import two_digits
from deadweight.typing import BoolArray, Labels
from deadweight.verbs.estimate import evaluate
from deadweight.verbs.recipe import (
    FEWEST,
    Judgement,
    Learnt,
    Recipe,
    gain_of_shipped,
    judge,
    judge_in_sample,
    judge_strictly,
    learn,
)

# --------------------------------------------------------------------------------------------------------
# The answer in sentences: what was found, what it rests on, and what it would take to be sure.

# More than so many times the episodes there are, and nobody would wait for them.
MOST_TIMES = 1_000
JUDGED = {
    "halves": "Learnt on one half of the episodes and judged on the other, both ways and for "
    "two random halvings, such changes gained",
    "strict": "On the half of the episodes that it was not learnt from, the policy gained",
    "none": "On the episodes that it was learnt from, the policy gains",
}
MEANING = {
    "halves": "This certifies the recipe at half the size of the log, not the policy itself: the policy that "
    "is learnt from all episodes has not been judged on any that it has not seen.",
    "strict": "This certifies the policy itself. Half of the log was spent on that, so that fewer changes "
    "are found.",
    "none": "Nothing is certified: a policy looks better on the episodes it was learnt from than it is.",
}

STATE = (
    "See first whether the states show everything that rewards and transitions depend on: what was done "
    "before, say, or how much was given so far."
)


def made(changes: Sequence[Change], n_states: int) -> str:
    """What the policy does."""
    pays = "another action pays by more than the log leaves open"
    if len(changes) == n_states:
        return f"In every visited state ({n_states:,}) {pays}."
    where = f"In {len(changes):,} of {n_states:,} visited states"
    return f"{where} {pays}; everywhere else the policy stays what it was."


def not_made(changes: Sequence[Change], n_states: int) -> str:
    """What it could do."""
    return (
        f"In {len(changes):,} of {n_states:,} visited states another action seems to pay by more than the "
        "log leaves open."
    )


def measured(gate: Gate) -> str:
    """What the gate found."""
    return (
        f"{JUDGED[gate.kind]} {gate.gain:+.4g} for each episode, at least {gate.lower:+.4g} with "
        f"{gate.level:.0%} confidence."
    )


def shipped(gate: Gate, interval: tuple[float, float]) -> str:
    """What the policy gains that is shipped."""
    low, high = interval
    more = ", and for what half of the episodes could not teach" if gate.kind == "halves" else ""
    return (
        f"The policy itself is expected to gain between {low:+.4g} and {high:+.4g} ({gate.level:.0%} "
        f"confidence): that allows for errors of the model, as far as the log shows them{more}."
    )


def after_shipping(gate: Gate) -> str:
    """What to do with a policy that is improved."""
    trial = "Read the list of changes, veto what cannot be right, and try the policy on new episodes"
    return f"{trial}." if gate.kind == "strict" else f"{trial}: evaluating it on this log proves nothing."


def nothing_found(recipe: Recipe) -> str:
    """No state in which a change pays."""
    return (
        f"In no state does another action pay by more than {recipe.caution:g} standard errors, among those "
        f"that were tried there at least {recipe.min_visits} times."
    )


def closed(gate: Gate) -> str:
    """Why the gate is closed."""
    if not any(gate.changed):
        return "Half of the episodes are too few to find any of them again: there is nothing to judge."
    return f"{measured(gate)} That is not enough to be sure that they gain anything."


def vetoed(gate: Gate) -> str:
    """Why an open gate is closed again."""
    return (
        "That is what a model of single steps says. A second look at the same episodes, which follows what "
        f"an action does many steps later, finds {gate.linear:+.4g}, at least {gate.linear_lower:+.4g} with "
        f"{gate.level:.0%} confidence: what is done has effects that the states do not show, and such "
        "changes may do harm."
    )


def too_few(n: int, needed: int) -> str:
    """A log that cannot be halved."""
    return f"A log of {n:,} episodes is too short to be halved; {needed} are the least."


def needed(gate: Gate, n: int) -> str:
    """How many episodes would open the gate."""
    if not any(gate.changed):
        return (
            f"With about {two_digits(2 * n):,} episodes each half would be as large as this log, and could "
            "be judged."
        )
    if not gate.gain > 0:
        return (
            "More episodes of the same kind need not help: on episodes that they were not learnt from the "
            "changes did not pay."
        )
    episodes = math.ceil(n * ((gate.gain - gate.lower) / gate.gain) ** 2)
    if episodes > MOST_TIMES * n:
        return "The gain is so small that no log of reasonable size would show it."
    return (
        f"About {two_digits(episodes):,} episodes would do, if the gain is what it seems; this log has {n:,}."
    )


def closest(learnt: Learnt, recipe: Recipe, states: Labels, actions: Labels) -> str:
    """Which action is nearest to being taken, and how often it would have to be tried."""
    error, above = recipe.caution * learnt.std_error, learnt.advantage
    # An action that would have to be tried a thousand times as often is not close to anything.
    close = (above > 0) & (learnt.visits > 0) & (error <= np.sqrt(MOST_TIMES) * above)
    if not close.any():
        return "No action looks better anywhere than what is done already."
    worth = np.where(close, above * learnt.visits.sum(axis=1, keepdims=True), 0.0)
    s, a = divmod(int(np.argmax(worth)), worth.shape[1])
    tries = max(learnt.visits[s, a] * (error[s, a] / above[s, a]) ** 2, recipe.min_visits)
    state, action = visible(str(states[s])), visible(str(actions[a]))
    return (
        f"The most promising one is {action} in state {state}: worth {learnt.advantage[s, a]:+.3g} ± "
        f"{learnt.std_error[s, a]:.2g} for each visit after {int(learnt.visits[s, a]):,} tries; about "
        f"{two_digits(math.ceil(tries)):,} tries would settle it, if it is what it seems."
    )


# --------------------------------------------------------------------------------------------------------

LABELS = (
    "Evaluate or compare policies that you have; or give the log a column state, with groups of states that "
    "a person would tell apart."
)
GATES = {True: "halves", False: "none", "strict": "strict"}


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was learnt and how it was judged, before it is said.

    Attributes:
      learnt: from the whole log or, in the strict form, from one half.
      gate: how it was judged; None where there was nothing to judge.
      refused: why nothing is changed, whatever the gate says; None where the gate decides.
      unseen: (n,) the episodes that the policy has not seen; None where it has seen them all.
      interval: of the gain of the policy, where there is something to judge.
    """

    learnt: Learnt
    gate: Gate | None
    refused: str | None = None
    unseen: BoolArray | None = None
    interval: tuple[float, float] = (0.0, 0.0)

    @property
    def improved(self) -> bool:
        """Whether the policy may be shipped."""
        opened = self.gate is not None and (self.gate.is_open or self.gate.kind == "none")
        return self.refused is None and opened and self.learnt.changed.size > 0


def improve(
    log: Source,
    pi_b: Policy = None,
    *,
    caution: float = 2.0,
    min_visits: int = 10,
    gate: bool | str = True,
    level: float = 0.95,
    gamma: float = 1.0,
    seed: int = 0,
    evaluation: bool = True,
    workers: int = 1,
    ray_address: str | None = None,
    **options: Any,
) -> Improvement:
    """A policy that does something else than the behaviour policy where that pays, and only there.

    Args:
      log: episodes of the behaviour policy, as for `deadweight.evaluate`.
      pi_b: the behaviour policy; None counts it from the log, and `evaluation` uses the log's propensities.
      caution: standard errors by which a change must pay in its state.
      min_visits: how often an action must have been tried in a state before it may be taken there.
      gate: True changes something only if policies learnt on halves of the log gain on the other halves.
        "strict" ships the policy learnt on one half, certified on the other. False certifies nothing.
      level: confidence of the gate, and of the interval.
      gamma: discount in (0, 1].
      seed: of the resamples and of the halves.
      evaluation: evaluate the policy on the log as well.
      workers, ray_address: as for `deadweight.evaluate`.
      **options: see `deadweight.question.asked.Options`.

    Example:
      >>> from deadweight.domains import stochastic_lift
      >>> lift = stochastic_lift(7)
      >>> imp = improve(lift.sample(1000, seed=0), lift.pi_b, evaluation=False)
      >>> imp.answer, imp.gain > 4, len(imp.changes)
      ('improved', True, 3)
      >>> print(imp.changes[0])
      in state 2 do 1 instead of 0 (50%): worth +2.56 ± 0.05 for each visit, seen 513 times
    """
    recipe = Recipe(caution, min_visits)
    kind = _gate_kind(gate)
    chosen = _own_options(options)
    check_interval("auto", level, chosen)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise OptionError(
            f"seed must be a whole number of at least 0; found {seed!r}.", fix="For example seed=0."
        )
    with opened(log, workers=workers, ray_address=ray_address) as source:
        question = _asked(source, pi_b, gamma, chosen, workers)
        outcome = _outcome(question, recipe, kind, level, np.random.default_rng(seed))
        settings = {
            "caution": caution,
            "min_visits": min_visits,
            "gate": kind,
            "level": level,
            "gamma": gamma,
            "seed": seed,
        }
        policy = _policy(question, outcome, pi_b)
        evaluated = ABSENT
        if evaluation:
            seen = outcome.unseen is None or not question.parts.has_rows or not outcome.improved
            about = source if seen else question.parts[0].select(outcome.unseen)  # type: ignore[arg-type]
            behaviour = _logged_or_counted(question, pi_b)
            evaluated = evaluate(
                about, policy, behaviour, gamma=gamma, level=level, workers=workers, **options
            )
        return _said(question, outcome, recipe, policy, settings, evaluated)


def _gate_kind(gate: bool | str) -> str:
    if not isinstance(gate, bool | str) or gate not in GATES:
        raise OptionError(
            f'gate must be True, False or "strict"; found {gate!r}.', fix="For example gate=True."
        )
    return GATES[gate]


def _own_options(given: dict[str, Any]) -> Options:
    """The options, without what a policy cannot be learnt with."""
    options = read_options(given)
    if options.model is not None:
        raise OptionError(
            "improve learns from models of the log and of its resamples; model= cannot be given.",
            fix="Leave model out; the best policy of a known MDP needs no log.",
        )
    if options.unseen == "mean":
        raise OptionError(
            'improve takes unseen="pool" or "terminate"; found "mean".',
            fix='Leave unseen out, or pass unseen="pool".',
        )
    return options


def _asked(log: LogLike, pi_b: Policy, gamma: float, options: Options, workers: int) -> Question:
    """The question about the behaviour policy itself, given or counted."""
    # Several old policies are together what was done on average, which is counted.
    source = as_log(log)
    parts, behaviour, _ = one_behaviour(source, pi_b)
    if not parts.has_states:
        raise EstimationError(
            "improve needs states with labels, in which it can count; this log has features only.",
            fix=LABELS,
        )
    if behaviour is None:
        labels = parts.labels
        pair = PolicyPair(None, None, labels.states, labels.actions)
        made_by = source if source.has_behaviour_ids else None
        return replace(ask_pair(parts, pair, gamma, options, workers), made_by=made_by)
    question = ask(parts, behaviour, behaviour, gamma, options, workers)
    if not question.parts.has_states:
        raise EstimationError(
            "improve needs pi_b as a function of the state; this one gives each row of the log probabilities "
            "of its own.",
            fix="Leave pi_b out, and it is counted from the log.",
        )
    return question


def _outcome(
    question: Question, recipe: Recipe, kind: str, level: float, rng: np.random.Generator
) -> Outcome:
    if kind == "strict" and question.n >= FEWEST:
        judgement = judge_strictly(question, recipe, rng)
        gate, interval = _gate(judgement, kind, level), gain_of_shipped(judgement, level)
        outcome = Outcome(judgement.learnt[0], gate, None, judgement.halves[0], interval)
    else:
        learnt = learn(question, recipe, rng, np.ones(question.n))
        outcome = Outcome(learnt, None)
        if learnt.changed.size == 0:
            return outcome
        if kind == "none":
            in_sample = judge_in_sample(question, learnt)
            return Outcome(learnt, _gate(in_sample, kind, level), interval=gain_of_shipped(in_sample, level))
        if question.n < FEWEST:
            return Outcome(learnt, None, too_few(question.n, FEWEST))
        judgement = judge(question, recipe, rng)
        outcome = Outcome(learnt, _gate(judgement, kind, level))
        if outcome.improved:
            in_sample = judge_in_sample(question, learnt)
            outcome = replace(outcome, interval=gain_of_shipped(judgement, level, in_sample))
    if question.has_mixed_worlds:
        return replace(outcome, refused=FLAGS["mixed-worlds"])
    if _is_confounded(question):
        return replace(outcome, refused=FLAGS["confounded-model"])
    if _has_copies(question):  # halves that share episodes judge what was learnt from them
        return replace(outcome, refused=FLAGS["copies"])
    misfit = check_model(question)
    if misfit is not None and misfit.found:
        doubt = f"{misfit.reason} What is learnt from such a model is not to be trusted."
        return replace(outcome, refused=doubt)
    return outcome


def _is_confounded(question: Question) -> bool:
    """Whether the old policy looked at something that matters and that the states leave out."""
    if "propensities" not in question.parts.labels.logged:
        return False
    logged = replace(question.pair, pi_e=question.pi_b, pi_b=None)
    confounding = confounding_of(Answers(replace(question, pair=logged), ()))
    return confounding is not None and confounding.found


def _has_copies(question: Question) -> bool:
    answers = Answers(question, ())
    answers.sum(contents_of(question))
    copies = copies_of(answers)
    return copies is not None and copies.found


def _gate(judgement: Judgement, kind: str, level: float) -> Gate:
    quantile = judgement.quantile(level)
    error = quantile * judgement.std_error
    return Gate(
        kind,
        judgement.gain,
        judgement.std_error,
        judgement.gain - error,
        judgement.gain + error,
        level,
        judgement.by_half,
        tuple(int(recipe.changed.size) for recipe in judgement.learnt),
        judgement.linear,
        judgement.linear - quantile * judgement.linear_error,
        judgement.apart,
    )


def _changes(question: Question, learnt: Learnt) -> list[Change]:
    """What is changed, the most valuable first: the gain of a visit times the visits of the state."""
    pair, visits = question.pair, learnt.visits.sum(axis=1)
    actions = [plain(label) for label in pair.action_labels]

    def change(s: int) -> Change:
        a = int(learnt.action[s])
        old = {actions[b]: float(p) for b, p in enumerate(question.pi_b[s]) if p > 0}
        gain, error = float(learnt.advantage[s, a]), float(learnt.std_error[s, a])
        return Change(plain(pair.state_labels[s]), old, actions[a], gain, error, int(learnt.visits[s, a]))

    def worth(s: int) -> float:
        return -float(learnt.advantage[s, learnt.action[s]] * visits[s])

    return [change(int(s)) for s in sorted(learnt.changed, key=worth)]


def _policy(question: Question, outcome: Outcome, pi_b: Policy) -> TabularPolicy:
    """The policy to ship: the learnt one with the mark of its log, or the behaviour policy."""
    if not outcome.improved:
        if isinstance(pi_b, TabularPolicy):
            return pi_b
        return _labelled(question, question.pi_b, None)
    return _labelled(question, outcome.learnt.pi, fingerprint(question.parts, question.workers))


def _labelled(question: Question, probs: Any, trained_on: str | None) -> TabularPolicy:
    pair = question.pair
    return TabularPolicy(probs, list(pair.state_labels), list(pair.action_labels), trained_on)


def _logged_or_counted(question: Question, pi_b: Policy) -> Policy:
    """The behaviour policy for an evaluation: as given, else as logged, else as counted."""
    if pi_b is not None or "propensities" in question.parts.labels.logged:
        return pi_b
    return _labelled(question, question.pi_b, None)


def _said(
    question: Question,
    outcome: Outcome,
    recipe: Recipe,
    policy: TabularPolicy,
    settings: dict[str, Any],
    evaluated: Any,
) -> Improvement:
    learnt, gate = outcome.learnt, outcome.gate
    considered = _changes(question, learnt)
    visited = int(np.count_nonzero(question.visits))
    if outcome.improved:
        assert gate is not None
        reasons = [made(considered, visited), measured(gate), MEANING[gate.kind]]
        if gate.kind != "none":
            reasons.append(shipped(gate, outcome.interval))
        step = after_shipping(gate)
    else:
        reasons, step = _why_not(question, outcome, recipe, considered, visited)
    if question.pair.pi_b is None:
        reasons.append("The old policy is the one counted from the log.")
    return Improvement(
        answer="improved" if outcome.improved else "no change",
        table=PolicyTable.of(policy),
        changes=considered if outcome.improved else [],
        gain=gate.gain if outcome.improved and gate is not None else 0.0,
        interval=outcome.interval if outcome.improved else (0.0, 0.0),
        reasons=tuple(reasons),
        next_step=step,
        considered=considered,
        gate=gate,
        n_episodes=question.n,
        n_states=visited,
        settings=settings,
        evaluation=evaluated,
    )


def _why_not(
    question: Question, outcome: Outcome, recipe: Recipe, considered: list[Change], visited: int
) -> tuple[list[str], str]:
    """Why nothing is changed, and what it would take."""
    gate, pair = outcome.gate, question.pair
    if not considered:
        step = closest(outcome.learnt, recipe, pair.state_labels, pair.action_labels)
        return [nothing_found(recipe)], step
    reasons = [not_made(considered, visited)]
    if outcome.refused is not None:
        mend = next((advice(flag) for flag in WITHHOLDING if outcome.refused == FLAGS[flag]), STATE)
        few = f"Log {FEWEST} episodes or more; some hundreds are more like it."
        return [*reasons, outcome.refused], few if gate is None else mend
    assert gate is not None
    if gate.vetoed:
        return [*reasons, measured(gate), vetoed(gate)], STATE
    return [*reasons, closed(gate)], needed(gate, question.n)
