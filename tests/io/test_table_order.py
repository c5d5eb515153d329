"""What is given row by row follows the user's table, however its rows are ordered; `log.rows` says how."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import deadweight as dw
from deadweight.errors import DropError, OptionError, PolicyError

ACTIONS = ["treat", "wait"]  # as the log numbers them
NAMES = ["WPDIS", "WDR", "DM", "WSPDIS", "C-WSPDIS"]


class World:
    """A log as a table in some order, and the same log in the order in which `read` has it."""

    def __init__(self, seed: int, n: int = 12, labels: bool = False) -> None:
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, 6, n)
        episode = np.repeat(np.arange(n), lengths)
        size = len(episode)
        ids = rng.permutation(3 * n)[:n] + rng.choice([0, 95])
        as_text = (seed + seed // 4) % 2 == 0  # beside it the order below: each with each
        own = np.array([str(i) for i in ids]) if as_text else ids
        frame = pd.DataFrame(
            {
                "episode": own[episode],
                "step": np.concatenate([np.arange(length) for length in lengths]) * rng.integers(1, 4),
                "action": rng.integers(0, 2, size),
                "reward": rng.normal(size=size),
                "x": rng.normal(size=size),
            }
        )
        frame["step"] //= max(1, int(np.gcd.reduce(frame["step"])))
        frame["action"] = np.array(ACTIONS)[frame["action"]]
        if labels:
            frame["state"] = rng.integers(0, 3, size)
        kinds = ["shuffled", "interleaved", "backwards", "by text"]
        order = {
            "shuffled": rng.permutation(size),
            "interleaved": np.lexsort((rng.random(size), frame["step"])),
            "backwards": np.arange(size)[::-1],
            "by text": np.lexsort((frame["step"], [str(i) for i in ids[episode]])),
        }[kinds[seed % 4]]
        self.table = frame.iloc[order].reset_index(drop=True)
        self.rng, self.size, self.as_text = rng, size, as_text
        # The order of `read`: by id (text as text), then by step.
        self.sorted = np.lexsort((self.table["step"], self.table["episode"].to_numpy()))
        own_rows = self.table.iloc[self.sorted]
        first = np.flatnonzero(own_rows["episode"].to_numpy()[1:] != own_rows["episode"].to_numpy()[:-1]) + 1
        self.plain = dw.Trajectories(
            own_rows["state"].to_numpy() if labels else None,
            own_rows["action"].tolist(),
            own_rows["reward"].to_numpy(),
            np.concatenate([[0], first, [size]]),
            features=own_rows[["x"]].to_numpy(),
            feature_names=["x"],
        )

    def probs(self) -> np.ndarray:
        """(rows, A) in the order of the table."""
        p = self.rng.uniform(0.2, 0.8, self.size)
        return np.stack([p, 1 - p], axis=1)

    def read(self, door: str, folder: Path) -> dw.Trajectories:
        """The log, through one of the doors."""
        return dw.read(DOORS[door](self, folder), time_limit=None, features=["x"])


def _csv(world: World, folder: Path) -> Any:
    table = world.table.assign(episode=[f"p{i}" for i in world.table["episode"]])
    (table if world.as_text else world.table).to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"


def _parquet(world: World, folder: Path) -> Any:
    world.table.to_parquet(folder / "log.parquet", row_group_size=7)
    return folder / "log.parquet"


def _folder(world: World, folder: Path) -> Any:
    (folder / "logs").mkdir()
    cuts = [0, world.size // 3, world.size // 2, world.size]
    for name, lo, hi in zip(["a", "b", "c"], cuts[:-1], cuts[1:], strict=True):
        world.table.iloc[lo:hi].to_parquet(folder / "logs" / f"{name}.parquet")
    return folder / "logs"


def _polars(world: World, folder: Path) -> Any:
    return pytest.importorskip("polars").DataFrame(world.table.to_dict("list"))


def _arrow(world: World, folder: Path) -> Any:
    import pyarrow as pa

    return pa.table(world.table.to_dict("list"))


DOORS: dict[str, Callable[[World, Path], Any]] = {
    "pandas": lambda world, folder: world.table,
    "csv": _csv,
    "parquet": _parquet,
    "folder": _folder,
    "polars": _polars,
    "pyarrow": _arrow,
}


def same(found: dw.Estimate, expected: dw.Estimate) -> None:
    assert found.value == pytest.approx(expected.value, rel=1e-12, abs=1e-12)
    assert found.std_error == pytest.approx(expected.std_error, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_40_tables_in_any_order_give_the_answers_of_the_sorted_one(seed: int, tmp_path: Path) -> None:
    world = World(seed)
    door = (seed % 4 // 2 + seed // 4) % len(DOORS)  # every door with every order, and ids of both kinds
    log = world.read([*DOORS][door], tmp_path)
    new, old, q = world.probs(), world.probs(), world.rng.normal(size=(world.size, 2))
    flags = world.rng.random(world.size) < 0.3
    order = world.sorted
    assert log.rows is not None
    assert log.rows.tolist() == order.tolist()
    np.testing.assert_array_equal(log.features, world.plain.features)
    plain_new, plain_old = dw.RowPolicy(new[order], ACTIONS), dw.RowPolicy(old[order], ACTIONS)
    frame = pd.DataFrame(new[:, ::-1], columns=ACTIONS[::-1])
    forms = {"rows": dw.RowPolicy(new, ACTIONS), "frame": frame, "array": new}
    for name in NAMES:
        dropping = {"drop": flags} if "S" in name else {}
        expected = dw.estimate(
            name,
            world.plain,
            plain_new,
            plain_old,
            model=dw.GivenQ(q[order]),
            **({"drop": flags[order]} if dropping else {}),
        )
        form = forms[["rows", "frame", "array"][(seed + len(name)) % 3]]
        same(
            dw.estimate(name, log, form, dw.RowPolicy(old, ACTIONS), model=dw.GivenQ(q), **dropping), expected
        )


@pytest.mark.parametrize("seed", range(4))
def test_rows_on_a_log_with_labels(seed: int, tmp_path: Path) -> None:
    world = World(seed, labels=True)
    log = dw.read(world.table, time_limit=None)
    new, old, flags = world.probs(), world.probs(), world.rng.random(world.size) < 0.3
    order = world.sorted
    expected = dw.estimate(
        "WSPDIS", world.plain, dw.RowPolicy(new[order]), dw.RowPolicy(old[order]), drop=flags[order]
    )
    same(dw.estimate("WSPDIS", log, dw.RowPolicy(new), dw.RowPolicy(old), drop=flags.tolist()), expected)
    # One flag for each step with tables for policies: a drop of steps where states have labels.
    table = world.rng.dirichlet([2, 2], size=3)
    uniform = np.full((3, 2), 0.5)
    expected = dw.estimate("WSPDIS", world.plain, table, uniform, drop=flags[order])
    same(dw.estimate("WSPDIS", log, table, uniform, drop=flags), expected)


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_a_table_over_states_are_found_to_be_one(seed: int) -> None:
    world = World(seed, labels=True)
    table = world.rng.dirichlet([2, 2], size=3)
    log = dw.read(world.table, time_limit=None)
    found = dw.policy(dw.RowPolicy(table[world.table["state"]], ACTIONS), log)
    assert isinstance(found, dw.TabularPolicy)
    np.testing.assert_array_equal(found.probs[np.argsort(found.state_labels)], table)


def ward(ids: list[str]) -> tuple[pd.DataFrame, np.ndarray]:
    """200 stays of 8 steps, and a policy row by row that leans towards what pays in each stay.

    What pays alternates along the cycles of the order of the ids as text: there the policy, taken by position
    in sorted order, leans away from it.
    """
    rng = np.random.default_rng(24)
    n, steps = 200, 8
    order, pays = np.argsort([f"id{i}" for i in range(n)]), np.zeros(n, dtype=bool)
    left = set(range(n))
    while left:
        place, turn = min(left), True
        while place in left:
            left.remove(place)
            pays[place], place, turn = turn, int(order[place]), not turn
    pays = np.repeat(pays, steps)
    treat = rng.random(n * steps) < 0.5
    table = {
        "episode": np.repeat(ids, steps),
        "step": np.tile(np.arange(steps), n),
        "action": np.where(treat, "treat", "wait"),
        "reward": np.where(treat == pays, 0.3, 0.0) + rng.normal(0, 0.2, n * steps),
        "x": rng.normal(size=n * steps),
    }
    p = np.where(pays, 0.6, 0.4)
    return pd.DataFrame(table), np.stack([p, 1 - p], axis=1)


def test_ids_as_text_change_neither_value_nor_verdict() -> None:
    """1,600 rows: that id10 comes before id9 made a policy worse that is better."""
    answers = []
    for ids in ([f"{i:03d}" for i in range(200)], [f"id{i}" for i in range(200)]):
        table, new = ward(ids)
        log = dw.read(table, features=["x"], time_limit=None)
        found = dw.evaluate(log, dw.RowPolicy(new), dw.RowPolicy(np.full((1600, 2), 0.5)), background=False)
        answers.append((found["WPDIS"].value, found.verdict.answer))
    assert [answer for _, answer in answers] == ["better", "better"]
    assert answers[1][0] == pytest.approx(answers[0][0], rel=1e-12)


# --- what the library makes for a log goes back where it came from ------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_policies_of_the_library_are_in_the_order_of_the_table_and_fit_when_they_come_back(seed: int) -> None:
    world = World(seed)
    log = dw.read(world.table, time_limit=None, features=["x"])
    order, new = world.sorted, dw.RowPolicy(world.probs(), ACTIONS)
    plain_new = dw.RowPolicy(new.probs[order], ACTIONS)

    learned, plain = (dw.fit_behaviour(one, ["logit"], folds=3) for one in (log, world.plain))
    np.testing.assert_array_equal(learned.probs[order], plain.probs)
    np.testing.assert_array_equal(learned.propensities, plain.propensities)  # of the log, as log.actions is
    assert learned.calibration == plain.calibration
    assert learned.z(new) == pytest.approx(plain.z(plain_new), rel=1e-12)
    expected = dw.estimate("WPDIS", world.plain, plain_new, plain)
    same(dw.estimate("WPDIS", log, new, learned), expected)
    same(dw.estimate("WPDIS", log, new, dw.RowPolicy(learned.probs, learned.action_labels)), expected)
    same(dw.estimate("WPDIS", log.with_propensities(learned.propensities), new), expected)

    def curve(x: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-x[:, 0]))
        return np.stack([p, 1 - p], axis=1)

    expected = dw.estimate("WPDIS", world.plain, dw.FeaturePolicy(curve, ACTIONS), plain)
    shown = dw.policy(dw.FeaturePolicy(curve, ACTIONS), log)
    assert isinstance(shown, dw.RowPolicy)
    np.testing.assert_array_equal(shown.probs, curve(world.table[["x"]].to_numpy()))
    for given in (dw.FeaturePolicy(curve, ACTIONS), shown, dw.policy(shown, log), dw.policy(curve, log)):
        same(dw.estimate("WPDIS", log, given, learned), expected)
    same(dw.estimate("WPDIS", log, dw.RowPolicy(shown.probs), learned), expected)
    again = dw.policy(new, log)
    same(dw.estimate("WPDIS", log, again, learned), dw.estimate("WPDIS", world.plain, plain_new, plain))


@pytest.mark.parametrize("seed", range(4))
def test_columns_of_probabilities_are_in_the_order_of_the_table(seed: int) -> None:
    world = World(seed)
    new, old = world.probs(), world.probs()
    columns = {
        f"{name}_prob_{action}": probs[:, j]
        for name, probs in (("target", new), ("behaviour", old))
        for j, action in enumerate(ACTIONS)
    }
    log = dw.read(world.table.assign(**columns), time_limit=None, features=["x"])
    order = world.sorted
    expected = dw.estimate("WPDIS", world.plain, dw.RowPolicy(new[order]), dw.RowPolicy(old[order]))
    same(dw.estimate("WPDIS", log), expected)
    np.testing.assert_array_equal(log.policies["pi_e"].probs, new)
    same(dw.estimate("WPDIS", log, log.policies["pi_e"], log.policies["pi_b"]), expected)
    half = log.select(np.arange(log.n_episodes) % 2 == 0)
    expected = dw.estimate("WPDIS", half)
    same(dw.estimate("WPDIS", half, log.policies["pi_e"], dw.RowPolicy(old)), expected)
    same(dw.estimate("WPDIS", half, half.policies["pi_e"], half.policies["pi_b"]), expected)


def test_old_policies_row_by_row() -> None:
    world = World(1)
    log = dw.read(
        world.table.assign(behaviour_id=np.where(world.table["episode"] % 2 == 0, "a", "b")),
        time_limit=None,
        features=["x"],
    )
    one, two, new = world.probs(), world.probs(), dw.RowPolicy(world.probs())
    order = world.sorted
    ids = np.asarray(log.behaviour_ids)
    plain = dw.Trajectories(
        None,
        world.plain.actions,
        world.plain.rewards,
        world.plain.offsets,
        features=world.plain.features,
        behaviour_ids=ids,
    )
    given = {"a": dw.RowPolicy(one), "b": dw.RowPolicy(two)}
    sorted_ones = {"a": dw.RowPolicy(one[order]), "b": dw.RowPolicy(two[order])}
    mixed = dw.mixture_propensities(log, given)
    np.testing.assert_array_equal(mixed, dw.mixture_propensities(plain, sorted_ones))
    expected = dw.estimate("WPDIS", plain, dw.RowPolicy(new.probs[order]), sorted_ones)
    same(dw.estimate("WPDIS", log, new, given), expected)
    same(dw.estimate("WPDIS", log.with_propensities(mixed), new), expected)


# --- some of the episodes ------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [[0, 3, 4], [7, 2, 5], [1, 1, 6], list(range(11, -1, -1))])
def test_some_episodes_keep_their_rows(chosen: list[int]) -> None:
    world = World(9)
    log = dw.read(world.table, time_limit=None, features=["x"])
    some, plain = log.select(chosen), world.plain.select(chosen)
    own = np.concatenate([np.arange(*world.plain.offsets[i : i + 2]) for i in chosen])
    rows = world.sorted[own]
    assert some.rows is not None
    assert some.rows.tolist() == rows.tolist()
    new, old, q = world.probs(), world.probs(), world.rng.normal(size=(world.size, 2))
    flags = world.rng.random(world.size) < 0.4
    expected = dw.estimate(
        "WSPDIS", plain, dw.RowPolicy(new[rows]), dw.RowPolicy(old[rows]), drop=flags[rows], interval=None
    )
    found = dw.estimate("WSPDIS", some, new, dw.RowPolicy(old), drop=flags, interval=None)
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    among = np.sort(rows)  # what has a row for each selected step: in the order of the table
    found = dw.estimate(
        "WSPDIS", some, dw.RowPolicy(new[among]), old[among], drop=flags[among], interval=None
    )
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    uniform = np.full((len(rows), 2), 0.5)
    expected = dw.estimate("DM", plain, uniform, uniform, model=dw.GivenQ(q[rows]), interval=None)
    for model in (dw.GivenQ(q), dw.GivenQ(q[among])):
        found = dw.estimate("DM", some, uniform, uniform, model=model, interval=None)
        assert found.value == pytest.approx(expected.value, rel=1e-12)


def test_what_was_made_for_some_episodes_is_for_these() -> None:
    """Also where an episode was taken twice, so that there are as many steps as rows of the table."""
    n = 6
    table = pd.DataFrame(
        {
            "episode": np.repeat([f"id{i}" for i in (9, 10, 8, 11, 7, 12)], 2),
            "step": [0, 1] * n,
            "action": ["a", "b"] * 3 + ["b", "a"] * 3,
            "reward": np.arange(12.0),
            "x": np.random.default_rng(0).normal(size=12),
        }
    )
    log = dw.read(table, time_limit=None, features=["x"])
    twice = log.select([0, 5, 5, 2, 3, 1])
    plain = dw.Trajectories(None, twice.actions, twice.rewards, twice.offsets, features=twice.features)
    learned, expected = (dw.fit_behaviour(one, ["logit"], folds=2) for one in (twice, plain))
    half = np.full((12, 2), 0.5)
    found = dw.estimate("WPDIS", twice, half, learned, interval=None)
    assert (
        found.value
        == dw.estimate("WPDIS", plain, dw.RowPolicy(half), dw.RowPolicy(expected.probs), interval=None).value
    )
    whole = dw.fit_behaviour(log, ["logit"], folds=2)
    first, second = log.select([0, 1, 2]), log.select([3, 4, 5])
    rows = np.asarray(second.rows)
    found = dw.estimate("WPDIS", second, half, whole, interval=None)
    assert found.value == dw.estimate("WPDIS", second, half, dw.RowPolicy(whole.probs), interval=None).value
    np.testing.assert_array_equal(dw.policy(whole, second).probs[rows], whole.probs[rows])
    with pytest.raises(PolicyError, match="other rows of the table"):
        dw.estimate("WPDIS", second, half, dw.fit_behaviour(first, ["logit"], folds=2))


def test_what_follows_cut_episodes_goes_with_the_episodes() -> None:
    table = {
        "episode": ["9", "10", "9", "8"],
        "step": [0, 0, 1, 0],
        "action": [0, 1, 0, 1],
        "reward": [1.0, 2.0, 3.0, 4.0],
        "x": [0.1, 0.2, 0.3, 0.4],
        "next_x": [1.1, 1.2, 1.3, 1.4],
        "terminated": [False] * 4,
    }
    table["episode"] = [f"id{i}" for i in table["episode"]]
    log = dw.read(table, features=["x"])

    def f(x: np.ndarray) -> np.ndarray:
        return np.stack([x[:, 0] / 2, 1 - x[:, 0] / 2], axis=1)

    whole = dw.FeaturePolicy(f).on(log)
    assert whole.last is not None
    np.testing.assert_allclose(whole.last[:, 0], [0.6, 0.7, 0.65])  # id10, id8, id9, as the log has them
    for chosen in ([2, 0], [1, 1, 1], [2, 1, 0]):
        some = log.select(chosen)
        uniform = np.full((some.n_steps, 2), 0.5)
        expected = dw.estimate("WDR", some, dw.FeaturePolicy(f), uniform, interval=None).value
        given = dw.RowPolicy(whole.probs, last=whole.last)
        for pi in (whole, given, dw.FeaturePolicy(f).on(some)):
            assert dw.estimate("WDR", some, pi, uniform, interval=None).value == expected


@pytest.mark.parametrize("seed", range(4))
def test_flags_may_be_a_column_and_those_of_a_rule_are_in_the_order_of_its_log(seed: int) -> None:
    world = World(seed)
    log = dw.read(world.table, time_limit=None, features=["x"])
    half = np.full((world.size, 2), 0.5)
    new = world.probs()
    expected = dw.estimate(
        "WSPDIS", world.plain, new[world.sorted], half, drop=world.plain.features[:, 0] > 0, interval=None
    )
    columns = [world.table["x"] > 0, pytest.importorskip("polars").Series((world.table["x"] > 0).tolist())]
    rules = [lambda question: question.parts[0].features[:, 0] > 0]
    for drop in (*columns, *rules):
        assert dw.estimate("WSPDIS", log, new, half, drop=drop, interval=None).value == pytest.approx(
            expected.value, rel=1e-12
        )


def test_a_frame_of_pyarrow() -> None:
    import pyarrow as pa

    world = World(6)
    log = dw.read(world.table, time_limit=None, features=["x"])
    new, half = world.probs(), np.full((world.size, 2), 0.5)
    frame = pa.table({"wait": new[:, 1], "treat": new[:, 0]})
    expected = dw.estimate("WPDIS", log, dw.RowPolicy(new), half, interval=None)
    assert dw.estimate("WPDIS", log, frame, half, interval=None).value == expected.value


# --- lengths -------------------------------------------------------------------------------------------


def test_a_length_that_fits_neither_is_refused_with_both() -> None:
    world = World(3)
    log = dw.read(world.table, time_limit=None, features=["x"])
    some = log.select([0, 1, 2])
    n, whole = some.n_steps, world.size
    old = np.full((whole, 2), 0.5)
    bad = np.full((whole + 1, 2), 0.5)
    frame = pd.DataFrame(bad, columns=ACTIONS)
    words = rf"{n:,} steps of the log, or for each of the {whole:,} rows of the table.*found {whole + 1:,}"
    for given in (dw.RowPolicy(bad), bad, frame):
        with pytest.raises(PolicyError, match=words):
            dw.estimate("WPDIS", some, given, old)
        with pytest.raises(PolicyError, match=words):
            dw.policy(given, some)
    with pytest.raises(OptionError, match=rf"\({n}, 2\) .*the {whole} rows of the table.*{whole + 1}"):
        dw.estimate("DM", some, old, old, model=dw.GivenQ(bad))
    with pytest.raises(DropError, match=rf"\({n}\).*row of the table \({whole}\).*{whole + 1}"):
        dw.estimate("WSPDIS", some, old, old, drop=bad[:, 0] > 0)
    with pytest.raises(PolicyError, match=rf"each of the {whole:,} steps of the log; found {whole + 1:,}"):
        dw.estimate("WPDIS", log, bad, old)


# --- log.rows ------------------------------------------------------------------------------------------


def test_rows_of_every_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    world = World(1)
    for door in DOORS:
        (tmp_path / door).mkdir()
        rows = world.read(door, tmp_path / door).rows
        assert rows is not None
        assert rows.tolist() == world.sorted.tolist(), door
        assert rows.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            rows[0] = 1
    relation = duckdb.from_arrow(_arrow(world, tmp_path))
    assert dw.read(relation, features=["x"]).rows.tolist() == world.sorted.tolist()
    text = world.table.to_csv(index=False).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert dw.read("-", features=["x"]).rows.tolist() == world.sorted.tolist()
    assert world.plain.rows is None
    assert world.plain.select([0, 1]).rows is None


def test_copies_keep_the_rows() -> None:
    world = World(2)
    log = dw.read(world.table, time_limit=None, features=["x"])
    copies = [
        log.by_row(),
        log.with_propensities(np.full(world.size, 0.5)),
        log.with_time_limit(5),
        log.with_remainder(1.0),
        log.select(np.ones(log.n_episodes, dtype=bool)),
    ]
    for copy in copies:
        assert copy.rows is not None
        assert copy.rows.tolist() == world.sorted.tolist()
    parts = [part.rows.tolist() for part in log.split(3)]
    assert [row for part in parts for row in part] == world.sorted.tolist()


def test_messages_name_the_row_of_the_table() -> None:
    world = World(4)
    log = dw.read(world.table, time_limit=None, features=["x"])
    row = int(world.sorted[3])
    old = np.full((world.size, 2), 0.5)
    old[row] = [0.0, 1.0] if world.table["action"][row] == "treat" else [1.0, 0.0]
    with pytest.raises(dw.errors.SupportError, match=rf"\(row {row}\)"):
        dw.estimate("WPDIS", log, np.full((world.size, 2), 0.5), dw.RowPolicy(old))


@pytest.mark.parametrize("sizes", [[6], [4, 4], [5]])
def test_a_path_to_parquet_is_the_same_table(sizes: list[int], tmp_path: Path) -> None:
    """Row groups come in the order of their episodes there, and scattered episodes are put together."""
    rng = np.random.default_rng(len(sizes))
    for scattered in (False, True):
        episode = np.repeat([7, 8, 9, 1, 2, 3], 2)
        table = pd.DataFrame(
            {
                "episode": episode,
                "step": [1, 0] * 6,
                "state": rng.integers(0, 2, 12),
                "action": rng.integers(0, 2, 12),
                "reward": rng.normal(size=12),
                "terminated": True,
            }
        )
        if scattered:
            table = table.iloc[rng.permutation(12)]
        folder = tmp_path / str(scattered)
        folder.mkdir()
        cuts = [0, *np.cumsum(sizes), 12]
        for i, (lo, hi) in enumerate(pairwise(cuts)):
            if hi > lo:
                table.iloc[lo:hi].to_parquet(folder / f"{i}.parquet", row_group_size=2)
        p = rng.uniform(0.2, 0.8, 12)
        new = dw.RowPolicy(np.stack([p, 1 - p], axis=1))
        old = dw.RowPolicy(np.full((12, 2), 0.5))
        expected = dw.estimate("WPDIS", dw.read(table), new, old, interval=None).value
        found = dw.estimate("WPDIS", folder, new, old, interval=None).value
        assert found == pytest.approx(expected, rel=1e-12)
        assert dw.estimate("WPDIS", dw.read(folder), new, old, interval=None).value == expected


def test_a_stream_takes_nothing_row_by_row(tmp_path: Path) -> None:
    from deadweight.io.open import open_log

    table = pd.DataFrame(
        {"episode": np.repeat(np.arange(6), 2), "step": [0, 1] * 6, "state": 0, "action": 0, "reward": 1.0}
    ).assign(terminated=True)
    table.to_parquet(tmp_path / "log.parquet", row_group_size=2)
    with open_log(tmp_path / "log.parquet", part_rows=4) as log:
        with pytest.raises(PolicyError, match="row by row and needs a log in memory"):
            dw.estimate("WPDIS", log, dw.RowPolicy(np.ones((12, 1))), [[1.0]])
        with pytest.raises(dw.errors.EstimationError, match="needs a log in memory"):
            dw.estimate("WSPDIS", log, [[1.0]], [[1.0]], drop=np.zeros(12, dtype=bool))
        assert log[0].rows is None
