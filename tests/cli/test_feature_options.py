"""`--features` and `--behaviour learned` of the command line."""

from __future__ import annotations

import json

import pytest
from feature_tables import SEPSIS, sepsis_table
from typer.testing import CliRunner

import deadweight as dw
from deadweight.cli.app import app
from deadweight.errors import DataError, DeadweightError, OptionError


@pytest.fixture(scope="module")
def table():
    """With the new policy as a column for each action."""
    frame = sepsis_table(80).filter(regex="^(?!next_)")
    probs = SEPSIS.evaluation(frame[list(SEPSIS.feature_names)].to_numpy())
    return frame.assign(**{f"target_prob_{a}": probs[:, j] for j, a in enumerate(SEPSIS.world.action_names)})


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def values(found):
    assert found.exit_code == 0, found.output
    return {name: one["value"] for name, one in json.loads(found.stdout)["estimates"].items()}


def test_columns_of_probabilities_are_the_target(table, tmp_path):
    table.to_csv(tmp_path / "log.csv", index=False)
    options = ("--features", "lactate,map,heart_*", "--estimators", "WPDIS,BEHAVIOUR", "--json")
    found = values(run("evaluate", tmp_path / "log.csv", *options, "--interval", "none"))
    log = dw.read(tmp_path / "log.csv", features=["lactate", "map", "heart_*"])
    assert log.feature_names == ("lactate", "map", "heart_rate")
    assert found["WPDIS"] == pytest.approx(dw.estimate("WPDIS", log, interval=None).value, rel=1e-12)


def test_a_learned_behaviour_policy(table, tmp_path):
    path = tmp_path / "log.parquet"
    table.drop(columns="behaviour_prob").to_parquet(path)
    options = ("--features", "lactate,map", "--estimators", "WPDIS,BEHAVIOUR", "--interval", "none", "--json")
    refused = run("evaluate", path, *options)
    assert isinstance(refused.exception, DataError)
    assert "--behaviour learned" in str(refused.exception)
    said = run("evaluate", path, *options, "--behaviour", "column").exception
    assert "not given" not in str(said)
    shown = run("evaluate", path, *options, "--behaviour", "learned")
    log = dw.read(path, features=["lactate", "map"])
    expected = dw.estimate("WPDIS", log, None, dw.fit_behaviour(log), interval=None).value
    assert values(shown)["WPDIS"] == pytest.approx(expected, rel=1e-9)
    assert "learned by" in shown.stderr


def test_the_doctor_looks_at_features(table, tmp_path):
    table.assign(copy=2 * table.lactate).to_csv(tmp_path / "log.csv", index=False)
    found = run("doctor", tmp_path / "log.csv", "--features", "lactate,copy", "--json")
    document = json.loads(found.stdout)
    assert "DW712" in [one["code"] for one in document["findings"]]
    assert all("--features lactate,copy" in one["command"] for one in document["findings"])
    assert document["size"]["feature"] == 2


def test_features_are_not_streamed(table, tmp_path):
    table.to_parquet(tmp_path / "log.parquet")
    found = run("evaluate", tmp_path / "log.parquet", "--features", "lactate", "--stream")
    assert isinstance(found.exception, OptionError)
    assert "in memory" in str(found.exception)


def spoilt(table, column, cell, row=5):
    """The table with one cell that is not what it should be."""
    frame = table.astype({column: object})
    frame.loc[row, column] = cell
    return frame


BAD = {
    "a hole": ("lactate", None, ["lactate", "row 5"]),
    "a word": ("lactate", "high", ["lactate", "high"]),
    "no number": ("map", "inf", ["map", "inf"]),
    "more than 1": ("target_prob_watch", 0.999, ["target_prob", "sum"]),
    "a negative probability": ("target_prob_watch", -0.2, ["target_prob_watch", "-0.2"]),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_cells_are_one_error_that_says_where(table, tmp_path, what):
    column, cell, words = BAD[what]
    spoilt(table, column, cell).to_csv(tmp_path / "log.csv", index=False)
    found = run("evaluate", tmp_path / "log.csv", "--features", "lactate,map", "--interval", "none")
    assert isinstance(found.exception, DeadweightError), found.output
    assert all(word in str(found.exception) for word in words), str(found.exception)
