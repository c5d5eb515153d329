"""Doors for what is in memory: arrays, lists, and tables of every library."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from doors.asking import Values, as_given, asked, in_tables, is_right, policies, read
from doors.dressing import (
    FLAG_COLUMNS,
    LABEL_COLUMNS,
    arrow_table,
    fits,
    flag_words,
    pandas_frame,
    parquet_table,
    scattered,
)
from doors.worlds import World, does_what_was_done

import deadweight as dw


def held(column: list[Any], rng: np.random.Generator) -> Any:
    """A column as a list, an array, an array of objects, or every other entry of a longer one."""
    way = int(rng.integers(4))
    if way == 0 or any(isinstance(one, str) or one is None for one in column):
        if way < 2:
            return column
        objects = np.empty(len(column), dtype=object)
        objects[:] = column
        return objects
    if way == 1:
        return np.array(column, dtype=object)
    array = np.array(column)
    return array if way == 2 else np.repeat(array, 2)[::2]


def arrays_of(world: World, rng: np.random.Generator) -> dw.Trajectories:
    """The log of columns of arrays."""
    table = world.columns()
    given: dict[str, Any] = {}
    for ours, theirs in (
        ("propensities", "behaviour_prob"),
        ("target_probs", "target_prob"),
        ("durations", "duration"),
    ):
        if theirs in table:
            given[ours] = held(table[theirs], rng)
    if world.ends not in ("nothing", "limit"):
        given["terminated"] = held(world.terminated, rng)
    if world.has_next:
        minus = any(label in (-1, "-1") for label in world.states)
        given["next_states"] = world.next_states(None if minus or rng.random() < 0.5 else -1)
    if world.old_policies is not None:
        given["behaviour_ids"] = world.made_by
    return dw.Trajectories(
        held(table["state"], rng),
        held(table["action"], rng),
        held(table["reward"], rng),
        world.offsets,
        time_limit=world.time_limit,
        **given,
    )


def arrays(world: World, folder: Path, rng: np.random.Generator) -> Values:
    return asked(world, arrays_of(world, rng), as_given(world), rng)


def nested(world: World, folder: Path, rng: np.random.Generator) -> Values:
    episodes = [[(world.states[s], world.actions[a], r) for s, a, r in episode] for episode in world.episodes]
    following = iter(world.next_states())
    log = dw.Trajectories.from_episodes(
        episodes,
        terminated=None if world.ends in ("nothing", "limit") else world.terminated,
        next_states=[[next(following) for _ in episode] for episode in episodes] if world.has_next else None,
        propensities=world.old if world.logged == "column" else None,
        time_limit=world.time_limit,
    )
    return asked(world, log, as_given(world), rng)


def listable(world: World) -> bool:
    """Whether lists of episodes have a place for all of it."""
    return world.target == "table" and world.durations is None and world.old_policies is None


def select(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """Some of the episodes, some of them twice, in any order, out of a table in any order."""
    log, words = dw.read(pa.table(scattered(world, rng)), time_limit=world.time_limit), in_tables(world)
    by_id = sorted(range(world.n), key=lambda i: world.ids[i])
    chosen = [int(i) for i in rng.integers(world.n, size=int(rng.integers(1, 2 * world.n)))]
    some = world.some([by_id[i] for i in chosen])
    if not does_what_was_done(some.pi_e, some.episodes):
        return world.expected
    found = asked(some, log.select(chosen), words, rng)
    right = {name: is_right(some, name, value) for name, value in found.items()}
    return {name: world.expected.get(name, 0.0) if right[name] else np.nan for name in found}


def twice(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """Every episode a second time, with an id of its own: nothing changes but how surely it is known."""
    doubled = world.some([*range(world.n), *range(world.n)])
    log = dw.read(pa.table(scattered(doubled, rng)), time_limit=world.time_limit)
    return asked(doubled, log, in_tables(world), rng)


def mixture(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """The propensities of several old policies made one beforehand, in the order of the log."""
    words = in_tables(world)
    log = dw.read(arrow_table(scattered(world, rng), rng), time_limit=world.time_limit)
    pi_e, old = policies(world, words, rng)
    mixed = log.with_propensities(dw.mixture_propensities(log, old))
    return asked(replace(world, old_policies=None), mixed, words, rng, pi_e=pi_e)


def mapping(world: World, folder: Path, rng: np.random.Generator) -> Values:
    return read(world, scattered(world, rng), rng)


def arrow(world: World, folder: Path, rng: np.random.Generator) -> Values:
    return read(world, arrow_table(scattered(world, rng), rng), rng)


def batches(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """Record batches, a reader of them, or an Arrow data set."""
    import pyarrow.dataset as ds

    table = parquet_table(scattered(world, rng), rng).unify_dictionaries()
    way = int(rng.integers(3))
    if way == 0:
        whole = table.combine_chunks().to_batches()
        return read(world, whole[0] if len(whole) == 1 else table, rng)
    if way == 1:
        return read(world, pa.RecordBatchReader.from_batches(table.schema, table.to_batches(4)), rng)
    return read(world, ds.dataset(table), rng)


def pandas(world: World, folder: Path, rng: np.random.Generator) -> Values:
    return read(world, pandas_frame(scattered(world, rng), rng), rng)


def polars(world: World, folder: Path, rng: np.random.Generator) -> Values:
    import polars as pl

    series = []
    for name, values in scattered(world, rng).items():
        own = flag_words(values, rng) if name in FLAG_COLUMNS else values
        column = pl.Series(name, own, strict=False)
        way = rng.random()
        if column.dtype == pl.String and way < 0.5 and name in LABEL_COLUMNS:
            distinct = column.drop_nulls().unique().to_list()
            column = column.cast(pl.Categorical if way < 0.3 else pl.Enum(distinct))
        elif column.dtype == pl.Float64 and way < 0.3 and fits(own, pa.float32()):
            column = column.cast(pl.Float32)
        elif column.dtype == pl.Int64 and way < 0.2 and hasattr(pl, "Int128"):
            column = column.cast(pl.Int128)
        series.append(column)
    frame = pl.DataFrame(series)
    if rng.random() < 0.4 and len(frame) > 1:
        cut = int(rng.integers(1, len(frame)))
        frame = pl.concat([frame[:cut], frame[cut:]], rechunk=False)
    return read(world, frame.lazy() if rng.random() < 0.3 else frame, rng)


def duckdb(world: World, folder: Path, rng: np.random.Generator) -> Values:
    import duckdb

    table = pa.table(scattered(world, rng))  # what the query names
    base = duckdb.connect()
    try:
        base.register("steps", table)
        casts = []
        for name in table.column_names:
            way, kind = rng.random(), table.schema.field(name).type
            if pa.types.is_integer(kind) and way < 0.3:
                casts.append(f'cast("{name}" as hugeint) as "{name}"')
            elif pa.types.is_string(kind) and name in LABEL_COLUMNS and way < 0.3:
                distinct = [one for one in dict.fromkeys(table[name].to_pylist()) if one is not None]
                if distinct and "" not in distinct and not any("\x00" in one for one in distinct):
                    listed = ", ".join("'" + one.replace("'", "''") + "'" for one in distinct)
                    base.execute(f"create type {name}_kind as enum ({listed})")
                    casts.append(f'cast("{name}" as {name}_kind) as "{name}"')
                    continue
                casts.append(f'"{name}"')
            else:
                casts.append(f'"{name}"')
        return read(world, base.sql(f"select {', '.join(casts)} from steps order by random()"), rng)
    finally:
        base.close()


def renamed(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """Columns by the user's names, some of which are ours of another column."""
    table = scattered(world, rng)
    ours = [name for name in table if name not in ("unused", "note")]
    some = [name for name in ours if rng.random() < 0.6]
    names = {one: f"my {one}" for one in some}
    if len(some) > 1 and rng.random() < 0.5:  # each has the name of the next
        names = dict(zip(some, [*some[1:], some[0]], strict=True))
    columns = {names.get(name, name): values for name, values in table.items()}
    source: Any = columns if rng.random() < 0.5 else pa.table(columns)
    if rng.random() < 0.3:
        names = {**names, **{name: name.upper() for name in ours if name not in names}}
        source = pa.table({names.get(name, name): values for name, values in table.items()})
    return read(world, source, rng, columns=names)
