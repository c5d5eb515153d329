"""Labels and columns: names that differ by a blank, numbers as text, columns overlooked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deadweight.doctor.case import Case
from deadweight.errors import how_many
from deadweight.io.columns import MEANS_MISSING
from deadweight.io.findings import Check, Found, show
from deadweight.io.schema import ALIASES, OPTIONAL
from deadweight.typing import IntArray

Run = Callable[[Case], Found | None]
ROLES = ("state", "action")
# Doing nothing is an action, and often called so.
NO_ACTION = "none"
LOOKALIKES = {
    "terminated": ("done", "dones", "terminal", "is_terminal", "is_last", "end", "ended", "terminations"),
    "truncated": ("timeout", "timeouts", "truncation", "truncations", "censored"),
    "behaviour_prob": (
        "prob",
        "pscore",
        "action_prob",
        "logging_prob",
        "pi_b",
        "propensity_score",
        "p_behaviour",
    ),
    "target_prob": ("pi_e", "eval_prob", "evaluation_prob", "new_prob", "p_target"),
    "next_state": ("next_obs", "next_observation", "s_next", "new_state", "successor"),
    "duration": ("dt", "delta_t", "elapsed", "time_delta", "option_length"),
    "behaviour_id": ("policy_id", "policy", "policy_version", "behavior_id", "logging_policy"),
}
NO_BEHAVIOUR = "DW339"


def variants(name: str) -> Run:
    """'Ward' and 'ward ' as two labels."""

    def run(case: Case) -> Found | None:
        column = case.table.labels(name)
        if column.distinct is None:
            return None
        groups: dict[str, list[int]] = {}
        for i, label in enumerate(column.distinct):
            if isinstance(label, str):
                groups.setdefault(" ".join(label.split()).casefold(), []).append(i)
        several = [group for group in groups.values() if len(group) > 1]
        if not several:
            return None
        shown = " and ".join(case.table.shown(name, column.distinct[i]) for i in several[0])
        return Found(
            f"Found {how_many(len(several), 'group')} of {name}s that differ only by blanks or case, for "
            f"example {shown}; they count as different {name}s.",
            "Trim the text and choose one spelling.",
            _rows_with(case, name, [i for group in several for i in group[1:]]),
        )

    return run


def named_nothing(name: str) -> Run:
    """A label such as 'NA', 'null' or ''; an action may be called 'none'."""
    words = {word for word in MEANS_MISSING if not (name == "action" and word == NO_ACTION)}

    def run(case: Case) -> Found | None:
        column = case.table.labels(name)
        labels = [] if column.distinct is None else list(column.distinct)
        wrong = [i for i, v in enumerate(labels) if isinstance(v, str) and v.strip().lower() in words]
        if not wrong:
            return None
        rows = _rows_with(case, name, wrong)
        return Found(
            f"{name.capitalize()} {show(labels[wrong[0]])} looks like a word for a missing value: "
            f"{case.table.rows(rows)}. It counts as the {name} of that name.",
            f"Fill in the {name} if it is missing; nothing to do if it is called so.",
            rows,
        )

    return run


def minus_one(case: Case) -> Found | None:
    """State -1, a usual code for nothing."""
    column = case.table.labels("state")
    rows = np.flatnonzero(column.values == -1) if column.distinct is None else np.empty(0, dtype=np.int64)
    if not rows.size:
        return None
    return Found(
        f"State -1 often stands for a missing or terminal state: {case.table.rows(rows)}. It counts as a "
        "state.",
        "Leave rows after the end of an episode out, and fill in states that are missing.",
        rows,
    )


def continuous(name: str) -> Run:
    """Numbers with fractions as labels."""

    def run(case: Case) -> Found | None:
        column = case.table.labels(name)
        if column.distinct is None or not any(isinstance(label, float) for label in column.distinct[:1]):
            return None
        return Found(
            f"{case.table.called(name)} holds numbers with fractions, {len(column.distinct):,} different "
            f"ones; each counts as one {name}.",
            f"Read it as a feature (--features {case.table.names[name]}): cutting numbers into bins to have "
            "labels is not safe."
            if name == "state"
            else f"Bin or cluster the {name}s, so that each is seen many times.",
        )

    return run


def numbers_as_text(name: str) -> Run:
    """Text that spells numbers."""

    def run(case: Case) -> Found | None:
        numbers = case.table.numbers(name)
        if not numbers.from_text:
            return None
        row = int(np.argmax(~numbers.missing & (numbers.values != 0)))  # 0 looks alike in all notations
        return Found(
            f"{case.table.called(name)} holds text, such as {show(case.table.arrow(name)[row].as_py())}, "
            f"which was read as {numbers.values[row]:g}.",
            "Store it as a number, to be safe.",
        )

    return run


def two_behaviours(case: Case) -> Found | None:
    """behaviour_prob and propensity in one table."""
    others = [name for name in ALIASES["behaviour_prob"] if name in case.table.unused]
    if not others or not case.table.has("behaviour_prob"):
        return None
    return Found(
        f"Both {case.table.called('behaviour_prob')} and column {show(others[0])} could be the behaviour "
        "probability; the first is used.",
        f"Name the one you mean (--columns behaviour_prob={others[0]}), or remove the other.",
    )


def no_behaviour(case: Case) -> Found | None:
    """Nothing that says with which probability the old policy acted."""
    table = case.table
    if table.has("behaviour_prob") or table.keys("behaviour_prob:"):
        return None
    way = "counts" if table.has("state") else "learned"
    return Found(
        "The log has no column behaviour_prob: with which probability the old policy acted is not known.",
        f"Have it estimated (--behaviour {way}), or give the old policy (--behaviour FILE).",
    )


def overlooked(case: Case) -> Found | None:
    """A column that is not used but sounds as if it should be."""
    table = case.table
    missing = [name for name in OPTIONAL if not table.has(name)]
    pairs = [
        (ours, name) for ours in missing for name in table.unused if name.lower().strip() in LOOKALIKES[ours]
    ]
    if not pairs:
        return None
    ours, name = pairs[0]
    return Found(
        f"Column {show(name)} is not used; it may be {ours}."
        + (f" Likewise: {', '.join(show(n) for _, n in pairs[1:])}." if pairs[1:] else ""),
        f"Say so if it is: --columns {ours}={name}.",
    )


def _rows_with(case: Case, name: str, codes: list[int]) -> IntArray:
    column = case.table.labels(name)
    return np.flatnonzero(np.isin(column.values, codes) & ~column.missing)


CHECKS: tuple[Check[Case], ...] = (
    *(
        Check("DW331", "warning", "Labels that differ by blanks or case", (n,), variants(n))
        for n in ("episode", *ROLES)
    ),
    *(
        Check("DW332", "warning", "Labels that look like missing values", (n,), named_nothing(n))
        for n in ROLES
    ),
    Check("DW333", "warning", "State -1", ("state",), minus_one),
    Check("DW334", "warning", "Continuous states", ("state",), continuous("state")),
    Check("DW335", "warning", "Continuous actions", ("action",), continuous("action")),
    *(
        Check("DW336", "info", "Numbers stored as text", (n,), numbers_as_text(n))
        for n in ("reward", "behaviour_prob", "target_prob")
    ),
    Check("DW337", "warning", "Two columns for the behaviour probability", (), two_behaviours),
    Check("DW338", "info", "A column that may have been overlooked", (), overlooked),
    Check(NO_BEHAVIOUR, "info", "No probabilities of the old policy", (), no_behaviour),
)
