"""Policies from arrays and tables."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pytest

from deadweight.errors import DeadweightError
from deadweight.io.policy_files import read_policy, write_policy
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.verbs.estimate import estimate

PROBS = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]])


def test_npy_and_npz(tmp_path):
    np.save(tmp_path / "pi.npy", PROBS)
    np.savez(tmp_path / "one.npz", PROBS)
    np.savez(tmp_path / "named.npz", probs=PROBS, states=["a", "b", "c"], actions=[10, 20])
    assert np.array_equal(read_policy(tmp_path / "pi.npy").probs, PROBS)
    assert read_policy(str(tmp_path / "one.npz")).state_labels is None
    named = read_policy(tmp_path / "named.npz")
    assert list(named.state_labels) == ["a", "b", "c"]
    assert list(named.action_labels) == [10, 20]


def test_a_rule_is_a_table_without_probabilities():
    rule = pd.DataFrame({"state": ["frail", "well"], "action": ["treat", "watch"]})
    assert np.array_equal(read_policy(rule).probs, [[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(DeadweightError, match="several for state 'well'"):
        read_policy(pd.concat([rule, pd.DataFrame({"state": ["well"], "action": ["treat"]})]))
    with pytest.raises(DeadweightError, match="missing: prob"):
        read_policy(rule.assign(chance=0.5))  # it may be the probability, under a name of its own


def test_probabilities_may_be_called_by_their_full_name(tmp_path):
    table = pd.DataFrame({"state": [0, 0, 1], "action": [0, 1, 0], "probability": [0.25, 0.75, 1.0]})
    assert np.array_equal(read_policy(table).probs, [[0.25, 0.75], [1.0, 0.0]])
    table.to_csv(tmp_path / "pi.csv", index=False)
    assert np.array_equal(read_policy(tmp_path / "pi.csv").probs, [[0.25, 0.75], [1.0, 0.0]])
    both = table.assign(prob=[0.5, 0.5, 1.0])
    assert np.array_equal(read_policy(both).probs[0], [0.5, 0.5]), "our own name goes first"
    with pytest.raises(DeadweightError, match=r"missing: prob\."):
        read_policy(table.rename(columns={"probability": "chance"}))


def test_single_precision_and_rounded_decimals(tmp_path):
    """Rows that miss one by rounding are normalised; a wrong table is not."""
    third = np.full((4, 3), 1 / 3)
    np.save(tmp_path / "pi.npy", np.full((5, 25), 1 / 25, dtype=np.float32))
    assert np.allclose(read_policy(tmp_path / "pi.npy").probs.sum(axis=1), 1, atol=1e-15)
    table = pd.DataFrame(third.round(4)).stack().rename_axis(["state", "action"]).reset_index(name="prob")
    assert np.allclose(read_policy(table).probs, third)
    with pytest.raises(DeadweightError, match="sum to 1"):
        read_policy(table.assign(prob=0.3))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_with_labels_and_pairs_left_out(tmp_path, suffix):
    table = pd.DataFrame({"s": ["ward", "icu", "icu"], "action": [7, 7, 900_000], "prob": [1.0, 0.25, 0.75]})
    path = tmp_path / f"pi.{suffix}"
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    policy = read_policy(path, columns={"state": "s"})
    assert list(policy.state_labels) == ["icu", "ward"]
    assert list(policy.action_labels) == [7, 900_000]
    assert policy.probs.tolist() == [[0.25, 0.75], [1.0, 0.0]]


def test_numbered_states_with_gaps_align_with_the_log():
    log = Trajectories.from_episodes([[(3, 0, 1.0)], [(5, 1, 3.0)]])
    policy = read_policy({"state": [3, 3, 5, 5], "action": [0, 1, 0, 1], "prob": [0.5, 0.5, 0.5, 0.5]})
    assert policy.n_states == 2
    assert estimate("IS", log, policy, policy, interval=None).value == 2.0


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"state": [0, 0], "action": [1, 1], "prob": [0.5, 0.5]}, "several for state 0, action 1"),
        ({"state": [0, None], "action": [1, 1], "prob": [1, 1]}, "'state' of the policy"),
        ({"state": [0, "a"], "action": [1, 1], "prob": [1, 1]}, "one type"),
        ({"state": [0], "action": [1], "prob": ["x"]}, "row 0"),
        ({"state": [0], "action": [1], "chance": [1]}, "missing: prob"),
        ({"state": [0], "action": [1], "prob": [-1.0]}, "log-prob"),
        ({"state": [], "action": [], "prob": []}, "every row"),
    ],
)
def test_messages(table, words):
    with pytest.raises(DeadweightError, match=words):
        read_policy(table)


def test_files_that_are_not_policies(tmp_path):
    np.savez(tmp_path / "two.npz", a=PROBS, b=PROBS)
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "empty.npz").write_bytes(b"")
    for name, words in (
        ("two.npz", "called 'probs'"),
        ("objects.npy", "not a readable numpy file"),
        ("empty.npz", "not a readable numpy file"),
        ("nowhere.npy", "Expected a policy at .*no such file"),
        ("nowhere.csv", "Expected a policy at .*no such file"),
    ):
        with pytest.raises(DeadweightError, match=words):
            read_policy(tmp_path / name)


FORMULAS = [
    "=1+1",
    "+a",
    "-b",
    "@c",
    "\tx",
    "\rx",
    "\nx",
    "+",
    "-",
    "=",
    "-inf",
    "+1-1",
    "--1",
    "-1a",
    "=HYPERLINK(1)",
]
PLAIN = ["'=x", "''=x", "'plain", "'", "a=b", "-1.5e3", "+7", "-0.5", "-1", " =x", "ward 'b'", 'a"b', "a,b"]


def _written(tmp_path, states, actions, suffix="csv"):
    shape = len(states), len(actions)
    probs = np.random.default_rng(0).dirichlet(np.ones(shape[1]), size=shape[0])
    policy = TabularPolicy(probs, states=states, actions=actions)
    return policy, write_policy(policy, tmp_path / f"policy.{suffix}")


def _by_label(policy):
    return {
        (state, action): policy.probs[s, a]
        for s, state in enumerate(policy.state_labels)
        for a, action in enumerate(policy.action_labels)
    }


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_formulas_are_written_with_an_apostrophe_and_read_without(tmp_path, suffix):
    policy, path = _written(tmp_path, [*FORMULAS, *PLAIN], ["@go", "'stay"], suffix)
    again = read_policy(path)
    assert _by_label(again) == _by_label(policy)
    if suffix == "csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert {row["state"] for row in rows} == {*(f"'{one}" for one in FORMULAS), *PLAIN}
        assert {row["action"] for row in rows} == {"'@go", "'stay"}
        assert _by_label(read_policy(pd.DataFrame(rows))) == _by_label(policy)


def test_labels_without_formulas_are_written_as_they_are(tmp_path):
    _, path = _written(tmp_path, [-1, 0, 2], [-0.5, 0.5])
    assert path.read_text().splitlines()[0] == '"state","action","prob"'
    assert "'" not in path.read_text()
    again = read_policy(path)
    assert (again.state_labels.tolist(), again.action_labels.tolist()) == ([-1, 0, 2], [-0.5, 0.5])


def test_apostrophes_that_nobody_put_there_stay(tmp_path):
    """In a log that another program has written so, `'-5 mg` is the label."""
    (tmp_path / "pi.csv").write_text("state,action,prob\n'=1+1,'-5 mg,1\n=1+1,-5 mg,1\n")
    found = read_policy(tmp_path / "pi.csv")
    assert sorted(found.state_labels) == ["'=1+1", "=1+1"]
    assert sorted(found.action_labels) == ["'-5 mg", "-5 mg"]
    rows = ["'=1,'a,1,state", "'=1,=2,1,", "=2,b,1,state"]  # the second and the third by hand
    (tmp_path / "pi.csv").write_text("\n".join(["state,action,prob,apostrophe_before", *rows]))
    assert sorted(read_policy(tmp_path / "pi.csv").state_labels) == ["'=1", "=1", "=2"]
