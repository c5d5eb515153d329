r"""Logged probabilities against what was done.

If action a has probability p(a | s) then a share h of the visits to s should take it, where h is the harmonic
mean of the probabilities logged with a: :math:`E[1_a / p] = 1` also where p depends on more than the state.
"""

from __future__ import annotations

import numpy as np

from deadweight.doctor.case import Case, named
from deadweight.errors import how_many
from deadweight.io.findings import Check, Found, show
from deadweight.typing import BoolArray, FloatArray

FALSE_ALARMS = 1e-3
SMALL = 1e-3
BIG_RATIO = 100.0
VARIES = 0.01


def one_everywhere(case: Case) -> Found | None:
    """Probability 1 in every row."""
    values = case.table.numbers("behaviour_prob").values
    if values.min() < 1:
        return None
    return Found(
        f"{case.table.called('behaviour_prob')} is 1 in every row: a behaviour policy without any chance "
        "shows nothing about other actions.",
        "Log the probability with which the action was drawn, or estimate it from counts (--behaviour "
        "counts).",
    )


def certain_but_not(case: Case) -> Found | None:
    """Probability 1 in a state where other actions were taken too."""
    log, p = case.log, _propensities(case)
    if p.min() >= 1:
        return None
    several = case.seen.actions_seen > 1
    wrong = (p >= 1) & several[log.states]
    if not wrong.any():
        return None
    rows = case.rows(wrong)
    return Found(
        f"behaviour_prob is 1 in {case.table.rows(rows)}, where other actions were taken in the same state.",
        "Log the probability with which the action was drawn.",
        rows,
    )


def against_counts(case: Case) -> Found | None:
    """Actions taken far more or less often than their probabilities say."""
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


def sums(case: Case) -> Found | None:
    """Probabilities of one state that do not add up, where they are the same at every visit."""
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


def depends_on_more(case: Case) -> Found | None:
    """Probabilities that vary within a pair of state and action."""
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


def very_small(case: Case) -> Found | None:
    """Probabilities so small that one step decides."""
    p = _propensities(case)
    small = p < SMALL
    if not small.any():
        return None
    rows = case.rows(small)
    return Found(
        f"behaviour_prob is below {SMALL:g} in {how_many(len(rows), 'row')} (smallest {p.min():.3g}), "
        f"first {case.table.rows(rows)}: such a step can weigh a thousand others.",
        "Check for rounding; else expect wide intervals.",
        rows,
    )


def target_always_zero(case: Case) -> Found | None:
    """A target policy that never does what was done."""
    if case.table.numbers("target_prob").values.any():
        return None
    return Found(
        f"{case.table.called('target_prob')} is 0 in every row: nothing in this log tells what that policy "
        "is worth.",
        "Check that the column is the probability of the logged action under the new policy.",
    )


def same_policies(case: Case) -> Found | None:
    """Target and behaviour are one."""
    if not np.array_equal(
        case.table.numbers("behaviour_prob").values, case.table.numbers("target_prob").values
    ):
        return None
    return Found(
        "target_prob equals behaviour_prob in every row: the value is the mean return.",
        "Check that target_prob is that of the new policy.",
    )


def big_ratios(case: Case) -> Found | None:
    """Steps that multiply an episode's weight by a hundred and more."""
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


def weightless(case: Case) -> Found | None:
    """Episodes that the target policy would never produce."""
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


LOGGED = ("behaviour_prob",)
BY_STATE = (*LOGGED, "state")
CHECKS: tuple[Check[Case], ...] = (
    Check("DW421", "warning", "Behaviour probability 1 everywhere", LOGGED, one_everywhere),
    Check("DW422", "warning", "Certain, but other actions were taken", BY_STATE, certain_but_not),
    Check("DW423", "warning", "Probabilities that disagree with counts", BY_STATE, against_counts),
    Check("DW424", "warning", "Probabilities that do not sum to one", BY_STATE, sums),
    Check("DW425", "info", "Behaviour that depends on more than the state", BY_STATE, depends_on_more),
    Check("DW426", "warning", "Very small probabilities", LOGGED, very_small),
    Check("DW427", "warning", "Target probability 0 everywhere", ("target_prob",), target_always_zero),
    Check(
        "DW428", "info", "Target and behaviour are the same", ("behaviour_prob", "target_prob"), same_policies
    ),
    Check("DW429", "warning", "Extreme ratios", (), big_ratios),
    Check("DW430", "warning", "Hardly any episode has weight", (), weightless),
)
