"""One column of a table, read as numbers, flags or steps; `label_columns` reads labels.

Tables come from many libraries, and the same column may be integers, floats with holes, decimals, text or
categories. Each reading says which rows are missing and which cannot be read, and leaves the judgement to
the checks. Nothing here loops over rows in Python, but for steps that are neither 64-bit integers nor floats.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from deadweight.log.labels import EXACT_IN_FLOAT
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF|infinity|Infinity)$"
PERCENT = r"\s*%$"
COMMA = r"^([+-]?\d+),(\d+)$"
# Three digits after a comma may be thousands: only other cells can show that a column has decimal commas.
SURELY_DECIMAL = r"^[+-]?\d+,(\d{1,2}|\d{4,})$"
MEANS_MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "<na>", "nat")
MEANS_TRUE = ("true", "t", "yes", "y", "1", "1.0")
MEANS_FALSE = ("false", "f", "no", "n", "0", "0.0")
MOST_DIGITS = 200


@dataclass(frozen=True)
class Numbers:
    """A column of numbers: NaN where missing or unreadable."""

    values: FloatArray
    missing: BoolArray
    unreadable: BoolArray
    from_text: bool = False


@dataclass(frozen=True)
class Flags:
    """A column of True and False: False where missing or unreadable."""

    values: BoolArray
    missing: BoolArray
    unreadable: BoolArray


@dataclass(frozen=True)
class Steps:
    """A column that orders the rows of an episode: whole numbers (or times as such), or floats."""

    values: IntArray | FloatArray
    missing: BoolArray
    unreadable: BoolArray
    are_times: bool = False


def read_numbers(column: Any) -> Numbers:
    """An Arrow column as float64."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = decoded(column)
    kind, n = column.type, len(column)
    none = np.zeros(n, dtype=bool)
    if pa.types.is_null(kind):
        return Numbers(np.full(n, np.nan), ~none, none)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = to_numpy(pc.cast(column, pa.float64(), safe=False), np.nan)
        return Numbers(values, np.isnan(values), none)
    if pa.types.is_decimal(kind):
        values = to_numpy(pc.cast(column, pa.float64()), np.nan)
        return Numbers(values, np.isnan(values), none)
    if not is_text(kind):
        missing = to_numpy(pc.is_null(column), True)
        return Numbers(np.full(n, np.nan), missing, ~missing)
    text, missing = trimmed(column)
    values, readable = _parsed(text)
    if not (readable | missing).all():
        percent = to_numpy(pc.match_substring_regex(text, PERCENT), False)
        values, readable = _parsed(_with_points(pc.replace_substring_regex(text, PERCENT, "")))
        values = np.where(percent, values / 100, values)
    return Numbers(values, missing, ~readable & ~missing, from_text=True)


def _parsed(text: Any) -> tuple[FloatArray, BoolArray]:
    """A column of text as numbers, NaN where they cannot be read; and where they can."""
    import pyarrow as pa
    import pyarrow.compute as pc

    readable = to_numpy(pc.match_substring_regex(text, NUMBER), False)
    numbers = pc.cast(pc.if_else(pa.array(readable), text, pa.scalar(None, text.type)), pa.float64())
    return to_numpy(numbers, np.nan), readable


def _with_points(text: Any) -> Any:
    """Text of numbers with decimal points, if it is beyond doubt that they have decimal commas.

    >>> import pyarrow as pa
    >>> _with_points(pa.array(["0,75", "1,234"])).to_pylist(), _with_points(pa.array(["1,234"])).to_pylist()
    (['0.75', '1.234'], ['1,234'])
    """
    import pyarrow.compute as pc

    sure = pc.any(pc.match_substring_regex(text, SURELY_DECIMAL)).as_py()
    if not sure or pc.any(pc.match_substring(text, ".")).as_py():
        return text
    return pc.replace_substring_regex(text, COMMA, r"\1.\2")


def read_flags(column: Any) -> Flags:
    """An Arrow column as True and False; 0 and 1, and the usual words, will do."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = decoded(column)
    if is_text(column.type):
        text, missing = trimmed(column)
        low = pc.utf8_lower(text)
        true = to_numpy(pc.is_in(low, pa.array(MEANS_TRUE, low.type)), False)
        false = to_numpy(pc.is_in(low, pa.array(MEANS_FALSE, low.type)), False)
        return Flags(true, missing, ~(true | false | missing))
    numbers = read_numbers(column)
    one = numbers.values == 1
    return Flags(one, numbers.missing, ~(one | (numbers.values == 0) | numbers.missing))


def read_steps(column: Any) -> Steps:
    """An Arrow column as something that can be sorted; dates and times count as times."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = decoded(column)
    kind = column.type
    missing = to_numpy(pc.is_null(column), True)
    readable = np.zeros(len(column), dtype=bool)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        storage = pa.int32() if kind.bit_width == 32 else pa.int64()
        whole = to_numpy(pc.cast(column, storage), 0).astype(np.int64)
        return Steps(whole, missing, readable, are_times=True)
    if is_text(kind):
        column, _ = trimmed(column)
        for unit, zone in (("us", None), ("ns", None), ("us", "UTC"), ("ns", "UTC")):
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return read_steps(pc.cast(column, pa.timestamp(unit, zone)))
        with suppress(pa.ArrowInvalid):
            return read_steps(pc.cast(column, pa.int64()))
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        with suppress(pa.ArrowInvalid):
            return Steps(to_numpy(pc.cast(column, pa.int64()), 0), missing, readable)
    numbers = read_numbers(column)
    values = np.where(np.isnan(numbers.values), 0.0, numbers.values)
    counted = as_whole(values)
    # An infinite step orders nothing, like one that is not a number.
    unreadable = numbers.unreadable | np.isinf(numbers.values)
    if not unreadable.any() and (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        # Beyond fifteen digits neighbours may have the same float.
        merged = np.unique(values[~numbers.missing]).size < len(pc.unique(column.drop_null()))
        exact = _from_the_first(column) if merged else None
        if exact is not None:
            return Steps(exact, numbers.missing, unreadable)
    return Steps(values if counted is None else counted, numbers.missing, unreadable)


def _from_the_first(column: Any) -> IntArray | None:
    """Numbers beyond 64 bits, or with more digits than a float has, counted from the smallest one.

    Whole numbers keep their distances. Fractions are counted in their last digit: their order is kept.
    """
    values = [None if value is None else Decimal(value) for value in column.to_pylist()]
    known = [value for value in values if value is not None]
    low = min(known)
    with localcontext(prec=MOST_DIGITS):
        unit = Decimal(1).scaleb(min(0, *(int(value.as_tuple().exponent) for value in known)))
        counted = [0 if value is None else int((value - low) / unit) for value in values]
    return np.array(counted, dtype=np.int64) if max(counted) < 2**63 else None


def as_whole(values: FloatArray) -> IntArray | None:
    """The values as integers if they are whole and small enough to be exact, else None."""
    exact = bool(np.all(np.abs(values) < EXACT_IN_FLOAT)) and np.array_equal(np.floor(values), values)
    return values.astype(np.int64) if exact else None


def decoded(column: Any) -> Any:
    """Categories as what they stand for, extension types as what they store, views as plain text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        storage = [chunk.storage for chunk in column.chunks]
        return decoded(pa.chunked_array(storage, type=kind.storage_type))
    if pa.types.is_dictionary(kind):
        return decoded(pc.cast(column, kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        plain = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return decoded(pa.chunked_array(plain, type=kind.value_type))
    # Text beyond 2 GB overflows 32-bit offsets; views have fewer kernels.
    if pa.types.is_binary_view(kind):
        return pc.cast(column, pa.large_binary())
    return pc.cast(column, pa.large_string()) if is_text(kind) else column


def is_text(kind: Any) -> bool:
    """Whether this is an Arrow type of text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def trimmed(column: Any) -> tuple[Any, BoolArray]:
    """Text without surrounding blanks, null where it is a word for nothing; and where that is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    nothing = pc.is_in(pc.utf8_lower(text), pa.array(MEANS_MISSING, text.type))
    text = pc.if_else(nothing, pa.scalar(None, text.type), text)
    return text, to_numpy(pc.is_null(text), True)


def to_numpy(column: Any, fill: Any) -> AnyArray:
    """A numpy array with nulls filled; an integer column with holes never passes through floats."""
    import pyarrow.compute as pc

    filled = pc.fill_null(column, fill) if column.null_count else column
    flat = filled.to_numpy() if hasattr(filled, "chunks") else filled.to_numpy(zero_copy_only=False)
    return np.asarray(flat)
