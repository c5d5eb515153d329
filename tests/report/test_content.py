"""What the report shows is what the library says."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pytest
from evaluations import ODD, lift, many_states

import deadweight as dw
from deadweight.diagnostics import weights
from deadweight.diagnostics.headline_path import MOST_STATES
from deadweight.estimators.estimator import estimator_of
from deadweight.negligible.path import path_of
from deadweight.negligible.rules import MIN_VISITS
from deadweight.question.question import Question, ask
from deadweight.report import Content, gather
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
def content(evaluation: Evaluation) -> Content:
    return gather(evaluation, today=date(2024, 6, 25))


def test_every_estimate_has_its_row(evaluation: Evaluation, content: Content) -> None:
    rows = {row.name: row for row in content.estimates}
    assert set(rows) == set(evaluation)
    for name, row in rows.items():
        estimate = evaluation[name]
        assert (row.value, row.ess, row.flags) == (estimate.value, estimate.ess, estimate.flags)
        assert (row.lower, row.upper) == estimate.interval


def test_families_stand_together_plain_first(content: Content) -> None:
    names = [row.name for row in content.estimates]
    assert names == [
        *("BEHAVIOUR", "DM", "BLEND", "WIS", "WSIS", "WPDIS", "WSPDIS", "C-WSPDIS", "WDR", "WDRSIS")
    ]


def test_the_chosen_level_is_the_estimate_of_the_path(evaluation: Evaluation, content: Content) -> None:
    assert content.path is not None
    chosen, shown = content.path.levels[content.path.chosen], evaluation["C-WSPDIS"]
    assert chosen.corrected == pytest.approx(shown.value, rel=1e-12)
    assert chosen.interval == pytest.approx(shown.interval, rel=1e-12)
    assert chosen.ess == pytest.approx(shown.ess, rel=1e-12)
    assert chosen.bias == pytest.approx(shown.bias, rel=1e-12)
    dropped = [label for label, entry in content.path.states if entry <= content.path.chosen]
    assert sorted(dropped) == sorted(str(label) for label in shown.dropped)


def test_levels_are_those_of_the_path(question: Question, content: Content) -> None:
    path = path_of(question, estimator_of("C-WSPDIS"), MIN_VISITS)
    assert content.path is not None
    assert [level.epsilon for level in content.path.levels] == path.epsilon.tolist()
    assert [level.n_dropped for level in content.path.levels] == path.n_dropped.tolist()
    assert content.path.levels[0].n_dropped == 0


def test_a_long_list_of_dropped_states_is_cut_and_still_counted() -> None:
    path = gather(many_states()).path
    assert path is not None
    assert len(path.states) == MOST_STATES
    assert path.levels[-1].n_dropped == 300
    assert [entry for _, entry in path.states] == sorted(entry for _, entry in path.states)


def test_weights_before_and_after(evaluation: Evaluation, question: Question, content: Content) -> None:
    found = content.weights
    plain = weights(question.parts[0], question.pair.pi_e, question.pair.pi_b)
    assert found.before.ess == plain.ess
    assert found.before.ess_steps == plain.ess_steps.tolist()
    assert found.after is not None
    assert found.after.ess == pytest.approx(evaluation["WDRSIS"].ess)
    assert sum(found.before.counts) == sum(found.after.counts) == found.n_episodes == 1_000


def test_without_a_drop_there_is_one_set_of_weights() -> None:
    assert gather(ODD["behaviour alone"]()).weights.after is None


def test_the_data_card(question: Question, content: Content) -> None:
    log, card = question.parts[0], content.data
    returns = np.add.reduceat(log.rewards, log.offsets[:-1])
    assert (card.episodes, card.steps, card.visited_states) == (1_000, log.n_steps, 9)
    assert card.mean_return == pytest.approx(returns.mean())
    assert card.returns == pytest.approx(np.quantile(returns, [0, 0.25, 0.5, 0.75, 1]).tolist())
    assert card.truncated_share == 0.0


def test_truncated_episodes_are_counted() -> None:
    log = dw.Trajectories([0, 0], [0, 1], [1.0, 0.0], [0, 1, 2], terminated=[True, False])
    found = gather(dw.evaluate(log, [[0.5, 0.5]], [[0.5, 0.5]], ["WIS"]))
    assert found.data.truncated_share == 0.5


def test_conventions_name_every_choice(content: Content) -> None:
    found = dict(content.conventions)
    assert found["Discount (gamma)"] == "1"
    assert found["Finished episodes"].startswith("absorb")
    assert found["Interval"].startswith("blend, 95 % confidence")
    assert found["States dropped"].startswith("none in BLEND; in C-WSPDIS automatic choice for C-WSPDIS")
    assert (found["deadweight"], found["Date"]) == (dw.__version__, "2024-06-25")


def test_what_cannot_be_said_is_said_so() -> None:
    found = gather(ODD["logged probabilities only"]())
    assert found.path is None
    assert found.states is None
    assert "all actions" in found.without_states
    steps = gather(ODD["single steps dropped"]())
    assert steps.states is None
    assert "Single steps" in steps.without_states


def test_content_is_plain_values(content: Content) -> None:
    json.dumps(content.to_dict())
