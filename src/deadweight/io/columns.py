"""One column of a table, read as numbers, flags, steps or labels.

Tables come from many libraries, and the same column may be integers, floats with holes, decimals, text or
categories. Each reading says which rows are missing and which cannot be read, and leaves the judgement to
the checks. Nothing here loops over rows in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.labels import encode
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF|infinity|Infinity)$"
MEANS_MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "<na>", "nat")
MEANS_TRUE = ("true", "t", "yes", "y", "1", "1.0")
MEANS_FALSE = ("false", "f", "no", "n", "0", "0.0")
EXACT_IN_FLOAT = 2.0**53


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

    def sort_keys(self) -> IntArray:
        """(rows,) integers in the order of the labels."""
        return self.values if self.distinct is None else encode(self.distinct, "label")[0][self.values]


def read_numbers(column: Any) -> Numbers:
    """An Arrow column as float64."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _decoded(column)
    kind, n = column.type, len(column)
    none = np.zeros(n, dtype=bool)
    if pa.types.is_null(kind):
        return Numbers(np.full(n, np.nan), ~none, none)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = _numpy(pc.cast(column, pa.float64(), safe=False), np.nan)
        return Numbers(values, np.isnan(values), none)
    if pa.types.is_decimal(kind):
        values = _numpy(pc.cast(column, pa.float64()), np.nan)
        return Numbers(values, np.isnan(values), none)
    if not _is_text(kind):
        missing = _numpy(pc.is_null(column), True)
        return Numbers(np.full(n, np.nan), missing, ~missing)
    text, missing = _trimmed(column)
    readable = _numpy(pc.match_substring_regex(text, NUMBER), False) & ~missing
    numbers = pc.cast(pc.if_else(pa.array(readable), text, pa.scalar(None, text.type)), pa.float64())
    return Numbers(_numpy(numbers, np.nan), missing, ~readable & ~missing, from_text=True)


def read_flags(column: Any) -> Flags:
    """An Arrow column as True and False; 0 and 1, and the usual words, will do."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _decoded(column)
    if _is_text(column.type):
        text, missing = _trimmed(column)
        low = pc.utf8_lower(text)
        true = _numpy(pc.is_in(low, pa.array(MEANS_TRUE, low.type)), False)
        false = _numpy(pc.is_in(low, pa.array(MEANS_FALSE, low.type)), False)
        return Flags(true, missing, ~(true | false | missing))
    numbers = read_numbers(column)
    one = numbers.values == 1
    return Flags(one, numbers.missing, ~(one | (numbers.values == 0) | numbers.missing))


def read_steps(column: Any) -> Steps:
    """An Arrow column as something that can be sorted; dates and times count as times."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _decoded(column)
    kind = column.type
    if pa.types.is_temporal(kind):
        missing = _numpy(pc.is_null(column), True)
        storage = pa.int32() if kind.bit_width == 32 else pa.int64()
        whole = _numpy(pc.cast(column, storage), 0).astype(np.int64)
        return Steps(whole, missing, np.zeros(len(column), dtype=bool), are_times=True)
    if _is_text(kind):
        text, _ = _trimmed(column)
        try:
            return read_steps(pc.cast(text, pa.timestamp("us")))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    if pa.types.is_signed_integer(kind):
        missing = _numpy(pc.is_null(column), True)
        return Steps(_numpy(column, 0).astype(np.int64), missing, np.zeros(len(column), dtype=bool))
    numbers = read_numbers(column)
    values = np.where(np.isnan(numbers.values), 0.0, numbers.values)
    counted = as_whole(values)
    # An infinite step orders nothing, like one that is not a number.
    unreadable = numbers.unreadable | np.isinf(numbers.values)
    return Steps(values if counted is None else counted, numbers.missing, unreadable)


def read_labels(column: Any) -> LabelColumn:
    """An Arrow column as labels: whole numbers, or the distinct values and an index a row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _decoded(column)
    kind, n = column.type, len(column)
    if pa.types.is_null(kind):
        return LabelColumn(np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool), None)
    if pa.types.is_nested(kind):
        return LabelColumn(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool), None, nested=True)
    whole = _whole_numbers(column)
    if whole is not None:
        return whole
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
        column = pc.cast(column, pa.float64())
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        column = _bytes_as_text(column)
    elif not (_is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind)):
        column = pc.cast(column, pa.large_string())
    return _by_dictionary(column)


def join_labels(first: LabelColumn, second: LabelColumn) -> LabelColumn | None:
    """Both columns, one after the other, over common labels; None if one has numbers and the other not."""
    for one, other in ((first, second), (second, first)):
        if one.missing.all() and not one.nested:
            empty = LabelColumn(np.zeros_like(one.values), one.missing, other.distinct)
            first, second = (empty, other) if one is first else (other, empty)
            break
    if (first.distinct is None) != (second.distinct is None) or first.nested or second.nested:
        return None
    missing = np.concatenate([first.missing, second.missing])
    if first.distinct is None or second.distinct is None:
        return LabelColumn(np.concatenate([first.values, second.values]), missing, None)
    kinds = {type(label) for distinct in (first.distinct, second.distinct) for label in distinct}
    if len(kinds) > 1:
        return None
    index = {label: i for i, label in enumerate(first.distinct)}
    extra = [label for label in second.distinct if label not in index]
    index.update({label: len(index) + i for i, label in enumerate(extra)})
    moved = np.array([index[label] for label in second.distinct], dtype=np.int64)
    codes = moved[second.values] if moved.size else np.zeros_like(second.values)
    return LabelColumn(np.concatenate([first.values, codes]), missing, as_labels([*first.distinct, *extra]))


def index_labels(column: LabelColumn, what: str) -> tuple[IntArray, Labels]:
    """Index of each row's label in the order of `deadweight.labels`, -1 where missing, and the labels."""
    present = ~column.missing
    if column.distinct is None:
        codes = np.full(len(column.values), -1, dtype=np.int64)
        codes[present], labels = encode(column.values[present], what)
        return codes, labels
    ranks, labels = encode(column.distinct, what)
    return np.where(present, ranks[column.values] if ranks.size else -1, -1), labels


def as_whole(values: FloatArray) -> IntArray | None:
    """The values as integers if they are whole and small enough to be exact, else None."""
    exact = bool(np.all(np.abs(values) < EXACT_IN_FLOAT)) and np.array_equal(np.floor(values), values)
    return values.astype(np.int64) if exact else None


def as_labels(values: list[Any]) -> Labels:
    """A flat array of objects, whatever they are."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _whole_numbers(column: Any) -> LabelColumn | None:
    """Labels that are whole numbers, whatever the type they were stored in."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    missing = _numpy(pc.is_null(column), True)
    if pa.types.is_floating(kind):
        values = _numpy(pc.cast(column, pa.float64(), safe=False), np.nan)
        missing = np.isnan(values)
        whole = as_whole(np.where(missing, 0.0, values))
        return None if whole is None else LabelColumn(whole, missing, None)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        try:
            return LabelColumn(_numpy(pc.cast(column, pa.int64()), 0), missing, None)
        except pa.ArrowInvalid:
            return None
    return None


def _by_dictionary(column: Any) -> LabelColumn:
    import pyarrow as pa

    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    distinct = encoded.dictionary.to_pylist()
    codes = _numpy(encoded.indices, -1).astype(np.int64)
    absent = [i for i, label in enumerate(distinct) if label is None or label != label]
    missing = codes < 0
    if absent:
        missing |= np.isin(codes, absent)
        keep = np.setdiff1d(np.arange(len(distinct)), absent)
        codes = np.where(missing, 0, np.searchsorted(keep, codes))
        distinct = [distinct[i] for i in keep]
    return LabelColumn(np.where(missing, 0, codes), missing, as_labels(distinct))


def _decoded(column: Any) -> Any:
    """Categories as what they stand for, extension types as what they store, views as plain text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        storage = [chunk.storage for chunk in column.chunks]
        return _decoded(pa.chunked_array(storage, type=kind.storage_type))
    if pa.types.is_dictionary(kind):
        return _decoded(pc.cast(column, kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        decoded = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return _decoded(pa.chunked_array(decoded, type=kind.value_type))
    # Text beyond 2 GB overflows 32-bit offsets; views have fewer kernels.
    return pc.cast(column, pa.large_string()) if _is_text(kind) else column


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _trimmed(column: Any) -> tuple[Any, BoolArray]:
    """Text without surrounding blanks, null where it is a word for nothing; and where that is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    nothing = pc.is_in(pc.utf8_lower(text), pa.array(MEANS_MISSING, text.type))
    text = pc.if_else(nothing, pa.scalar(None, text.type), text)
    return text, _numpy(pc.is_null(text), True)


def _bytes_as_text(column: Any) -> Any:
    """Bytes as the text they spell, with escapes for what is not text."""
    import pyarrow as pa

    return pa.chunked_array(
        [[None if v is None else v.decode("utf-8", "backslashreplace") for v in column.to_pylist()]],
        type=pa.large_string(),
    )


def _numpy(column: Any, fill: Any) -> AnyArray:
    """A numpy array with nulls filled; an integer column with holes never passes through floats."""
    import pyarrow.compute as pc

    filled = pc.fill_null(column, fill) if column.null_count else column
    flat = filled.to_numpy() if hasattr(filled, "chunks") else filled.to_numpy(zero_copy_only=False)
    return np.asarray(flat)
