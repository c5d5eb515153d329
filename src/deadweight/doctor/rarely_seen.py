"""What the log has seen: actions and states that are rare, alone, or never there."""

from __future__ import annotations

from deadweight.doctor.case import Case, named
from deadweight.errors import how_many
from deadweight.io.findings import Check, Found

FEW_STATES = 20


def one_action(case: Case) -> Found | None:
    """The same action in every row."""
    if (case.seen.taken > 0).sum() > 1:
        return None
    return Found(
        f"Only one action was ever taken, {named(case.log.action_labels, case.seen.taken > 0)}: "
        "the log says nothing about any other.",
        f"Check that {case.table.called('action')} is the action; a log needs some variety to evaluate "
        "another policy.",
    )


def never_logged(case: Case) -> Found | None:
    """Numbers between the actions that no row has."""
    never = case.seen.taken == 0
    if not never.any():
        return None
    return Found(
        f"Actions are numbered 0 to {case.log.n_actions - 1}, but no row has "
        f"{named(case.log.action_labels, never)}. That counts as an action that was never taken.",
        "Nothing to do if they exist; else use names, or numbers without gaps.",
    )


def in_one_state(case: Case) -> Found | None:
    """Actions that were taken in a single state."""
    if (case.seen.visits > 0).sum() < 2:
        return None
    alone = case.seen.states_seen == 1
    if not alone.any():
        return None
    return Found(
        f"Found {how_many(int(alone.sum()), 'action')} taken in one state only: "
        f"{named(case.log.action_labels, alone)}.",
        "Nothing to do if they exist only there; else their effect elsewhere is unknown.",
        case.rows(alone[case.log.actions]),
    )


def no_choice(case: Case) -> Found | None:
    """States in which one action only was ever taken, on half of the steps or more."""
    visits = case.seen.visits
    single = (case.seen.actions_seen == 1) & (visits > 1)
    share = visits[single].sum() / visits.sum()
    if share < 0.5 or (case.seen.taken > 0).sum() == 1:
        return None
    return Found(
        f"In {how_many(int(single.sum()), 'state')} with {share:.0%} of the steps, one action only was "
        f"ever taken ({named(case.log.state_labels, single)}): other choices there cannot be evaluated.",
        "Merge states that are alike, or restrict the new policy to what was done there.",
    )


def seen_once(case: Case) -> Found | None:
    """Most states visited a single time."""
    visits = case.seen.visits
    visited, once = (visits > 0).sum(), (visits == 1).sum()
    if visited < FEW_STATES or once < 0.5 * visited:
        return None
    return Found(
        f"{once:,} of {visited:,} states were seen once only "
        f"({named(case.log.state_labels, visits == 1)}): is the state too fine, or an id or a time?",
        "Use fewer, coarser states (bins, clusters), so that each is seen many times.",
    )


def too_many_states(case: Case) -> Found | None:
    """More pairs of state and action than the log can tell about."""
    visited = int((case.seen.visits > 0).sum())
    actions = int((case.seen.taken > 0).sum())
    if visited < FEW_STATES or visited * actions <= case.log.n_steps:
        return None
    return Found(
        f"{visited:,} states x {actions:,} actions are more pairs than there are steps "
        f"({case.log.n_steps:,}).",
        "Use coarser states or more data; counts and models will be poor.",
    )


def one_state(case: Case) -> Found | None:
    """A single state."""
    if (case.seen.visits > 0).sum() > 1:
        return None
    return Found(
        f"Every row is in one state, {named(case.log.state_labels, case.seen.visits > 0)}.",
        f"Nothing to do if there is nothing to see; else check {case.table.called('state')}.",
    )


CHECKS: tuple[Check[Case], ...] = (
    Check("DW511", "warning", "One action only", (), one_action),
    Check("DW512", "warning", "Actions never logged", (), never_logged),
    Check("DW513", "info", "Actions taken in one state only", ("state",), in_one_state),
    Check("DW514", "warning", "States in which one action only was ever taken", ("state",), no_choice),
    Check("DW515", "warning", "States seen once", ("state",), seen_once),
    Check("DW516", "warning", "Too many states for the data", ("state",), too_many_states),
    Check("DW517", "info", "One state only", ("state",), one_state),
)
