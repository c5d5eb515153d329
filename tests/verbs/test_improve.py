"""The public verb: its answer, its data, and what it refuses."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - results must survive it; nothing is kept in it
from pathlib import Path

import numpy as np
import pytest
from deadweight_studies.ends import table_without_flags
from deadweight_studies.real_kinds import toxic_dose
from verbs.small import PI_B, bandit, log

import deadweight as dw
from deadweight.errors import EstimationError, OptionError
from deadweight.io.stream import open_stream
from deadweight.verbs.improve import MEANING, STATE

HALF = [[0.5, 0.5]]


@pytest.fixture(scope="module")
def lift() -> dw.domains.Problem:
    return dw.domains.stochastic_lift(7)


@pytest.fixture(scope="module")
def improved(lift: dw.domains.Problem) -> dw.Improvement:
    return dw.improve(lift.sample(400, seed=1), lift.pi_b)


def test_a_better_policy_is_found(lift: dw.domains.Problem, improved: dw.Improvement) -> None:
    assert improved.answer == "improved"
    old, new = (dw.policy_value(lift.mdp, pi) for pi in (lift.pi_b, improved.policy))
    assert new > old + 4
    assert improved.interval[0] > 0
    assert improved.interval[0] < improved.gain < improved.interval[1]
    assert MEANING["halves"] in improved.reasons
    assert improved.interval_about == "the policy that is shipped"
    assert improved.interval[0] < new - old < improved.interval[1]
    assert any("The policy itself is expected to gain" in reason for reason in improved.reasons)
    for change in improved.changes:
        assert change.visits >= 10
        assert change.gain > 2 * change.std_error
        assert change.old == {0: 0.5, 1: 0.5}
        assert improved.policy.probs[change.state, change.new] == 1.0
    changed = {change.state for change in improved.changes}
    for state in set(range(5)) - changed:
        np.testing.assert_array_equal(improved.policy.probs[state], lift.pi_b.probs[state])
    # The gain is what the changes are worth under the old policy's visits and the new one's values.
    assert [c["state"] for c in improved.changes] == list(improved.to_frame()["state"])
    assert list(improved.to_frame().columns) == ["state", "old", "new", "gain", "std_error", "visits"]


def test_same_seed_same_bits_another_seed_other_halves(lift: dw.domains.Problem) -> None:
    found = lift.sample(200, seed=3)
    one, two, other = (dw.improve(found, lift.pi_b, seed=s, evaluation=False) for s in (5, 5, 6))
    assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())
    np.testing.assert_array_equal(one.policy.probs, two.policy.probs)
    assert one.gain != other.gain


def test_workers_and_parts_change_nothing(lift: dw.domains.Problem) -> None:
    found = lift.sample(200, seed=3)
    one, two = (dw.improve(found, lift.pi_b, workers=w, evaluation=False) for w in (1, 2))
    assert one.to_dict() == two.to_dict()


def test_is_data(improved: dw.Improvement, tmp_path: Path) -> None:
    document = improved.to_dict()
    assert document["schema"] == 3
    assert {"answer", "gain", "interval", "interval_about", "changes", "reasons"} <= set(document)
    json.dumps(document, allow_nan=False)
    again = dw.load(improved.save(tmp_path / "improved.json"))
    assert again.to_dict() == document
    np.testing.assert_array_equal(again.policy.probs, improved.policy.probs)
    assert again.policy.trained_on == improved.policy.trained_on
    assert again.evaluation.to_dict() == improved.evaluation.to_dict()
    assert pickle.loads(pickle.dumps(improved)).to_dict() == document  # noqa: S301
    assert "improved" in improved._repr_html_()
    assert "instead of" in str(improved)
    pytest.importorskip("matplotlib")
    assert improved.plot() is not None


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_actions_that_are_numbers_are_in_frames_of_every_library(
    improved: dw.Improvement, library: str
) -> None:
    pytest.importorskip(library)
    made = improved.to_frame(library)
    old = made["old"].to_pylist() if library == "pyarrow" else list(made["old"])
    assert improved.changes
    assert [{int(action): share for action, share in row.items()} for row in old] == [
        dict(change.old) for change in improved.changes
    ]


def test_the_page_has_the_list(improved: dw.Improvement, tmp_path: Path) -> None:
    page = improved.report(tmp_path / "page.html", title="A <b>title</b>", reward="points").read_text()
    assert "A &lt;b&gt;title&lt;/b&gt;" in page
    for change in improved.changes:
        assert f"{change.visits:,} times" in page
    assert "certifies the recipe" in page
    refused = dw.improve(bandit(50, 50, pays=0.0), HALF, evaluation=False)
    assert "No change" in refused.report(tmp_path / "none.html").read_text()


def test_no_change_is_the_behaviour_policy_itself() -> None:
    given = dw.TabularPolicy(HALF, states=["here"], actions=["new", "old"])
    found = dw.improve(bandit(50, 50, pays=0.0), given)
    assert found.answer == "no change"
    np.testing.assert_array_equal(found.policy.probs, given.probs)
    assert list(found.policy.state_labels) == ["here"]
    assert found.policy.trained_on is None
    assert found.changes == []
    assert (found.gain, found.interval, found.interval_about) == (0.0, (0.0, 0.0), "nothing")
    assert list(found.to_frame().columns) == ["state", "old", "new", "gain", "std_error", "visits"]
    assert found.evaluation.verdict.answer == "cannot tell"


def test_no_change_says_what_it_would_take() -> None:
    """A gain that the whole log shows and its halves do not."""
    found = dw.improve(bandit(12, 200), HALF, evaluation=False)
    assert found.answer == "no change"
    assert [change.state for change in found.considered] == ["here"]
    assert "430 episodes" in found.next_step
    noise = np.random.default_rng(3).normal(size=60)
    close = [[("here", a, 0.35 * a + noise[2 * k + a])] for k in range(30) for a in range(2)]
    promising = dw.improve(dw.Trajectories.from_episodes(close), HALF, evaluation=False)
    assert promising.answer == "no change"
    assert promising.considered == []
    assert "The most promising one is 1 in state here" in promising.next_step


def test_few_episodes() -> None:
    found = dw.improve(bandit(3, 3), HALF, min_visits=1, caution=0.0, evaluation=False)
    assert found.answer == "no change"
    assert "too short to be halved" in found.reasons[1]


def test_the_best_policy_is_left_alone() -> None:
    """pi_b does the better thing nearly always: nothing to gain, and nothing is changed."""
    best = np.array([[0.02, 0.98], [0.98, 0.02]])
    model = dw.TabularMDP(np.full((2, 2, 2), 0.4), [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5])
    for seed in range(5):
        found = dw.improve(dw.simulate(model, best, 100, seed), best, evaluation=False)
        new = dw.policy_value(model, found.policy)
        assert new >= dw.policy_value(model, best)


def test_the_strict_form_is_judged_on_episodes_it_has_not_seen(lift: dw.domains.Problem) -> None:
    found = lift.sample(400, seed=1)
    imp = dw.improve(found, lift.pi_b, gate="strict")
    assert imp.answer == "improved"
    assert imp.gate is not None
    assert imp.gate.kind == "strict"
    assert imp.evaluation.n_episodes == 200
    assert "trained-on-log" not in imp.evaluation.headline.flags
    assert sum(change.visits for change in imp.changes) < 0.7 * sum(
        change.visits for change in dw.improve(found, lift.pi_b, evaluation=False).changes
    )


def test_without_a_gate_nothing_is_certified(lift: dw.domains.Problem) -> None:
    imp = dw.improve(lift.sample(400, seed=1), lift.pi_b, gate=False, evaluation=False)
    assert imp.answer == "improved"
    assert MEANING["none"] in imp.reasons
    assert imp.interval_about == "the episodes that the policy was learnt from"


@pytest.mark.parametrize("gate", [True, "strict"])
def test_doses_that_add_up_unseen_are_left_as_they_were(gate: bool | str, tmp_path: Path) -> None:
    """Every dose does good at once, and all of them together harm, later and in no state: z is about -10."""
    cell = toxic_dose("dose", 4, horizon=25, seed=51, episodes=400)
    found = cell.sample(0)
    imp = dw.improve(found, cell.pi_b, gate=gate, evaluation=False)
    assert imp.answer == "no change"
    assert imp.gate is not None
    assert imp.gate.lower > 0
    assert imp.gate.vetoed
    assert not imp.gate.is_open
    assert any("many steps later" in reason for reason in imp.reasons)
    assert imp.next_step == STATE
    np.testing.assert_array_equal(imp.policy.probs, cell.pi_b.probs)
    assert "many steps later" in imp.report(tmp_path / "page.html").read_text()
    at_all_costs = dw.improve(found, cell.pi_b, gate=False, evaluation=False)
    assert at_all_costs.answer == "improved"
    shipped = at_all_costs.policy.probs[cell.shown]
    problem = cell.problem
    assert dw.policy_value(problem.mdp, shipped, problem.horizon) < problem.behaviour_value - 1


def test_a_policy_is_flagged_on_the_log_it_was_learnt_from(
    lift: dw.domains.Problem, improved: dw.Improvement
) -> None:
    ours, fresh = lift.sample(400, seed=1), lift.sample(400, seed=2)
    assert "trained-on-log" in improved.evaluation.headline.flags
    assert improved.evaluation.verdict.answer == "cannot tell"
    again = dw.evaluate(ours, improved.policy, lift.pi_b)
    assert again.verdict.answer == "cannot tell"
    assert all("trained-on-log" in one.flags for one in again.estimates.values() if not one.about.naive)
    assert "trained-on-log" in dw.estimate("WIS", ours, improved.policy, lift.pi_b).flags
    shuffled = ours.select(np.random.default_rng(0).permutation(400))
    assert "trained-on-log" in dw.estimate("WIS", shuffled, improved.policy, lift.pi_b).flags
    elsewhere = dw.evaluate(fresh, improved.policy, lift.pi_b)
    assert elsewhere.verdict.answer == "better"
    assert "trained-on-log" not in elsewhere.headline.flags


def test_a_veto_brings_the_behaviour_policy_back(improved: dw.Improvement, lift: dw.domains.Problem) -> None:
    state = improved.changes[0].state
    policy = improved.veto([state])
    np.testing.assert_array_equal(policy.probs[state], lift.pi_b.probs[state])
    others = [s for s in range(5) if s != state]
    np.testing.assert_array_equal(policy.probs[others], improved.policy.probs[others])
    with pytest.raises(OptionError, match="no change in state 'nowhere'"):
        improved.veto(["nowhere"])


def test_a_log_without_propensities_is_counted() -> None:
    found = log(300, horizon=6)
    bare = dw.Trajectories(
        found.states, found.actions, found.rewards, found.offsets, terminated=found.terminated
    )
    imp = dw.improve(bare)
    assert imp.answer == "improved"
    assert any("counted from the log" in reason for reason in imp.reasons)
    given = dw.improve(bare, dw.estimate_behaviour(bare))
    assert [c.to_dict() for c in given.changes] == [c.to_dict() for c in imp.changes]
    assert imp.gain == given.gain


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"gate": "loose"}, "gate must be"),
        ({"level": 1.0}, "level must lie"),
        ({"seed": -1}, "seed must be"),
        ({"gamma": 0.0}, "gamma must be"),
        ({"caution": -1}, "caution must be"),
        ({"min_visits": 0}, "min_visits must be"),
        ({"unseen": "mean"}, "unseen"),
        ({"cuation": 2.0}, "no option 'cuation'"),
        ({"model": dw.domains.stochastic_lift(7).mdp}, "model= cannot be given"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        dw.improve(log(20), PI_B, **wrong)  # type: ignore[arg-type]


def test_a_log_with_features_is_refused_in_one_message() -> None:
    features = dw.Trajectories(None, [0, 1], [0.0, 1.0], [0, 1, 2], features=[[0.5], [0.1]])
    with pytest.raises(EstimationError, match="needs states with labels"):
        dw.improve(features)
    found = log(20, horizon=3)
    rows = dw.RowPolicy(
        np.tile([0.5, 0.5], (found.n_steps, 1)) + np.arange(found.n_steps)[:, None] * [1e-4, -1e-4]
    )
    with pytest.raises(EstimationError, match="as a function of the state"):
        dw.improve(found, rows)


def test_several_old_policies_are_counted_as_one() -> None:
    found = log(200, horizon=6)
    columns = (found.states, found.actions, found.rewards, found.offsets)
    both = dw.Trajectories(*columns, terminated=found.terminated, behaviour_ids=["a", "b"] * 100)
    imp = dw.improve(both, {"a": PI_B, "b": PI_B})
    assert imp.answer == "improved"
    assert imp.to_dict()["changes"] == dw.improve(both).to_dict()["changes"]


def test_a_stream_is_a_log_in_memory(lift: dw.domains.Problem, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    found = lift.sample(200, seed=3)
    table = {
        **table_without_flags(found),
        "propensity": found.propensities,
    }
    parquet.write_table(pa.table(table), tmp_path / "log.parquet", row_group_size=100)
    stream = open_stream([tmp_path / "log.parquet"], part_rows=300, time_limit=None)
    assert len(stream) > 1
    ours, theirs = (dw.improve(one, lift.pi_b) for one in (stream, found))
    assert ours.changes == theirs.changes
    assert ours.gain == pytest.approx(theirs.gain, rel=1e-12)
    assert ours.policy.trained_on == theirs.policy.trained_on
    assert "trained-on-log" in ours.evaluation.headline.flags
