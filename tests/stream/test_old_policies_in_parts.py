"""Several old policies on a stream give the numbers of the log in memory, however the files are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from stream.folders import N_ACTIONS, N_STATES, table_of, write

import deadweight as dw
from deadweight.errors import DataError, PolicyError, SupportError
from deadweight.io.stream import Stream, open_stream
from deadweight.sums.executors import executor_for
from deadweight.sums.old_policies import old_policies

TOLERANCE = 1e-10
KINDS: dict[str, dict[str, Any]] = {
    "numbers": {},
    "truncated with successors": {"truncated": True},
    "text": {"text": True, "truncated": True},
}
IDS = {"text": ["spring", "autumn", "winter"], "numbers": [7, 3, 5]}
RNG = np.random.default_rng(5)
TABLES = [RNG.dirichlet(np.full(N_ACTIONS, 3.0), N_STATES) for _ in range(4)]
TARGET = TABLES[3]


def with_ids(table: pa.Table, ids: list[Any]) -> pa.Table:
    """The table with the id of each episode's old policy: not in runs, and not in order of their labels."""
    episode = table["episode"].to_numpy() // 3
    return table.append_column("behaviour_id", pa.array([ids[i * i % 7 % 3] for i in episode]))


@pytest.fixture(
    scope="module",
    params=[("numbers", "text"), ("truncated with successors", "numbers"), ("text", "text")],
    ids=lambda given: f"{given[0]}, ids {given[1]}",
)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Stream, dw.Trajectories, dict[Any, Any]]:
    kind, ids = request.param
    folder = write(tmp_path_factory.mktemp("log") / "parts", with_ids(table_of(**KINDS[kind]), IDS[ids]))
    policies = {
        label: dw.TabularPolicy(table, states=states(kind), actions=actions(kind))
        for label, table in zip(IDS[ids], TABLES, strict=False)
    }
    stream = open_stream(folder, part_rows=40, time_limit=None)
    assert len(stream) > 3
    return stream, dw.read(folder, time_limit=None), policies


def states(kind: str) -> list[Any]:
    return [f"s{i}" for i in range(N_STATES)] if kind == "text" else list(range(N_STATES))


def actions(kind: str) -> list[Any]:
    return ["left", "stay", "right"] if kind == "text" else list(range(N_ACTIONS))


def target_of(log: dw.Trajectories) -> dw.TabularPolicy:
    kind = "text" if isinstance(log.action_labels[0], str) else "numbers"
    return dw.TabularPolicy(TARGET, states=states(kind), actions=actions(kind))


def test_propensities(both: tuple[Stream, dw.Trajectories, dict[Any, Any]]) -> None:
    from deadweight.question.understanding import one_behaviour

    stream, memory, policies = both
    for given in (policies, dict(list(policies.items())[:2])):
        parts, pi_b, counted = one_behaviour(stream, given)
        assert pi_b is None
        assert counted == (len(given) < 3)
        found = np.concatenate([parts[i].propensities for i in range(len(parts))])
        assert found == pytest.approx(dw.mixture_propensities(memory, given), rel=1e-12)


def test_the_default_table(both: tuple[Stream, dw.Trajectories, dict[Any, Any]]) -> None:
    stream, memory, policies = both
    given = dict(list(policies.items())[:2])
    found, expected = (dw.evaluate(log, target_of(memory), given) for log in (stream, memory))
    for name in expected:
        one, other = found[name], expected[name]
        np.testing.assert_allclose(one.value, other.value, rtol=TOLERANCE, atol=TOLERANCE)
        np.testing.assert_allclose(one.interval, other.interval, rtol=TOLERANCE, atol=TOLERANCE)
        assert one.flags == other.flags
    assert "behaviour-filled" in found["WPDIS"].flags
    for one, other in zip(
        found.background.data.old_policies, expected.background.data.old_policies, strict=True
    ):
        assert (one.id, one.episodes, one.drift) == (other.id, other.episodes, other.drift)
        assert [one.share, one.mean_return, one.ess] == pytest.approx(
            [other.share, other.mean_return, other.ess], rel=TOLERANCE
        )
    assert len(found.background.data.old_policies) == 3


def test_compare_and_improve(both: tuple[Stream, dw.Trajectories, dict[Any, Any]]) -> None:
    stream, memory, policies = both
    wanted = {"new": target_of(memory), "first": next(iter(policies.values()))}
    found, expected = (dw.compare(log, wanted, policies, resamples=100) for log in (stream, memory))
    assert found.ranking == expected.ranking
    for name in wanted:
        np.testing.assert_allclose(
            found.difference(name).interval, expected.difference(name).interval, rtol=1e-8, atol=1e-8
        )
        alone = dw.evaluate(stream, wanted[name], policies, list(found[name]), background=False)
        for estimator in alone:
            assert found[name][estimator].value == pytest.approx(alone[estimator].value, abs=TOLERANCE)
    answers = [dw.improve(log, policies, min_visits=2).answer for log in (stream, memory)]
    assert answers[0] == answers[1]


def test_the_drift_is_that_of_the_log_in_memory(both: tuple[Stream, dw.Trajectories, dict[Any, Any]]) -> None:
    stream, memory, _ = both
    found, expected = old_policies(stream), old_policies(memory)
    assert [one.id for one in found] == [one.id for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert [one.starts_z, one.steps_z] == pytest.approx([other.starts_z, other.steps_z], rel=1e-8)


def test_two_processes(tmp_path: Path) -> None:
    folder = write(tmp_path / "parts", with_ids(table_of(), IDS["text"]))
    policies = dict(zip(IDS["text"], TABLES, strict=False))
    executor = executor_for(2)
    stream = open_stream(folder, part_rows=40, time_limit=None, executor=executor)
    expected = dw.estimate("WPDIS", dw.read(folder, time_limit=None), TARGET, policies).value
    assert dw.estimate("WPDIS", stream, TARGET, policies).value == pytest.approx(expected, rel=1e-12)
    executor.close()


def test_a_table_of_each_old_policy_may_be_a_mapping(tmp_path: Path) -> None:
    folder = write(tmp_path / "parts", with_ids(table_of(), IDS["text"]))
    stream = open_stream(folder, part_rows=40, time_limit=None)
    written = {
        label: {s: dict(enumerate(table[s].tolist())) for s in range(N_STATES)}
        for label, table in zip(IDS["text"], TABLES, strict=False)
    }
    expected = dw.estimate("WPDIS", stream, TARGET, dict(zip(IDS["text"], TABLES, strict=False))).value
    assert dw.estimate("WPDIS", stream, TARGET, written).value == pytest.approx(expected, rel=1e-12)


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    table = table_of()
    plain = open_stream(write(tmp_path / "plain", table), part_rows=40, time_limit=None)
    with pytest.raises(DataError, match="does not say which episodes"):
        dw.estimate("WPDIS", plain, TARGET, {"spring": TABLES[0]})
    stream = open_stream(
        write(tmp_path / "parts", with_ids(table, IDS["text"])), part_rows=40, time_limit=None
    )
    with pytest.raises(PolicyError, match="'summer', which made no episode"):
        dw.estimate("WPDIS", stream, TARGET, {"summer": TABLES[0]})
    with pytest.raises(PolicyError, match="old policy 'spring' does not fit"):
        dw.estimate("WPDIS", stream, TARGET, {"spring": TABLES[0][:, :2]})
    rows = dw.RowPolicy(np.full((stream.n_steps, N_ACTIONS), 1 / N_ACTIONS))
    for odd in (rows, None):
        with pytest.raises(PolicyError, match="'spring' does not fit: it must be a policy over states"):
            dw.estimate("WPDIS", stream, TARGET, {"spring": odd, "winter": TABLES[0]})
    never = np.tile([0.0, 0.5, 0.5], (N_STATES, 1))
    with pytest.raises(SupportError, match="'spring' gives probability 0 to action 0"):
        dw.estimate("WPDIS", stream, TARGET, {"spring": never})


def test_an_id_that_changes_within_an_episode_is_refused(tmp_path: Path) -> None:
    table = with_ids(table_of(), IDS["text"])
    ids = table["behaviour_id"].to_pylist()
    lengths = np.bincount(table["episode"].to_numpy() // 3)
    last = int(np.cumsum(lengths)[np.flatnonzero(lengths > 1)[-1]]) - 1
    ids[last] = "summer"
    changed = table.set_column(table.column_names.index("behaviour_id"), "behaviour_id", pa.array(ids))
    stream = open_stream(write(tmp_path / "parts", changed), part_rows=40, time_limit=None)
    with pytest.raises(DataError, match="DW206"):
        dw.estimate("WPDIS", stream, TARGET, {"spring": TABLES[0]})
