"""Numbers of a text table: four decimals, unless values are so small or so large that these say nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

DECIMALS = 4
SMALL = 1e-3
"""Where values are typically below, four decimals would leave no digit of them."""
SMALLEST_FIXED = 1e-6
ROUNDING = 1e-12
"""No value is meant that small: it is what sums leave of a zero."""
LARGE, LARGEST_FIXED = 1e6, 1e10

TableNumber = Callable[..., str]
UNDETERMINED = "undetermined"
"""In place of an interval that holds every number."""


def ends_in_words(ends: tuple[float, float], form: TableNumber, *style: str) -> str:
    """An interval as text.

    >>> ends_in_words((0.5, 2.0), "{:.4g}".format), ends_in_words((-math.inf, math.inf), "{:.4g}".format)
    ('[0.5, 2]', 'undetermined')
    """
    if ends == (-math.inf, math.inf):
        return UNDETERMINED
    return f"[{form(ends[0], *style)}, {form(ends[1], *style)}]"


def table_number(typical: Iterable[float]) -> TableNumber:
    """A format for the numbers of a table whose values are about as large as these.

    >>> form = table_number([0.52, 0.61])
    >>> form(0.5), form(0.25, "+"), form(math.inf), form(12345678.9), form(1.5e12)
    ('0.5000', '+0.2500', 'inf', '12345679', '1.500e+12')
    >>> table_number([0.00012, 0.00034])(0.000123), table_number([4.5e-8])(4.5e-8)
    ('0.0001230', '4.500e-08')
    """
    sizes = sorted(abs(one) for one in typical if math.isfinite(one) and abs(one) > ROUNDING)
    scale = sizes[len(sizes) // 2] if sizes else 1.0
    decimals = DECIMALS if scale >= SMALL else 3 - math.floor(math.log10(scale))

    def form(value: float, sign: str = "") -> str:
        size = abs(value)
        if not math.isfinite(value) or (scale >= SMALLEST_FIXED and size < LARGE):
            return f"{value:{sign}.{decimals}f}"
        return f"{value:{sign}.0f}" if LARGE <= size < LARGEST_FIXED else f"{value:{sign}#.4g}"

    return form
