"""Small operations that numpy leaves half-way: read-only views, division by zero, sums by index, rounding."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar, overload

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


# --------------------------------------------------------------------------------------------------------
# Attributes that are made when first asked for, and kept.

T = TypeVar("T")


class once(Generic[T]):
    """What `functools.cached_property` does, without the lock that it takes before Python 3.12.

    For objects of which there are hundreds a question. Two threads may both make the value, which does no
    harm: what is made is the same.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> once[T] | T:
        if instance is None:
            return self
        made = instance.__dict__[self._name] = self._make(instance)
        return made


# --------------------------------------------------------------------------------------------------------
# Numbers of a text table: four decimals, unless values are so small or so large that these say nothing.

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


# --------------------------------------------------------------------------------------------------------
# Keys under which sums are kept: hashed once, since hundreds of them are looked up thousands of times.


class Key:
    """Equal to another with equal parts."""

    __slots__ = ("_hash", "parts")

    def __init__(self, *parts: Hashable) -> None:
        self.parts = parts
        self._hash = hash(parts)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Key) and self._hash == other._hash and self.parts == other.parts

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Key], tuple[Any, ...]]:
        return Key, self.parts  # another process has other hashes
