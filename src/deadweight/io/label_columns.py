"""A column of labels: episodes, states, actions.

What a label is follows from the column's Arrow type and from the label itself, never from what else a batch
happens to hold, so that parts of a log agree with the whole. Numbers that are all whole become integers;
that much is decided by the column, and `as_one_kind` brings columns that were decided apart together again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from deadweight.io.columns import as_whole, decoded, is_text, to_numpy
from deadweight.log.labels import EXACT_IN_FLOAT, encode
from deadweight.typing import AnyArray, BoolArray, IntArray, Labels


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
            found = np.isin(self.values, [label for label in labels if isinstance(label, int)])
        else:
            found = np.array([*(label in labels for label in self.distinct), False], dtype=bool)[self.values]
        return found & ~self.missing

    def sort_keys(self) -> IntArray:
        """(rows,) integers in the order of the labels."""
        return self.values if self.distinct is None else encode(self.distinct, "label")[0][self.values]


def read_labels(column: Any) -> LabelColumn:
    """An Arrow column as labels: whole numbers, or the distinct values and an index a row."""
    import pyarrow as pa

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
    for one, other in ((first, second), (second, first)):
        if one.missing.all() and not one.nested:
            empty = LabelColumn(np.zeros_like(one.values), one.missing, other.distinct)
            first, second = (empty, other) if one is first else (other, empty)
            break
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
    both = as_labels(as_one_kind([*ours, *extra]))
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
    """Numbers as floats where not all are whole; a number that no float holds, and text, stay as they are.

    >>> as_one_kind([1, 2]), as_one_kind([1, 0.5]), as_one_kind(["a"])
    ([1, 2], [1.0, 0.5], ['a'])
    """
    found = list(labels)
    if all(isinstance(label, int | str) for label in found):
        return found
    return [
        float(label)
        if isinstance(label, int) and not isinstance(label, bool) and abs(label) < EXACT_IN_FLOAT
        else label
        for label in found
    ]


def as_labels(values: list[Any]) -> Labels:
    """A flat array of objects, whatever they are."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def hashes(column: Any) -> AnyArray:
    """(rows,) a number for each label, the same for equal labels wherever they stand.

    It depends on the column's type and on the label: 1.0 has one hash among whole numbers and among halves.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

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
    of_distinct = np.array(
        [0 if label is None else zlib.crc32(label if isinstance(label, bytes) else label.encode())
         for label in encoded.dictionary.to_pylist()],
        dtype=np.uint64,
    )  # fmt: skip
    codes = to_numpy(encoded.indices, -1)
    return _mixed(np.append(of_distinct, np.uint64(0))[codes])


def is_bytes(kind: Any) -> bool:
    """Whether this is an Arrow type of bytes."""
    import pyarrow as pa

    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def is_number(kind: Any) -> bool:
    """Whether this is an Arrow type of numbers."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _mixed(keys: AnyArray) -> AnyArray:
    """Keys spread over 32 bits, so that neighbours part."""
    spread: AnyArray = (keys * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return spread


def _whole_numbers(column: Any) -> LabelColumn | None:
    """Labels that are whole numbers, whatever the type they were stored in."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    missing = to_numpy(pc.is_null(column), True)
    if pa.types.is_floating(kind):
        values = to_numpy(pc.cast(column, pa.float64(), safe=False), np.nan)
        missing = np.isnan(values)
        whole = as_whole(np.where(missing, 0.0, values))
        return None if whole is None else LabelColumn(whole, missing, None)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        try:
            return LabelColumn(to_numpy(pc.cast(column, pa.int64()), 0), missing, None)
        except pa.ArrowInvalid:
            return None
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
    return LabelColumn(np.where(missing, 0, codes), missing, as_labels(labels))


def _encoded(column: Any) -> Any:
    import pyarrow as pa

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
    import pyarrow as pa

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
