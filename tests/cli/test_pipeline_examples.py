"""The commands of the pipelines in the tutorial for engineers: they run, and their gates open and close."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deadweight_studies.ends import table_without_flags
from pages import ROOT

import deadweight as dw
from deadweight.cli import run

TUTORIAL = (ROOT / "docs" / "tutorials" / "engineer.md").read_text()
YAML = "\n".join(re.findall(r"```yaml\n(.*?)```", TUTORIAL, re.DOTALL))
COMMANDS = re.findall(r"(?:run|entry): (deadweight .*)", YAML)
SHOP = dw.domains.inventory(5, horizon=10, pi_e="softened-optimal")


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a pipeline finds: a folder of logs, a sample of it, and policy.npy."""
    log = SHOP.sample(600, seed=0)
    table = pa.table(
        {
            **table_without_flags(log),
            "behaviour_prob": log.propensities,
            "truncated": np.ones(log.n_steps, dtype=bool),
        }
    )
    (tmp_path / "logs").mkdir()
    pq.write_table(table, tmp_path / "logs" / "part-0.parquet")
    pq.write_table(table, tmp_path / "sample.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_tutorial_has_an_action_and_a_hook() -> None:
    assert [words.split()[1] for words in COMMANDS] == ["doctor", "evaluate", "evaluate"]
    assert "- id: policy-gate" in YAML


@pytest.mark.parametrize("command", COMMANDS)
def test_a_good_policy_passes(command: str, pipeline: Path) -> None:
    np.save("policy.npy", SHOP.pi_e.probs)
    assert run(shlex.split(command)[1:]) == 0


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_a_bad_policy_is_stopped(command: str, pipeline: Path) -> None:
    worst = np.zeros_like(SHOP.pi_b.probs)
    worst[:, 0] = 1.0  # never order
    np.save("policy.npy", 0.3 * SHOP.pi_b.probs + 0.7 * worst)
    assert run(shlex.split(command)[1:]) == 1


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_a_policy_that_does_not_fit_is_an_error_and_no_verdict(command: str, pipeline: Path) -> None:
    np.save("policy.npy", np.full((2, 2), 0.5))
    assert run(shlex.split(command)[1:]) == 2
