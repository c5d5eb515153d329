"""The report on a log with features: the drop in words, gaps by feature, calibration; saved and loaded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from deadweight_studies.problems import in_cells, irrelevant

import deadweight as dw
from deadweight.question.asked import Options
from deadweight.question.question import ask
from deadweight.report.charts import calibration_chart
from deadweight.report.sections import features_section

LIFT = dw.domains.continuous_lift()


@pytest.fixture(scope="module")
def found():
    return dw.evaluate(LIFT.sample(250, seed=0), LIFT.pi_e, LIFT.pi_b, ["BEHAVIOUR", "WPDIS", "C-WSPDIS"])


def test_shares_and_words_by_plain_loops(found):
    features, log = found.background.features, LIFT.sample(250, seed=0)
    path = dw.epsilon_path("C-WSPDIS", log, LIFT.pi_e, LIFT.pi_b, min_visits=3)
    assert features.dropped == pytest.approx(found["C-WSPDIS"].dropped_share)
    assert 0.3 < features.dropped < 0.9, "the lift carries most of the time"
    assert path.n_dropped[path.chosen] == round(features.dropped * log.n_steps)
    assert features.words
    assert all("position" in clause for clause in features.words)
    assert features.accuracy > 0.8
    name, explained, pieces = features.gaps[0]
    assert name == "position"
    assert 0 < explained <= 1
    assert sum(piece.steps for piece in pieces) == log.n_steps
    near = max(pieces, key=lambda piece: piece.gap)
    assert near.low < 1.2
    assert near.high > -1.2, "the action matters around the start"


def test_partial_dependence_by_a_plain_loop(found):
    log = LIFT.sample(250, seed=0)
    question = ask(log, LIFT.pi_e, LIFT.pi_b)
    some = range(0, log.n_steps, log.n_steps // 500)
    times = np.concatenate([np.arange(k) for k in log.lengths])
    for piece in found.background.features.gaps[0][2]:
        x = log.features[:, 0]
        middle = np.median(x[(x >= piece.low) & (x <= piece.high)])
        gaps = [np.ptp(question.row_values.q_of(np.array([[middle]]), times[[row]])) for row in some]
        assert piece.alone == pytest.approx(np.mean(gaps), rel=1e-10)


def test_the_model_asked_about_the_log_itself_gives_its_values():
    log = LIFT.sample(50, seed=1)
    question = ask(log, LIFT.pi_e, LIFT.pi_b, options=Options(cross_fit=0))
    times = np.concatenate([np.arange(k) for k in log.lengths])
    again = question.row_values.q_of(log.features, times)
    np.testing.assert_allclose(again, question.row_values.q[question.parts[0].states], rtol=1e-10)


def test_without_a_model_to_ask_the_column_is_missing(found):
    log = LIFT.sample(100, seed=0)
    given = dw.GivenQ(np.random.default_rng(0).normal(size=(log.n_steps, 2)))
    made = dw.evaluate(log, LIFT.pi_e, LIFT.pi_b, ["BEHAVIOUR", "WPDIS", "C-WSPDIS"], model=given)
    assert made.background.features.gaps[0][2][0].alone is None
    assert "partial dependence" not in str(features_section(made.background.features))
    assert "partial dependence" in str(features_section(found.background.features))


@pytest.mark.parametrize("made", [in_cells, irrelevant])
def test_a_model_of_other_columns_is_not_asked_about_features(made):
    """Fifty cells in place of one feature, and one that means nothing in place of it: as many columns."""
    log = LIFT.sample(100, seed=0)
    learned = dw.evaluate(log, LIFT.pi_e, LIFT.pi_b, ["BEHAVIOUR", "WPDIS", "C-WSPDIS"], model=made(log, 0))
    assert [piece.alone for piece in learned.background.features.gaps[0][2]] == [None] * 8


@pytest.mark.parametrize("seed", [0, 1])
def test_with_one_episode_no_piece_is_without_a_step(seed, tmp_path):
    log = LIFT.sample(1, seed=seed)
    found = dw.evaluate(log, LIFT.pi_e, LIFT.pi_b)  # a warning of numpy would fail the test
    pieces = found.background.features.gaps[0][2]
    assert sum(piece.steps for piece in pieces) == log.n_steps
    assert min(piece.steps for piece in pieces) >= 1
    assert np.isfinite([piece.alone for piece in pieces]).all()
    assert found.report(tmp_path / "report.html").exists()


def test_calibration_of_the_true_policy(found):
    features = found.background.features
    assert abs(features.z) < 3
    assert {one[0] for one in features.calibration} == {"left", "right"}
    z = [(seen - p) / error for _, _, p, seen, error in features.calibration]
    assert np.abs(z).max() < 4


def test_the_page_has_it_and_it_is_saved(found, tmp_path):
    page = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Dropped by the automatic rule" in page
    assert "Are the probabilities of the old policy right?" in page
    assert "calibration-title" in page
    found.save(tmp_path / "ev.json")
    again = dw.load(tmp_path / "ev.json")
    assert again.background.features == found.background.features


def test_the_sentence(found):
    features = found.background.features
    said = replace(features, words=["lactate below 2"], dropped=0.61, advantage=0.03, accuracy=0.97)
    assert str(said) == (
        "Dropped by the automatic rule: steps with lactate below 2. That is 61% of the steps, 3% of the "
        "advantage. These words are right for 97% of the steps."
    )
    assert "rough" in str(replace(said, accuracy=0.8))
    assert "no step" in str(replace(said, dropped=0.0))
    assert "every step" in str(replace(said, dropped=1.0))
    assert "wrong" in str(features_section(replace(said, z=-7.0)))


def test_the_picture_says_what_is_off():
    chart = str(calibration_chart([("a", 100, 0.5, 0.5, 0.05), ("a", 100, 0.2, 0.6, 0.04)]))
    assert "In 1 of them" in chart
