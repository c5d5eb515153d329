"""One column of a table, read as numbers, flags, steps or labels.

Tables come from many libraries, and the same column may be integers, floats with holes, decimals, text or
categories. Each reading says which rows are missing and which cannot be read, and leaves the judgement to
the checks. Nothing here loops over rows in Python, but for steps that are neither 64-bit integers nor floats.

What a label is follows from the column's Arrow type and from the label itself, never from what else a batch
happens to hold, so that parts of a log agree with the whole. Numbers that are all whole become integers; that
much is decided by the column, and `as_one_kind` brings columns that were decided apart together again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, localcontext
from importlib import import_module
from typing import Any

import numpy as np

from deadweight.log.labels import EXACT_IN_FLOAT, encode, objects
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels


class _Later:
    """A module that is imported when something of it is first used: to import pyarrow takes a while."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


pa: Any = _Later("pyarrow")
pc: Any = _Later("pyarrow.compute")

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
class Reading:
    """A column, read in one way: numbers (NaN where there are none), flags (False there), or steps."""

    values: AnyArray
    missing: BoolArray
    unreadable: BoolArray  # where something else stands
    from_text: bool = False  # of numbers
    are_times: bool = False  # of steps


def read_numbers(column: Any) -> Reading:
    """An Arrow column as float64."""
    column = decoded(column)
    kind, n = column.type, len(column)
    none = np.zeros(n, dtype=bool)
    if pa.types.is_null(kind):
        return Reading(np.full(n, np.nan), ~none, none)
    if is_number(kind) or pa.types.is_boolean(kind):
        values = to_numpy(pc.cast(column, pa.float64(), safe=pa.types.is_decimal(kind)), np.nan)
        return Reading(values, np.isnan(values), none)
    if not is_text(kind):
        missing = to_numpy(pc.is_null(column), True)
        return Reading(np.full(n, np.nan), missing, ~missing)
    text, missing = trimmed(column)
    values, readable = _parsed(text)
    if not (readable | missing).all():
        percent = to_numpy(pc.match_substring_regex(text, PERCENT), False)
        values, readable = _parsed(_with_points(pc.replace_substring_regex(text, PERCENT, "")))
        values = np.where(percent, values / 100, values)
    return Reading(values, missing, ~readable & ~missing, from_text=True)


def _parsed(text: Any) -> tuple[FloatArray, BoolArray]:
    """A column of text as numbers, NaN where they cannot be read; and where they can."""
    readable = to_numpy(pc.match_substring_regex(text, NUMBER), False)
    numbers = pc.cast(pc.if_else(pa.array(readable), text, pa.scalar(None, text.type)), pa.float64())
    return to_numpy(numbers, np.nan), readable


def _with_points(text: Any) -> Any:
    """Text of numbers with decimal points, if it is beyond doubt that they have decimal commas."""
    sure = pc.any(pc.match_substring_regex(text, SURELY_DECIMAL)).as_py()
    if not sure or pc.any(pc.match_substring(text, ".")).as_py():
        return text
    return pc.replace_substring_regex(text, COMMA, r"\1.\2")


def read_flags(column: Any) -> Reading:
    """An Arrow column as True and False; 0 and 1, and the usual words, will do."""
    column = decoded(column)
    if is_text(column.type):
        text, missing = trimmed(column)
        low = pc.utf8_lower(text)
        true = to_numpy(pc.is_in(low, pa.array(MEANS_TRUE, low.type)), False)
        false = to_numpy(pc.is_in(low, pa.array(MEANS_FALSE, low.type)), False)
        return Reading(true, missing, ~(true | false | missing))
    numbers = read_numbers(column)
    true, false = numbers.values == 1, numbers.values == 0
    return Reading(true, numbers.missing, ~(true | false | numbers.missing))


def read_steps(column: Any) -> Reading:
    """An Arrow column as something that can be sorted; dates and times count as times."""
    column = decoded(column)
    kind = column.type
    missing = to_numpy(pc.is_null(column), True)
    readable = np.zeros(len(column), dtype=bool)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        storage = pa.int32() if kind.bit_width == 32 else pa.int64()
        whole = to_numpy(pc.cast(column, storage), 0).astype(np.int64)
        return Reading(whole, missing, readable, are_times=True)
    if is_text(kind):
        column, _ = trimmed(column)
        for unit, zone in (("us", None), ("ns", None), ("us", "UTC"), ("ns", "UTC")):
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return read_steps(pc.cast(column, pa.timestamp(unit, zone)))
        with suppress(pa.ArrowInvalid):
            return read_steps(pc.cast(column, pa.int64()))
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        with suppress(pa.ArrowInvalid):
            return Reading(to_numpy(pc.cast(column, pa.int64()), 0), missing, readable)
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
            return Reading(exact, numbers.missing, unreadable)
    return Reading(values if counted is None else counted, numbers.missing, unreadable)


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
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        storage = [chunk.storage for chunk in column.chunks]
        return decoded(pa.chunked_array(storage, type=kind.storage_type))
    if pa.types.is_dictionary(kind):
        return decoded(pc.cast(column, kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        values = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return decoded(pa.chunked_array(values, type=kind.value_type))
    # Text beyond 2 GB overflows 32-bit offsets; views have fewer kernels.
    if pa.types.is_binary_view(kind):
        return pc.cast(column, pa.large_binary())
    return pc.cast(column, pa.large_string()) if is_text(kind) else column


def is_text(kind: Any) -> bool:
    """Whether this is an Arrow type of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def trimmed(column: Any) -> tuple[Any, BoolArray]:
    """Text without surrounding blanks, null where it is a word for nothing; and where that is."""
    text = pc.utf8_trim_whitespace(column)
    nothing = pc.is_in(pc.utf8_lower(text), pa.array(MEANS_MISSING, text.type))
    text = pc.if_else(nothing, pa.scalar(None, text.type), text)
    return text, to_numpy(pc.is_null(text), True)


def to_numpy(column: Any, fill: Any) -> AnyArray:
    """A numpy array with nulls filled; an integer column with holes never passes through floats."""
    filled = pc.fill_null(column, fill) if column.null_count else column
    flat = filled.to_numpy() if hasattr(filled, "chunks") else filled.to_numpy(zero_copy_only=False)
    return np.asarray(flat)


@dataclass(frozen=True)
class LabelColumn:
    """A column of labels: integers as they are (`distinct` is None), others as indices into `distinct`."""

    values: IntArray
    missing: BoolArray
    distinct: Labels | None
    nested: bool = False

    def __getitem__(self, row: int) -> Any:
        """The label of a row; None where it is missing."""
        if self.missing[row]:
            return None
        return self.values[row] if self.distinct is None else self.distinct[self.values[row]]

    def has(self, *labels: Any) -> BoolArray:
        """(rows,) whether each row has one of these labels."""
        if self.distinct is None:
            has = np.isin(self.values, [label for label in labels if isinstance(label, int)])
        else:
            has = np.array([*(label in labels for label in self.distinct), False], dtype=bool)[self.values]
        return has & ~self.missing

    def sort_keys(self) -> IntArray:
        """(rows,) integers in the order of the labels."""
        return self.values if self.distinct is None else encode(self.distinct, "label")[0][self.values]


def read_labels(column: Any) -> LabelColumn:
    """An Arrow column as labels: whole numbers, or the distinct values and an index a row."""
    column = decoded(column)
    kind, n = column.type, len(column)
    if pa.types.is_null(kind):
        return LabelColumn(np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool), None)
    if pa.types.is_nested(kind):
        return LabelColumn(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool), None, nested=True)
    whole = _whole_numbers(column)
    if whole is not None:
        return whole
    if pa.types.is_float16(kind):
        column = column.cast(pa.float64())
    elif not (is_text(kind) or is_bytes(kind) or is_number(kind) or pa.types.is_boolean(kind)):
        column = _written_out(column)
    return _by_dictionary(column)


def join_labels(first: LabelColumn, second: LabelColumn) -> LabelColumn | None:
    """Both columns, one after the other, over common labels; None if one has numbers and the other not."""
    if first.missing.all() and not first.nested:
        first = LabelColumn(np.zeros_like(first.values), first.missing, second.distinct)
    elif second.missing.all() and not second.nested:
        second = LabelColumn(np.zeros_like(second.values), second.missing, first.distinct)
    if first.nested or second.nested:
        return None
    missing = np.concatenate([first.missing, second.missing])
    if first.distinct is None and second.distinct is None:
        return LabelColumn(np.concatenate([first.values, second.values]), missing, None)
    (values, ours), (codes, theirs) = _spelt_out(first), _spelt_out(second)
    if len({_sort_of(label) for label in [*ours, *theirs]}) > 1:
        return None
    index = {label: i for i, label in enumerate(ours)}
    extra = [label for label in theirs if label not in index]
    index.update({label: len(index) + i for i, label in enumerate(extra)})
    moved = np.array([*(index[label] for label in theirs), 0], dtype=np.int64)
    both = objects(as_one_kind([*ours, *extra]))
    return LabelColumn(np.concatenate([values, moved[codes]]), missing, both)


def index_labels(column: LabelColumn, what: str) -> tuple[IntArray, Labels]:
    """Index of each row's label in the order of `deadweight.log.labels`, -1 where missing, and the labels."""
    present = ~column.missing
    if column.distinct is None:
        codes = np.full(len(column.values), -1, dtype=np.int64)
        codes[present], labels = encode(column.values[present], what)
        return codes, labels
    ranks, labels = encode(column.distinct, what)
    return np.where(present, ranks[column.values] if ranks.size else -1, -1), labels


def as_one_kind(labels: Iterable[Any]) -> list[Any]:
    """Numbers as floats where not all are whole; a number that no float holds, and text, stay as they are."""
    column = list(labels)
    if all(isinstance(label, int | str) for label in column):
        return column
    whole = [isinstance(v, int) and not isinstance(v, bool) and abs(v) < EXACT_IN_FLOAT for v in column]
    return [float(label) if w else label for label, w in zip(column, whole, strict=True)]


def hashes(column: Any) -> AnyArray:
    """(rows,) a number for each label, the same for equal labels wherever they stand.

    It depends on the column's type and on the label: 1.0 has one hash among whole numbers and among halves.
    """
    column = decoded(column)
    kind, n = column.type, len(column)
    if pa.types.is_null(kind) or pa.types.is_nested(kind):
        return np.zeros(n, dtype=np.uint64)
    if pa.types.is_floating(kind):
        numbers = to_numpy(pc.cast(column, pa.float64(), safe=False), 0.0)
        # Adding zero makes one of 0.0 and -0.0; the bits of a NaN do not matter, it is no label.
        return _mixed((numbers + 0.0).view(np.uint64))
    if pa.types.is_unsigned_integer(kind):
        return _mixed(to_numpy(pc.cast(column, pa.uint64()), 0))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _mixed(to_numpy(pc.cast(column, pa.int64()), 0).view(np.uint64))
    if not (is_text(kind) or is_bytes(kind)):
        column = _written_out(column)
    encoded = _encoded(column)
    labels = [v.encode() if isinstance(v, str) else v for v in encoded.dictionary.to_pylist()]
    sums = np.array([0 if v is None else zlib.crc32(v) for v in labels] + [0], dtype=np.uint64)
    return _mixed(sums[to_numpy(encoded.indices, -1)])


def is_bytes(kind: Any) -> bool:
    """Whether this is an Arrow type of bytes."""
    t = pa.types
    plain = t.is_binary(kind) or t.is_large_binary(kind)
    return bool(plain or t.is_fixed_size_binary(kind) or t.is_binary_view(kind))


def is_number(kind: Any) -> bool:
    """Whether this is an Arrow type of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _mixed(keys: AnyArray) -> AnyArray:
    """Keys spread over 32 bits, so that neighbours part."""
    return np.asarray((keys * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32))


def _whole_numbers(column: Any) -> LabelColumn | None:
    """Labels that are whole numbers, whatever the type they were stored in."""
    kind = column.type
    missing = to_numpy(pc.is_null(column), True)
    if pa.types.is_floating(kind):
        values = to_numpy(pc.cast(column, pa.float64(), safe=False), np.nan)
        missing = np.isnan(values)
        whole = as_whole(np.where(missing, 0.0, values))
        return None if whole is None else LabelColumn(whole, missing, None)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        with suppress(pa.ArrowInvalid):
            return LabelColumn(to_numpy(pc.cast(column, pa.int64()), 0), missing, None)
    return None


def _by_dictionary(column: Any) -> LabelColumn:
    encoded = _encoded(column)
    distinct = encoded.dictionary.to_pylist()
    codes = to_numpy(encoded.indices, -1).astype(np.int64)
    absent = [i for i, label in enumerate(distinct) if label is None or label != label]
    missing = codes < 0
    if absent:
        missing |= np.isin(codes, absent)
        keep = np.setdiff1d(np.arange(len(distinct)), absent)
        codes = np.where(missing, 0, np.searchsorted(keep, codes))
        distinct = [distinct[i] for i in keep]
    labels = as_one_kind(_label(value) for value in distinct)
    return LabelColumn(np.where(missing, 0, codes), missing, objects(labels))


def _encoded(column: Any) -> Any:
    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    return encoded


def _label(value: Any) -> Any:
    """A value of a column as a label that stays apart from all others of its type."""
    if isinstance(value, bytes):
        # With every backslash doubled an escape stands for one byte and for nothing else.
        return value.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    if not isinstance(value, Decimal):
        return value
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    return number if Decimal(repr(number)) == value else value


def _written_out(column: Any) -> Any:
    """Times, decimals and the like as text."""
    try:
        return column.cast(pa.large_string())
    except pa.ArrowNotImplementedError:
        values = column.to_pylist()
        return pa.chunked_array([[None if v is None else str(v) for v in values]], pa.large_string())


def _spelt_out(column: LabelColumn) -> tuple[IntArray, list[Any]]:
    """(rows,) indices of labels, also of whole numbers, and the labels."""
    if column.distinct is not None:
        return column.values, list(column.distinct)
    numbers, codes = np.unique(column.values[~column.missing], return_inverse=True)
    values = np.zeros_like(column.values)
    values[~column.missing] = codes
    return values, numbers.tolist()


def _sort_of(label: Any) -> str:
    if isinstance(label, bool):
        return "flag"
    return "number" if isinstance(label, int | float | Decimal) else type(label).__name__
