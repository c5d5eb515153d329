"""Tables with features: which columns they are, what follows cut episodes, policies row by row, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import deadweight as dw
from deadweight.errors import DataError, DeadweightError, OptionError, TooLarge
from deadweight.io.open import open_log


def table(n=40, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, n)
    rows = int(lengths.sum())
    return pd.DataFrame(
        {
            "episode": np.repeat(np.arange(n), lengths),
            "step": np.concatenate([np.arange(length) for length in lengths]),
            "action": rng.choice(["treat", "wait"], rows),
            "reward": rng.normal(size=rows).round(3),
            "lactate": rng.gamma(2.0, size=rows).round(4),
            "x_1": rng.normal(size=rows).round(4),
            "x_2": rng.normal(size=rows).round(4),
            "terminated": True,
        }
    )


def test_names_and_wildcards_in_their_order():
    frame = table()
    log = dw.read(frame, features=["x_*", "lactate"])
    assert log.feature_names == ("x_1", "x_2", "lactate")
    np.testing.assert_array_equal(log.features, frame[["x_1", "x_2", "lactate"]])
    assert not log.has_states
    everything = dw.read(
        frame.assign(next_x_1=0, next_x_2=0, next_lactate=0, behaviour_prob=0.5), features="*"
    )
    assert everything.feature_names == ("lactate", "x_1", "x_2"), "what the log uses otherwise is passed by"


def test_csv_parquet_and_frames_give_the_same_log(tmp_path):
    frame = table()
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_parquet(tmp_path / "log.parquet")
    shuffled = frame.sample(frac=1, random_state=3)
    logs = [
        dw.read(source, features=["lactate", "x_*"])
        for source in (frame, shuffled, tmp_path / "log.csv", tmp_path / "log.parquet")
    ]
    for log in logs[1:]:
        np.testing.assert_array_equal(log.features, logs[0].features)
        np.testing.assert_array_equal(log.actions, logs[0].actions)


def test_states_may_be_there_as_well():
    log = dw.read(table().assign(state=lambda t: t.x_1 > 0), features=["x_1"])
    assert log.has_states
    assert log.features.shape == (log.n_steps, 1)
    assert list(log.state_labels) == [False, True]


def test_what_follows_the_last_row_of_a_cut_episode():
    frame = table()
    last = frame.groupby("episode").tail(1).index
    cut, unknown = last[:5], last[5]
    frame["terminated"] = ~frame["episode"].isin(frame.loc[[*cut, unknown], "episode"])
    for name in ("lactate", "x_1", "x_2"):
        frame[f"next_{name}"] = np.nan
        frame.loc[last, f"next_{name}"] = frame.loc[last, name] + 1
    frame.loc[unknown, "next_x_2"] = np.nan
    log = dw.read(frame, features=["lactate", "x_*"])
    known = np.isfinite(log.last_features).all(axis=1)
    assert np.flatnonzero(known).tolist() == [0, 1, 2, 3, 4], "terminated ones have no successor"
    np.testing.assert_allclose(log.last_features[:5], log.features[log.offsets[1:6] - 1] + 1)
    assert np.isnan(log.last_features[5]).all(), "a row with a hole is unknown"
    with pytest.raises(DataError, match="no 'next_x_2'"):
        dw.read(frame.drop(columns="next_x_2"), features=["lactate", "x_*"])


def test_columns_of_each_action_are_a_policy():
    frame = table()
    treat = 1 / (1 + np.exp(-frame.x_1))
    frame["target_prob_treat"], frame["target_prob_wait"] = treat, 1 - treat
    frame["behaviour_prob_wait"] = frame["behaviour_prob_treat"] = 0.5
    log = dw.read(frame, features=["x_1"])
    assert (log.propensities == 0.5).all()
    found = dw.estimate("WPDIS", log, interval=None)
    by_function = dw.estimate(
        "WPDIS",
        log,
        dw.FeaturePolicy(
            lambda x: np.column_stack([1 / (1 + np.exp(-x[:, 0])), 1 / (1 + np.exp(x[:, 0]))]),
            actions=["treat", "wait"],
        ),
        np.full((log.n_steps, 2), 0.5),
        interval=None,
    )
    assert found.value == pytest.approx(by_function.value, rel=1e-12)
    half = log.select(np.arange(20))
    assert half.policies["pi_e"].n_rows == half.n_steps
    assert dw.estimate("WPDIS", half, interval=None).value != found.value


def test_actions_that_are_numbers_are_matched_as_written():
    frame = table().assign(action=lambda t: (t.x_1 > 0).astype(int), target_prob_1=0.25, target_prob_0=0.75)
    frame["behaviour_prob"] = 0.5
    log = dw.read(frame, features=["x_1"])
    np.testing.assert_array_equal(log.target_probs, np.where(log.actions == 1, 0.25, 0.75))


def test_a_time_limit_is_read_off_alike_rows():
    problem = dw.domains.navigation(horizon=10)
    log = problem.sample(200, seed=0)
    frame = pd.DataFrame(log.features, columns=log.feature_names)
    frame["episode"] = np.repeat(np.arange(log.n_episodes), log.lengths)
    frame["step"] = np.concatenate([np.arange(length) for length in log.lengths])
    frame["action"], frame["reward"] = log.action_labels[log.actions], log.rewards
    with pytest.warns(dw.errors.Assumption, match="exactly 10"):
        assert dw.read(frame, features=["x", "y"]).time_limit == 10
    # Where the end is a place, and nobody goes on from there, it is no limit.
    ends = frame.groupby("episode").head(3).copy()
    ends.loc[ends.step == 2, "x"] = 50.0
    assert dw.read(ends, features=["x", "y"]).time_limit is None


@pytest.mark.parametrize(
    ("change", "features", "words"),
    [
        ({}, ["lactat"], "Did you mean 'lactate'"),
        ({}, ["y_*"], r"No column of the table fits the feature 'y_\*'"),
        ({}, ["reward"], "is the reward of the log"),
        ({"x_1": "high"}, ["x_1"], "DW701.*'x_1' must hold numbers; found 'high' in row 0"),
        ({"x_1": [None] + [1.0] * 200}, ["x_1"], "DW702.*found nothing in row 0"),
        ({"x_1": [1.0, np.inf] + [1.0] * 200}, ["x_1"], "DW703.*found inf in row 1"),
        ({"target_prob_wait": 0.5, "target_prob_treat": 0.4}, ["x_1"], "DW705.*sum to 0.9 in row 0"),
        ({"target_prob_wait": 1.5, "target_prob_treat": -0.5}, ["x_1"], "DW704.*found 1.5 in row 0"),
        ({"next_x_1": "far"}, ["x_1"], "DW701.*'next_x_1'"),
    ],
)
def test_refusals(change, features, words):
    frame = table()
    values = {k: v[: len(frame)] if isinstance(v, list) else v for k, v in change.items()}
    with pytest.raises(DataError, match=words):
        dw.read(frame.assign(**values), features=features)


@pytest.mark.parametrize("features", [[], [""], [3]])
def test_features_are_named(features):
    with pytest.raises(OptionError, match="features must name columns"):
        dw.read(table(), features=features)


def test_a_log_without_states_asks_for_features():
    with pytest.raises(DataError, match=r"(?s)missing: state.*features=\["):
        dw.read(table())


def test_parquet_with_features_is_in_memory_only(tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    table(2000).to_parquet(path)
    with open_log(path, features=["x_1"], part_rows=100) as log:
        assert log.n_episodes == 2000
    monkeypatch.setenv("DEADWEIGHT_MEMORY", "50KB")
    with pytest.raises(TooLarge, match="features are read into memory"), open_log(path, features=["x_1"]):
        pass
    with pytest.raises(DeadweightError, match="features are read into memory"):
        dw.read(path, features=["x_1"])
