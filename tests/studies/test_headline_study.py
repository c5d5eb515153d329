"""The headline study: its cells, one run of each kind, its tables, and that it can be resumed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from deadweight_studies import headline as headline_study
from deadweight_studies.headline_tables import SINGLE, Line, headline_tables, lines, write_headline
from deadweight_studies.problems import STEPS, BinnedCartpole
from deadweight_studies.work import study

import deadweight as dw

CELL = "random 8 x 3, n = 200"
ONES = dict.fromkeys(("BLEND", "C-WSPDIS", "WDRSIS", "WPDIS", "LIN"), 1.0)
CALM = Line(
    cell="a",
    tuned=True,
    runs=3,
    coverage=ONES,
    width=ONES,
    error=1.0,
    best="DM",
    contradicted=0.0,
    infinite=0.0,
    right=0.9,
    wrong=0.0,
    null=0.0,
    before=ONES,
    noise=(1.0, 1.0),
    free=ONES,
    anchored=ONES,
    kind="well specified",
    lin=1.0,
    magic=1.0,
    apart=0.0,
)


def test_cells_say_what_is_hard_about_them_and_whether_the_rule_was_chosen_on_them() -> None:
    cells = headline_study.cells()
    old = list(cells.values())[:40]
    assert all(cell.tuned for cell in old)
    assert {cell.kind for cell in old} == {"well specified", "not Markov"}
    assert cells["river, n = 300"].kind == "well specified"
    assert cells["hidden 8 x 3, n = 300"].kind == cells["cartpole in 50 cells, n = 400"].kind == "not Markov"
    new = list(cells.values())[40:]
    assert [cell.tuned for cell in new] == sorted((cell.tuned for cell in new), reverse=True)
    assert cells["ModelFail, n = 512"] in new


def test_the_number_of_episodes_is_named_once() -> None:
    names = list(headline_study.cells())
    assert {"random 30 x 4, n = 60", "random 30 x 4, n = 500"} <= set(names)
    assert [name for name in names if name.count("n = ") != 1] == []


def test_a_run_and_its_line(tmp_path, monkeypatch) -> None:
    some = {CELL: headline_study.cells()[CELL]}
    monkeypatch.setattr(headline_study, "STUDY", replace(headline_study.STUDY, cells=lambda: some))
    ((name, (first, second)),) = headline_study.STUDY.make(tmp_path, 2, only=[CELL])
    assert name == CELL
    assert first == headline_study.run(CELL, 0)
    truth = headline_study.cells()[CELL].task.values[0]
    (line,) = lines(tmp_path)
    covered = [one["rows"]["BLEND"][1] <= truth <= one["rows"]["BLEND"][2] for one in (first, second)]
    assert line.coverage["BLEND"] == np.mean(covered)
    squares = np.mean([(one["rows"]["BLEND"][0] - truth) ** 2 for one in (first, second)])
    widths = np.mean([one["rows"]["BLEND"][2] - one["rows"]["BLEND"][1] for one in (first, second)])
    assert line.width["BLEND"] == pytest.approx(widths / (2 * 1.959963984540054 * np.sqrt(squares)))
    assert line.right + line.wrong <= 1.0
    direct = [one["rows"]["DM"][0] for one in (first, second)]
    errors = np.array([one["error"] for one in (first, second)]) / np.std(direct, ddof=1)
    assert line.noise == pytest.approx((errors.mean(), np.sqrt((errors**2).mean())))
    assert line.before["C-WSPDIS"] == np.mean(
        [one["before"]["C-WSPDIS"] == "right" for one in (first, second)]
    )
    assert CELL in write_headline(tmp_path)
    mix, gathered = first["rows"]["BLEND"][0], first["evidence"]
    shares = [first["shares"].get(name, 0.0) for name in gathered["names"]]
    assert np.dot(shares, gathered["values"]) == pytest.approx(mix)
    assert np.shape(gathered["covariance"]) == (len(shares), len(shares))
    assert {"n", "ess", "unseen_variance", "shared_bias", "lacking"} <= set(gathered)
    assert "influences" not in gathered
    off = [one["magic"] - truth for one in (first, second)]
    best = min(np.mean([(one["rows"][name][0] - truth) ** 2 for one in (first, second)]) for name in SINGLE)
    assert line.best not in SINGLE or line.magic == pytest.approx(np.mean(np.square(off)) / best)


@pytest.mark.parametrize(
    "name",
    [
        "interaction of features, n = 300",
        "severity seen by the old policy, n = 500",
        "two weeks, n = 2000",
        "ModelFail, n = 32",
    ],
)
def test_a_run_of_a_cell_without_a_table_or_a_known_old_policy_or_many_episodes(name) -> None:
    found = headline_study.run(name, 1)
    assert np.isfinite([row[0] for row in found["rows"].values()]).all()
    assert json.loads(json.dumps(found["evidence"])) == found["evidence"]
    assert found["null"] != "better"


def test_exceptions_are_counted_apart() -> None:
    off = {**ONES, "BLEND": 0.5}
    made = [CALM, replace(CALM, cell="b", coverage=off, tuned=False, wrong=0.5)]
    assert "| 1 of 2 (50.0%) | 1 of 1 (100.0%) | 0 of 1 (0.0%) |" in headline_tables(made)
    made[1] = replace(made[1], kind="exception")
    text = headline_tables(made)
    assert "| 1 of 1 (100.0%) | 1 of 1 (100.0%) | 0 of 0 |" in text
    assert "| coverage of exceptions | 0.500 (b) |  | 0.500 (b) |" in text
    assert "| wrong verdicts, exceptions apart | 0.0000 | 0.0000 |  |" in text
    made[1] = replace(made[1], kind="confounded")
    assert "| wrong verdicts in confounded cells | 0.500 (b) |  | 0.500 (b) |" in headline_tables(made)


def test_the_oldest_cells_are_found_by_name() -> None:
    made = [replace(CALM, cell=CELL, right=0.25), CALM]
    assert "| right verdicts in the 16 oldest cells | 0.250 | 0.250 |  |" in headline_tables(made)


def test_tables_have_means_below() -> None:
    drops, before = {"C-WSPDIS": 0.5, "WDRSIS": 2.0}, {"C-WSPDIS": 0.6, "WPDIS": 0.0}
    made = [
        replace(CALM, cell=name, error=error, null=null, before=before, noise=(0.5, 2.0), free=drops)
        for name, error, null in (("a", 1.0, 0.0), ("b", 4.0, 0.01))
    ]
    text = headline_tables(made)
    assert "| a | well specified | 3 |" in text
    assert "| MSE over best, well specified, geometric mean | 2.00 | 2.00 | nan |" in text
    assert "| MSE over best, all kinds, worst | 4.00 (b) | 4.00 (b) |  |" in text
    assert "| cells with a coverage of 0.93 or more | 2 of 2 (100.0%) | 2 of 2 (100.0%) | 0 of 0 |" in text
    assert '| "better" at pi_e = pi_b, most in a cell | 0.010 (b) |' in text
    assert "| right verdicts by C-WSPDIS | 0.600 (1.50 times as many by BLEND) |" in text
    assert "| right verdicts by WPDIS | 0.000 |" in text
    assert "| a | 1.000 | 1.000 | 1.000 | 1.000 | 1.00 | 0.50 | 2.00 |" in text
    assert "other cells" not in text


def test_widths_without_an_end_can_be_read_and_leave_the_mean_alone() -> None:
    wide = [{**ONES, "WDRSIS": width} for width in (4.0, 9.2e60, 1000.0, float("inf"))]
    made = [CALM, *(replace(CALM, cell=f"w{k}", width=width) for k, width in enumerate(wide))]
    text = headline_tables(made)
    assert "| w0 | 1.000 | 1.000 | 1.000 | 1.000 | 4.00 | 1.00 | 1.00 |" in text
    assert "| w1 | 1.000 | 1.000 | 1.000 | 1.000 | > 1,000 | 1.00 | 1.00 |" in text
    assert "| w2 | 1.000 | 1.000 | 1.000 | 1.000 | 1000.00 | 1.00 | 1.00 |" in text
    assert "| w3 | 1.000 | 1.000 | 1.000 | 1.000 | > 1,000 | 1.00 | 1.00 |" in text
    # The cube root of 1 x 4 x 1,000; the median is of all five.
    assert "| 15.87 (2 above 1,000 left out; median of all 1000.00) | 1.00 | 1.00 |" in text
    assert "| width, geometric mean | 1.00 |" in text


def test_a_verdict_is_right_if_it_says_which_policy_is_better() -> None:
    cell = headline_study.cells()["random 8 x 3, n = 800"].task
    table = dw.evaluate(cell.sample(1), cell.pi_e, cell.pi_b, ["BEHAVIOUR", "BLEND"], background=False)
    assert headline_study.judged(table.verdict.answer, cell.values) == "right"
    assert headline_study.judged(table.verdict.answer, cell.values[::-1]) == "wrong"
    assert headline_study.judged("cannot tell", cell.values) == "cannot tell"


def test_a_pole_on_a_cart() -> None:
    task = BinnedCartpole(episodes=60)
    log = task.sample(3)
    assert log.n_episodes == 60
    assert log.lengths.max() <= STEPS
    assert log.time_limit == STEPS
    np.testing.assert_allclose(log.propensities, task.pi_b.probs[log.states, log.actions])
    again = task.sample(3)
    np.testing.assert_array_equal(log.states, again.states)
    # An episode that ends earlier ended by itself, and earned one for every step.
    np.testing.assert_array_equal(np.add.reduceat(log.rewards, log.offsets[:-1]), log.lengths)


def test_the_command_makes_the_cells_that_are_named(tmp_path, monkeypatch, capsys) -> None:
    some = {name: headline_study.cells()[name] for name in ("graph, n = 128", CELL)}
    monkeypatch.setattr(headline_study, "STUDY", replace(headline_study.STUDY, cells=lambda: some))
    study("headline", 2, 1, tmp_path, ["graph, n = 128"])
    assert "| graph, n = 128 | well specified | 2 |" in capsys.readouterr().out
    assert len(list(tmp_path.rglob("*.jsonl"))) == 1
    with pytest.raises(dw.errors.OptionError, match=f"no cell 'random 8 x 3'.*{CELL}"):
        study("headline", 2, 1, tmp_path, ["random 8 x 3"])
    with pytest.raises(dw.errors.OptionError, match="cells of headline"):
        study("cuts", 2, 1, tmp_path, [CELL])
