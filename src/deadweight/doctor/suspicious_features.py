"""Features that say nothing, twice the same, too much, or something else than they seem to.

A feature describes the state before the action. One that was filled in afterwards (the outcome, the length of
the stay) makes every model look excellent and every estimate wrong, so what knows the reward or the end too
well is shown. Whether it may know it, only the owner of the log can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from deadweight.doctor.case import Case, named
from deadweight.io.findings import Check, Found, show
from deadweight.typing import BoolArray, FloatArray

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


CHECKS: tuple[Check[Case], ...] = tuple(
    Check(f"DW{711 + i}", "warning" if grave else "info", title, (), run)
    for i, (title, run, grave) in enumerate(_lines())
)
