"""Ends that are said twice, by flags and by a time limit: each cell of the table in docs/logs.md, each door.

The flags win. What was taken for the limit is compared with the table, and DM with the plain loops of
`tests/reference` over the steps that this limit asks for.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deadweight_studies.ends import self_ending, table_without_flags
from reference import model
from reference.log import Log
from typer.testing import CliRunner

import deadweight as dw
from deadweight.cli.app import app
from deadweight.errors import Assumption, DataError
from deadweight.io.open import open_log
from deadweight.io.stream import Stream, open_stream
from deadweight.mdp.problem import simulate

PI_E, PI_B = [[0.8, 0.2], [0.3, 0.7]], [[0.5, 0.5], [0.5, 0.5]]
LONGEST, UNTIL_SETTLED = 6, 400
Episodes = list[list[tuple[int, int, float]]]
Flags = dict[str, list[bool]]


@cache
def episodes() -> Episodes:
    """Forty that have the longest length, twenty that have 2 to 5 steps; in an order that is no order."""
    rng = np.random.default_rng(3)
    lengths = rng.permutation([LONGEST] * 40 + [2, 3, 4, 5] * 5)
    return [
        [(int(s), int(a), float(s + 2 * a)) for s, a in rng.integers(0, 2, (length, 2))] for length in lengths
    ]


LENGTHS = np.array([len(one) for one in episodes()])
AT_LONGEST, AT_THREE, ALL = LENGTHS == LONGEST, LENGTHS == 3, LENGTHS > 0
NONE = ~ALL
ALONE = np.arange(len(LENGTHS)) == np.flatnonzero(AT_LONGEST)[0]

# What is flagged, by column and episode, and which episodes that cuts.
FLAGGED: dict[str, tuple[dict[str, Any], Any]] = {
    "nothing": ({}, NONE),
    "all ended": ({"terminated": ALL}, NONE),
    "none cut": ({"truncated": NONE}, NONE),
    "the longest cut": ({"truncated": AT_LONGEST}, AT_LONGEST),
    "the longest not ended": ({"terminated": ~AT_LONGEST}, AT_LONGEST),
    "both columns agree": ({"terminated": ~AT_LONGEST, "truncated": AT_LONGEST}, AT_LONGEST),
    "the longest ended and cut": ({"terminated": ALL, "truncated": AT_LONGEST}, NONE),
    "the longest neither": ({"terminated": ~AT_LONGEST, "truncated": NONE}, AT_LONGEST),
    "one of the longest cut": ({"truncated": ALONE}, ALONE),
    "shorter ones cut": ({"truncated": AT_THREE}, AT_THREE),
    "shorter and longest cut": ({"truncated": AT_THREE | AT_LONGEST}, AT_THREE | AT_LONGEST),
    "all cut": ({"terminated": NONE}, ALL),
}
SAID: tuple[Any, ...] = (None, "infer", 4, 6, 9)
REFUSED = "an error"
# What is taken for the limit, in the order of SAID; "!" where a warning says that flags win.
TABLE: dict[str, tuple[Any, ...]] = {
    "nothing": (None, 6, REFUSED, 6, 9),
    "all ended": (None, None, "None!", "None!", 9),
    "none cut": (None, None, "None!", "None!", 9),
    "the longest cut": (6, 6, "6!", 6, 9),
    "the longest not ended": (6, 6, "6!", 6, 9),
    "both columns agree": (6, 6, "6!", 6, 9),
    "the longest ended and cut": (None, None, "None!", "None!", 9),
    "the longest neither": (6, 6, "6!", 6, 9),
    "one of the longest cut": (None, None, "None!", 6, 9),
    "shorter ones cut": (None, None, "None!", "None!", 9),
    "shorter and longest cut": (None, None, "None!", 6, 9),
    "all cut": (None, None, "None!", 6, 9),
}
CELLS = [
    (flagged, said, cell) for flagged, row in TABLE.items() for said, cell in zip(SAID, row, strict=True)
]


def taken_of(cell: Any) -> tuple[int | None, bool]:
    """The limit of a cell, and whether there is a warning."""
    if isinstance(cell, str):
        word = cell.rstrip("!")
        return (None if word == "None" else int(word)), cell.endswith("!")
    return cell, False


def cut_of(flagged: str, said: Any) -> Any:
    """(n,) which episodes are cut: as flagged; where nothing is, those of exactly the limit's length."""
    if flagged == "nothing" and said is not None:
        return np.equal(LENGTHS, LONGEST if said == "infer" else said)
    return FLAGGED[flagged][1]


@cache
def by_plain_loops(cut: tuple[bool, ...], steps: int) -> float:
    """DM, the model solved over so many steps."""
    P, r, d0 = model.fit_model(Log(episodes(), terminated=[not one for one in cut]), 2, 2)
    return float(d0 @ model.q_values(P, r, PI_E, steps)[1][0])


def table_of(flagged: str) -> dict[str, Any]:
    rows = [(i, t, *step) for i, one in enumerate(episodes()) for t, step in enumerate(one)]
    names = ("episode", "step", "state", "action", "reward")
    columns: dict[str, Any] = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    last = [t == len(episodes()[i]) - 1 for i, t, *_ in rows]
    for name, flags in FLAGGED[flagged][0].items():
        columns[name] = [bool(end and flags[row[0]]) for end, row in zip(last, rows, strict=True)]
    return columns


def read_dict(flagged: str, said: Any, folder: Path) -> Any:
    return dw.read(table_of(flagged), time_limit=said)


def read_frame(flagged: str, said: Any, folder: Path) -> Any:
    return dw.read(pd.DataFrame(table_of(flagged)).sample(frac=1, random_state=0), time_limit=said)


def read_csv(flagged: str, said: Any, folder: Path) -> Any:
    pd.DataFrame(table_of(flagged)).to_csv(folder / "log.csv", index=False)
    return dw.read(folder / "log.csv", time_limit=said)


def written(flagged: str, folder: Path) -> Path:
    pd.DataFrame(table_of(flagged)).to_parquet(folder / "log.parquet", row_group_size=31)
    return folder / "log.parquet"


def read_parquet(flagged: str, said: Any, folder: Path) -> Any:
    return dw.read(written(flagged, folder), time_limit=said)


def one_part(flagged: str, said: Any, folder: Path) -> Any:
    with open_log(written(flagged, folder), time_limit=said) as log:
        return log


def in_parts(flagged: str, said: Any, folder: Path) -> Any:
    log = open_stream(written(flagged, folder), part_rows=40, time_limit=said)
    assert len(log) > 3
    return log


def arrays(flagged: str, said: Any, folder: Path) -> Any:
    columns = [np.array([step[k] for one in episodes() for step in one]) for k in range(3)]
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    ended = None if flagged == "nothing" else ~FLAGGED[flagged][1]
    return dw.Trajectories(*columns, offsets, terminated=ended, time_limit=said)


def lists(flagged: str, said: Any, folder: Path) -> Any:
    ended = None if flagged == "nothing" else [not one for one in FLAGGED[flagged][1]]
    return dw.Trajectories.from_episodes(episodes(), terminated=ended, time_limit=said)


def with_limit(flagged: str, said: Any, folder: Path) -> Any:
    return lists(flagged, None, folder).with_time_limit(said, says_ends=flagged != "nothing")


TABLES = (read_dict, read_frame, read_csv, read_parquet, one_part, in_parts)
DOORS: tuple[tuple[Callable[[str, Any, Path], Any], tuple[Any, ...]], ...] = (
    *((door, SAID) for door in TABLES),
    *((door, (None, 4, 6, 9)) for door in (arrays, lists)),
    (with_limit, (4, 6, 9)),
)


def cells() -> Iterator[Any]:
    for door, can_say in DOORS:
        for flagged, said, cell in CELLS:
            if said in can_say:
                yield pytest.param(door, flagged, said, cell, id=f"{door.__name__}-{flagged}-{said}")


@pytest.mark.parametrize(("door", "flagged", "said", "cell"), list(cells()))
def test_every_cell(door: Any, flagged: str, said: Any, cell: Any, tmp_path: Path) -> None:
    if cell == REFUSED:
        with pytest.raises(DataError, match=r"no episode is longer; found 6 steps"):
            dw.estimate("DM", door(flagged, said, tmp_path), PI_E, PI_B, interval=None)
        return
    limit, warned = taken_of(cell)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Assumption)
        log = door(flagged, said, tmp_path)
        found = dw.estimate("DM", log, PI_E, PI_B, interval=None)
        assert log.time_limit == limit
    cut = cut_of(flagged, said)
    told = [str(one.message) for one in caught if "Flags win" in str(one.message)]
    assert len(told) == warned
    assert all(f"A time limit of {said} steps was said" in one for one in told)
    uncut = limit is None and not cut.any()
    steps = UNTIL_SETTLED if uncut else max(LONGEST, limit or 0)
    assert found.value == pytest.approx(by_plain_loops(tuple(cut.tolist()), steps), rel=1e-9)
    early = cut & np.not_equal(LENGTHS, limit) if limit is not None else cut
    assert ("truncated" in found.flags) is bool(early.any())
    if isinstance(log, dw.Trajectories):
        assert (~log.terminated).tolist() == cut.tolist()
        assert log.select([0, 1]).time_limit == limit, "a limit is one of the whole log"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("flagged", "said", "cell"), [one for one in CELLS if one[2] != REFUSED])
def test_the_command_line_says_it(flagged: str, said: Any, cell: Any, stream: bool, tmp_path: Path) -> None:
    limit, warned = taken_of(cell)
    rows = pd.DataFrame(table_of(flagged)).assign(behaviour_prob=0.5)
    path = tmp_path / ("log.parquet" if stream else "log.csv")
    rows.to_parquet(path, row_group_size=31) if stream else rows.to_csv(path, index=False)
    np.save(tmp_path / "policy.npy", PI_E)
    words = [
        "evaluate",
        str(path),
        "--target",
        str(tmp_path / "policy.npy"),
        "--estimators",
        "WIS,DM",
        "--json",
    ]
    words += ["--time-limit", "none" if said is None else str(said), *(["--stream"] if stream else [])]
    found = CliRunner().invoke(app, words, catch_exceptions=False)
    told = [line for line in found.stderr.splitlines() if "Flags win" in line]
    assert len(told) == warned
    assert all(line.startswith(f"Assumption: A time limit of {said} steps was said, and ") for line in told)
    said_of = json.loads(found.stdout)
    assert said_of["conventions"]["time_limit"] == limit
    early = cut_of(flagged, said) & np.not_equal(LENGTHS, limit or 0)
    assert ("truncated" in said_of["estimates"]["WIS"]["flags"]) is bool(early.any())


def test_a_warning_says_what_was_found_taken_and_how_to_say_otherwise() -> None:
    for flagged, said, words in (
        (
            "all ended",
            6,
            "no episode of 6 steps is flagged as cut there. Flags win: no time limit is taken. ",
        ),
        ("all ended", 6, "say so on their last rows (terminated false, truncated true), or leave the flags "),
        (
            "all ended",
            4,
            "the longest episode has 6 steps. Flags win: no time limit is taken. Give the limit ",
        ),
        ("the longest cut", 4, "Flags win: 6 steps, where all cut episodes stop. Give the limit "),
    ):
        with pytest.warns(Assumption) as caught:
            dw.read(table_of(flagged), time_limit=said)
        assert words in str(caught[0].message)
        assert caught[0].filename == __file__


def test_a_stream_whose_limit_nobody_asks_for_says_it(tmp_path: Path) -> None:
    stream = in_parts("all ended", 6, tmp_path)
    with pytest.warns(Assumption, match="Flags win"):
        dw.estimate("WIS", stream, PI_E, PI_B, interval=None)
    assert stream.time_limit is None


@pytest.mark.parametrize("flagged", ["all ended", "the longest cut"])
def test_flags_cost_a_stream_no_pass(flagged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    monkeypatch.setattr(Stream, "progress", lambda stream, done: begun.append(done) if done == 0 else None)
    passes = []
    for flags, said in (("nothing", None), (flagged, "infer")):
        begun.clear()
        stream = in_parts(flags, said, tmp_path)
        dw.estimate("DM", stream, PI_E, PI_B, interval=None)
        _ = stream.time_limit
        passes.append(len(begun))
    assert passes[0] == passes[1] > 0


@pytest.mark.parametrize(("flagged", "said", "cell"), [one for one in CELLS if one[2] != REFUSED])
def test_the_doctor_names_a_contradiction(flagged: str, said: Any, cell: Any) -> None:
    found = [one for one in dw.doctor(table_of(flagged), time_limit=said) if one.code == "DW252"]
    assert len(found) == taken_of(cell)[1]
    assert all("Flags win" in one.problem for one in found)


def test_done_at_a_cap_is_named() -> None:
    """All episodes of the longest length are flagged as ended there, and elsewhere the task goes on."""
    for flagged in ("all ended", "none cut", "the longest ended and cut", "shorter ones cut"):
        found = {one.code: one for one in dw.doctor(table_of(flagged))}
        assert "40 episodes of 60 are flagged as ended after exactly 6 steps" in found["DW251"].problem
        assert "truncated true" in found["DW251"].fix
        assert found["DW251"].count == 40
        sure = {one.code for one in dw.doctor(table_of(flagged), time_limit=None)}
        assert "DW251" not in sure, "it was said twice that they ended"
    for flagged in ("nothing", "the longest cut", "one of the longest cut", "all cut"):
        assert "DW251" not in {one.code for one in dw.doctor(table_of(flagged))}


@pytest.mark.parametrize("name", list(self_ending()))
def test_tasks_that_end_by_themselves_are_no_cap(name: str) -> None:
    problem = self_ending()[name]
    log = simulate(problem.mdp, problem.pi_b, 200, 1, 100_000)
    last = np.isin(np.arange(log.n_steps), log.offsets[1:] - 1)
    found = dw.doctor(table_without_flags(log) | {"terminated": last})
    assert "DW251" not in {one.code for one in found}


def test_a_limit_that_overrules_flags_is_said_with_a_method() -> None:
    log = lists("all ended", None, Path()).with_time_limit(LONGEST)
    assert log.time_limit == LONGEST
    assert (~log.terminated).tolist() == AT_LONGEST.tolist()


def test_recorded_cuts_are_a_limit_where_no_environment_says_it() -> None:
    gymnasium = pytest.importorskip("gymnasium")

    class Walk(gymnasium.Env):  # type: ignore[misc]
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_: Any) -> Any:
            self.t = 0
            return 0, {}

        def step(self, action: int) -> Any:
            self.t += 1
            return action, 1.0, False, self.t == 3, {}

    log = dw.record(Walk(), PI_B, episodes=4, seed=0)
    assert log.time_limit == 3
    assert "truncated" not in dw.estimate("DM", log, PI_E, interval=None).flags
