"""Doubts reach the verdict: what stands on a headline stands in its reasons, and keeps gates closed."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deadweight_studies.problems import random_problem
from typer.testing import CliRunner

import deadweight as dw
from deadweight.cli.app import app
from deadweight.io.open import open_log
from deadweight.results.estimate import FIRST, FLAGS, GRAVE, OF_MIXES, advice, remark
from deadweight.verbs.verdict import verdict

ENOUGH = "No more episodes are needed"
WEEKS = {1: [[0.9, 0.1]], 2: [[0.1, 0.9]]}
ALWAYS_1 = [[0.0, 1.0]]


def two_weeks(n: int = 600, seed: int = 0) -> dw.Trajectories:
    """Action 1 pays .05 less in both weeks; week 2 pays .3 more for all, and plays it nine times in ten."""
    rng = np.random.default_rng(seed)
    week = np.repeat([1, 2], n // 2)
    treated = rng.random(n) < np.where(week == 1, 0.1, 0.9)
    rewards = rng.normal(np.where(week == 1, 0.3, 0.6) - 0.05 * treated, 0.2)
    return dw.Trajectories(
        np.zeros(n, dtype=int),
        treated.astype(int),
        rewards,
        np.arange(n + 1),
        propensities=np.where(treated == (week == 2), 0.9, 0.1),
        behaviour_ids=week,
    )


def wrong_probabilities(n: int = 1000, seed: int = 1) -> dw.Trajectories:
    """Actions are drawn with one half; the log says .25 and .75."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 2, 3 * n)
    return dw.Trajectories(
        rng.integers(0, 3, 3 * n),
        actions,
        0.5 * actions + 0.3 * rng.normal(size=3 * n),
        np.arange(0, 3 * n + 1, 3),
        propensities=np.where(actions == 1, 0.25, 0.75),
    )


def unstable() -> tuple[dw.Trajectories, dw.RowPolicy]:
    """Few rows for many columns, and successors far away: the model has to be held back."""
    rng = np.random.default_rng(1)
    n, length = 40, 20
    x = np.cumsum(rng.normal(size=(n, length, 3)), axis=1).reshape(-1, 3)
    actions = rng.integers(0, 2, n * length)
    log = dw.Trajectories(
        None,
        actions,
        0.3 * x[:, 0] + 0.2 * actions + 0.1 * rng.normal(size=n * length),
        np.arange(0, n * length + 1, length),
        features=x,
        time_limit=length,
        propensities=np.full(n * length, 0.5),
    )
    return log, dw.RowPolicy(np.tile([0.6, 0.4], (n * length, 1)))


def as_table(log: dw.Trajectories) -> dict[str, list[object]]:
    assert log.propensities is not None
    episode = np.repeat(np.arange(log.n_episodes), log.lengths)
    columns: dict[str, list[object]] = {
        "episode": episode.tolist(),
        "step": (np.arange(log.n_steps) - log.offsets[episode]).tolist(),
        "state": log.states.tolist(),
        "action": log.actions.tolist(),
        "reward": log.rewards.tolist(),
        "behaviour_prob": log.propensities.tolist(),
        "terminated": [True] * log.n_steps,
    }
    if log.behaviour_ids is not None:
        columns["behaviour_id"] = log.behaviour_ids[episode].tolist()
    return columns


def write(path: Path, columns: dict[str, list[object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def policy_file(path: Path, probs: list[list[float]]) -> Path:
    np.save(path, np.array(probs))
    return path


# --- old policies under different conditions ---------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_old_policies_under_different_conditions_have_no_verdict(seed: int) -> None:
    """The new policy loses .05 in every week, and a model of both weeks says that it gains .1."""
    log = two_weeks(seed=seed)
    ev = dw.evaluate(log, ALWAYS_1, WEEKS)
    assert ev["DM"].value > 0.45
    assert ev.headline.value < 0.45, "by their own probabilities, without the model"
    assert ev.verdict.answer == "cannot tell"
    assert not ev.verdict.sound
    assert "mixed-worlds" in ev.headline.flags
    assert ev.verdict.reasons[-1] == FLAGS["mixed-worlds"]
    assert verdict(ev["WPDIS"], ev["BEHAVIOUR"]).answer == "cannot tell"
    assert verdict(ev["WPDIS"], 0.0).answer == "cannot tell"
    assert "mixed-worlds" not in ev["BEHAVIOUR"].flags


def test_it_is_said_of_logged_probabilities_as_well() -> None:
    assert "mixed-worlds" in dw.evaluate(two_weeks(), ALWAYS_1).headline.flags
    assert "mixed-worlds" in dw.estimate("WIS", two_weeks(), ALWAYS_1).flags
    assert "mixed-worlds" not in dw.estimate("WIS", two_weeks(), ALWAYS_1, interval=None).flags


def test_one_world_keeps_its_verdict() -> None:
    """The same old policies in the same week."""
    log = two_weeks(2000)
    level = np.where(log.behaviour_ids == 2, 0.3, 0.0)
    same = dw.Trajectories(
        log.states, log.actions, log.rewards - level, log.offsets, behaviour_ids=log.behaviour_ids
    )
    ev = dw.evaluate(same, ALWAYS_1, WEEKS)
    assert "mixed-worlds" not in ev.headline.flags
    assert (ev.verdict.answer, ev.verdict.sound, ev.verdict.doubts) == ("worse", True, ())


def test_a_comparison_recommends_nothing_across_conditions() -> None:
    found = dw.compare(two_weeks(), {"always": ALWAYS_1, "never": [[1.0, 0.0]]}, WEEKS)
    assert found.recommendation is None
    assert found.better == found.worse == []
    assert any(FLAGS["mixed-worlds"] in reason for reason in found.reasons)


def test_nothing_is_learnt_across_conditions() -> None:
    log = two_weeks(2000)
    for pi_b in (WEEKS, None):
        found = dw.improve(log, pi_b, evaluation=False)
        assert found.considered, "there must be something to refuse"
        assert found.answer == "no change"
        assert FLAGS["mixed-worlds"] in found.reasons
    alone = log.select(log.behaviour_ids == 2)
    assert FLAGS["mixed-worlds"] not in dw.improve(alone, evaluation=False).reasons


def test_the_command_line_and_the_page_withhold_it_too(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", as_table(two_weeks()))
    target, page = policy_file(tmp_path / "new.npy", ALWAYS_1), tmp_path / "page.html"
    old = ",".join(f"{week}={policy_file(tmp_path / f'{week}.npy', p)}" for week, p in WEEKS.items())
    command = ["evaluate", str(log), "--target", str(target), "--behaviour", old, "--report", str(page)]
    for gate in ("better", "worse", "not-worse"):
        found = CliRunner().invoke(app, [*command, "--gate", gate, "--json"])
        document = json.loads(found.stdout)
        assert (found.exit_code, document["verdict"]["answer"]) == (4, "cannot tell")
        assert document["verdict"]["sound"] is False
        assert document["gate"] == {"asked": gate, "open": False}
    assert CliRunner().invoke(app, [*command, "--gate", "cannot tell"]).exit_code == 0
    assert re.search("worked under different\\s+conditions", page.read_text(encoding="utf-8"))


def test_a_stream_says_what_memory_says(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    pq.write_table(pa.table(as_table(two_weeks())), folder / "all.parquet", row_group_size=100)
    with open_log(folder, part_rows=100) as stream:
        assert len(stream) > 1
        ev = dw.evaluate(stream, ALWAYS_1, WEEKS)
    assert "mixed-worlds" in ev.headline.flags
    assert ev.verdict.answer == "cannot tell"


# --- every flag of a headline ------------------------------------------------------------------------------


def test_every_flag_but_one_casts_doubt() -> None:
    assert set(FLAGS) - set(FIRST) == {"none-dropped"}
    assert set(GRAVE) <= set(FIRST)
    assert list(FIRST)[: len(GRAVE)] == list(GRAVE)


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("name", ["BLEND", "WPDIS", "C-WSPDIS", "DM"])
def test_a_flag_of_the_headline_is_a_reason(flag: str, name: str) -> None:
    rng = np.random.default_rng(0)
    n = 2000
    actions = rng.integers(2, size=n)
    log = dw.Trajectories(np.zeros(n, int), actions, actions + rng.normal(size=n), np.arange(n + 1))
    ev = dw.evaluate(log, [[0.2, 0.8]], [[0.5, 0.5]], ["BEHAVIOUR", name], drop=[])
    plain = verdict(ev[name].with_changes(flags=()), ev["BEHAVIOUR"])
    assert plain.answer == "better"
    assert plain.next_step is not None
    assert plain.next_step.startswith(ENOUGH)
    estimate = ev[name].with_changes(flags=(flag,))
    found = verdict(estimate, ev["BEHAVIOUR"])
    explained = flag == "contradicted" and name == "BLEND"
    assert explained or remark(flag, estimate.about) in found.reasons
    assert any(ENOUGH in said for said in found.sentences) is (flag == "none-dropped")
    assert (flag in found.doubts) is (flag in GRAVE)
    assert len(set(found.reasons)) == len(found.reasons)


@pytest.mark.parametrize("seed", range(60))
def test_no_flag_of_a_random_headline_is_left_out(seed: int) -> None:
    """Short logs with odd policies, cuts, several old policies: whatever is flagged is said."""
    rng = np.random.default_rng(seed)
    states, actions, n, length = 3, 2, int(rng.integers(2, 60)), int(rng.integers(1, 6))
    rows = n * length
    pi_b = rng.dirichlet(np.full(actions, rng.choice([0.3, 3.0])), states)
    pi_e = rng.dirichlet(np.full(actions, rng.choice([0.2, 3.0])), states)
    s = rng.integers(0, states, rows)
    a = (rng.random(rows) < pi_b[s, 1]).astype(int)
    log = dw.Trajectories(
        s,
        a,
        rng.normal(size=rows) * (np.arange(rows) % length == length - 1 if seed % 3 == 0 else 1.0),
        np.arange(0, rows + 1, length),
        terminated=rng.random(n) < 0.7 if seed % 4 == 0 else None,
        propensities=np.clip(pi_b[s, a] * rng.choice([1.0, 0.5]), 1e-3, 1.0),
        behaviour_ids=rng.integers(0, 2, n) if seed % 5 == 0 else None,
    )
    ev = dw.evaluate(log, pi_e, estimators=None if seed % 2 else ["BEHAVIOUR", "WSPDIS"])
    headline, found = ev.headline, ev.verdict
    for flag in headline.flags:
        if flag == "contradicted" and headline.blend is not None:
            assert any("differs from it by more than noise explains" in said for said in found.reasons)
        else:
            assert remark(flag, headline.about) in found.reasons
    if set(headline.flags) - {"none-dropped"}:
        assert not any(ENOUGH in said for said in found.sentences)


# --- wrong probabilities, models that do not hold -----------------------------------------------------------


def test_weights_that_do_not_average_1_close_the_gate(tmp_path: Path) -> None:
    log, pi_e = wrong_probabilities(), np.tile([0.4, 0.6], (3, 1)).tolist()
    ev = dw.evaluate(log, pi_e)
    assert ev.verdict.answer == "better"
    assert "mean-weight" in ev.verdict.doubts
    assert ev.verdict.next_step is not None
    assert ev.verdict.next_step.startswith(
        "Before you act on this: check that the old policy's probabilities"
    )
    table = write(tmp_path / "log.csv", as_table(log))
    target = policy_file(tmp_path / "new.npy", pi_e)
    found = CliRunner().invoke(app, ["evaluate", str(table), "--target", str(target), "--gate", "better"])
    assert found.exit_code == 1
    last = "Gate better: closed, because of mean-weight, behaviour-miscalibrated, model-misfit, exit code 1."
    assert found.stdout.splitlines()[-1] == last
    page = ["--gate", "better", "--report", str(tmp_path / "page.html")]
    found = CliRunner().invoke(app, ["evaluate", str(table), "--target", str(target), *page])
    assert found.stdout.splitlines()[-1] == last, "also where a report is written"
    both = CliRunner().invoke(
        app,
        ["compare", str(table), "--target", f"new={target}", "--target", f"copy={target}", "--gate", "new"],
    )
    assert both.exit_code == 1
    assert "Gate new: closed, because of mean-weight" in both.stdout
    assert OF_MIXES["mean-weight"].split(":")[0] in " ".join(both.stdout.split())


def test_a_grave_doubt_comes_before_more_episodes() -> None:
    """Also where the log cannot tell: more episodes with wrong probabilities would settle nothing."""
    problem = random_problem(6, 3, 8, seed=9)
    log, table = problem.sample(150, seed=4), problem.pi_b.probs.copy()
    table[:, 1] *= 2
    wrong = table / table.sum(axis=1, keepdims=True)
    ev = dw.evaluate(log, problem.pi_b, wrong, background=False)
    assert ev.verdict.answer == "cannot tell"
    assert "behaviour-miscalibrated" in ev.verdict.doubts
    assert ev.verdict.next_step == advice("behaviour-miscalibrated")


def test_the_page_leads_with_the_doubt(tmp_path: Path) -> None:
    ev = dw.evaluate(wrong_probabilities(), np.tile([0.4, 0.6], (3, 1)))
    page = ev.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "but there is a grave doubt about them." in page
    assert "if the doubt below turns out to be groundless." in page
    assert "so the new policy is better" not in page


def test_a_model_that_ran_away_is_said_of_the_blend() -> None:
    log, pi_e = unstable()
    ev = dw.evaluate(log, pi_e, model=dw.LinearQ(size=60, ridge=1e-9))
    shares = ev.headline.shares
    assert shares is not None
    assert sum(share for name, share in shares.items() if name not in ("WPDIS", "WIS")) >= 0.5
    assert "model-unstable" in ev.headline.flags
    assert OF_MIXES["model-unstable"] in ev.verdict.reasons
    assert "model-unstable" in ev.verdict.doubts


def test_a_remark_names_no_estimate_that_has_no_share() -> None:
    ev = dw.evaluate(wrong_probabilities(), np.tile([0.4, 0.6], (3, 1)))
    shares = ev.headline.shares
    assert shares is not None
    assert "WDR" not in shares
    assert "WDR" not in ev.headline.explain()
    assert not any(name in said for name in ("WDR", "WPDIS", "WIS") for said in OF_MIXES.values())


def test_saved_and_loaded_verdicts_keep_their_doubts(tmp_path: Path) -> None:
    ev = dw.evaluate(two_weeks(), ALWAYS_1, WEEKS)
    ev.save(tmp_path / "ev.json")
    again = dw.load(tmp_path / "ev.json")
    assert again.verdict == ev.verdict
    assert again.to_dict()["verdict"]["doubts"] == ["mixed-worlds", "confounded-model"]
