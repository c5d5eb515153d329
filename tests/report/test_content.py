"""What the report shows is what the library says."""

from __future__ import annotations

import re

import numpy as np
import pytest
from evaluations import ODD, lift, many_states

import deadweight as dw
from deadweight.diagnostics import state_report, weights
from deadweight.diagnostics.background import Background
from deadweight.diagnostics.dropping import MOST_STATES
from deadweight.estimators.estimator import estimator_of
from deadweight.negligible.path import path_of
from deadweight.negligible.rules import MIN_VISITS
from deadweight.question.question import Question, ask
from deadweight.report import render
from deadweight.report.sections import in_families
from deadweight.results.evaluation import Evaluation


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return lift()


@pytest.fixture(scope="module")
def question() -> Question:
    """What the evaluation was asked."""
    problem = dw.domains.stochastic_lift(11)
    return ask(problem.sample(1_000, 0), problem.pi_e, problem.pi_b)


@pytest.fixture(scope="module")
def content(evaluation: Evaluation) -> Background:
    return evaluation.background


def test_families_stand_together_plain_first(evaluation: Evaluation) -> None:
    assert [[estimate.name for estimate in family] for family in in_families(evaluation)] == [
        ["BEHAVIOUR", "DM"],
        ["BLEND"],
        ["WIS", "WSIS"],
        ["WPDIS", "WSPDIS", "C-WSPDIS"],
        ["WDR", "WDRSIS"],
    ]


def test_the_chosen_level_is_the_estimate_of_the_path(evaluation: Evaluation, content: Background) -> None:
    assert content.path is not None
    chosen, shown = content.path.levels[content.path.chosen], evaluation["C-WSPDIS"]
    assert chosen.corrected == pytest.approx(shown.value, rel=1e-12)
    assert chosen.interval == pytest.approx(shown.interval, rel=1e-12)
    assert chosen.ess == pytest.approx(shown.ess, rel=1e-12)
    assert chosen.bias == pytest.approx(shown.bias, rel=1e-12)
    dropped = [label for label, entry in content.path.states if entry <= content.path.chosen]
    assert sorted(dropped) == sorted(str(label) for label in shown.dropped)


def test_levels_are_those_of_the_path(question: Question, content: Background) -> None:
    path = path_of(question, estimator_of("C-WSPDIS"), MIN_VISITS)
    assert content.path is not None
    assert [level.epsilon for level in content.path.levels] == path.epsilon.tolist()
    assert [level.n_dropped for level in content.path.levels] == path.n_dropped.tolist()
    assert content.path.levels[0].n_dropped == 0


def test_a_long_list_of_dropped_states_is_cut_and_still_counted() -> None:
    path = many_states().background.path
    assert path is not None
    assert len(path.states) == MOST_STATES
    assert path.levels[-1].n_dropped == 300
    assert [entry for _, entry in path.states] == sorted(entry for _, entry in path.states)


def test_weights_before_and_after(evaluation: Evaluation, question: Question, content: Background) -> None:
    before, after = content.weights.reports
    plain = weights(question.parts[0], question.pair.pi_e, question.pair.pi_b)
    assert before.to_dict() == plain.to_dict()
    assert after.ess == pytest.approx(evaluation["WDRSIS"].ess)
    assert [sum(counts) for counts in content.weights.counts] == [1_000, 1_000]
    assert before.n_episodes == 1_000


def test_states_are_those_of_the_state_report(question: Question, content: Background) -> None:
    log, dropped = question.parts[0], [int(label) for label, flag in _dropped(content) if flag]
    report = state_report(log, question.pair.pi_e, question.pair.pi_b, drop=dropped)
    assert content.states is not None
    assert content.states.rows() == [{**row, "state": str(row["state"])} for row in report.rows()]
    assert content.n_dropped == len(dropped) > 0


def _dropped(content: Background) -> list[tuple[str, bool]]:
    return [(row["state"], row["dropped"]) for row in content.states.rows()]


def test_a_long_list_of_states_is_cut_and_still_counted() -> None:
    n = 250
    log = dw.Trajectories(np.arange(2 * n) % n, np.arange(2 * n) // n, np.ones(2 * n), np.arange(2 * n + 1))
    pi_e = np.tile([0.2, 0.8], (n, 1))
    ev = dw.evaluate(log, pi_e, np.full((n, 2), 0.5), ["WSIS"], drop=list(range(n)))
    background = ev.background
    assert background.states is not None
    assert len(background.states) == background.states.dropped.sum() == 200
    assert background.data.visited_states == background.n_dropped == n
    assert "50 more are left out. 250 are dropped in all." in render(ev)


def test_without_a_drop_there_is_one_set_of_weights() -> None:
    assert len(ODD["behaviour alone"]().background.weights.reports) == 1


def test_the_data_card(question: Question, content: Background) -> None:
    log, card = question.parts[0], content.data
    returns = np.add.reduceat(log.rewards, log.offsets[:-1])
    assert (card.episodes, card.steps, card.visited_states) == (1_000, log.n_steps, 9)
    assert card.mean_return == pytest.approx(returns.mean())
    assert card.returns == pytest.approx(np.quantile(returns, [0, 0.25, 0.5, 0.75, 1]).tolist())
    assert card.truncated_share == 0.0


def test_truncated_episodes_are_counted() -> None:
    log = dw.Trajectories([0, 0], [0, 1], [1.0, 0.0], [0, 1, 2], terminated=[True, False])
    found = dw.evaluate(log, [[0.5, 0.5]], [[0.5, 0.5]], ["WIS"])
    assert found.background.data.truncated_share == 0.5


def test_conventions_name_every_choice(evaluation: Evaluation, content: Background) -> None:
    found = dict(content.conventions)
    assert found["Discount (gamma)"] == "1"
    assert found["Finished episodes"].startswith("absorb")
    assert found["Interval"].startswith("blend, 95 % confidence")
    assert found["States dropped"].startswith("none in BLEND; in C-WSPDIS automatic choice for C-WSPDIS")
    page = render(evaluation)
    assert f"<dt>deadweight</dt><dd>{dw.__version__}</dd>" in page
    assert re.search(r"<dt>Date</dt><dd>\d{4}-\d\d-\d\d</dd>", page)


def test_what_cannot_be_said_is_said_so() -> None:
    found = ODD["logged probabilities only"]().background
    assert found.path is None
    assert found.states is None
    assert "all actions" in found.without_states
    steps = ODD["single steps dropped"]().background
    assert steps.states is None
    assert "Single steps" in steps.without_states
