"""CSV files: text that has to be given types, without making one label of two.

A column of labels is text unless all of it is numbers that read back as they are written: 1, 2 and 10 are
whole numbers, but one 01 among them makes the column text, and 0x10, 12:00, True and ids of twenty digits
stay what they are. Other columns get the types that pyarrow finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.io.columns import MEANS_MISSING, decoded, is_text
from deadweight.io.schema import AS_WRITTEN, labels_in
from deadweight.log.labels import EXACT_IN_FLOAT
from deadweight.typing import BoolArray

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a text begins that a spreadsheet works out when it opens a CSV."""
NUMBER = re.compile(r"[+-](\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DELIMITERS = (",", ";", "\t", "|")
SAYS = "sep="
"""How a spreadsheet names the delimiter, in a line of its own before the header."""
# How a file begins that a spreadsheet has saved as "Unicode text".
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def parse_csv(path: Path, choose: Callable[[Any], Mapping[str, str]]) -> tuple[Any, Mapping[str, str]]:
    """The columns chosen from a schema, with labels as text; and our names of them -> theirs."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as csv

    way = _Way.of(path)
    with csv.open_csv(path, way.reading, way.parsing) as opened:
        names = choose(opened.schema)
    wanted = list(dict.fromkeys(names.values()))
    labels = labels_in(names)
    try:
        table = _read(path, way, wanted, labels)
    except pa.ArrowInvalid as error:
        if "conversion error" not in str(error):
            raise
        # The types are guessed from the first megabyte; what comes later may not fit.
        table = _read(path, way, wanted, wanted)
        for name in wanted:
            if name not in labels:
                table = _replaced(table, name, _narrowed(table[name]))
    step = names.get("step", "")
    if step in wanted and pa.types.is_floating(table[step].type):
        # Whole numbers beyond 64 bits are guessed to be floats, which may merge neighbours.
        text = _read(path, way, [step], [step])[step]
        if len(pc.unique(text)) > len(pc.unique(table[step])):
            table = _replaced(table, step, text)
    return _without_blank_end(table), names


def as_written(table: Any, names: Mapping[str, str]) -> Any:
    """The table with those columns of labels as numbers that read back as they are written.

    Args:
      table: with labels as text.
      names: our names of the columns -> theirs.
    """
    state, following = names.get("state"), names.get("next_state")
    for ours in AS_WRITTEN:
        name = names.get(ours)
        if name is None or name == following or (name == state and following is not None):
            continue
        numbers = as_numbers(table[name])
        if numbers is not None:
            table = _replaced(table, name, numbers)
    if state is not None and following is not None:
        # The two are compared with each other, so they are of one kind.
        both = as_numbers(table[state]), as_numbers(without_words(table[following]))
        if both[0] is not None and both[1] is not None:
            table = _replaced(_replaced(table, state, both[0]), following, both[1])
    return table


def as_numbers(text: Any) -> Any:
    """A column of text as numbers if every cell reads back as it is written; None otherwise.

    >>> import pyarrow as pa
    >>> as_numbers(pa.chunked_array([["1", "10"]])).type, as_numbers(pa.chunked_array([["1", "01"]]))
    (DataType(int64), None)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        whole = pc.cast(text, pa.int64())
        if pc.all(pc.equal(pc.cast(whole, text.type), text)).as_py() is not False:
            return whole
    except pa.ArrowInvalid:
        pass
    distinct = pc.unique(text.drop_null())
    try:
        numbers = pc.cast(distinct, pa.float64())
    except pa.ArrowInvalid:
        return None
    values = numbers.to_numpy(zero_copy_only=False)
    if not np.isfinite(values).all() or np.unique(values).size < len(distinct):
        return None
    other = distinct.filter(pc.not_equal(pc.cast(numbers, distinct.type), distinct))
    if any(cell not in _ways_to_write(float(cell)) for cell in other.to_pylist()):
        return None
    return pc.cast(text, pa.float64())


def is_formula(text: Any) -> bool:
    """Whether a spreadsheet would take a text for a formula; a number with a sign is none.

    >>> [is_formula(one) for one in ("=1+1", "-b", "@c", "-0.5", "'=x", -1)]
    [True, True, True, False, False, False]
    """
    return isinstance(text, str) and text.startswith(FORMULAS) and not NUMBER.fullmatch(text)


def guarded(column: Any) -> tuple[Any, BoolArray]:
    """A column with an apostrophe before each text that is a formula, and where that is."""
    import pyarrow as pa

    column = decoded(column)
    if not is_text(column.type):
        return column, np.zeros(len(column), dtype=bool)
    texts = column.to_pylist()
    formulas = np.array([is_formula(text) for text in texts], dtype=bool)
    return pa.array(
        [f"'{t}" if f else t for t, f in zip(texts, formulas, strict=True)], pa.string()
    ), formulas


def _ways_to_write(number: float) -> tuple[str, ...]:
    whole = abs(number) < EXACT_IN_FLOAT and number.is_integer()
    return (repr(number), str(int(number))) if whole else (repr(number),)


def without_words(text: Any) -> Any:
    """The column with words for nothing as nothing: a hole among numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(text)), pa.array(MEANS_MISSING, text.type))
    return pc.if_else(words, pa.scalar(None, text.type), text)


@dataclass(frozen=True)
class _Way:
    """How a file is read: its encoding, and the delimiter that its header has most of, a comma if none."""

    reading: Any
    parsing: Any

    @classmethod
    def of(cls, path: Path) -> _Way:
        import pyarrow as pa
        import pyarrow.csv as csv

        with pa.input_stream(str(path)) as stream:
            beginning = stream.read(65_536)
        encoding = "utf-16" if beginning.startswith(UTF_16) else "utf-8"
        header = beginning.decode(encoding, "replace").split("\n", 1)[0].lstrip("\ufeff").strip("\r\n")
        said = header[len(SAYS) :] if header.lower().startswith(SAYS) else ""
        return cls(
            csv.ReadOptions(encoding=encoding, skip_rows=1 if said else 0),
            csv.ParseOptions(delimiter=said or max(DELIMITERS, key=header.count), newlines_in_values=True),
        )


def _read(path: Path, way: _Way, columns: Sequence[str], as_text: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.csv as csv

    # Only an empty field is nothing: a ward may well be called "NA". Numbers take more words, see `columns`.
    convert = csv.ConvertOptions(
        null_values=[""],
        strings_can_be_null=True,
        include_columns=list(columns),
        column_types=dict.fromkeys(as_text, pa.string()),
    )
    return csv.read_csv(path, way.reading, way.parsing, convert)


def _without_blank_end(table: Any) -> Any:
    """The table without the rows of nothing but commas that spreadsheets leave at its end."""
    rows = table.num_rows
    while rows and not any(column[rows - 1].is_valid for column in table.columns):
        rows -= 1
    return table.slice(0, rows)


def _narrowed(column: Any) -> Any:
    """Text as whole numbers or numbers if all of it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for kind in (pa.int64(), pa.float64()):
        try:
            return pc.cast(column, kind)
        except pa.ArrowInvalid:
            continue
    return column


def _replaced(table: Any, name: str, column: Any) -> Any:
    return table.set_column(table.column_names.index(name), name, column)
