"""The headline study: its cells, one run of each kind, its tables, and that it can be resumed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import deadweight as dw
from deadweight.studies import headline_study
from deadweight.studies.cartpole import STEPS, BinnedCartpole
from deadweight.studies.headline_tables import Line, headline_tables, lines, write_headline
from deadweight.studies.runs import first_runs

CELL = "random 8 x 3, n = 200"


def test_cells_say_what_is_hard_about_them_and_whether_the_rule_was_chosen_on_them() -> None:
    cells = headline_study.headline_cells()
    old = list(cells.values())[:40]
    assert [cell.tuned for cell in old] == [True] * 30 + [False] * 10
    assert {cell.kind for cell in old} == {"well specified", "not Markov"}
    assert cells["river, n = 300"].kind == "well specified"
    assert cells["hidden 8 x 3, n = 300"].kind == cells["cartpole in 50 cells, n = 400"].kind == "not Markov"
    new = list(cells.values())[40:]
    assert [cell.tuned for cell in new] == sorted((cell.tuned for cell in new), reverse=True)
    assert cells["ModelFail, n = 512"] in new


def test_the_number_of_episodes_is_named_once() -> None:
    names = list(headline_study.headline_cells())
    assert {"random 30 x 4, n = 60", "random 30 x 4, n = 500"} <= set(names)
    assert [name for name in names if name.count("n = ") != 1] == []


def test_a_run_and_its_line(tmp_path) -> None:
    assert list(headline_study.study(tmp_path, 2, only=[CELL])) == [CELL]
    kept = headline_study.stores(tmp_path)[CELL]
    first, second = first_runs(kept, None)
    assert first == headline_study.run(CELL, 0)
    truth = headline_study.headline_cells()[CELL].task.values[0]
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


def test_tables_have_means_below() -> None:
    ones = dict.fromkeys(("BLEND", "C-WSPDIS", "WDRSIS", "WPDIS"), 1.0)
    drops, before = {"C-WSPDIS": 0.5, "WDRSIS": 2.0}, {"C-WSPDIS": 0.6, "WPDIS": 0.0}
    made = [
        Line(
            name, True, 3, ones, ones, error, "DM", 0.0, 0.0, 0.9, 0.0, null, before, (0.5, 2.0), drops, drops
        )
        for name, error, null in (("a", 1.0, 0.0), ("b", 4.0, 0.01))
    ]
    text = headline_tables(made)
    assert "| a | 3 |" in text
    assert "| MSE over best, geometric mean | 2.00 |" in text
    assert "| MSE over best, worst | 4.00 |" in text
    assert "| cells with a coverage of 0.93 or more | 2 of 2 |" in text
    assert '| "better" at pi_e = pi_b, most in a cell | 0.010 |' in text
    assert "| right verdicts by C-WSPDIS | 0.600 (1.50 times as many by BLEND) |" in text
    assert "| right verdicts by WPDIS | 0.000 |" in text
    assert "| a | 1.000 | 1.000 | 1.000 | 1.00 | 0.50 | 2.00 |" in text
    assert "other cells" not in text


def test_widths_without_an_end_can_be_read_and_leave_the_mean_alone() -> None:
    ones = dict.fromkeys(("BLEND", "C-WSPDIS", "WDRSIS", "WPDIS"), 1.0)
    calm = Line("a", True, 3, ones, ones, 1.0, "DM", 0.0, 0.0, 0.9, 0.0, 0.0, ones, (1.0, 1.0), ones, ones)
    wide = [{**ones, "WDRSIS": width} for width in (4.0, 9.2e60, 1000.0, float("inf"))]
    made = [calm, *(replace(calm, cell=f"w{k}", width=width) for k, width in enumerate(wide))]
    text = headline_tables(made)
    assert "| w0 | 1.000 | 1.000 | 1.000 | 4.00 | 1.00 | 1.00 |" in text
    assert "| w1 | 1.000 | 1.000 | 1.000 | > 1,000 | 1.00 | 1.00 |" in text
    assert "| w2 | 1.000 | 1.000 | 1.000 | 1000.00 | 1.00 | 1.00 |" in text
    assert "| w3 | 1.000 | 1.000 | 1.000 | > 1,000 | 1.00 | 1.00 |" in text
    # The cube root of 1 x 4 x 1,000; the median is of all five.
    assert "| 15.87 (2 above 1,000 left out; median of all 1000.00) | 1.00 | 1.00 |" in text
    assert "| width, geometric mean | 1.00 |" in text


def test_a_verdict_is_right_if_it_says_which_policy_is_better() -> None:
    cell = headline_study.headline_cells()["random 8 x 3, n = 800"].task
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
