"""Checks of probabilities that logs and policies share, each with the remedy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deadweight.errors import DataError, DeadweightError, SupportError
from deadweight.typing import FloatArray


def look_like_logs(values: FloatArray) -> bool:
    """Whether these look like log-probabilities: nothing above zero, something below."""
    return bool(values.size and values.max() <= 0 and values.min() < 0)


def check_log_probabilities(values: FloatArray, name: str, error: type[DeadweightError] = DataError) -> None:
    """Refuse what looks like log-probabilities."""
    finite = values[np.isfinite(values)]
    if look_like_logs(finite):
        raise error(
            f"{name} must be probabilities in (0, 1]; found values from {finite.min():.6g} to "
            f"{finite.max():.6g}, which look like log-probabilities.",
            fix="Pass numpy.exp of them.",
        )


def check_probability_column(
    values: FloatArray, name: str, positive: bool, where: Callable[[int], str]
) -> None:
    """Refuse a per-step probability that is NaN, outside [0, 1], or zero where it divides."""
    good = (values >= 0) & (values <= 1 + 1e-9)
    bad = np.flatnonzero(~good)
    if bad.size:
        raise DataError(
            f"{name} must be probabilities in {'(' if positive else '['}0, 1]; found {values[bad[0]]} in "
            f"{where(int(bad[0]))}" + (f" and {bad.size - 1} more rows like it." if bad.size > 1 else "."),
            fix="Log the probability with which the action was chosen.",
        )
    zero = np.flatnonzero(values == 0)
    if positive and zero.size:
        raise SupportError(
            f"{name} is 0 in {where(int(zero[0]))}"
            + (f" and {zero.size - 1} more rows" if zero.size > 1 else "")
            + ", but the action was taken there.",
            fix="A logged action has a positive behaviour probability: correct the column, or estimate it "
            "with deadweight.estimate_behaviour(log).",
        )
