r"""Checks of policies: logged probabilities, the policy to be evaluated, and several old policies.

If action a has probability p(a | s) then a share h of the visits to s should take it, where h is the harmonic
mean of the probabilities logged with a: :math:`E[1_a / p] = 1` also where p depends on more than the state.
Probabilities that differ within a state and action say that the old policy looked at something else, also
where nobody names several of them; what followed may say that it matters.
"""

from __future__ import annotations

import numpy as np

from deadweight.errors import PolicyError, TooLarge, did_you_mean, how_many
from deadweight.io.doctor_labels import Case, named
from deadweight.io.schema import Checks, Found, about, show
from deadweight.log.labels import in_the_words_of, plain
from deadweight.log.trajectories import episode_of_rows
from deadweight.sums.old_policies import SAME, Confounding, old_policies, slope_sums
from deadweight.sums.pairs import PolicyPair
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.typing import BoolArray, FloatArray, Labels

FALSE_ALARMS = 1e-3
SMALL = 1e-3
BIG_RATIO = 100.0
VARIES = 0.01


LOGGED = ("behaviour_prob",)
BY_STATE = (*LOGGED, "state")
PROBABILITY_CHECKS = Checks[Case]()


@PROBABILITY_CHECKS.add("DW421", "warning", "Behaviour probability 1 everywhere", *LOGGED)
def _one_everywhere(case: Case) -> Found | None:
    values = case.table.numbers("behaviour_prob").values
    if values.min() < 1:
        return None
    return Found(
        f"{case.table.called('behaviour_prob')} is 1 in every row: a behaviour policy without any chance "
        "shows nothing about other actions.",
        "Log the probability with which the action was drawn, or estimate it from counts (--behaviour "
        "counts).",
    )


@PROBABILITY_CHECKS.add("DW422", "warning", "Certain, but other actions were taken", *BY_STATE)
def _certain_but_not(case: Case) -> Found | None:
    log, p = case.log, _propensities(case)
    if p.min() >= 1:
        return None
    return about(
        case.rows((p >= 1) & (case.seen.actions_seen > 1)[log.states]),
        lambda rows: (
            f"behaviour_prob is 1 in {case.table.rows(rows)}, where other actions were taken in the same "
            "state."
        ),
        "Log the probability with which the action was drawn.",
    )


@PROBABILITY_CHECKS.add("DW423", "warning", "Probabilities that disagree with counts", *BY_STATE)
def _against_counts(case: Case) -> Found | None:
    p = _propensities(case)
    if p.min() >= 1:
        return None
    seen, share = case.seen, _harmonic_means(case, p)
    visits = seen.visits[seen.state]
    variance = visits * share * (1 - share)
    enough = variance >= 5
    if not enough.any():
        return None
    z = np.where(enough, (seen.count - visits * share) / np.sqrt(np.where(enough, variance, 1.0)), 0.0)
    # The normal tail beyond x is below exp(-x^2 / 2): one false alarm in a thousand logs, however many cells.
    limit = np.sqrt(2 * np.log(2 * enough.sum() / FALSE_ALARMS))
    off = np.abs(z) > limit
    if not off.any():
        return None
    worst = int(np.argmax(np.abs(z)))
    s, a, times, of = seen.state[worst], seen.action[worst], seen.count[worst], visits[worst]
    return Found(
        f"Found {how_many(int(off.sum()), 'pair')} of state and action taken more or less often than "
        f"logged: in state {show(case.log.state_labels[s])} action {show(case.log.action_labels[a])} was "
        f"taken {times:,} of {of:,} times ({times / of:.1%}) at a logged probability of {share[worst]:.1%}.",
        "Check that the column belongs to the action taken and to this policy; or use counts (--behaviour "
        "counts).",
        case.rows(off[seen.of_step]),
    )


@PROBABILITY_CHECKS.add("DW424", "warning", "Probabilities that do not sum to one", *BY_STATE)
def _sums(case: Case) -> Found | None:
    p = _propensities(case)
    seen = case.seen
    steady = seen.sums_of_states(_varying(case, p).astype(np.float64)) == 0
    total = seen.sums_of_states(_harmonic_means(case, p))
    complete = seen.actions_seen == seen.n_actions
    off = steady & (seen.visits > 0) & ((total > 1 + VARIES) | (complete & (total < 1 - VARIES)))
    if p.min() >= 1 or not off.any():
        return None
    s = int(np.flatnonzero(off)[0])
    return Found(
        "The probabilities of a state's actions should sum to 1; they do not in state "
        f"{named(case.log.state_labels, off)} (sum {total[s]:.4g} in the first).",
        "Check how the probabilities were computed; rows of a softmax sum to 1.",
        case.rows(off[case.log.states]),
    )


@PROBABILITY_CHECKS.add("DW425", "info", "Behaviour that depends on more than the state", *BY_STATE)
def _depends_on_more(case: Case) -> Found | None:
    varying = _varying(case, _propensities(case))
    if not varying.any():
        return None
    first = int(np.flatnonzero(varying)[0])
    s, a = case.seen.state[first], case.seen.action[first]
    return Found(
        f"behaviour_prob varies within {how_many(int(varying.sum()), 'pair')} of state and action, for "
        f"example state {show(case.log.state_labels[s])}, action {show(case.log.action_labels[a])}: the "
        "behaviour policy saw more than the state, or changed over time.",
        "Nothing to do for weights from the column; a table pi_b per state would be an average.",
    )


@PROBABILITY_CHECKS.add("DW426", "warning", "Very small probabilities", *LOGGED)
def _very_small(case: Case) -> Found | None:
    p = _propensities(case)
    return about(
        case.rows(p < SMALL),
        lambda rows: (
            f"behaviour_prob is below {SMALL:g} in {how_many(len(rows), 'row')} (smallest {p.min():.3g}), "
            f"first {case.table.rows(rows)}: such a step can weigh a thousand others."
        ),
        "Check for rounding; else expect wide intervals.",
    )


@PROBABILITY_CHECKS.add("DW427", "warning", "Target probability 0 everywhere", "target_prob")
def _target_always_zero(case: Case) -> Found | None:
    if case.table.numbers("target_prob").values.any():
        return None
    return Found(
        f"{case.table.called('target_prob')} is 0 in every row: nothing in this log tells what that policy "
        "is worth.",
        "Check that the column is the probability of the logged action under the new policy.",
    )


@PROBABILITY_CHECKS.add("DW428", "info", "Target and behaviour are the same", "behaviour_prob", "target_prob")
def _same_policies(case: Case) -> Found | None:
    if not np.array_equal(
        case.table.numbers("behaviour_prob").values, case.table.numbers("target_prob").values
    ):
        return None
    return Found(
        "target_prob equals behaviour_prob in every row: the value is the mean return.",
        "Check that target_prob is that of the new policy.",
    )


@PROBABILITY_CHECKS.add("DW429", "warning", "Extreme ratios")
def _big_ratios(case: Case) -> Found | None:
    ratios = case.ratios
    if ratios is None or ratios.max() <= BIG_RATIO:
        return None
    rows = case.rows(ratios > BIG_RATIO)
    return Found(
        f"The policies differ by a factor of more than {BIG_RATIO:g} (up to {ratios.max():.3g}) in "
        f"{how_many(len(rows), 'row')}, first {case.table.rows(rows)}.",
        "Expect wide intervals; prefer self-normalised, doubly robust or state-based estimators.",
        rows,
    )


@PROBABILITY_CHECKS.add("DW430", "warning", "Hardly any episode has weight")
def _weightless(case: Case) -> Found | None:
    ratios = case.ratios
    if ratios is None or not ratios.any():
        return None
    alive = np.minimum.reduceat(ratios, case.log.offsets[:-1]) > 0
    if alive.mean() >= 0.05:
        return None
    return Found(
        f"Only {how_many(int(alive.sum()), 'episode')} of {len(alive):,} could have come from the target "
        "policy; all others get weight 0.",
        "Evaluate a policy with some randomness, or use per-decision, state-based or model-based estimators.",
    )


def _propensities(case: Case) -> FloatArray:
    p = case.log.propensities
    assert p is not None  # the checks below need the column
    return p


def _harmonic_means(case: Case, p: FloatArray) -> FloatArray:
    """(pairs,) of the probabilities logged for each pair."""
    return np.asarray(case.seen.count / case.seen.sums(1 / p))


def _varying(case: Case, p: FloatArray) -> BoolArray:
    """(pairs,) whether the probability differs between visits."""
    order = np.argsort(case.seen.of_step, kind="stable")
    starts = np.cumsum(case.seen.count) - case.seen.count
    spread = np.maximum.reduceat(p[order], starts) - np.minimum.reduceat(p[order], starts)
    return np.asarray(spread > VARIES)


# --- The policy to be evaluated: does it know the same states, and do what was done there?

NEEDS = ("target", "state")
ENOUGH = 1e-9

TARGET_CHECKS = Checks[Case]()


@TARGET_CHECKS.add("DW501", "error", "Policy and log name things in different types", *NEEDS)
def _labels_of_other_type(case: Case) -> Found | None:
    assert case.target is not None
    if isinstance(case.pair, PolicyPair):  # numbers match text as they are written
        return None
    for what, ours, theirs in (
        ("state", case.log.state_labels, case.target.state_labels),
        ("action", case.log.action_labels, case.target.action_labels),
    ):
        if theirs is None or _names(ours, as_text=False) & _names(theirs, as_text=False):
            continue
        if _names(ours, as_text=True) & _names(theirs, as_text=True):
            return Found(
                f"The policy calls its {what}s {show(theirs[0])} ({type(plain(theirs[0])).__name__}) and "
                f"the log {show(ours[0])} ({type(plain(ours[0])).__name__}): no {what} is the same in both.",
                f"Write the {what}s of both as text, or both as numbers.",
                columns=NEEDS,
            )
    return None


@TARGET_CHECKS.add("DW502", "error", "The policy does not know the log", *NEEDS)
def _does_not_fit(case: Case) -> Found | None:
    if not isinstance(case.pair, PolicyError):
        return None
    return Found(case.pair.problem.replace("pi_e", "The policy"), case.pair.fix.replace("pi_e", "the policy"))


@TARGET_CHECKS.add("DW505", "error", "Policy and log too large together", *NEEDS)
def _too_large(case: Case) -> Found | None:
    if not isinstance(case.pair, TooLarge):
        return None
    return Found(case.pair.problem, case.pair.fix, columns=NEEDS)


@TARGET_CHECKS.add("DW503", "warning", "The policy takes actions that were never logged there", *NEEDS)
def _acts_where_never_logged(case: Case) -> Found | None:
    pair = case.pair
    if not isinstance(pair, PolicyPair) or pair.pi_e is None:
        return None
    counts = np.zeros_like(pair.pi_e)
    counts[case.seen.state, case.seen.action] = case.seen.count
    visits = counts.sum(axis=1)
    unseen = np.where((counts == 0) & (visits > 0)[:, None], pair.pi_e, 0.0)
    mass = unseen.sum(axis=1)
    states = np.flatnonzero(mass > ENOUGH)
    if not states.size:
        return None
    s = int(states[np.argmax(mass[states] * visits[states])])
    a = int(np.argmax(unseen[s]))
    share = float((mass * visits).sum() / visits.sum())
    action, known = str(plain(pair.action_labels[a])), [str(plain(v)) for v in case.log.action_labels]
    meant = "" if action in known else did_you_mean(action, known)
    return Found(
        f"In {len(states):,} of {int((visits > 0).sum()):,} visited states the policy takes actions that "
        f"were never logged there, {share:.1%} of its choices: for example action "
        f"{show(pair.action_labels[a])} in state {show(pair.state_labels[s])} with probability "
        f"{unseen[s, a]:.3g} ({how_many(int(visits[s]), 'visit')}).{meant}",
        "Restrict the policy to what was done, or accept that the effect of those actions cannot be seen.",
        case.rows(np.isin(case.log.states, states)),
    )


@TARGET_CHECKS.add("DW504", "info", "States that only the policy knows", *NEEDS)
def _unvisited(case: Case) -> Found | None:
    assert case.target is not None
    labels = case.target.state_labels
    if labels is None:
        return None
    visited = case.log.state_labels[case.seen.visits > 0]
    seen = _names(visited, as_text=False)
    extra = np.array([label not in seen for label in in_the_words_of(visited, labels)], dtype=bool)
    if not extra.any():
        return None
    return Found(
        f"{int(extra.sum()):,} of the policy's {how_many(len(labels), 'state')} "
        f"{'was' if extra.sum() == 1 else 'were'} never visited: "
        f"{named(labels, extra)}.",
        "Nothing to do if that is so; check their spelling.",
    )


def _names(labels: Labels, as_text: bool) -> set[object]:
    return {str(plain(label)) if as_text else plain(label) for label in labels}


# --- Several old policies

MOST_NAMED = 10

SAME_WORLD_CHECKS = Checks[Case]()


@SAME_WORLD_CHECKS.add("DW249", "info", "Several old policies", "behaviour_id")
def _several(case: Case) -> Found | None:
    policies = sorted(old_policies(case.log), key=lambda policy: (isinstance(policy.id, str), policy.id))
    if len(policies) < 2:
        return None
    shares = [
        f"{show(policy.id)} {how_many(policy.episodes, 'episode')} ({policy.share:.0%}), mean return "
        f"{policy.mean_return:.4g}"
        for policy in policies[:MOST_NAMED]
    ]
    more = f", and {len(policies) - MOST_NAMED:,} more" if len(policies) > MOST_NAMED else ""
    logged = case.log.propensities is not None
    return Found(
        f"{how_many(len(policies), 'old policy').replace('policys', 'policies')} made the log: "
        f"{'; '.join(shares)}{more}.",
        "Name their policies, pi_b={id: policy} (--behaviour id=FILE,...), and they are evaluated as one"
        + (", with less noise than by each episode's own behaviour_prob." if logged else "."),
    )


@SAME_WORLD_CHECKS.add("DW250", "warning", "Old policies that met different worlds", "behaviour_id")
def _drifted(case: Case) -> Found | None:
    drifted = [policy for policy in old_policies(case.log) if policy.drifted]
    if not drifted:
        return None
    assert case.log.behaviour_ids is not None
    rows = case.rows_of_episodes(np.isin(case.log.behaviour_ids, [drifted[0].id]))
    return Found(
        f"Old policies must have met the same world; with {show(drifted[0].id)} {drifted[0].drift}"
        + (f", and {len(drifted) - 1:,} more differ." if len(drifted) > 1 else "."),
        "No verdict is given on all of them together. Find out what changed between them (patients, prices, "
        "the reward); evaluate the episodes of one of them alone, or add what changed (week, site) to the "
        "state.",
        rows,
    )


@SAME_WORLD_CHECKS.add("DW253", "warning", "The old policy looked at more than the state", "behaviour_prob")
def _looked_at_more(case: Case) -> Found | None:
    log, seen = case.log, case.seen
    assert log.propensities is not None
    if not log.has_states:
        return None
    # Does what the old policy looked at, and the state lacks, tell what follows?
    logs, of = np.log(log.propensities), seen.of_step
    mean = seen.sums(logs) / seen.count
    differs = (seen.sums(np.square(logs)) / seen.count - np.square(mean) > SAME**2)[of]
    if not differs.any():
        return None
    earned = np.cumsum(log.rewards)
    episode = episode_of_rows(log)
    to_go = earned[log.offsets[1:] - 1][episode] - earned + log.rewards
    visits = sums_by(log.states, None, log.n_states)
    worth = np.append(divide(sums_by(log.states, to_go, log.n_states), visits), 0.0)  # of -1: nothing
    # Of a step whose outcome was cut off nobody knows what follows.
    known = np.ones(log.n_steps, dtype=bool)
    last = log.offsets[1:] - 1
    known[last] = log.terminated | (log.next_states[last] >= 0)
    differs &= known
    brought = log.rewards + worth[log.next_states]
    number = np.maximum(seen.sums(known), 1.0)
    errors = (brought - (seen.sums(np.where(known, brought, 0.0)) / number)[of])[differs]
    mean = seen.sums(np.where(known, logs, 0.0)) / number
    number, x = np.maximum(number, 2.0)[of][differs], (logs - mean[of])[differs]
    keys = episode[differs] * log.n_actions + log.actions[differs]
    confounding = Confounding.of(slope_sums(keys, x, errors, number / (number - 1), log.n_actions))
    if not confounding.found:
        return None
    return Found(
        confounding.reason,
        "Put what the old policy looked at (a week, a version, a severity) into the state. Without it no "
        "verdict is given.",
        case.rows(differs),
    )
