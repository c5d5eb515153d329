"""The verb `improve`: is there a better policy in this log?"""

from __future__ import annotations

import math
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

# More than so many times the episodes there are, and nobody would wait for them.
MOST_TIMES = 1_000
GATES = {True: "halves", False: "none", "strict": "strict"}
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
LABELS = (
    "Evaluate or compare policies that you have; or give the log a column state, with groups of states that "
    "a person would tell apart."
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A policy with how it was learnt and judged, before it is put in words."""

    learnt: Learnt  # from the whole log or, in the strict form, from one half
    gate: Gate | None  # how it was judged; None where there was nothing to judge
    refused: str | None = None  # why nothing is changed, whatever the gate says; None where the gate decides
    unseen: BoolArray | None = None  # (n,) episodes that the policy has not seen; None where it has seen all
    interval: tuple[float, float] = (0.0, 0.0)  # of the gain of the policy, where there is one to judge

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
    recipe, kind, chosen = (
        Recipe(caution, min_visits),
        _gate_kind(gate),
        _checked_options(options, level, seed),
    )
    settings = {"caution": caution, "min_visits": min_visits, "gate": kind}
    settings |= {"level": level, "gamma": gamma, "seed": seed}
    with opened(log, workers=workers, ray_address=ray_address) as source:
        question = _asked(source, pi_b, gamma, chosen, workers)
        outcome = _outcome(question, recipe, kind, level, np.random.default_rng(seed))
        policy, evaluated = _policy(question, outcome, pi_b), ABSENT
        if evaluation:
            unseen, behaviour = outcome.unseen, _logged_or_counted(question, pi_b)
            held_out = unseen is not None and question.parts.has_rows and outcome.improved
            about = question.parts[0].select(unseen) if held_out else source  # type: ignore[arg-type]
            options |= {"gamma": gamma, "level": level, "workers": workers}
            evaluated = evaluate(about, policy, behaviour, **options)
        return _result(question, outcome, recipe, policy, settings, evaluated)


def _gate_kind(gate: bool | str) -> str:
    if not isinstance(gate, bool | str) or gate not in GATES:
        raise OptionError(
            f'gate must be True, False or "strict"; found {gate!r}.', fix="For example gate=True."
        )
    return GATES[gate]


def _checked_options(given: dict[str, Any], level: float, seed: int) -> Options:
    """The options, refused where a policy cannot be learnt with them."""
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
    check_interval("auto", level, options)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise OptionError(
            f"seed must be a whole number of at least 0; found {seed!r}.", fix="For example seed=0."
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
        return replace(outcome, refused=_refusal(question))
    learnt = learn(question, recipe, rng, np.ones(question.n))
    if learnt.changed.size == 0:
        return Outcome(learnt, None)
    if kind == "none":
        in_sample = judge_in_sample(question, learnt)
        return Outcome(learnt, _gate(in_sample, kind, level), interval=gain_of_shipped(in_sample, level))
    if question.n < FEWEST:
        few = f"A log of {question.n:,} episodes is too short to be halved; {FEWEST} are the least."
        return Outcome(learnt, None, few)
    judgement = judge(question, recipe, rng)
    outcome = Outcome(learnt, _gate(judgement, kind, level))
    if outcome.improved:
        in_sample = judge_in_sample(question, learnt)
        outcome = replace(outcome, interval=gain_of_shipped(judgement, level, in_sample))
    return replace(outcome, refused=_refusal(question))


def _refusal(question: Question) -> str | None:
    """The reason not to trust any policy that is learnt from this log; None where there is none."""
    if question.has_mixed_worlds:
        return FLAGS["mixed-worlds"]
    if "propensities" in question.parts.labels.logged:
        logged = replace(question.pair, pi_e=question.pi_b, pi_b=None)
        confounding = confounding_of(Answers(replace(question, pair=logged), ()))
        if confounding is not None and confounding.found:
            return FLAGS["confounded-model"]
    answers = Answers(question, ())
    answers.sum(contents_of(question))
    copies = copies_of(answers)
    if copies is not None and copies.found:  # halves that share episodes judge what was learnt from them
        return FLAGS["copies"]
    misfit = check_model(question)
    if misfit is not None and misfit.found:
        return f"{misfit.reason} What is learnt from such a model is not to be trusted."
    return None


def _gate(judgement: Judgement, kind: str, level: float) -> Gate:
    quantile = judgement.quantile(level)
    error = quantile * judgement.std_error
    return Gate(
        kind=kind,
        gain=judgement.gain,
        std_error=judgement.std_error,
        lower=judgement.gain - error,
        upper=judgement.gain + error,
        level=level,
        by_half=judgement.by_half,
        changed=tuple(int(learnt.changed.size) for learnt in judgement.learnt),
        linear=judgement.linear,
        linear_lower=judgement.linear - quantile * judgement.linear_error,
        apart=judgement.apart,
    )


def _changes(question: Question, learnt: Learnt) -> list[Change]:
    """The changes, the most valuable first: the gain of a visit times the visits of the state."""
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
    if outcome.improved:
        return _labelled(question, outcome.learnt.pi, fingerprint(question.parts, question.workers))
    return pi_b if isinstance(pi_b, TabularPolicy) else _labelled(question, question.pi_b)


def _labelled(question: Question, probs: Any, trained_on: str | None = None) -> TabularPolicy:
    pair = question.pair
    return TabularPolicy(probs, list(pair.state_labels), list(pair.action_labels), trained_on)


def _logged_or_counted(question: Question, pi_b: Policy) -> Policy:
    """The behaviour policy for an evaluation: as given, else as logged, else as counted."""
    if pi_b is not None or "propensities" in question.parts.labels.logged:
        return pi_b
    return _labelled(question, question.pi_b)


def _result(
    question: Question,
    outcome: Outcome,
    recipe: Recipe,
    policy: TabularPolicy,
    settings: dict[str, Any],
    evaluated: Any,
) -> Improvement:
    gate, improved = outcome.gate, outcome.improved
    considered, visited = _changes(question, outcome.learnt), int(np.count_nonzero(question.visits))
    if improved:
        reasons, step = _why(outcome, len(considered), visited)
    else:
        reasons, step = _why_not(question, outcome, recipe, len(considered), visited)
    if question.pair.pi_b is None:
        reasons.append("The old policy is the one counted from the log.")
    return Improvement(
        answer="improved" if improved else "no change",
        table=PolicyTable.of(policy),
        changes=considered if improved else [],
        gain=gate.gain if improved and gate is not None else 0.0,
        interval=outcome.interval if improved else (0.0, 0.0),
        reasons=tuple(reasons),
        next_step=step,
        considered=considered,
        gate=gate,
        n_episodes=question.n,
        n_states=visited,
        settings=settings,
        evaluation=evaluated,
    )


# --- The answer in sentences


def _why(outcome: Outcome, changed: int, visited: int) -> tuple[list[str], str]:
    """Sentences on what the policy does and gains, and the next step."""
    gate, (low, high) = outcome.gate, outcome.interval
    assert gate is not None
    pays = "another action pays by more than the log leaves open"
    if changed == visited:
        what = f"In every visited state ({visited:,}) {pays}."
    else:
        where = f"In {changed:,} of {visited:,} visited states"
        what = f"{where} {pays}; everywhere else the policy stays what it was."
    reasons = [what, _gained(gate), MEANING[gate.kind]]
    if gate.kind != "none":
        more = ", and for what half of the episodes could not teach" if gate.kind == "halves" else ""
        reasons.append(
            f"The policy itself is expected to gain between {low:+.4g} and {high:+.4g} ({gate.level:.0%} "
            f"confidence): that allows for errors of the model, as far as the log shows them{more}."
        )
    trial = "Read the list of changes, veto what cannot be right, and try the policy on new episodes"
    proof = "" if gate.kind == "strict" else ": evaluating it on this log proves nothing"
    return reasons, f"{trial}{proof}."


def _gained(gate: Gate) -> str:
    return (
        f"{JUDGED[gate.kind]} {gate.gain:+.4g} for each episode, at least {gate.lower:+.4g} with "
        f"{gate.level:.0%} confidence."
    )


def _why_not(
    question: Question, outcome: Outcome, recipe: Recipe, considered: int, visited: int
) -> tuple[list[str], str]:
    """Sentences on why nothing is changed, and the next step."""
    gate, pair = outcome.gate, question.pair
    if not considered:
        nothing = (
            f"In no state does another action pay by more than {recipe.caution:g} standard errors, among "
            f"those that were tried there at least {recipe.min_visits} times."
        )
        return [nothing], _closest(outcome.learnt, recipe, pair.state_labels, pair.action_labels)
    seems = (
        f"In {considered:,} of {visited:,} visited states another action seems to pay by more than the "
        "log leaves open."
    )
    if outcome.refused is not None:
        mend = next((advice(flag) for flag in WITHHOLDING if outcome.refused == FLAGS[flag]), STATE)
        few = f"Log {FEWEST} episodes or more; some hundreds are more like it."
        return [seems, outcome.refused], few if gate is None else mend
    assert gate is not None
    if gate.vetoed:
        second_look = (
            "That is what a model of single steps says. A second look at the same episodes, which follows "
            f"what an action does many steps later, finds {gate.linear:+.4g}, at least "
            f"{gate.linear_lower:+.4g} with {gate.level:.0%} confidence: what is done has effects that the "
            "states do not show, and such changes may do harm."
        )
        return [seems, _gained(gate), second_look], STATE
    if any(gate.changed):
        closed = f"{_gained(gate)} That is not enough to be sure that they gain anything."
    else:
        closed = "Half of the episodes are too few to find any of them again: there is nothing to judge."
    return [seems, closed], _needed(gate, question.n)


def _needed(gate: Gate, n: int) -> str:
    """A sentence on how many episodes would open the gate."""
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


def _closest(learnt: Learnt, recipe: Recipe, states: Labels, actions: Labels) -> str:
    """A sentence on the action nearest to being taken, and on how many tries that needs."""
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
