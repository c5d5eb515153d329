"""Hostile input where states are features: one clear error with row and column, or right numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import deadweight as dw
from deadweight.errors import DataError, OptionError, PolicyError
from deadweight.log import policies as row_policies

RNG = np.random.default_rng(5)
LENGTHS = np.array([3, 2, 4, 1, 5])
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
N = int(LENGTHS.sum())
X, ACTIONS, REWARDS = RNG.normal(size=(N, 3)), np.arange(N) % 2, RNG.normal(size=N)
HIDDEN = np.zeros(N, dtype=bool)
HIDDEN[4] = True
CELL = np.zeros((N, 3), dtype=bool)
CELL[4, 1] = True


def logged(features=X, actions=ACTIONS, rewards=REWARDS, **columns):
    return dw.Trajectories(None, actions, rewards, OFFSETS, features=features, **columns)


def soft(x):
    p = 1 / (1 + np.exp(-x[:, 0]))
    return np.stack([p, 1 - p], axis=1)


def uniform(x):
    return np.full((len(x), 2), 0.5)


def value(pi_e, log=None, **options):
    log = logged() if log is None else log
    return dw.estimate("WDR", log, pi_e, uniform, interval=None, **options).value


def masked(values, mask):
    return np.ma.masked_array(values, mask=mask)


# --- features ---------------------------------------------------------------------------------------------


def with_na():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["b"] = pd.array([1, 2] * 2 + [None] + [1] * (N - 5), dtype="Int64")
    return frame


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (lambda: masked(X, CELL), r"nothing \(NaN\) in row 4, column 'x1'"),
        (lambda: X + 0j, r"must be numbers; found \(.*\) in row 0, column 'x0'"),
        (lambda: np.where(CELL, 1e200, X), r"at most 1e\+100 in size; found 1e\+200 in row 4, column 'x1'"),
        (with_na, r"nothing \(NaN\) in row 4, column 'b'"),
        (
            lambda: pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(["low", "high"] * 7 + ["low"])}),
            "found 'low' in row 0, column 'b'",
        ),
    ],
)
def test_what_is_no_feature_is_named(features, said):
    with pytest.raises(DataError, match=said):
        logged(features())


@pytest.mark.parametrize(
    "make", [lambda: X.astype(object), lambda: masked(X, False), lambda: X.astype(np.longdouble)]
)
def test_features_of_other_kinds_are_the_same_numbers(make):
    assert value(soft, logged(make())) == value(soft)


def test_a_masked_row_of_what_follows_is_unknown():
    mask = np.zeros((5, 3), dtype=bool)
    mask[2] = True
    log = logged(last_features=masked(X[:5], mask), terminated=[False] * 5)
    assert np.isnan(log.last_features).all(axis=1).tolist() == [False, False, True, False, False]
    mask[2, 0] = False
    with pytest.raises(DataError, match=r"last_features .* in row 2, column 'x1'"):
        logged(last_features=masked(X[:5], mask), terminated=[False] * 5)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"rewards": masked(REWARDS, HIDDEN)}, r"Rewards must be finite; found nan in .*\(row 4\)"),
        ({"actions": masked(ACTIONS, HIDDEN)}, "label in every row; rows 4 have none"),
        ({"propensities": masked(np.full(N, 0.5), HIDDEN)}, r"found nan in .*\(row 4\)"),
        ({"propensities": np.full(N, 0.5 + 0j)}, "must hold numbers"),
    ],
)
def test_masked_and_complex_columns_of_a_log(columns, said):
    with pytest.raises(DataError, match=said):
        logged(**columns)


# --- policies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        lambda x: pd.DataFrame(soft(x)[:, ::-1], columns=[1, 0]),
        lambda x: pl.DataFrame({"1": soft(x)[:, 1], "0": soft(x)[:, 0]}),
        lambda x: pd.DataFrame(soft(x)),
        lambda x: soft(x).astype(object),
        dw.FeaturePolicy(lambda x: pd.DataFrame(soft(x)[:, ::-1], columns=[1, 0]), actions=[0, 1]),
        dw.RowPolicy(pd.DataFrame(soft(X)[:, ::-1], columns=[1, 0])),
        pd.DataFrame(soft(X)[:, ::-1], columns=[1, 0]),
    ],
)
def test_the_names_of_a_frame_say_which_column_is_which_action(form):
    assert value(form) == value(soft)


def test_a_frame_may_lack_an_action_and_have_another():
    only = dw.policy(lambda x: pd.DataFrame({1: np.full(len(x), 0.4), 7: np.full(len(x), 0.6)}), logged())
    assert list(only.action_labels) == [1, 7]
    assert only.probs[3].tolist() == [0.4, 0.6]


def test_blocks_with_other_columns(monkeypatch):
    monkeypatch.setattr(row_policies, "MOST_ROWS", 8)

    def turning(x):
        turned = len(x) < 8  # the second block has the columns the other way round
        return pd.DataFrame(soft(x)[:, ::-1] if turned else soft(x), columns=[1, 0] if turned else ["0", "1"])

    assert value(turning) == value(soft)
    with pytest.raises(PolicyError, match="same columns for all rows; it returned u, v for rows 8 to 14"):
        value(lambda x: pd.DataFrame(soft(x), columns=["u", "v"] if len(x) < 8 else ["0", "1"]))


@pytest.mark.parametrize(
    ("pi_e", "said"),
    [
        (lambda x: pd.DataFrame(soft(x), columns=["u", "v"]), "never seen: u, v"),
        (lambda x: soft(x) + 0j, r"must return probabilities.*0j\) in its first cell"),
        (lambda x: masked(soft(x), CELL[:, :2]), "found nan in row 4, action 1"),
        (lambda x: [*soft(x).tolist()[:-1], [1.0]], "first row has 2 and row number 14 of them has 1"),
        (lambda x: [{0: 0.5, 1: 0.5}] * len(x), r"found \{0: 0.5, 1: 0.5\} in row 0"),
        (lambda x: np.where(np.arange(len(x)) == 3, np.nan, 0), "found nan in row 3"),
        (lambda x: masked(np.zeros(len(x), dtype=int), HIDDEN), "found nan in row 4"),
        (dw.RowPolicy, "must be a policy|FeaturePolicy"),
    ],
)
def test_what_is_no_policy_is_refused(pi_e, said):
    with pytest.raises(PolicyError, match=said):
        value(pi_e)


def test_a_masked_table_of_rows():
    with pytest.raises(PolicyError, match="found nan in row 4, action 1"):
        dw.RowPolicy(masked(soft(X), CELL[:, :2]))


def test_a_classifier_of_several_outputs():
    class Both:
        classes_ = (np.array([0, 1]), np.array([0, 1]))
        predict_proba = staticmethod(soft)

    with pytest.raises(PolicyError, match=r"classifier \(Both\) of 2 outputs"):
        value(Both())


def test_what_follows_cut_episodes_is_checked_too():
    log = logged(last_features=X[:5], terminated=[False] * 5)
    with pytest.raises(PolicyError, match="found None in what follows cut episodes"):
        value(lambda x: [None] * 5 if len(x) == 5 else [0] * len(x), log)


# --- values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: dw.GivenQ(masked(np.zeros((N, 2)), CELL[:, :2])), "found nan in row 4, column 1"),
        (lambda: dw.GivenQ(np.zeros((N, 2)) + 1j), "must hold numbers"),
        (lambda: dw.GivenQ(np.zeros((N, 2)), last=[[0.0, np.nan]] * 5), "last .* nan in row 0, column 1"),
        (lambda: dw.LinearQ(seed=-1), "seed of LinearQ .* found -1"),
        (lambda: dw.LinearQ(seed="a"), "seed of LinearQ .* found 'a'"),
        (lambda: dw.LinearQ(ridge=True), "ridge of LinearQ .* found True"),
        (lambda: dw.RegressorQ(dict), "the class dict itself"),
    ],
)
def test_what_is_no_model_is_refused(make, said):
    with pytest.raises(OptionError, match=said):
        make()


def test_values_after_an_episode_may_be_unknown():
    q = RNG.normal(size=(N, 2))
    assert value(soft, model=dw.GivenQ(q, last=np.full((5, 2), np.nan))) == value(soft, model=dw.GivenQ(q))


def test_rewards_of_any_size_are_proven_alike():
    small = dw.estimate("C-WSPDIS", logged(), soft, uniform, interval=None)
    large = dw.estimate("C-WSPDIS", logged(rewards=REWARDS * 2.0**450), soft, uniform, interval=None)
    assert large.value == pytest.approx(small.value * 2.0**450, rel=1e-9)
    assert large.dropped_share == small.dropped_share


# --- behaviour policies that are learned --------------------------------------------------------------------


def test_trees_of_few_rows_and_of_actions_taken_once():
    """Rows are set aside to see where to stop, and each action must be among them and among the others."""
    pytest.importorskip("sklearn")
    assert set(dw.fit_behaviour(logged()).scores) == {"logit", "bumps-logit", "boosting"}
    once = ACTIONS.copy()
    once[7] = 2
    learned = dw.fit_behaviour(logged(actions=once), candidates=["boosting"])
    np.testing.assert_allclose(learned.probs.sum(axis=1), 1.0)
    assert (learned.probs > 0).all()
    every = dw.fit_behaviour(logged(actions=np.arange(N)), candidates=["boosting"])
    assert np.isfinite(every.scores["boosting"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"candidates": []}, "must name one learner or more"),
        ({"candidates": None}, "must name one learner or more"),
        ({"folds": 2.5}, "folds must be a whole number .* found 2.5"),
        ({"folds": True}, "found True"),
        ({"floor": "a"}, "floor must be above 0 .* found 'a'"),
    ],
)
def test_options_of_a_learned_policy(options, said):
    with pytest.raises(OptionError, match=said):
        dw.fit_behaviour(logged(), **options)
