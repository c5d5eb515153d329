"""The policy to be evaluated against the log: does it know the same states, and do what was done there?"""

from __future__ import annotations

import numpy as np

from deadweight.doctor.case import Case, named
from deadweight.errors import PolicyError, TooLarge, did_you_mean, how_many
from deadweight.io.findings import Check, Found, show
from deadweight.log.labels import in_the_words_of, plain
from deadweight.sums.pairs import PolicyPair
from deadweight.typing import Labels

ENOUGH = 1e-9


def labels_of_other_type(case: Case) -> Found | None:
    """States (or actions) whose types keep them apart though they look alike, such as days and their text."""
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


def does_not_fit(case: Case) -> Found | None:
    """A visited state or a logged action that the policy does not know."""
    if not isinstance(case.pair, PolicyError):
        return None
    return Found(case.pair.problem.replace("pi_e", "The policy"), case.pair.fix.replace("pi_e", "the policy"))


def too_large(case: Case) -> Found | None:
    """A table of the log's and the policy's states and actions that no memory holds."""
    if not isinstance(case.pair, TooLarge):
        return None
    return Found(case.pair.problem, case.pair.fix, columns=NEEDS)


def acts_where_never_logged(case: Case) -> Found | None:
    """Probability on actions that were never taken in a visited state."""
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
    return Found(
        f"In {len(states):,} of {int((visits > 0).sum()):,} visited states the policy takes actions that "
        f"were never logged there, {share:.1%} of its choices: for example action "
        f"{show(pair.action_labels[a])} in state {show(pair.state_labels[s])} with probability "
        f"{unseen[s, a]:.3g} ({how_many(int(visits[s]), 'visit')}).{_meant(case, pair.action_labels[a])}",
        "Restrict the policy to what was done, or accept that the effect of those actions cannot be seen.",
        case.rows(np.isin(case.log.states, states)),
    )


def _meant(case: Case, action: object) -> str:
    """The action of the log that an action which nobody ever took may be a misspelling of."""
    known = [str(plain(label)) for label in case.log.action_labels]
    return "" if str(plain(action)) in known else did_you_mean(str(plain(action)), known)


def unvisited(case: Case) -> Found | None:
    """States that only the policy knows."""
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


NEEDS = ("target", "state")
CHECKS: tuple[Check[Case], ...] = (
    Check(
        "DW501",
        "error",
        "Policy and log name things in different types",
        NEEDS,
        labels_of_other_type,
    ),
    Check("DW502", "error", "The policy does not know the log", NEEDS, does_not_fit),
    Check("DW505", "error", "Policy and log too large together", NEEDS, too_large),
    Check(
        "DW503",
        "warning",
        "The policy takes actions that were never logged there",
        NEEDS,
        acts_where_never_logged,
    ),
    Check("DW504", "info", "States that only the policy knows", NEEDS, unvisited),
)
