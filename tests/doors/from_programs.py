"""Doors at which a policy comes in another form, or a program stands between the log and the numbers."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from doors.asking import (
    RATIOS_ONLY,
    STATEWISE,
    Values,
    Words,
    asked,
    cell,
    in_tables,
    in_text,
    is_right,
    policies,
    table_of,
)
from doors.dressing import (
    arrow_table,
    can_be_text,
    csv_text,
    pandas_frame,
    parquet_table,
    places,
    scattered,
    text_file,
    write_parquet,
)
from doors.from_files import piped
from doors.from_memory import listable
from doors.worlds import WINDOWS, World

import deadweight as dw
from deadweight.cli import run

MODELLED = ("DM", "DR", "WDR")


def rows_of_probabilities(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """Both policies and the drop row by row, in the order of the table."""
    table = scattered(world, rng)
    _, new, old = world.by_row
    where = places(world, table)
    for probs, column in ((new, world.target == "column"), (old, True)):
        if column:  # a whole row, of which the loops only know what was taken
            _complete(probs, world, rng)
    actions = in_tables(world).actions
    flags = np.array([s in world.drop for s, _, _ in world.flat])
    # As many flags as there are states are one a state, and a warning says so.
    most = max(len(world.states), 30 if world.kinds["states"] == "dense" else 0)
    able = (*RATIOS_ONLY, *STATEWISE) if len(flags) > most else RATIOS_ONLY
    names = [name for name in world.names if name in able]
    way = int(rng.integers(3))
    if way == 0 and all(isinstance(one, str) and one for one in actions):
        for prefix, probs in (("target_prob", new), ("behaviour_prob", old)):
            table.pop(prefix, None)
            table |= {f"{prefix}_{one}": [float(p) for p in probs[where, j]] for j, one in enumerate(actions)}
        log = dw.read(table, time_limit=world.time_limit)
        pi_e = pi_b = None
    else:
        log = dw.read(arrow_table(table, rng), time_limit=world.time_limit)
        columns = rng.permutation(len(actions))
        pi_e, pi_b = (
            dw.RowPolicy(probs[where][:, columns], actions=[actions[j] for j in columns])
            for probs in (new, old)
        )
    return asked(world, log, in_tables(world), rng, pi_e=pi_e, pi_b=pi_b, names=names, drop=flags[where])


def _complete(probs: np.ndarray, world: World, rng: np.random.Generator) -> None:
    """Rows that say more than the action taken: the rest goes to the others, if there are any."""
    for row, (_, a, _) in enumerate(world.flat):
        taken = probs[row, a]
        share = rng.dirichlet(np.ones(probs.shape[1])) if probs.shape[1] > 1 else np.ones(1)
        share[a] = 0.0
        probs[row] = share / share.sum() * (1 - taken) if share.sum() > 0 else 0.0
        probs[row, a] = taken


def has_rows(world: World) -> bool:
    """Whether its rows could have probabilities of all actions, and be discounted without labels."""
    discounted = world.durations is not None and world.gamma < 1
    return len(world.actions) > 1 and not discounted


def features(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """States as numbers, and policies that are functions of them."""
    table = scattered(world, rng)
    where = places(world, table)
    codes = np.array([s for s, _, _ in world.flat])
    table["x_1"] = [float(s) for s in codes[where]]
    table["x_2"] = [float(s) ** 2 for s in codes[where]]
    table.pop("next_state", None)
    if rng.random() < 0.7:
        table.pop("state")
    names = [name for name in world.names if name in RATIOS_ONLY]
    log = dw.read(arrow_table(table, rng), time_limit=world.time_limit, features=["x_*"])
    actions = in_tables(world).actions
    given = []
    for probs in (world.pi_e, world.pi_b):

        def function(x: np.ndarray, probs: np.ndarray = probs) -> np.ndarray:
            return probs[x[:, 0].astype(int)]

        given.append(
            [dw.FeaturePolicy(function, actions), Classifier(function, actions)][int(rng.integers(2))]
        )
    return asked(
        world,
        log,
        in_tables(world),
        rng,
        pi_e=given[0] if world.target == "table" else None,
        pi_b=given[1] if world.logged == "table" else None,
        names=names,
        drop=np.zeros(len(codes), dtype=bool),
    )


class Classifier:
    """Something that has learnt probabilities."""

    def __init__(self, function: Callable[[np.ndarray], np.ndarray], classes: Sequence[Any]) -> None:
        self.function = function
        self.classes_ = list(classes)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self.function(x)


def forms(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """Policies as a dict, a function, a table, a file of arrays, or a file of rows."""
    words = in_tables(world)
    log = dw.read(arrow_table(scattered(world, rng), rng), time_limit=world.time_limit)
    given: list[Any] = [None, None]
    for i, probs in enumerate([world.pi_e, world.pi_b]):
        if (world.target, world.logged)[i] == "table":
            given[i] = form(world, probs, folder / str(i), rng)
    if world.old_policies is not None:
        given[1] = {
            one: form(world, probs, folder / f"old{i}", rng)
            for i, (one, probs) in enumerate(world.old_policies.items())
        }
    return asked(world, log, words, rng, pi_e=given[0], pi_b=given[1])


def form(world: World, probs: np.ndarray, folder: Path, rng: np.random.Generator) -> Any:
    """A policy in one of its forms."""
    words = in_tables(world)
    chances = {
        state: {
            action: float(p)
            for action, p in zip(words.actions, row, strict=True)
            if p > 0 or rng.random() < 0.5
        }
        for state, row in zip(words.states, probs, strict=True)
    }
    listed = [(s, a, p) for s, row in chances.items() for a, p in row.items()]
    listed = [listed[i] for i in rng.permutation(len(listed))]
    table = {name: [row[i] for row in listed] for i, name in enumerate(["state", "action", "prob"])}
    way = int(rng.integers(6))
    if way == 0:
        return chances
    if way == 1:
        return chances.__getitem__
    if way == 2:
        return pandas_frame(table, rng)
    if way == 3:
        return arrow_table(table, rng)
    folder.mkdir()
    if way == 4 and can_be_text(world):
        text_file(folder / "policy.csv", csv_text(table, rng))
        return dw.read_policy(folder / "policy.csv")
    pq.write_table(parquet_table(table, rng), folder / "policy.parquet")
    return dw.read_policy(folder / "policy.parquet")


def command(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """The command line: both files on disk, or the log on standard input."""
    words = in_text(world)
    names = [
        name for name in world.names if name in RATIOS_ONLY or (name in MODELLED and longest_is_solved(world))
    ]
    table = scattered(world, rng)
    as_text = rng.random() < 0.7
    if as_text:
        path = text_file(folder / "log.csv", csv_text(table, rng))
    else:
        path, words = folder / "log.parquet", in_tables(world)
        write_parquet(parquet_table(table, rng), path, rng)
    arguments = ["evaluate", "-" if rng.random() < 0.3 else str(path), "--json", "--interval", "none"]
    arguments += ["--estimators", ",".join(names), "--drop", "none", "--gamma", str(world.gamma)]
    arguments += ["--time-limit", "none" if world.time_limit is None else str(world.time_limit)]
    if world.target == "table":
        arguments += ["--target", str(policy_file(world.pi_e, words, folder / "new", rng))]
    if world.logged == "table":
        arguments += ["--behaviour", str(policy_file(world.pi_b, words, folder / "old", rng))]
    out, said = io.StringIO(), io.StringIO()
    with piped(path.read_bytes()), contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = run(arguments)
    assert code == 0, out.getvalue() + said.getvalue()
    estimates = json.loads(out.getvalue())["estimates"]
    return {name: estimates[name]["value"] for name in names}


def longest_is_solved(world: World) -> bool:
    """Whether the model is solved over the longest episode's steps unasked: some episode was cut."""
    return not all(world.terminated)


def policy_file(probs: np.ndarray, words: Words, path: Path, rng: np.random.Generator) -> Path:
    """A policy on disk."""
    listed = [
        (s, a, float(p))
        for s, row in zip(words.states, probs, strict=True)
        for a, p in zip(words.actions, row, strict=True)
    ]
    table = {name: [row[i] for row in listed] for i, name in enumerate(["state", "action", "prob"])}
    if rng.random() < 0.7:
        return text_file(path.with_suffix(".csv"), csv_text(table, rng))
    for name in ("state", "action"):
        if (
            len({type(one) for one in table[name]}) > 1
        ):  # numbers in the log, beside a 01 that it has not seen
            table[name] = [cell(one) for one in table[name]]
    pq.write_table(pa.table(table), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def can_be_said(world: World) -> bool:
    """Whether files of text can hold it, and options can say it."""
    return can_be_text(world) and world.old_policies is None


def saved(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """What was saved, loaded again."""
    words = in_tables(world)
    log = dw.read(arrow_table(scattered(world, rng), rng), time_limit=world.time_limit)
    pi_e, pi_b = policies(world, words, rng)
    found = dw.evaluate(
        log,
        pi_e,
        pi_b,
        estimators=list(world.names),
        drop=[words.states[s] for s in sorted(world.drop)],
        gamma=world.gamma,
        interval=None,
        solve="longest",
    )
    found.save(folder / "found.json")
    loaded = dw.load(folder / "found.json")
    assert loaded.to_dict() == found.to_dict()
    return {name: loaded[name].value for name in world.names}


def mended(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """What the doctor has written, read again."""
    table, words = scattered(world, rng), in_tables(world)
    if can_be_text(world) and rng.random() < 0.5:
        path, words = text_file(folder / "log.csv", csv_text(table, rng)), in_text(world)
    else:
        path = folder / "log.parquet"
        write_parquet(parquet_table(table, rng), path, rng)
    limit = "none" if world.time_limit is None else str(world.time_limit)
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = run(["doctor", str(path), "--fix", str(folder / "out.parquet"), "--time-limit", limit])
    assert code == 0, out.getvalue() + said.getvalue()
    return asked(world, dw.read(folder / "out.parquet"), words, rng)


def minari(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """A Minari data set of the episodes."""
    import gymnasium
    import minari as library

    buffers = []
    for i, episode in enumerate(world.episodes):
        size = len(episode)
        after = world.after[i] if world.after[i] >= 0 else episode[-1][0]
        ends = [False] * (size - 1)
        buffers.append(
            library.data_collector.EpisodeBuffer(
                id=i,
                observations=np.array([s for s, _, _ in episode] + [after]),
                actions=np.array([a for _, a, _ in episode]),
                rewards=[r for _, _, r in episode],
                terminations=[*ends, world.terminated[i]],
                truncations=[*ends, not world.terminated[i]],
                infos={"behaviour_prob": np.array([0.0, *world.old[i]])},
            )
        )
    made = library.create_dataset_from_buffers(
        dataset_id=f"test/world{world.seed}-v0",
        buffer=buffers,
        observation_space=gymnasium.spaces.Discrete(8),
        action_space=gymnasium.spaces.Discrete(4),
        data_format="hdf5",
    )
    codes = Words(list(range(len(world.states))), list(range(len(world.actions))))
    pi_b = None if world.logged == "column" else table_of(world.pi_b, codes, rng)
    return asked(world, dw.from_minari(made), codes, rng, pi_b=pi_b)


def gymnasium(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """A recorded environment, against what it has itself written down."""
    import gymnasium as library

    class Diary(library.Env):  # type: ignore[misc]
        observation_space = library.spaces.Discrete(len(world.states))
        action_space = library.spaces.Discrete(len(world.actions))

        def __init__(self) -> None:
            self.episodes: list[list[Any]] = []
            self.ends: list[tuple[bool, int]] = []

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            self.episodes.append([])
            self.state = int(rng.integers(len(world.states)))
            return self.state, {}

        def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
            reward = float(rng.normal())
            self.episodes[-1].append((self.state, int(action), reward))
            self.state = int(rng.integers(len(world.states)))
            ended, cut = rng.random() < 0.2, rng.random() < 0.1
            if ended or cut:
                self.ends.append((bool(ended), self.state))
            return self.state, reward, bool(ended), bool(cut), {}

    env, codes = Diary(), Words(list(range(len(world.states))), list(range(len(world.actions))))
    log = dw.record(env, table_of(world.pi_b, codes, rng), world.n, seed=world.seed)
    recorded = replace(
        world,
        episodes=env.episodes,
        terminated=[ended for ended, _ in env.ends],
        after=[-1 if ended else state for ended, state in env.ends],
        old=[[float(world.pi_b[s, a]) for s, a, _ in episode] for episode in env.episodes],
        new=[[float(world.pi_e[s, a]) for s, a, _ in episode] for episode in env.episodes],
        drop=frozenset(),
        logged=str(rng.choice(["table", "column"])),
        names=tuple(name for name in world.names if name not in WINDOWS),
    )
    found = asked(recorded, log, codes, rng)
    right = {name: is_right(recorded, name, value) for name, value in found.items()}
    return {name: world.expected[name] if right[name] else np.nan for name in found}


def known_ends(world: World) -> bool:
    """Whether it is known what follows each cut episode, and nothing else has no place there."""
    cut = [after for after, end in zip(world.after, world.terminated, strict=True) if not end]
    return listable(world) and all(after >= 0 for after in cut)
