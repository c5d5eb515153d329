"""Neighbours in the log that are alike, and returns that change along it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import deadweight as dw
from deadweight.answers.answering import Answers
from deadweight.answers.rounds import OfInfluences
from deadweight.diagnostics import flags as log_order
from deadweight.diagnostics.flags import ByBlock, LogOrder, order_job
from deadweight.io.open import open_log
from deadweight.log.interface import LogLike
from deadweight.question.question import ask

PI_E, PI_B = np.tile([0.3, 0.7], (3, 1)), np.full((3, 2), 0.5)
DOUBTS = {"maybe-clustered", "drift"}


def visits(n: int, seed: int, alike: float = 0.0, drift: float = 0.0) -> dict[str, np.ndarray]:
    """Each step is the last in two of five; five episodes share a person, and rewards rise along the log."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(0.4, n)
    episode = np.repeat(np.arange(n), lengths)
    step = np.concatenate([np.arange(length) for length in lengths])
    state, action = rng.integers(0, 3, len(step)), rng.integers(0, 2, len(step))
    person = np.repeat(rng.normal(size=-(-n // 5)), 5)[:n]
    level = alike * person + drift * np.linspace(-1, 1, n)
    reward = 0.3 * action + 0.2 * state + level[episode] + rng.normal(size=len(step))
    columns = {"episode": episode, "step": step, "state": state, "action": action, "reward": reward}
    return {**columns, "terminated": step == lengths[episode] - 1}


def found_in(log: LogLike, workers: int = 1) -> LogOrder:
    question = ask(log, PI_E, PI_B, workers=workers)
    answers = Answers(question, [])
    OfInfluences([order_job(answers)]).serve(question)
    found: LogOrder = question.sums[LogOrder]
    return found


def test_numbers_are_those_of_the_whole_log(tmp_path: Path) -> None:
    table = visits(500, 0, alike=0.5, drift=0.2)
    log = dw.read({name: column.tolist() for name, column in table.items()})
    influence = dw.estimate("DM", log, PI_E, PI_B, also=["influence"]).influence
    influence = influence - influence.mean()
    expected = influence[1:] @ influence[:-1] / (influence @ influence)
    returns = np.add.reduceat(log.rewards, log.offsets[:-1])
    p_value = stats.f_oneway(*np.array_split(returns, 10)).pvalue
    pq.write_table(pa.table(table), tmp_path / "log.parquet", row_group_size=100)
    with open_log(tmp_path / "log.parquet", part_rows=100) as stream:
        assert len(stream) > 5
        for found in (found_in(log), found_in(log, workers=2), found_in(stream)):
            assert found.correlation == pytest.approx(expected, rel=1e-9)
            assert found.p_value == pytest.approx(p_value, rel=1e-9)
            assert found.kept == 500


def test_only_the_first_episodes_are_kept_of_a_long_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = dw.read({name: column.tolist() for name, column in visits(500, 0, alike=0.5).items()})
    monkeypatch.setattr(log_order, "MOST_KEPT", 200)
    influence = dw.estimate("DM", log, PI_E, PI_B, also=["influence"]).influence[:200]
    influence = influence - influence.mean()
    found = found_in(log)
    assert found.kept == 200
    assert found.correlation == pytest.approx(influence[1:] @ influence[:-1] / (influence @ influence))


def test_blocks_merge_in_any_parts() -> None:
    rng = np.random.default_rng(0)
    values, block_of = rng.normal(size=(2, 300)) + 1e6, np.sort(rng.integers(0, 10, 300))
    merged = ByBlock.of(block_of[:20], values[:, :20])
    for lo, hi in ((20, 150), (150, 300)):
        merged = merged.merge(ByBlock.of(block_of[lo:hi], values[:, lo:hi]))
    for row in (0, 1):
        groups = [values[row, block_of == k] for k in range(10)]
        assert merged.p_value(row) == pytest.approx(stats.f_oneway(*groups).pvalue, rel=1e-6)


@pytest.mark.parametrize(
    ("shape", "flag"),
    [({}, None), ({"alike": 0.7}, "maybe-clustered"), ({"drift": 0.3}, "drift")],
)
def test_a_doubt_stands_on_the_headline_and_the_answer_stays(
    shape: dict[str, float], flag: str | None
) -> None:
    """What is alike for a while may look like drift as well, and the other way round."""
    log = dw.read({name: column.tolist() for name, column in visits(3000, 3, **shape).items()})
    ev = dw.evaluate(log, PI_E, PI_B)
    doubts = DOUBTS & set(ev.headline.flags)
    assert flag in doubts if flag else not doubts
    assert (ev.verdict.answer, ev.verdict.sound, ev.verdict.doubts) == ("better", True, ())
    assert not any(DOUBTS & set(ev[name].flags) for name in ev if name != "BLEND")


def test_an_old_policy_that_changes_is_no_drift() -> None:
    """Half of the log by each of two old policies, one of them better: returns rise, the world stays."""
    rng = np.random.default_rng(0)
    n = 2000
    week = np.repeat([1, 2], n // 2)
    action = (rng.random(n) < np.where(week == 1, 0.2, 0.8)).astype(int)
    reward = action + rng.normal(size=n)
    log = dw.Trajectories(np.zeros(n, int), action, reward, np.arange(n + 1), behaviour_ids=week)
    ev = dw.evaluate(log, [[0.3, 0.7]], {1: [[0.8, 0.2]], 2: [[0.2, 0.8]]})
    assert "drift" not in ev.headline.flags
