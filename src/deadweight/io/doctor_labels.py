"""Labels and columns: names that differ by a blank, numbers as text, columns overlooked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from deadweight.errors import how_many
from deadweight.io.columns import MEANS_MISSING
from deadweight.io.doctor_case import Case, named
from deadweight.io.schema import ALIASES, OPTIONAL, Check, Found, show
from deadweight.typing import BoolArray, FloatArray, IntArray

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


LABEL_CHECKS: tuple[Check[Case], ...] = (
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


# --------------------------------------------------------------------------------------------------------
# Features that say nothing, twice the same, too much, or something else than they seem to.
#
# A feature describes the state before the action. One that was filled in afterwards (the outcome, the length
# of the stay) makes every model look excellent and every estimate wrong, so what knows the reward or the end
# too well is shown. Whether it may know it, only the owner of the log can tell.

SAME = 1.0 - 1e-9
TELLS = 0.999
"""A correlation with the reward, or a chance to tell last rows from others, that is worth a warning."""
FEWEST_EPISODES = 20
WILD = 10.0
"""Standard deviation over that of the middle half, from which on a feature is called wildly scaled."""
FEW_VALUES = (3, 12)


def constant(case: Case) -> Found | None:
    """The same value in every row."""
    x = _features(case)
    return _about(
        case,
        (x == x[0]).all(axis=0) if len(x) > 1 else np.zeros(x.shape[1], dtype=bool),
        "the same value in every row",
        "Leave it out: it tells no state from another.",
    )


def duplicated(case: Case) -> Found | None:
    """A feature that another one gives exactly, up to scale."""
    x = _features(case)
    z = _standardised(x)
    likeness = np.abs(z.T @ z) / len(z)
    twins = np.argwhere(np.triu(likeness > SAME, 1))
    if not twins.size:
        return None
    names = case.log.feature_names
    first, second = (names[i] for i in twins[0])
    return Found(
        f"Features {show(first)} and {show(second)} say the same, up to scale"
        + (f" ({len(twins) - 1} more such pairs)." if len(twins) > 1 else "."),
        "Keep one of them: twice the same weighs twice in distances between states.",
    )


def leaks_reward(case: Case) -> Found | None:
    """A feature that is the reward of its row or, constant in every episode, its return."""
    log, x = case.log, _features(case)
    if log.n_episodes < FEWEST_EPISODES:
        return None
    starts = x[log.offsets[:-1]]
    steady = (x == np.repeat(starts, log.lengths, axis=0)).all(axis=0)
    known = (_correlations(x, log.rewards) > TELLS) | (
        steady & (_correlations(starts, case.returns) > TELLS) & bool(log.horizon > 1)
    )
    return _about(
        case,
        known,
        "the reward itself, or the return of the episode, up to scale",
        "If it was written down after the action, as an outcome is, leave it out: nothing known only "
        "afterwards describes a state. If the reward is paid for the state as it was before, all is well.",
    )


def leaks_end(case: Case) -> Found | None:
    """A feature that tells the last row of an episode from all others."""
    log, x = case.log, _features(case)
    if log.n_episodes < FEWEST_EPISODES or log.lengths.min() == log.horizon:
        return None
    last = np.zeros(log.n_steps, dtype=bool)
    last[log.offsets[1:] - 1] = True
    known = np.array([_tells_apart(column, last) for column in x.T])
    return _about(
        case,
        known,
        "a different value on the last row of an episode than on nearly all others",
        "If it was made by looking ahead (steps left, length of the episode, a flag of the end), leave it "
        "out. If the task ends where this value is reached, all is well.",
    )


def wildly_scaled(case: Case) -> Found | None:
    """A few rows so far out that the others all look alike."""
    x = _features(case)
    low, high = np.quantile(x, [0.25, 0.75], axis=0)
    middle = (high - low) / 1.35  # the standard deviation, were it a normal distribution
    wild = (middle > 0) & (x.std(axis=0) > WILD * middle)
    if not wild.any():
        return None
    j = int(np.flatnonzero(wild)[0])
    return _about(
        case,
        wild,
        f"a few values far from all others (from {x[:, j].min():.6g} to {x[:, j].max():.6g}, half of them "
        f"between {low[j]:.6g} and {high[j]:.6g})",
        "Correct codes for nothing such as -999, and take logarithms of amounts: features are measured in "
        "standard deviations, and next to such rows all others look alike.",
    )


def category(case: Case) -> Found | None:
    """Few whole numbers: perhaps names of things rather than amounts."""
    x = _features(case)
    few = np.zeros(x.shape[1], dtype=bool)
    for j, column in enumerate(x.T):
        if (column == np.round(column)).all():
            few[j] = FEW_VALUES[0] <= len(np.unique(column)) <= FEW_VALUES[1]
    return _about(
        case,
        few,
        f"{FEW_VALUES[0]} to {FEW_VALUES[1]} different whole numbers and nothing else",
        "If the numbers are names (a ward, a device), write a column of 0 and 1 for each; if they are "
        "amounts or grades, all is well.",
    )


def _features(case: Case) -> FloatArray:
    assert case.log.features is not None, "these checks are for logs with features"
    return case.log.features


def _about(case: Case, which: BoolArray, holds: str, fix: str) -> Found | None:
    """A sentence about the features that are concerned."""
    if not which.any():
        return None
    names = list(case.log.feature_names)
    several = int(which.sum()) > 1
    return Found(f"Feature{'s' * several} {named(names, which)} hold{'s' * (not several)} {holds}.", fix)


def _standardised(x: FloatArray) -> FloatArray:
    spread = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0, spread, np.inf))


def _correlations(x: FloatArray, y: FloatArray) -> FloatArray:
    """(d,) absolute correlation of each column with y; 0 where one of the two is constant."""
    return np.abs(_standardised(x).T @ _standardised(y[:, None])[:, 0]) / len(y)


def _tells_apart(column: FloatArray, flag: BoolArray) -> bool:
    """Whether values of flagged rows are nearly always above, or nearly always below, those of the others."""
    from scipy.stats import rankdata

    inside = int(flag.sum())
    above = rankdata(column)[flag].sum() - inside * (inside + 1) / 2
    chance = above / (inside * (len(flag) - inside))
    return bool(max(chance, 1.0 - chance) > TELLS)


def _lines() -> Iterator[tuple[str, Callable[[Case], Found | None], bool]]:
    yield "Features that are constant", constant, True
    yield "Features that say the same", duplicated, True
    yield "Features that know the reward", leaks_reward, True
    yield "Features that know the end", leaks_end, True
    yield "Features that are wildly scaled", wildly_scaled, True
    yield "Features that may be names", category, False


FEATURE_CHECKS: tuple[Check[Case], ...] = tuple(
    Check(f"DW{711 + i}", "warning" if grave else "info", title, (), run)
    for i, (title, run, grave) in enumerate(_lines())
)
