"""Small operations that numpy leaves half-way: read-only views, division by zero, sums by index, rounding.

And what goes with numbers: attributes that are computed once, keys of sums, numbers of a text table.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar, overload

import numpy as np

from deadweight.typing import AnyArray, FloatArray, IntArray


def unmasked(values: Any) -> Any:
    """The values with NaN (among numbers) or None where masked; numpy would read what lies under the mask."""
    masks = sys.modules.get("numpy.ma")  # as long as nobody has imported it, nobody has a mask
    if masks is None or not isinstance(values, masks.MaskedArray):
        return values
    if values.dtype.kind in "biuf":
        return values.astype(np.float64).filled(np.nan)
    filled = np.array(values.data, dtype=object)
    filled[masks.getmaskarray(values)] = None  # `filled` takes None for a fill value of its own, such as "?"
    return filled


def real(values: Any) -> FloatArray:
    """A copy of the values as doubles; TypeError or ValueError where they are none, or complex."""
    given = np.asarray(unmasked(values))
    if np.iscomplexobj(given):
        raise TypeError("an imaginary part would be lost")
    return np.array(given, dtype=np.float64)


def frozen(array: Any) -> Any:
    """The array as a view that cannot be written to."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def apart(array: AnyArray, given: object) -> AnyArray:
    """The array, or a copy where it shares memory with what a caller gave and may still write to.

    Lists, frames and arrays of other types have been copied when they were converted.
    """
    shared = isinstance(given, np.ndarray) and np.may_share_memory(array, given)
    return np.array(array) if shared else array


def freeze_fields(record: object) -> None:
    """Replace the arrays of a record by read-only views of them."""
    for name, value in vars(record).items():
        if isinstance(value, np.ndarray) and value.flags.writeable:
            object.__setattr__(record, name, frozen(value))


def each_row(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """(..., j) rows @ matrix, of (..., i) and (i, j): others change no bit of a row."""
    product: FloatArray = np.matmul(rows[..., None, :], matrix)[..., 0, :]
    return product


def divide(top: FloatArray | float, bottom: FloatArray | float) -> FloatArray:
    """top / bottom, and 0 where the bottom is 0.

    >>> divide(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    array([0.5, 0. ])
    """
    if np.count_nonzero(bottom) == np.size(bottom):
        return np.asarray(np.divide(top, bottom), dtype=np.float64)
    shape = np.broadcast_shapes(np.shape(top), np.shape(bottom))
    return np.divide(top, bottom, out=np.zeros(shape), where=np.asarray(bottom) != 0)


def softmax(scores: FloatArray) -> FloatArray:
    """exp(scores) with rows summing to 1."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)


def sums_by(index: IntArray, values: AnyArray | None = None, size: int = 0) -> FloatArray:
    """Sum of the values (or the number) of each index."""
    return np.bincount(index, values, minlength=size).astype(np.float64, copy=False)


def sums_by_row(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """(k, size) sums of each row of (k, m) values by index."""
    count = len(values)
    places = np.arange(count)[:, None] * size + index
    return sums_by(places.ravel(), values.ravel(), count * size).reshape(count, size)


def two_digits(number: int) -> int:
    """A number of at least 0 rounded up to two digits: 1234 -> 1300, 7 -> 7."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit


T = TypeVar("T")


class once(Generic[T]):
    """`functools.cached_property` without the lock that it takes before Python 3.12.

    For objects of which there are hundreds a question. Two threads may both compute the value, which does no
    harm: it is the same.
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
        value = instance.__dict__[self._name] = self._make(instance)
        return value


# Numbers of a text table have four decimals, unless values are so small that this leaves no digit of them, or
# so large that it says nothing. What is below the rounding is what sums leave of a zero.
SMALL, SMALLEST_FIXED, ROUNDING = 1e-3, 1e-6, 1e-12
LARGE, LARGEST_FIXED = 1e6, 1e10

TableNumber = Callable[..., str]
UNDETERMINED = "undetermined"
"""In place of an interval that holds every number."""


def ends_in_words(ends: tuple[float, float], form: TableNumber, *style: str) -> str:
    """An interval as text."""
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
    sizes = sorted(abs(value) for value in typical if math.isfinite(value) and abs(value) > ROUNDING)
    scale = sizes[len(sizes) // 2] if sizes else 1.0
    decimals = 4 if scale >= SMALL else 3 - math.floor(math.log10(scale))

    def form(value: float, sign: str = "") -> str:
        size = abs(value)
        if not math.isfinite(value) or (scale >= SMALLEST_FIXED and size < LARGE):
            return f"{value:{sign}.{decimals}f}"
        return f"{value:{sign}.0f}" if LARGE <= size < LARGEST_FIXED else f"{value:{sign}#.4g}"

    return form


class Key:
    """A key of sums, equal to another with equal parts; hashed once, since keys are looked up very often."""

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
