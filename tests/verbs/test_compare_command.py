"""`deadweight compare`: documents, gates and wrong words."""

from __future__ import annotations

import json

import numpy as np
import pytest
from deadweight_studies.ends import table_without_flags
from typer.testing import CliRunner

from deadweight.cli.app import app


@pytest.fixture(scope="module")
def files(tmp_path_factory, log, policies):
    import pandas as pd

    folder = tmp_path_factory.mktemp("compare")
    pd.DataFrame(
        {
            **table_without_flags(log),
            "behaviour_prob": log.propensities,
        }
    ).to_csv(folder / "log.csv", index=False)
    for name, policy in policies.items():
        np.save(folder / f"{name}.npy", policy)
    return folder


def run(files, *more, names=("good", "bad")):
    words = ["compare", str(files / "log.csv"), "--time-limit", "12"]
    for name in names:
        words += ["--target", f"{name}={files / name}.npy"]
    return CliRunner().invoke(app, [*words, *more])


def test_the_command_prints_one_document(files, tmp_path):
    made = run(files, "--json", "--report", str(tmp_path / "r.html"))
    assert made.exit_code == 0
    document = json.loads(made.stdout)
    assert document["schema"] == 3
    assert document["ranking"] == ["good", "bad"]
    assert document["recommendation"] == "good"
    assert (tmp_path / "r.html").exists()
    table = run(files)
    assert "Recommendation: good." in table.stdout


@pytest.mark.parametrize(
    ("gate", "code"),
    [("good", 0), ("bad", 4), ("any", 0)],
)
def test_gates(files, gate, code):
    assert run(files, "--gate", gate).exit_code == code


def test_a_closed_gate_for_any(files):
    assert run(files, "--gate", "any", names=("bad", "same")).exit_code == 4


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--gate", "best"], "--gate must be any or the name"),
        (["--baseline", "bet"], "--baseline must be"),
        (["--target", "good=x.npy"], "called 'good'"),
        (["--target", "=x.npy"], "name=FILE"),
        (["--target", "folder/good.npy"], "called 'good'"),
        (["--target", "c=absent.npy"], "absent.npy"),
        (["--baseline", "good", "--gate", "good"], "can never open"),
        (["--report", "/absent/folder/r.html"], "could not be written"),
    ],
)
def test_bad_words(files, more, told):
    made = run(files, *more)
    assert told in str(made.exception)


def test_one_policy_is_no_comparison(files):
    assert "two policies" in str(run(files, names=("good",)).exception)
