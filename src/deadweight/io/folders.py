"""Folders of files: which are data, which other programs left behind, and which folders are no plain ones.

A name that begins with _ or . below the folder that was named is no data, as in Spark, Hive and Arrow: half
written files, checkpoints of notebooks, what a system keeps beside a file. Read as rows they would change
every number, so they are left out and counted. The folder of a Delta, Iceberg or Hudi table also holds rows
that were deleted or replaced since, and only its own log tells which: it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deadweight.errors import how_many
from deadweight.io.findings import LogProblem
from deadweight.io.sizes import unreadable

PARQUET = (".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
# A folder of data often has notes in a .txt beside them.
CSV_IN_FOLDERS = tuple(kind + packed for kind in (".csv", ".tsv") for packed in ("", *COMPRESSED))
LEFT_BEHIND = ("_", ".")
OWN_READER = {
    "Delta": "pass deltalake.DeltaTable({0!r}).to_pyarrow_table()",
    "Iceberg": "load the table from its catalogue with pyiceberg, and pass table.scan().to_arrow()",
    "Hudi": "pass spark.read.format('hudi').load({0!r}).toPandas()",
}


@dataclass(frozen=True)
class Listing:
    """What a folder holds.

    Attributes:
      folder: its path.
      files: those that are read, by name: all Parquet in it or, where there is none, all CSV.
      is_parquet: whether they are Parquet.
      left_out: files of data that other programs left behind.
      links: links to folders elsewhere, which are not followed.
    """

    folder: Path
    files: tuple[Path, ...]
    is_parquet: bool
    left_out: int = 0
    links: int = 0

    def say(self, tell: Callable[[str], None]) -> None:
        """Tell in one line what was not read, if there is any such thing."""
        said = []
        if self.left_out:
            said.append(
                f"{_were(self.left_out, 'file')} left out, whose names, or those of folders they are in, "
                "begin with _ or . as what other programs leave behind does (to read one of them, name it)"
            )
        if self.links:
            folders = "a folder elsewhere" if self.links == 1 else "folders elsewhere"
            said.append(
                f"{_were(self.links, 'link', f' to {folders}')} not followed (name what they lead to)"
            )
        if said:
            tell(f"In the folder {str(self.folder)!r} {', and '.join(said)}.")


def list_folder(folder: Path) -> Listing:
    """The files of a folder and of the folders in it; an error where there are none."""
    for above in _tables_above(folder):
        _require_plain(above)
    found, aside, links = list[Path](), list[str](), 0
    for place, folders, names in os.walk(folder, onerror=_unlisted):
        _require_plain(Path(place))
        there = [Path(place, name) for name in folders]
        linked = [one for one in there if one.is_symlink() and not one.name.startswith(LEFT_BEHIND)]
        links += sum(not one.resolve().is_relative_to(folder.resolve()) for one in linked)
        hidden = [one for one in there if one.name.startswith(LEFT_BEHIND) and not one.is_symlink()]
        aside += [name for one in hidden for _, _, inside in os.walk(one) for name in inside]
        aside += [name for name in names if name.startswith(LEFT_BEHIND)]
        found += [Path(place, name) for name in names if not name.startswith(LEFT_BEHIND)]
        folders[:] = [name for name in folders if not name.startswith(LEFT_BEHIND)]
    parquet = [path for path in found if _ends(path.name, PARQUET)]
    kinds = PARQUET if parquet else (*PARQUET, *CSV_IN_FOLDERS)
    files = parquet or [path for path in found if _ends(path.name, kinds)]
    left_out = sum(_ends(name, kinds) for name in aside)
    if not files:
        raise _no_files(folder, left_out)
    for path in files:
        _require_file(path)
    return Listing(folder, tuple(sorted(files)), bool(parquet), left_out, links)


def files_of(path: Path) -> tuple[Path, ...]:
    """The files that a path is read from; none where there is nothing, as at that of standard input."""
    if unreadable(path):
        return ()
    return list_folder(path).files if path.is_dir() else (path,)


def _require_file(path: Path) -> None:
    """Refuse a link to nothing, or a pipe, that has the name of a file of data."""
    wrong = unreadable(path)
    if wrong:
        raise LogProblem(
            "DW101",
            f"Expected a file at {str(path)!r}; found: {wrong}.",
            fix="Mend the link, or move it out of the folder.",
        )


def _ends(name: str, endings: tuple[str, ...]) -> bool:
    return name.lower().endswith(endings)


def _were(number: int, noun: str, more: str = "") -> str:
    return f"{how_many(number, noun)}{more} {'was' if number == 1 else 'were'}"


def _tables_above(folder: Path) -> Iterator[Path]:
    """Where the table of a folder would be that is one of its partitions, as in `log/site=A`."""
    place = folder.resolve()
    while "=" in place.name or place.name == "data":
        place = place.parent
        yield place


def _require_plain(place: Path) -> None:
    """Refuse the folder of a table whose own log says which of its files count."""
    kind = None
    if (place / "_delta_log").is_dir():
        kind = "Delta"
    elif (place / ".hoodie").is_dir():
        kind = "Hudi"
    elif next((place / "metadata").glob("*.metadata.json"), None) is not None:
        kind = "Iceberg"
    if kind is not None:
        article = "an" if kind == "Iceberg" else "a"
        raise LogProblem(
            "DW103",
            f"{str(place)!r} is {article} {kind} table: its folder also holds rows that were deleted or "
            "replaced, and only the table's own log says which.",
            fix=f"In Python, {OWN_READER[kind].format(str(place))} in place of the path. For the command "
            "line, write that to a Parquet file first.",
        )


def _no_files(folder: Path, left_out: int) -> LogProblem:
    found, fix = "none", f"Check the folder, for example with: ls {folder}"
    if left_out:
        found = f"none but {left_out:,} whose names, or those of folders they are in, begin with . or _"
        fix = "Other programs leave such files behind. If one is the log, name that file or folder itself."
    return LogProblem(
        "DW101", f"Expected .parquet or .csv files in the folder {str(folder)!r}; found {found}.", fix=fix
    )


def _unlisted(error: OSError) -> None:
    raise LogProblem(
        "DW101",
        f"Expected to read every folder in a log; {str(error.filename)!r} cannot be listed: "
        f"{error.strerror}.",
        fix="Change who may read it, move it out of the log, or name the other files.",
    )
