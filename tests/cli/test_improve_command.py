"""`deadweight improve`: exit codes, files, JSON, and what is refused before the work."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import deadweight as dw
from deadweight import cli
from deadweight.domains import stochastic_lift


def write_log(folder: Path, episodes: int = 300, pays: bool = True) -> Path:
    """A lift of 7 floors with named floors; without propensities."""
    lift = stochastic_lift(7)
    lines = ["episode,step,state,action,reward"]
    for i, episode in enumerate(lift.sample(episodes, seed=0)):
        lines += [f"{i},{t},floor {s},{'du'[a]},{r if pays else 0.0}" for t, (s, a, r) in enumerate(episode)]
    path = folder / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_better_policy_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out, report = write_log(tmp_path), tmp_path / "policy.csv", tmp_path / "page.html"
    assert cli.run(["improve", str(log), "--out", str(out), "--report", str(report)]) == 0
    said = capsys.readouterr().out
    assert "Answer: improved." in said
    assert "floor 2" in said
    policy = dw.read_policy(out)
    up = list(policy.action_labels).index("u")
    assert policy.probs[list(policy.state_labels).index("floor 2"), up] == 1.0
    assert policy.trained_on is not None
    assert "floor 2" in report.read_text()
    # The file says which log it was learnt from: evaluated there it gets no verdict.
    target = ["--target", str(out), "--behaviour", "counts", "--json"]
    assert cli.run(["evaluate", str(log), *target]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]["answer"] == "cannot tell"
    assert "trained-on-log" in document["estimates"]["DM"]["flags"]


def test_formulas_for_labels_go_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = write_log(tmp_path), tmp_path / "policy.csv"
    log.write_text(log.read_text().replace("floor ", "=floor ").replace(",d,", ",-d,").replace(",u,", ",@u,"))
    assert cli.run(["improve", str(log), "--out", str(out)]) == 0
    assert {line[:3] for line in out.read_text().splitlines()[1:]} == {"\"'="}
    capsys.readouterr()
    assert cli.run(["evaluate", str(log), "--target", str(out), "--behaviour", "counts", "--json"]) == 0
    assert "trained-on-log" in json.loads(capsys.readouterr().out)["estimates"]["DM"]["flags"]
    log.write_text(log.read_text() + "999,0,=floor 1,@u,none\n")
    assert cli.run(["doctor", str(log), "--rows", "DW317"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split(",")[3:5] == ['"\'=floor 1"', '"\'@u"']


def test_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = write_log(tmp_path), tmp_path / "policy.parquet"
    assert cli.run(["improve", str(log), "--out", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"schema", "answer", "gain", "interval", "changes", "reasons"} <= set(document)
    assert document["schema"] == 3
    assert document["changes"][0]["state"] == "floor 2"
    assert dw.read_policy(out).trained_on is not None
    found = dw.improve(dw.read(log), evaluation=False)
    assert document["gain"] == found.gain


def test_no_change_exits_with_1_and_writes_what_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = write_log(tmp_path, pays=False), tmp_path / "policy.csv"
    assert cli.run(["improve", str(log), "--out", str(out)]) == 1
    assert "nothing is changed" in capsys.readouterr().out
    policy, counted = dw.read_policy(out), dw.estimate_behaviour(dw.read(log))
    np.testing.assert_allclose(policy.probs, counted.probs)
    assert policy.trained_on is None


def test_strict_and_a_given_behaviour_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = write_log(tmp_path), tmp_path / "policy.csv"
    rows = [f"floor {s},{a},0.5" for s in range(5) for a in "du"]
    (tmp_path / "old.csv").write_text("\n".join(["state,action,prob", *rows]) + "\n")
    given = ["--behaviour", str(tmp_path / "old.csv"), "--strict", "--json"]
    assert cli.run(["improve", str(log), "--out", str(out), *given]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["settings"]["gate"] == "strict"
    assert set(document["changes"][0]["old"].values()) == {0.5}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--out", "policy.txt"], "must end in .csv or .parquet"),
        (["--out", "nowhere/policy.csv"], "could not be written"),
        (["--out", "log.csv"], "would replace the input"),
        (["--out", "p.csv", "--report", "nowhere/page.html"], "could not be written"),
        (["--out", "p.csv", "--report", "p.csv"], "name the same file"),
        (["--out", "p.csv", "--caution", "-1"], "caution must be"),
        (["--out", "p.csv", "--caution", "nan"], "caution must be"),
        (["--out", "p.csv", "--min-visits", "0"], "min_visits must be"),
        (["--out", "p.csv", "--level", "1"], "level must lie"),
        (["--out", "p.csv", "--gamma", "0"], "gamma must be"),
        (["--out", "p.csv", "--behaviour", "none.csv"], "Expected a policy"),
        ([], "out"),
    ],
)
def test_mistakes_are_found_before_the_work(
    more: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_log(tmp_path, episodes=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("deadweight.cli.request.open_log", None)  # whoever opens it has begun to work
    assert cli.run(["improve", "log.csv", *more, "--json"]) == 2
    captured = capsys.readouterr()
    assert words in json.loads(captured.out)["error"]["message"]
    assert not (tmp_path / "p.csv").exists()


def test_a_log_with_errors_points_to_the_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.csv").write_text("episode,step,state,action,reward\n0,0,a,x,\n")
    assert cli.run(["improve", str(tmp_path / "log.csv"), "--out", str(tmp_path / "p.csv")]) == 2
    assert "deadweight doctor" in capsys.readouterr().err
