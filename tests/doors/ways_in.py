"""The doors by which a log comes in, each with the values that the library gives to what has come in by it.

`PYTHONPATH=tests python -m doors.ways_in 17 CSV` sends world 17 through a door again, and without a name of
one through all that take it.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from doors.asking import Values, is_right
from doors.dressing import can_be_text
from doors.from_files import (
    csv_file,
    csv_folder,
    parquet,
    parquet_folder,
    path_in_evaluate,
    says_ends,
    scattered_stream,
    spreadsheet,
    standard_input,
    stream,
    workers,
)
from doors.from_memory import (
    arrays,
    arrow,
    batches,
    duckdb,
    listable,
    mapping,
    mixture,
    nested,
    pandas,
    polars,
    renamed,
    select,
    twice,
)
from doors.from_programs import (
    can_be_said,
    command,
    features,
    forms,
    gymnasium,
    has_rows,
    known_ends,
    mended,
    minari,
    rows_of_probabilities,
    saved,
)
from doors.worlds import World, world

from deadweight.errors import Assumption


@dataclass(frozen=True)
class Door:
    """A way in.

    Attributes:
      enter: the values that it gives for a world.
      takes: whether it is a way in for a world.
      every: one world of so many goes through it, by what it costs.
    """

    enter: Callable[[World, Path, np.random.Generator], Values]
    takes: Callable[[World], bool] = lambda world: True
    every: int = 3


DOORS: dict[str, Door] = {
    "arrays": Door(arrays),
    "lists of episodes": Door(nested, listable),
    "selected episodes": Door(select, lambda world: world.old_policies is None),
    # With several old policies it may say more: that they met different conditions.
    "every episode twice": Door(twice, lambda world: world.old_policies is None),
    "dict": Door(mapping),
    "pandas": Door(pandas),
    "polars": Door(polars),
    "pyarrow": Door(arrow),
    "record batches": Door(batches),
    "duckdb": Door(duckdb, every=8),
    "renamed columns": Door(renamed),
    "CSV": Door(csv_file, can_be_text),
    "spreadsheet": Door(spreadsheet, can_be_text),
    "folder of CSV": Door(csv_folder, can_be_text),
    "standard input": Door(standard_input),
    "Parquet": Door(parquet),
    "folder of Parquet": Door(parquet_folder, every=4),
    "stream": Door(stream, every=15),
    "scattered stream": Door(scattered_stream, every=15),
    "stream with workers": Door(workers, every=1000),
    "path in evaluate": Door(path_in_evaluate, says_ends, every=4),
    "rows of probabilities": Door(rows_of_probabilities, has_rows),
    "features": Door(features, lambda world: world.durations is None and world.old_policies is None),
    "forms of policies": Door(forms),
    "old policies": Door(mixture, lambda world: world.old_policies is not None, every=1),
    "command line": Door(command, can_be_said, every=8),
    "saved and loaded": Door(saved, every=4),
    "mended by the doctor": Door(mended, every=10),
    "Minari": Door(minari, known_ends, every=50),
    "Gymnasium": Door(gymnasium, lambda world: listable(world) and world.ends != "limit", every=10),
}


def doors_of(world: World) -> list[str]:
    """The doors through which a world goes: the first of all worlds goes through every one that takes it."""
    return [
        name
        for place, (name, door) in enumerate(DOORS.items())
        if world.seed % door.every == (place if world.seed else 0) % door.every and door.takes(world)
    ]


def wrong(door: str, world: World, folder: Path) -> list[str]:
    """What a door gets wrong of a world, by estimator."""
    rng = np.random.default_rng([25, world.seed, *map(ord, door)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Assumption)
        try:
            found = DOORS[door].enter(world, folder, rng)
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
    if not found:
        return ["it says nothing"]
    return [
        f"{name} is {value!r}; the loops say {world.expected[name]!r}"
        for name, value in found.items()
        if not is_right(world, name, value)
    ]


if __name__ == "__main__":
    drawn = world(int(sys.argv[1]))
    for name in sys.argv[2:] or [one for one, door in DOORS.items() if door.takes(drawn)]:
        with tempfile.TemporaryDirectory() as scratch:
            sys.stdout.write(
                f"{name}: {'; '.join(wrong(name, drawn, Path(scratch))) or 'as the loops say'}\n"
            )
