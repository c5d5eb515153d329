"""Small operations that numpy leaves half-way: read-only views, division by zero, sums by index, rounding."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from deadweight.typing import AnyArray, FloatArray, IntArray


def unmasked(values: Any) -> Any:
    """What a mask hides as missing: NaN among numbers, None elsewhere. numpy would read what lies under it.

    >>> unmasked(np.ma.masked_array([1.0, 2.0], mask=[False, True]))
    array([ 1., nan])
    """
    masks = sys.modules.get("numpy.ma")  # as long as nobody has imported it, nobody has a mask
    if masks is None or not isinstance(values, masks.MaskedArray):
        return values
    if values.dtype.kind in "biuf":
        return values.astype(np.float64).filled(np.nan)
    shown = np.array(values.data, dtype=object)
    shown[masks.getmaskarray(values)] = None  # `filled` takes None for a fill value of its own, such as "?"
    return shown


def frozen(array: Any) -> Any:
    """The array as a view that cannot be written to."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def apart(array: AnyArray, given: object) -> AnyArray:
    """The array, a copy of it where what a caller has given, and may still write to, lies in the same memory.

    Lists, frames and arrays of other types have been copied when they were converted.

    >>> given = np.zeros(3)
    >>> apart(given[1:], given).base is given, apart(given.astype(int), given).base is None
    (False, True)
    """
    shared = isinstance(given, np.ndarray) and np.may_share_memory(array, given)
    return np.array(array) if shared else array


def freeze_fields(record: object) -> None:
    """Make views that cannot be written to of the arrays of a record: those who get it cannot change it."""
    for name, value in vars(record).items():
        if isinstance(value, np.ndarray) and value.flags.writeable:
            object.__setattr__(record, name, frozen(value))


def divide(top: FloatArray | float, bottom: FloatArray | float) -> FloatArray:
    """top / bottom, and 0 where the bottom is 0.

    >>> divide(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    array([0.5, 0. ])
    """
    if np.count_nonzero(bottom) == np.size(bottom):
        return np.asarray(np.divide(top, bottom), dtype=np.float64)
    shape = np.broadcast_shapes(np.shape(top), np.shape(bottom))
    return np.divide(top, bottom, out=np.zeros(shape), where=np.asarray(bottom) != 0)


def sums_by(index: IntArray, values: AnyArray | None = None, size: int = 0) -> FloatArray:
    """Sum of the values (or the number) of each index.

    >>> sums_by(np.array([0, 2, 2]), size=4)
    array([1., 0., 2., 0.])
    """
    return np.bincount(index, values, minlength=size).astype(np.float64, copy=False)


def sums_by_row(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """(k, size) the same of each row of (k, m) values."""
    count = len(values)
    places = np.arange(count)[:, None] * size + index
    return sums_by(places.ravel(), values.ravel(), count * size).reshape(count, size)


def two_digits(number: int) -> int:
    """A number of at least 0 rounded up to two digits, where nobody knows more of it.

    >>> two_digits(1234), two_digits(7)
    (1300, 7)
    """
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit
