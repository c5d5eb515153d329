"""`deadweight states` on a small log."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import deadweight as dw
from deadweight.cli.app import app


def files(folder: Path) -> list[str]:
    lift = dw.domains.stochastic_lift(7)
    log = lift.sample(200, seed=0)
    lines = ["episode,step,state,action,reward,behaviour_prob"]
    for i, episode in enumerate(log):
        lines += [f"{i},{t},{s},{a},{r},0.5" for t, (s, a, r) in enumerate(episode)]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    np.save(folder / "policy.npy", lift.pi_e.probs)
    return ["states", str(folder / "log.csv"), "--target", str(folder / "policy.npy")]


def test_tables(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, [*files(tmp_path), "--top", "3"])
    assert found.exit_code == 0, found.output
    assert "variance cost" in found.output
    assert "2 more" in found.output
    assert "<-" in found.output


def test_json(tmp_path: Path) -> None:
    found = CliRunner().invoke(
        app, [*files(tmp_path), "--drop", "q-gap:1.0", "--behaviour", "counts", "--json"]
    )
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert {row["state"] for row in document["states"]} == {0, 1, 2, 3, 4}
    assert document["path"]["epsilon"][0] == 0.0
