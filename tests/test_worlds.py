"""Two weeks that differ, played differently: what the old policy looked at must not pass for an effect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from typer.testing import CliRunner

import deadweight as dw
from deadweight.answers.answering import Answers
from deadweight.answers.trust import confounding_of
from deadweight.cli.app import app
from deadweight.io.open import open_log
from deadweight.question.question import ask
from deadweight.sums.old_policies import Confounding

WEEKS = {1: [[0.9, 0.1]], 2: [[0.1, 0.9]]}
ALWAYS_1 = [[0.0, 1.0]]


def two_weeks(n: int = 600, seed: int = 0, better: float = 0.3) -> dict[str, np.ndarray]:
    """Action 1 pays .05 less in both weeks; week 2 pays more for all, and plays it nine times in ten."""
    rng = np.random.default_rng(seed)
    week = np.repeat([1, 2], n // 2)
    treated = (rng.random(n) < np.where(week == 1, 0.1, 0.9)).astype(int)
    return {
        "episode": np.arange(n),
        "step": np.zeros(n, dtype=int),
        "state": np.zeros(n, dtype=int),
        "action": treated,
        "reward": rng.normal(0.3 + better * (week == 2) - 0.05 * treated, 0.2),
        "terminated": np.ones(n, dtype=bool),
        "week": week,
        "behaviour_prob": np.where(treated == (week == 2), 0.9, 0.1),
    }


def as_form(table: dict[str, np.ndarray], form: str) -> tuple[dict[str, np.ndarray], dict | None]:
    """A column that names the old policies, which are given; or nothing but the logged probabilities."""
    columns = {name: column for name, column in table.items() if name != "week"}
    if form == "probabilities":
        return columns, None
    del columns["behaviour_prob"]
    return {**columns, "behaviour_id": table["week"]}, WEEKS


@contextmanager
def opened(columns: dict[str, np.ndarray], way: str, folder: Path) -> Iterator[object]:
    if way == "memory":
        yield dw.read({name: column.tolist() for name, column in columns.items()})
        return
    pq.write_table(pa.table(columns), folder / "log.parquet", row_group_size=200)
    with open_log(folder / "log.parquet", part_rows=200) as stream:
        yield stream


@pytest.mark.parametrize("way", ["memory", "stream"])
@pytest.mark.parametrize("form", ["names", "probabilities"])
def test_no_log_of_two_weeks_is_called_better(form: str, way: str, tmp_path: Path) -> None:
    held = 0
    for seed in range(20):
        columns, pi_b = as_form(two_weeks(seed=seed), form)
        with opened(columns, way, tmp_path) as log:
            ev = dw.evaluate(log, ALWAYS_1, pi_b, background=False)
        flag = "mixed-worlds" if form == "names" else "confounded-model"
        assert flag in ev.headline.flags
        assert (ev.verdict.answer, ev.verdict.sound) == ("cannot tell", False)
        assert flag in ev.verdict.doubts
        assert set(ev.headline.shares) <= {"WPDIS", "WIS"}, "weights alone are shown"
        low, high = ev.headline.interval
        held += low < 0.4 < high
    assert held >= 17, "each episode by its own probabilities: half of either week, .95 - 3 standard errors"


@pytest.mark.parametrize("form", ["names", "probabilities"])
def test_gates_stay_closed(form: str, tmp_path: Path) -> None:
    columns, pi_b = as_form(two_weeks(), form)
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    np.save(tmp_path / "new.npy", ALWAYS_1)
    command = ["evaluate", str(tmp_path / "log.parquet"), "--target", str(tmp_path / "new.npy")]
    for week, probs in (pi_b or {}).items():
        np.save(tmp_path / f"{week}.npy", probs)
    old = ",".join(f"{week}={tmp_path / f'{week}.npy'}" for week in pi_b or {})
    command += ["--behaviour", old] if old else []
    for gate in ("better", "worse", "not-worse"):
        found = CliRunner().invoke(app, [*command, "--gate", gate, "--json"])
        assert found.exit_code == 4
        assert json.loads(found.stdout)["gate"] == {"asked": gate, "open": False}


def test_the_same_weeks_are_left_alone() -> None:
    """No difference between the weeks: the verdict comes from all of both."""
    for form in ("names", "probabilities"):
        columns, pi_b = as_form(two_weeks(4000, better=0.0), form)
        ev = dw.evaluate(dw.read({name: c.tolist() for name, c in columns.items()}), ALWAYS_1, pi_b)
        assert {"mixed-worlds", "confounded-model"}.isdisjoint(ev.headline.flags)
        assert (ev.verdict.answer, ev.verdict.sound) == ("worse", True)


def test_one_world_keeps_the_balance_heuristic_and_two_do_not() -> None:
    for better, own in ((0.3, True), (0.0, False)):
        columns, _ = as_form(two_weeks(better=better), "names")
        log = dw.read({name: c.tolist() for name, c in columns.items()})
        question = ask(log, ALWAYS_1, WEEKS)
        probs = question.pair.behaviour.along(question.parts[0])
        expected = two_weeks(better=better)["behaviour_prob"] if own else dw.mixture_propensities(log, WEEKS)
        assert_allclose(probs, expected, rtol=1e-12)


@pytest.mark.parametrize("form", ["names", "probabilities"])
def test_nothing_is_learnt_and_nothing_recommended(form: str) -> None:
    columns, pi_b = as_form(two_weeks(2000), form)
    log = dw.read({name: c.tolist() for name, c in columns.items()})
    found = dw.improve(log, pi_b, evaluation=False)
    assert found.considered
    assert found.answer == "no change"
    assert dw.compare(log, {"always": ALWAYS_1, "never": [[1.0, 0.0]]}, pi_b).recommendation is None


# --- the check by itself ------------------------------------------------------------------------------------


def walks(n: int, seed: int, matters: float) -> tuple[dw.Trajectories, np.ndarray]:
    """Three steps over three states; severity, unseen, moves what the old policy does, and the rewards."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), (3, 2))
    states, severe = np.zeros((n, 3), dtype=int), rng.random(n) < 0.5
    actions, rewards, probs = np.zeros((n, 3), dtype=int), np.zeros((n, 3)), np.zeros((n, 3))
    state = rng.integers(0, 3, n)
    for t in range(3):
        chance = np.where(severe, 0.8, 0.3)
        action = (rng.random(n) < chance).astype(int)
        states[:, t], actions[:, t] = state, action
        probs[:, t] = np.where(action == 1, chance, 1 - chance)
        rewards[:, t] = state + action + matters * severe + rng.normal(size=n)
        state = (rng.random(n)[:, None] > P[state, action].cumsum(axis=1)).sum(axis=1)
    log = dw.Trajectories(
        states.ravel(),
        actions.ravel(),
        rewards.ravel(),
        np.arange(0, 3 * n + 1, 3),
        propensities=probs.ravel(),
    )
    return log, np.full((3, 2), 0.5)


def plain_loop(log: dw.Trajectories, question: object) -> float:
    """The formula, step by step, for each action; the clearest."""
    q, v = question.values.q.values, question.values.v.values
    logs, pairs = np.log(log.propensities), log.states * log.n_actions + log.actions
    both, squares, more, larger = np.zeros((4, log.n_episodes, log.n_actions))
    for i, (lo, hi) in enumerate(zip(log.offsets[:-1], log.offsets[1:], strict=True)):
        for t, row in enumerate(range(lo, hi)):
            alike, a = pairs == pairs[row], log.actions[row]
            after = v[t + 1][log.states[row + 1]] if row + 1 < hi else 0.0
            delta = log.rewards[row] + question.gamma * after - q[t, log.states[row], a]
            x = logs[row] - logs[alike].mean()
            both[i, a] += x * delta
            squares[i, a] += x * x
            more[i, a] += x * delta * alike.sum() / (alike.sum() - 1)
            larger[i, a] += x * x * alike.sum() / (alike.sum() - 1)
    tails = []
    for a in range(log.n_actions):
        slope = both[:, a].sum() / squares[:, a].sum()
        error = np.sqrt(np.square(more[:, a] - slope * larger[:, a]).sum()) / squares[:, a].sum()
        carried = squares[:, a].sum() ** 2 / np.square(larger[:, a]).sum()
        tails.append((log.n_actions * stats.t.sf(abs(slope) / error, carried - 1), np.sign(slope)))
    tail, sign = min(tails)
    return float(sign * stats.norm.isf(tail))


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_z_is_that_of_plain_loops(gamma: float) -> None:
    log, pi_e = walks(80, 0, 0.5)
    question = ask(log, pi_e, gamma=gamma)
    found = confounding_of(Answers(question, []))
    assert found is not None
    assert found.z == pytest.approx(plain_loop(log, question), rel=1e-9)


def test_it_is_found_where_it_matters_and_said_of_what_rests_on_the_model() -> None:
    log, pi_e = walks(2000, 1, 1.0)
    ev = dw.evaluate(log, pi_e)
    flagged = {name for name in ev if "confounded-model" in ev[name].flags}
    assert {"BLEND", "DM", "WDR"} <= flagged
    assert flagged.isdisjoint({"BEHAVIOUR", "WIS", "WPDIS"})
    assert not ev.verdict.sound


def test_what_does_not_vary_or_is_not_logged_is_no_ground() -> None:
    log, pi_e = walks(2000, 1, 1.0)
    table = np.array([[0.45, 0.55]] * 3)
    counted = dw.estimate_behaviour(log)
    steady = log.with_propensities(table[log.states, log.actions])
    for asked in (ask(log, pi_e, counted), ask(log, pi_e, table), ask(steady, pi_e)):
        assert confounding_of(Answers(asked, [])) is None


def test_words() -> None:
    assert Confounding(4.1).found
    assert not Confounding(-3.9).found
    assert "less followed than the model says (-8 standard errors)" in Confounding(-8.0).reason


def test_few_false_alarms() -> None:
    """A hidden severity that changes what was done, and nothing else: 200 logs, z beyond 3 in hardly any."""
    z = [confounding_of(Answers(ask(*walks(60, seed, 0.0)), [])).z for seed in range(200)]
    assert np.abs(z).max() < 3.5
    expected = 2 * stats.norm.sf(1.0)
    assert np.mean(np.abs(z) > 1.0) < expected + 3 * np.sqrt(expected * (1 - expected) / 200)
