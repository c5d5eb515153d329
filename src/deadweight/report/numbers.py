"""Numbers as text: as many digits as mean something, and a true minus sign."""

from __future__ import annotations

import math
from collections.abc import Callable

from deadweight.basics.table_numbers import UNDETERMINED

LARGEST_FIXED = 1e7
MOST_DECIMALS = 6
# What has fewer digits than three within these decimals is written as a power of ten, unless it is rounding.
SMALLEST_FIXED, ROUNDING = 1e-4, 1e-12
UNKNOWN = "unknown"

Format = Callable[[float | None], str]


def values_like(width: float) -> Format:
    """A format for values whose uncertainty is about `width`: three digits of it are shown.

    >>> form = values_like(0.34)
    >>> form(1.23456), form(-2.0), form(None), form(math.inf)
    ('1.235', '−2.000', 'unknown', '∞')
    >>> values_like(2e-9)(4.508e-07)
    '4.508e−07'
    """
    decimals = 3
    if math.isfinite(width) and width > 0:
        decimals = max(2 - math.floor(math.log10(width)), 0)

    def form(value: float | None) -> str:
        if decimals > MOST_DECIMALS and value is not None and ROUNDING < abs(value) < SMALLEST_FIXED:
            return significant(value, 4)
        return _fixed(value, min(decimals, MOST_DECIMALS))

    return form


def signed(form: Format) -> Format:
    """The same format with a sign on positive numbers too."""

    def with_sign(value: float | None) -> str:
        return ("+" if value is not None and value > 0 else "") + form(value)

    return with_sign


def significant(value: float | None, digits: int = 3) -> str:
    """A number of any size with so many significant digits.

    >>> significant(1234.5), significant(0.012345), significant(-3.0), significant(1.5e-9)
    ('1,234', '0.0123', '−3', '1.5e−09')
    """
    if value is None or not math.isfinite(value) or value == 0:
        return _fixed(value, 0)
    size = abs(value)
    if size >= 10**digits and size < LARGEST_FIXED:
        return _fixed(value, 0)
    return f"{value:.{digits}g}".replace("-", "−")


def share(value: float | None) -> str:
    """A share in per cent.

    >>> share(0.1234), share(0.00001), share(0.0)
    ('12.3 %', 'below 0.1 %', '0 %')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if 0 < value < 0.001:
        return "below 0.1 %"
    return f"{100 * value:.3g} %"


def count(value: float) -> str:
    """A whole number with separators of thousands."""
    return f"{round(value):,}"


def between(lower: float, upper: float, form: Format) -> str:
    """An interval as text; one that holds every number has no ends to show.

    >>> between(0.5, 2.0, values_like(0.1)), between(-math.inf, math.inf, values_like(0.1))
    ('0.500 to 2.000', 'undetermined')
    """
    return UNDETERMINED if (lower, upper) == (-math.inf, math.inf) else f"{form(lower)} to {form(upper)}"


def _fixed(value: float | None, decimals: int) -> str:
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= LARGEST_FIXED:
        return f"{value:.3g}".replace("-", "−")
    text = f"{value:,.{decimals}f}"
    # A rounded zero has no sign.
    return text.replace("-", "−") if any(digit in text for digit in "123456789") else text.removeprefix("-")
