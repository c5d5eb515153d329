"""Parquet files as a source of parts: what their footers say, and tables of some of their row groups.

Row groups are put in the order of their episodes. If they do not overlap, except that an episode may go on
from one into the next, a part is a run of row groups without the rest of the previous part's last episode and
with the rest of its own. All of this is known from the bounds of each row group: nothing is read.

That no episode is in two parts, and that footers tell the truth, is looked at whenever a part is read. Where
row groups are in order, each part has a range of episodes and the ranges do not overlap; where episodes were
dealt out by a hash (`scratch.py`), each part has its share of the hashes. Either way a look at one part's own
rows shows that they are where no other part looks for them, and nothing has to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.errors import DataError, assume
from deadweight.io.columns import hashes, pa, pc
from deadweight.io.files import brief, check_text, text_in, unique_names
from deadweight.io.folders import (
    bounds_of,
    check_counts,
    check_kinds,
    check_read,
    list_folder,
    require_episode,
    require_group,
    unreadable,
)
from deadweight.io.schema import NOTHING, LogProblem, Mending, labels_in, not_parquet, unfit_files
from deadweight.typing import IntArray

# Rows of a part. What is held at a time is a part for each thread or worker, at some 50 bytes a row.
PART_ROWS = 1 << 20


@dataclass(frozen=True)
class RowGroup:
    """A row group: its file and number, its rows, and its smallest and largest episode."""

    file: int
    number: int
    rows: int
    low: Any
    high: Any


@dataclass(frozen=True)
class Part:
    """A run of whole episodes: row groups to read, and a tail where the last episode goes on in others."""

    groups: tuple[tuple[int, tuple[int, ...]], ...]  # (file, row groups)
    tail: tuple[tuple[int, int, bool], ...] = ()  # (file, row group, whether it has nothing else), in order
    after: Any = None  # episodes up to this one belong to the part before; None if it shares none
    last: Any = None  # the last episode, where there is a tail
    rows: int = 0  # of its own row groups
    beyond: int = 0  # rows of further row groups that have nothing but its last episode
    low: Any = None  # smallest and largest episode of its row groups, as their footers say
    high: Any = None
    share: tuple[int, int] | None = None  # (i, n) where a hash dealt out episodes to n parts, and this is i

    @property
    def all_rows(self) -> int:
        """Rows of its own row groups, and of further ones."""
        return self.rows + self.beyond


def in_order(groups: Sequence[RowGroup]) -> list[RowGroup] | None:
    """The row groups in the order of their episodes; None if they overlap by more than one episode."""
    ordered = sorted(groups, key=lambda group: (group.low, group.high, group.file, group.number))
    return ordered if all(group.high <= after.low for group, after in pairwise(ordered)) else None


def cut(ordered: Sequence[RowGroup], part_rows: int = PART_ROWS) -> list[Part]:
    """Parts of at most `part_rows` rows, or of one row group where that has more.

    >>> groups = [RowGroup(0, 0, 5, 1, 4), RowGroup(0, 1, 5, 4, 7), RowGroup(1, 0, 5, 7, 9)]
    >>> [part.groups for part in cut(groups, 12)]
    [((0, (0, 1)),), ((1, (0,)),)]
    >>> cut(groups, 12)[0].tail, cut(groups, 12)[1].after
    (((1, 0, False),), 7)
    """
    parts: list[Part] = []
    before: Any = None
    for lo, hi in _runs(ordered, part_rows):
        last = ordered[hi - 1].high
        rows = sum(group.rows for group in ordered[lo:hi])
        tail = []
        for group in ordered[hi:]:
            if group.low != last:
                break
            tail.append((group.file, group.number, group.high == last))
        after = before if lo > 0 and ordered[lo].low == before else None
        if after is not None and last == after:  # it all belongs to the last episode of the part before
            parts[-1] = replace(parts[-1], beyond=parts[-1].beyond + rows)
            continue
        by_file = groupby(ordered[lo:hi], key=lambda group: group.file)  # what follows there is read together
        groups = tuple((file, tuple(group.number for group in run)) for file, run in by_file)
        ends = last if tail else None
        parts.append(Part(groups, tuple(tail), after, ends, rows, low=ordered[lo].low, high=last))
        before = last
    return parts


def _runs(ordered: Sequence[RowGroup], part_rows: int) -> Iterator[tuple[int, int]]:
    lo = rows = 0
    for i, group in enumerate(ordered):
        if i > lo and rows + group.rows > part_rows:
            yield lo, i
            lo, rows = i, 0
        rows += group.rows
    yield lo, len(ordered)


class OutOfOrder(DataError):
    """Rows of an episode that are not together, which only a look at the rows could show."""


def scattered(where: str) -> OutOfOrder:
    """The error of an episode whose rows are not together."""
    return OutOfOrder(
        f"Rows of an episode must stand together to be read in parts; in {where} they are scattered.",
        fix="Write the log sorted by episode, or let it be sorted into a temporary folder: sort=True.",
    )


def wrong_footer(where: str, claim: str) -> OutOfOrder:
    """The error of statistics that the rows contradict; sorting reads rows only, and needs no footers."""
    return OutOfOrder(
        f"The footer of a Parquet file must say what its rows say; in {where} {claim}.",
        fix="Write the file again; or have its rows sorted into a temporary folder, which does without the "
        "statistics: sort=True.",
    )


def share_of(episodes: Any, count: int) -> IntArray:
    """(rows,) which of so many parts each row goes to: the same for all rows of an episode, everywhere."""
    return (hashes(episodes) % np.uint64(count)).astype(np.int64)


def check_ids(table: Any, part: Part, where: str) -> None:
    """Refuse a table of a part's own row groups with other rows or episodes than the plan has for it."""
    check_read(where, part.rows, table.num_rows)
    episodes = table["episode"]
    if part.share is not None:
        number, count = part.share
        if not bool((share_of(episodes, count) == number).all()):
            raise DataError(
                f"Every episode must be in one part of the sorted copy; {where} has one of another part.",
                fix="The copy is damaged: try again, with another temporary folder (TMPDIR=...).",
            )
        return
    if part.low is None:
        return
    low, high = ends(episodes)
    if low is not None and not (part.low <= low and high <= part.high):
        raise wrong_footer(
            where, "it says which episodes come first and last, and there are others before or after them"
        )


def ends(episodes: Any) -> tuple[Any, Any]:
    """Smallest and largest label of whole numbers or text; None where there is none."""
    bounds = pc.min_max(episodes).as_py()
    return bounds["min"], bounds["max"]


# The rest of an episode is looked for in so many rows at a time.
TAIL_ROWS = 1 << 12
# A reader with a small buffer fetches the first pages of a row group instead of all of it.
FIRST_PAGES = {"buffer_size": 1 << 16}


@dataclass(frozen=True)
class ParquetFiles:
    """Files with the same columns."""

    paths: tuple[str, ...]
    names: Mapping[str, str]  # ours -> theirs, of the columns that are read
    types: Mapping[str, Any]  # the Arrow type of each of these in the first file, mended, by our name
    constants: tuple[Mapping[str, Any], ...]  # by file, the columns of its folder's name, as in `ward=3`
    mending: Mending = NOTHING

    def without(self, *columns: str) -> ParquetFiles:
        """These files with fewer columns."""
        return replace(self, names={ours: name for ours, name in self.names.items() if ours not in columns})

    def groups(self, ordered: bool = True) -> list[RowGroup]:
        """The row groups that have rows; with their first and last episodes if these have an order."""
        groups = []
        for file, path in enumerate(self.paths):
            with opened(path) as parquet:
                for number in range(parquet.num_row_groups):
                    rows = parquet.metadata.row_group(number).num_rows
                    if rows:
                        require_group(parquet.metadata, number, self._theirs(self.names), repr(path))
                        low, high = self._episodes(parquet, file, number) if ordered else (None, None)
                        groups.append(RowGroup(file, number, rows, low, high))
        return groups

    def _episodes(self, parquet: Any, file: int, number: int) -> tuple[Any, Any]:
        """Smallest and largest episode: from the statistics of whole numbers, else by reading the column."""
        whole = pa.types.is_integer(self.types["episode"])
        bounds = bounds_of(parquet, number, self.names["episode"]) if whole else None
        if bounds is not None:
            return bounds
        low, high = ends(self._read(parquet, file, [number], ["episode"])["episode"])
        nothing = 0 if whole else ""  # no episode at all: refused when the rows are looked at
        return (nothing, nothing) if low is None else (low, high)

    def bounds(self, column: str) -> tuple[int, int] | None:
        """Smallest and largest whole number of a column; None where the footers do not say."""
        if not pa.types.is_integer(self.types[column]):
            return None
        ends: list[int] = []
        for path in self.paths:
            with opened(path) as parquet:
                for number in range(parquet.num_row_groups):
                    bounds = bounds_of(parquet, number, self.names[column])
                    if bounds is None:
                        return None
                    ends += bounds
        return (min(ends), max(ends)) if ends else None

    def rows_of(self, part: Part) -> IntArray:
        """The number of each row of a part of whole row groups, counted over all files in their order."""
        rows: dict[tuple[int, int], IntArray] = {}
        count = 0
        for file, path in enumerate(self.paths):
            with opened(path) as parquet:
                for number in range(parquet.num_row_groups):
                    following = count + parquet.metadata.row_group(number).num_rows
                    rows[file, number], count = np.arange(count, following), following
        groups = [(file, number) for file, numbers in part.groups for number in numbers]
        return np.concatenate([rows[group] for group in (*groups, *(tail[:2] for tail in part.tail))])

    def table(self, part: Part) -> Any:
        """The row groups of a part, columns by our names."""
        tables = []
        for file, numbers in part.groups:
            with opened(self.paths[file]) as parquet:
                tables.append(self._read(parquet, file, list(numbers), self.names))
        return pa.concat_tables(tables)

    def tail(self, part: Part) -> Any:
        """The rest of a part's last episode; None if there is none."""
        tables = []
        for file, number, nothing_else in part.tail:
            with opened(self.paths[file], **FIRST_PAGES) as parquet:
                tables.append(self._tail(parquet, file, number, part.last))
                rows = parquet.metadata.row_group(number).num_rows
                if nothing_else and tables[-1].num_rows != rows:
                    # No other part looks at the rest.
                    raise wrong_footer(
                        f"{self.paths[file]!r}, row group {number}",
                        "it says that all rows are of one episode, and not all are",
                    )
            require_episode(sum(table.num_rows for table in tables), len(self.names))
        return pa.concat_tables(tables) if tables else None

    def batches(self, rows: int) -> Iterator[Any]:
        """Tables of at most so many rows, file after file."""
        for file, path in enumerate(self.paths):
            with opened(path) as parquet:
                for batch in parquet.iter_batches(rows, columns=self._theirs(self.names)):
                    yield self._ours(pa.Table.from_batches([batch]), file, self.names)

    def _tail(self, parquet: Any, file: int, number: int, last: Any) -> Any:
        """The rows at the beginning of a row group that belong to episode `last`."""
        tables = []
        columns = self._theirs(self.names)
        for batch in parquet.iter_batches(TAIL_ROWS, row_groups=[number], columns=columns, use_threads=False):
            table = self._ours(pa.Table.from_batches([batch]), file, self.names)
            tables.append(table.filter(pc.equal(table["episode"], pa.scalar(last, table["episode"].type))))
            if tables[-1].num_rows < table.num_rows:
                break
        return pa.concat_tables(tables)

    def _read(self, parquet: Any, file: int, numbers: list[int], columns: Iterable[str]) -> Any:
        # One thread: the next part is decoded on one processor while this one is summed on another.
        table = parquet.read_row_groups(numbers, columns=self._theirs(columns), use_threads=False)
        return self._ours(table, file, columns)

    def _theirs(self, columns: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(self.names[ours] for ours in columns))

    def _ours(self, table: Any, file: int, columns: Iterable[str]) -> Any:
        """Columns by our names, in the types of the first file."""
        arrow = {}
        for ours in columns:
            theirs, kind = self.names[ours], self.types[ours]
            if theirs in self.constants[file]:
                arrow[ours] = pa.repeat(pa.scalar(self.constants[file][theirs], kind), table.num_rows)
            elif theirs in table.column_names:
                column = table[theirs]
                if isinstance(column.type, pa.BaseExtensionType):
                    stored = [chunk.storage for chunk in column.chunks]
                    column = pa.chunked_array(stored, column.type.storage_type)
                column = self.mending.column(ours, column)
                arrow[ours] = column if column.type == kind else column.cast(kind)
            else:
                arrow[ours] = pa.nulls(table.num_rows, kind)
        return check_text(pa.table(arrow))


def open_files(
    paths: Sequence[str | Path],
    choose: Callable[[list[str], list[str]], Mapping[str, str]],
    mending: Mending = NOTHING,
    tell: Callable[[str], None] = assume,
) -> ParquetFiles:
    """The Parquet files of files and folders.

    Args:
      paths: each a Parquet file or a folder of them.
      choose: from the names of all columns, and of those of text, to our name -> their name of those that
        are needed.
      mending: what is changed in the columns as they are read.
      tell: is told what of a folder is no data.
    """
    import pyarrow.dataset as ds

    files, constants, schemas, of_files = [], [], [], []
    for path in paths:
        base = Path(path).expanduser()
        here = _files_of(base, tell)
        for file in here:
            with opened(str(file)) as parquet:
                check_counts(str(file), parquet.metadata)
        try:
            hive = {"partitioning": "hive", "partition_base_dir": str(base)} if base.is_dir() else {}
            data = ds.dataset([str(file) for file in here], format="parquet", **hive)
            fragments = {fragment.path: fragment for fragment in data.get_fragments()}
        except (pa.ArrowException, OSError, ValueError) as error:
            raise unfit_files(brief(error), f"The {len(here)} Parquet files under {str(base)!r}") from None
        schemas.append(data.schema)
        for file in here:
            of_files.append(fragments[str(file)].physical_schema)
            keys = ds.get_partition_keys(fragments[str(file)].partition_expression)
            files.append(str(file))
            constants.append({str(name): value for name, value in keys.items()})
    try:  # as for tables in memory that are put one below the other
        schema = schemas[0] if len(schemas) == 1 else pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowException, ValueError) as error:
        raise unfit_files(brief(error)) from None
    names = choose(unique_names(schema.names), text_in(schema))
    for path, of_file in zip(files, of_files, strict=True):
        check_kinds(path, of_file, schema, labels_in(names))
    types = {ours: _plain_type(schema.field(theirs).type) for ours, theirs in names.items()}
    if pa.types.is_dictionary(types["episode"]):
        types["episode"] = types["episode"].value_type  # categories have no order
    return ParquetFiles(tuple(files), dict(names), mending.types(types), tuple(constants), mending)


def _files_of(base: Path, tell: Callable[[str], None] = lambda said: None) -> list[Path]:
    """The Parquet files of a folder; a file as it is."""
    if not base.is_dir():
        return [base]
    listing = list_folder(base)
    if not listing.is_parquet:
        raise LogProblem(
            "DW101",
            f"Expected .parquet files in the folder {str(base)!r}; found CSV, which is not read in parts.",
            fix="Read it whole with deadweight.read, or convert it to Parquet.",
        )
    listing.say(tell)
    return list(listing.files)


def _plain_type(kind: Any) -> Any:
    """Views and extension types have fewer kernels than what they store."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def count_rows(paths: Sequence[str | Path]) -> int:
    """The number of rows of these files and folders, from their footers."""
    rows = 0
    for path in paths:
        base = Path(path).expanduser()
        for file in _files_of(base):
            with opened(str(file)) as parquet:
                rows += parquet.metadata.num_rows
    return rows


@contextmanager
def opened(path: str, **settings: Any) -> Iterator[Any]:
    """A Parquet file; whatever goes wrong with it is said with its name."""
    import pyarrow.parquet as pq

    try:
        wrong = unreadable(path)
        if wrong and wrong != "no such file":
            raise OSError(wrong)
        # Files are on a disk: to fetch all columns ahead, as for a distant store, is one more copy.
        with pq.ParquetFile(path, pre_buffer=False, **settings) as parquet:
            yield parquet
    except (DataError, MemoryError):  # Arrow has a kind of the latter as well
        raise
    except FileNotFoundError:
        raise LogProblem(
            "DW101",
            f"Expected a Parquet file at {path!r}; found: no such file.",
            fix="Check the path, and that the files stay where they are while they are read.",
        ) from None
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise not_parquet(path, brief(error)) from None
