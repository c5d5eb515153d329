"""Labels: which become indices, which are numbered, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deadweight as dw
from deadweight.diagnostics import state_report
from deadweight.errors import DataError
from deadweight.io.environments import from_minari
from deadweight.io.open import open_log
from deadweight.io.part_log import CommonLabels
from deadweight.io.policy_files import write_policy
from deadweight.io.scratch import Shelf
from deadweight.log.labels import as_column, encode, positions

FEW = settings(max_examples=60, deadline=None, derandomize=True)


@FEW
@given(
    st.one_of(
        st.lists(st.integers(-50, 20_000), min_size=1),
        st.lists(st.text(max_size=3), min_size=1),
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1),
    )
)
def test_labels_of_codes_are_the_values(values: list[Any]) -> None:
    codes, labels = encode(as_column(values, "state"), "state")
    assert [labels[code] for code in codes] == values
    assert len(labels) == len(set(map(repr, labels)))
    assert list(labels) == sorted(labels)
    assert positions(labels, values).tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([2, 0], [0, 1, 2]),  # an unvisited state keeps its place
        ([2.0, 0.0], [0, 1, 2]),
        ([0, 1_020], list(range(1_021))),  # 10 * 2 + 1,000
        ([0, 1_021], [0, 1_021]),  # one more is sparse
        ([-1, 3], [-1, 3]),
        (["b", "a", "b"], ["a", "b"]),
        (["a\0", "a"], ["a", "a\0"]),
        ([(1, 0), (0, 1)], [(0, 1), (1, 0)]),
        ([True, False], [False, True]),
        ([0.5, 0.25], [0.25, 0.5]),
    ],
)
def test_what_is_kept_and_what_is_numbered(values: list[Any], labels: list[Any]) -> None:
    assert encode(as_column(values, "state"), "state")[1].tolist() == labels


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "a"], "one type; found int, str"),
        (["a", None], "rows 1 have none"),
        ([0.5, float("nan")], "rows 1 have none"),
    ],
)
def test_labels_that_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        encode(as_column(values, "state"), "state")


def test_a_table_of_features_is_no_column() -> None:
    with pytest.raises(DataError, match="one entry for each step"):
        dw.Trajectories(np.zeros((3, 2)), [0, 0, 0], [1.0, 1.0, 1.0], [0, 3])


# Whole numbers beyond 64 bits, or with more digits than a float has: their neighbours have the same float.

LARGE = (1, 2**63, 2**63 + 1, 12345678901234567890)
NAMES = ("s0", "s1", "s2", "s3")
P = (0.1, 0.4, 0.6, 0.9)
EPISODES, STEPS = 40, 3


def _columns(labels: Sequence[Any]) -> dict[str, Any]:
    """A log as lists, whose states are these."""
    rng = np.random.default_rng(5)
    n = EPISODES * STEPS
    return {
        "episode": np.repeat(np.arange(EPISODES), STEPS).tolist(),
        "step": list(range(STEPS)) * EPISODES,
        "state": [labels[i] for i in rng.integers(0, len(labels), n)],
        "action": rng.integers(0, 2, n).tolist(),
        "reward": rng.normal(size=n).tolist(),
        "behaviour_prob": [0.5] * n,
        "terminated": [True] * n,
    }


def _in_memory(states: Any) -> dw.Trajectories:
    columns = _columns(LARGE)
    offsets = np.arange(EPISODES + 1) * STEPS
    given = columns["behaviour_prob"]
    return dw.Trajectories(states, columns["action"], columns["reward"], offsets, propensities=given)


def _as_episodes() -> dw.Trajectories:
    columns = _columns(LARGE)
    steps = list(zip(columns["state"], columns["action"], columns["reward"], strict=True))
    episodes = [steps[lo : lo + STEPS] for lo in range(0, len(steps), STEPS)]
    return dw.Trajectories.from_episodes(episodes, propensities=[[0.5] * STEPS] * EPISODES)


def _frame(library: str, kind: Any) -> Any:
    frames = pytest.importorskip(library)
    if library == "polars" and not hasattr(frames, kind):
        pytest.skip(f"this version of polars has no type {kind}")
    columns = _columns(LARGE)
    dtype = getattr(frames, kind) if library == "polars" else kind
    return frames.DataFrame({**columns, "state": frames.Series(columns["state"], dtype=dtype)})


def _arrow(kind: pa.DataType) -> pa.Table:
    columns = _columns(LARGE)
    exact = [Decimal(label) for label in columns["state"]] if pa.types.is_decimal(kind) else columns["state"]
    return pa.table({**columns, "state": pa.array(exact, kind)})


DOORS: dict[str, Callable[[], dw.Trajectories]] = {
    "list": lambda: _in_memory(_columns(LARGE)["state"]),
    "objects": lambda: _in_memory(np.array(_columns(LARGE)["state"], dtype=object)),
    "uint64": lambda: _in_memory(np.array(_columns(LARGE)["state"], dtype=np.uint64)),
    "episodes": _as_episodes,
    "dict": lambda: dw.read(_columns(LARGE)),
    "pandas objects": lambda: dw.read(_frame("pandas", object)),
    "pandas uint64": lambda: dw.read(_frame("pandas", "uint64")),
    "polars objects": lambda: dw.read(_frame("polars", "Object")),
    "polars UInt64": lambda: dw.read(_frame("polars", "UInt64")),
    "polars Int128": lambda: dw.read(_frame("polars", "Int128")),
    "arrow uint64": lambda: dw.read(_arrow(pa.uint64())),
    "arrow decimal": lambda: dw.read(_arrow(pa.decimal128(38, 0))),
}


def _policy(labels: Sequence[Any]) -> dw.TabularPolicy:
    return dw.TabularPolicy([[p, 1 - p] for p in P], states=labels, actions=[0, 1])


def _said(log: Any, labels: Sequence[Any], pi_e: Any = None) -> dict[str, Any]:
    """What is estimated on a log, with labels as numbers of these; each state has another policy."""
    options = {"drop": [labels[1], labels[3]], "gamma": 0.9}
    ev = dw.evaluate(log, pi_e or _policy(labels), None, ["WPDIS", "WSPDIS", "DM"], **options)
    said = ev.to_dict()["estimates"]
    for one in said.values():
        one["dropped"] = [list(map(str, labels)).index(str(label)) for label in one["dropped"]]
    return dict(said)


@pytest.fixture(scope="module")
def by_name() -> dict[str, Any]:
    return _said(dw.read(_columns(NAMES)), NAMES)


@pytest.mark.parametrize("door", DOORS)
def test_large_whole_numbers_stay_apart_through_every_door(door: str, by_name: dict[str, Any]) -> None:
    log = DOORS[door]()
    assert list(log.state_labels) == list(LARGE)
    assert [log.state_labels[code] for code in log.states] == _columns(LARGE)["state"]
    assert _said(log, LARGE) == by_name
    assert _said(log, LARGE, {label: {0: p, 1: 1 - p} for label, p in zip(LARGE, P, strict=True)}) == (
        by_name
    )


@pytest.mark.parametrize("kind", [pa.uint64(), pa.decimal128(38, 0)], ids=str)
def test_large_whole_numbers_stay_apart_in_a_stream(
    kind: pa.DataType, tmp_path: Path, by_name: dict[str, Any]
) -> None:
    pq.write_table(_arrow(kind), tmp_path / "log.parquet", row_group_size=15)
    with open_log(tmp_path, part_rows=30, stream=True) as log:
        assert len(log) > 1
        assert list(log.state_labels) == list(LARGE)
        streamed = _said(log, LARGE)
    for name, one in by_name.items():  # sums of parts are rounded in another order
        assert streamed[name]["value"] == pytest.approx(one["value"], rel=1e-12)
        assert streamed[name]["dropped"] == one["dropped"]


def test_states_of_twenty_digits_in_a_csv_are_dropped_by_their_numbers(
    tmp_path: Path, by_name: dict[str, Any]
) -> None:
    columns = _columns(LARGE)
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([",".join(columns), *rows]) + "\n")
    log = dw.read(path)
    assert set(log.state_labels) == set(map(str, LARGE))
    assert _said(log, LARGE)["WSPDIS"]["value"] == pytest.approx(by_name["WSPDIS"]["value"], rel=1e-12)
    of_numbers = dw.StateSet(np.array([False, True, False, True]), np.array(LARGE, dtype=object))
    asked = (log, _policy(LARGE), None)
    assert dw.estimate("WSPDIS", *asked, drop=of_numbers).dropped == sorted(map(str, (LARGE[1], LARGE[3])))


def test_large_whole_numbers_beside_fractions_stay_apart() -> None:
    given = [2**53, 2**53 + 1, 0.5, 1]
    for log in (
        dw.Trajectories(given, [0] * 4, [0.0] * 4, [0, 4]),
        dw.read({"episode": [0] * 4, "step": range(4), "state": given, "action": [0] * 4, "reward": [0] * 4}),
    ):
        assert list(log.state_labels) == sorted(given)


@pytest.mark.parametrize(
    ("states", "following"),
    [
        (np.array([2**63, 2**63 + 1], dtype=np.uint64), [2**63 + 1, 2**63 + 2]),
        (np.array([2**63, 2**63 + 1], dtype=np.uint64), np.array([-1, 5])),
        (np.array([2**60, 2**60 + 1]), np.array([np.nan, 0.5])),
        (
            np.ma.masked_array([2**60, 2**60 + 1], mask=[0, 0]),
            np.ma.masked_array([0, 2**60 + 2], mask=[1, 0]),
        ),
    ],
    ids=["uint64", "of both signs", "beside a fraction", "masked"],
)
def test_what_follows_a_cut_episode_does_not_merge_states(states: Any, following: Any) -> None:
    log = dw.Trajectories(states, [0, 0], [0.0, 0.0], [0, 2], terminated=[False], next_states=following)
    seen = [int(label) for label in np.asarray(states)]
    assert list(log.state_labels) == sorted({*seen, np.asarray(following)[1]})
    assert [log.state_labels[code] for code in log.states] == seen


@pytest.mark.parametrize("label", [-(2**63), 2**63 - 1])
def test_the_ends_of_64_bits_are_the_same_labels_in_every_array(label: int) -> None:
    codes = [encode(as_column(given, "state"), "state")[1] for given in ([label], np.array([label], object))]
    assert codes[0].dtype == codes[1].dtype == np.int64


def test_episodes_old_policies_and_actions_may_be_large_whole_numbers() -> None:
    columns = {**_columns(NAMES), "behaviour_id": np.repeat(np.array(LARGE, dtype=object), 30).tolist()}
    columns["episode"] = [2**63 + number for number in columns["episode"]]
    columns["action"] = [LARGE[1 + action] for action in columns["action"]]
    log = dw.read(columns)
    assert (log.n_episodes, list(log.action_labels)) == (EPISODES, list(LARGE[1:3]))
    assert list(dict.fromkeys(log.behaviour_ids)) == list(LARGE)
    again = dw.Trajectories([0, 0], [0, 0], [0.0, 0.0], [0, 1, 2], behaviour_ids=[2**63, 1])
    assert list(again.behaviour_ids) == [2**63, 1]


def test_masked_text_is_missing() -> None:
    masked = np.ma.masked_array(["a", "b"], mask=[False, True])
    with pytest.raises(DataError, match="rows 1 have none"):
        dw.Trajectories(masked, [0, 0], [0.0, 0.0], [0, 2])


def test_a_function_of_features_may_choose_large_whole_numbers() -> None:
    actions = list(LARGE[:3])
    log = dw.Trajectories(None, actions, [0.0, 1.0, 2.0], [0, 3], features=[[0.0], [1.0], [2.0]])
    found = dw.policy(dw.FeaturePolicy(lambda x: [actions[int(row[0])] for row in x]), log)
    assert found.probs.tolist() == np.eye(3).tolist()


def test_labels_of_a_data_set_stay_apart_though_each_episode_has_a_type_of_its_own() -> None:
    states = [[1, 2, 2**60 + 1], [2**63, 2**63 + 1, 2**60]]
    episodes = [
        SimpleNamespace(
            observations=one,
            actions=np.array([0, 1]),
            rewards=np.zeros(2),
            terminations=[False, False],
            infos={},
        )
        for one in states
    ]
    data = SimpleNamespace(iterate_episodes=lambda: iter(episodes))
    log = from_minari(data, state=lambda observations: observations)
    assert list(log.state_labels) == sorted([*states[0], *states[1]])


def test_ids_of_old_policies_are_kept_on_disk_as_they_are(tmp_path: Path) -> None:
    ids = [2**53 + 1, 0.5]
    log = dw.Trajectories([0, 0], [0, 0], [0.0, 0.0], [0, 1, 2], behaviour_ids=ids)
    shelf = Shelf(str(tmp_path), CommonLabels(log.state_labels, log.action_labels))
    shelf.keep(0, [log])
    kept = shelf.kept(0)
    assert kept is None or list(kept[0].behaviour_ids) == ids


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_policy_over_large_whole_numbers_is_written_and_read(
    suffix: str, tmp_path: Path, by_name: dict[str, Any]
) -> None:
    again = dw.read_policy(write_policy(_policy(LARGE), tmp_path / f"policy.{suffix}"))
    assert _said(_in_memory(_columns(LARGE)["state"]), LARGE, again) == by_name


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_of_states_shows_all_digits(library: str) -> None:
    pytest.importorskip(library)
    log = DOORS["list"]()
    shown = state_report(log, _policy(LARGE), None, drop=None).to_frame(library)["state"]
    assert {*map(str, getattr(shown, "to_pylist", shown.__iter__)())} == {*map(str, LARGE)}
