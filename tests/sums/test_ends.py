"""How episodes end where nobody says it: the inferred time limit, in memory and in a stream."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deadweight_studies.ends import ergodic, run_fixed_length, self_ending, table_without_flags

import deadweight as dw
from deadweight.errors import Assumption, DataError, OptionError
from deadweight.io.stream import open_stream
from deadweight.mdp.problem import simulate
from deadweight.sums.ends import Ends, count_ends

NEVER_CUT = 100_000


def fixed(episodes: int = 200, seed: int = 0) -> dict[str, Any]:
    return table_without_flags(ergodic().sample(episodes, seed))


def quiet(source: Any, **options: Any) -> dw.Trajectories:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Assumption)
        return dw.read(source, **options)


def table_of(*episodes: list[tuple[int, int]], **columns: Any) -> dict[str, Any]:
    rows = [(i, t, s, a, 1.0) for i, one in enumerate(episodes) for t, (s, a) in enumerate(one)]
    names = ("episode", "step", "state", "action", "reward")
    return {name: [row[k] for row in rows] for k, name in enumerate(names)} | columns


def test_a_fixed_length_is_a_time_limit_and_is_said() -> None:
    with pytest.warns(Assumption, match=r"200 of 200 stop after exactly 10 steps.*time_limit=None"):
        log = dw.read(fixed())
    assert log.time_limit == 10
    assert not log.terminated.any()
    assert (log.next_states[log.offsets[1:] - 1] == -1).all()
    # The rewards of the last steps count, and nothing ends there.
    model = dw.fit_mdp(log)
    assert model.P[:, [-1]].sum() == 0
    pairs = log.states * 2 + log.actions
    mean = np.bincount(pairs, log.rewards) / np.bincount(pairs)
    np.testing.assert_allclose(model.r.ravel(), mean, rtol=1e-12)


def test_the_warning_names_the_line_that_called() -> None:
    with pytest.warns(Assumption) as caught:
        dw.read(fixed())
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", list(self_ending()))
def test_tasks_that_end_by_themselves_are_not_taken_for_cut(name: str) -> None:
    problem = self_ending()[name]
    for seed, episodes in enumerate((20, 100, 400)):
        log = simulate(problem.mdp, problem.pi_b, episodes, seed, NEVER_CUT)
        with warnings.catch_warnings():
            warnings.simplefilter("error", Assumption)
            found = dw.read(table_without_flags(log))
        assert found.time_limit is None
        assert found.terminated.all()


def test_one_step_and_states_that_tell_the_time_are_no_limit() -> None:
    bandit = table_of(*[[(i % 2, i % 2)] for i in range(50)])
    clock = table_of(*[[(0, i % 2), (1, 0), (2, i % 2)] for i in range(50)])
    for table in (bandit, clock):
        assert dw.read(table).time_limit is None


def test_few_episodes_at_the_longest_length_are_no_limit() -> None:
    short = [[(0, 0)] * 2] * 6
    assert quiet(table_of(*[[(0, 0)] * 3] * 4, *short)).time_limit is None  # 4 < 5
    assert quiet(table_of(*[[(0, 0)] * 3] * 5, *short)).time_limit == 3
    many = [[(0, 0)] * 2] * 120
    assert quiet(table_of(*[[(0, 0)] * 3] * 6, *many)).time_limit is None  # 6 < 5 % of 126


def test_ends_that_chance_explains_are_no_limit() -> None:
    """At (0, 0) one step in three goes on: that five episodes end at the third step may well happen."""
    assert quiet(table_of(*[[(0, 0)] * 3] * 5, *[[(0, 0)]] * 20)).time_limit is None


def test_flags_win() -> None:
    table = fixed(20)
    last = table["step"] == 9
    for flags in ({"terminated": last}, {"truncated": np.zeros_like(last)}):
        for limit in ("infer", 10, 7):
            log = quiet(table | flags, time_limit=limit)
            assert log.terminated.all()
    assert not dw.read(table | {"truncated": last}, time_limit=None).terminated.any()


def test_what_the_user_says_is_believed() -> None:
    table = table_of([(0, 0)] * 3, [(1, 1)], [(1, 0)] * 3)
    log = dw.read(table, time_limit=3)
    assert log.time_limit == 3
    assert log.terminated.tolist() == [False, True, False]
    assert dw.read(table, time_limit=None).terminated.all()
    assert dw.read(table, time_limit=5).terminated.all()
    assert log.select([0, 1]).time_limit == 3
    assert log.with_propensities(np.ones(log.n_steps)).time_limit == 3


@pytest.mark.parametrize("limit", [0, -3, 2.5, True, "ever"])
def test_a_limit_is_a_number_of_steps(limit: Any) -> None:
    with pytest.raises(OptionError, match="time_limit is a whole number"):
        dw.read(fixed(5), time_limit=limit)


def test_no_episode_is_longer_than_the_limit() -> None:
    with pytest.raises(DataError, match="no episode is longer; found 3 steps"):
        dw.read(table_of([(0, 0)] * 3, [(1, 1)]), time_limit=2)
    with pytest.raises(DataError, match="no episode is longer"):
        dw.Trajectories([0, 0], [0, 0], [1.0, 1.0], [0, 2], time_limit=1)


def test_arrays() -> None:
    columns = ([0, 1, 0], [0, 0, 0], [1.0, 2.0, 3.0], [0, 2, 3])
    assert dw.Trajectories(*columns).terminated.all()
    assert dw.Trajectories(*columns).time_limit is None
    log = dw.Trajectories(*columns, time_limit=2, next_states=[1, 5, -1])
    assert log.terminated.tolist() == [False, True]
    assert log.next_states.tolist() == [1, 5, -1]  # known where it was given
    given = dw.Trajectories(*columns, terminated=[True, False], time_limit=2)
    assert given.terminated.tolist() == [True, False]
    episodes = dw.Trajectories.from_episodes([[(0, 0, 1.0)] * 2, [(0, 0, 1.0)]], time_limit=2)
    assert episodes.terminated.tolist() == [False, True]


def test_only_cuts_before_the_limit_are_flagged() -> None:
    pi = [[0.5, 0.5], [0.5, 0.5]]
    at_limit = [[(0, 0, 1.0), (1, 1, 0.0)]] * 6
    for episodes, ends, flagged in (
        (at_limit, [False] * 6, False),
        ([*at_limit, [(0, 1, 1.0)]], [False] * 6 + [False], True),
        ([*at_limit, [(0, 1, 1.0)]], [False] * 6 + [True], False),
    ):
        log = dw.Trajectories.from_episodes(episodes, terminated=ends, time_limit=2)
        assert ("truncated" in dw.estimate("WIS", log, pi, pi).flags) is flagged
    unsaid = dw.Trajectories.from_episodes(at_limit, terminated=[False] * 6)
    assert unsaid.time_limit == 2
    assert "truncated" not in dw.estimate("WIS", unsaid, pi, pi).flags


def test_ends_merge() -> None:
    log = simulate(ergodic().mdp, ergodic().pi_b, 60, 3, 7)
    ragged = dw.Trajectories.from_episodes([one[: 1 + i % 7] for i, one in enumerate(log)])
    whole = count_ends([ragged])
    parts = count_ends(ragged.split(9))
    assert (whole.n, whole.longest, whole.n_at_limit) == (parts.n, parts.longest, parts.n_at_limit)
    for one, other in ((whole.steps, parts.steps), (whole.at_limit, parts.at_limit)):
        assert one.keys.tolist() == other.keys.tolist()
        assert one.sums.tolist() == other.sums.tolist()
    assert isinstance(whole, Ends)


@pytest.mark.parametrize("limit", ["infer", None, 10])
@pytest.mark.parametrize("ids", ["sorted", "scattered"])
def test_a_stream_reads_the_same_ends(limit: Any, ids: str, tmp_path: Path) -> None:
    problem = ergodic()
    table = fixed(150, seed=4)
    # A fifth of the episodes end early, so that ends, cuts and lengths are mixed.
    keep = (table["episode"] % 5 > 0) | (table["step"] < 2 + table["episode"] % 4)
    rows = pa.table({name: column[keep] for name, column in table.items()})
    if ids == "scattered":
        rows = rows.take(np.random.default_rng(0).permutation(rows.num_rows))
    path = tmp_path / "log.parquet"
    pq.write_table(rows, path, row_group_size=97)
    memory = quiet(path, time_limit=limit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Assumption)
        stream = open_stream(path, part_rows=100, time_limit=limit)
        _ = stream.time_limit, stream.time_limit  # looked for once, when first asked for
    assert len(stream) > 3
    said = [str(one.message) for one in caught if one.category is Assumption]
    assert len(said) == (limit == "infer")
    assert stream.time_limit == memory.time_limit == (None if limit is None else 10)
    assert stream.census.terminated == int(memory.terminated.sum())
    assert stream.census.cut_early == 0
    for name in ("DM", "WDR", "C-WSPDIS"):
        found, expected = (
            dw.estimate(name, log, problem.pi_e, problem.pi_b, drop=[1]) for log in (stream, memory)
        )
        assert found.value == pytest.approx(expected.value, rel=1e-10)
        assert found.interval == pytest.approx(expected.interval, rel=1e-9)
        assert found.flags == expected.flags


def test_a_path_is_read_like_a_table(tmp_path: Path) -> None:
    problem, path = ergodic(), tmp_path / "log.parquet"
    pq.write_table(pa.table(fixed()), path)
    with pytest.warns(Assumption):
        found = dw.estimate("DM", path, problem.pi_e, problem.pi_b)
    assert found.value == dw.estimate("DM", quiet(path), problem.pi_e, problem.pi_b).value


def test_fixed_length_logs_without_flags_are_right() -> None:
    """20 logs of 2,000 episodes: three standard errors hold for a normal error in all but 1 of 370."""
    runs = [run_fixed_length("", number)["inferred"] for number in range(20)]
    assert all(one["time_limit"] == 10 and not one["misfit"] for one in runs)
    for key in ("DM", "headline error"):
        assert sum(abs(error) <= 3 * se for error, se in (one[key] for one in runs)) >= 19
