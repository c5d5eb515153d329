"""`deadweight doctor` as a program: what it prints, where, and its exit code."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cli.small import small_files
from doctor.broken_logs import sound

import deadweight.cli
from deadweight.cli import main
from deadweight.cli.request import parse_columns
from deadweight.errors import OptionError

NASTY = [
    "<script>alert(1)</script>",
    "\"quoted\", 'twice'",
    "line\nbreak\x1b[31m",
    "=HYPERLINK(1)",
    "[bold]x[/bold]",
]


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch, capsys):
    """The program in this process: a fresh one takes a second to start."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["deadweight", "doctor", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(ended.value.code or 0, *capsys.readouterr())

    return run


def test_in_a_process_of_its_own(tmp_path):
    program = [
        sys.executable,
        "-c",
        "from deadweight.cli import main; main()",
        "doctor",
        str(tmp_path / "no.csv"),
    ]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: DW101")
    assert "Traceback" not in done.stderr


def test_a_sound_log_is_0(tmp_path, run):
    sound().to_parquet(tmp_path / "log.parquet")
    done = run(tmp_path / "log.parquet")
    assert done.returncode == 0
    assert "No errors. The log can be evaluated." in done.stdout
    assert done.stderr == ""


def test_errors_are_1_in_text_and_json(tmp_path, run):
    path = tmp_path / "log.csv"
    sound().rename(columns={"state": "ward"}).assign(behaviour_prob=55).to_csv(path, index=False)
    done = run(path, "--columns", "state=ward")
    assert done.returncode == 1
    assert "DW404" in done.stdout
    assert "Divide them by 100." in done.stdout
    done = run(path, "--columns", "state=ward", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["ok"] is False
    assert found["counts"]["error"] == 1
    assert found["findings"][0]["code"] == "DW404"
    assert found["findings"][0]["rows"][0] == {"row": 0, "episode": "stay-000", "step": 0}


def test_warnings_alone_are_0(tmp_path, run):
    sound().drop(index=1).to_csv(tmp_path / "log.csv", index=False)
    done = run(tmp_path / "log.csv")
    assert done.returncode == 0
    assert "DW221" in done.stdout


def test_a_policy_on_disk(tmp_path, run):
    sound().to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "pi.csv").write_text("state,action,prob\nhome,wait,1\nicu,wait,1\n")
    done = run(tmp_path / "log.csv", "--target", tmp_path / "pi.csv")
    assert done.returncode == 1
    assert "DW502" in done.stdout


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("nowhere.csv", None, "DW101"),
        ("log.parquet", b"PAR1 and then nothing", "DW102"),
        ("log.csv", b"a,b\n1,2,3\n", "DW102"),
        ("log.xlsx", b"PK\x03\x04", "DW103"),
        ("log.csv", b"", "DW104"),
        ("log.csv", b"episode,step,state,action,reward\n", "DW104"),
        ("log.csv", b"episode,step,state,action\n1,2,3,4\n", "DW105"),
        ("log.csv", b"episode,step,state,action,action\n1,2,3,4,5\n", "DW108"),
    ],
)
def test_what_cannot_be_read_is_2(tmp_path, run, name, content, code):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    done = run(path, "--json")
    assert done.returncode == 2
    assert f"Error: {code}" in done.stderr
    assert json.loads(done.stdout)["findings"][0]["code"] == code
    assert "\n  " in done.stderr, "the remedy has a line of its own"


def test_bad_options_are_2(tmp_path, run):
    sound().to_csv(tmp_path / "log.csv", index=False)
    np.save(tmp_path / "flat.npy", np.ones(3))
    for arguments in (
        ["--columns", "state"],
        ["--columns", "wrad=state"],
        ["--target", tmp_path / "flat.npy"],
    ):
        done = run(tmp_path / "log.csv", *arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("Error: ")


def test_labels_stay_text_on_the_terminal(tmp_path, run):
    frame = sound().drop(columns="next_state")
    rows = [frame[frame.episode == f"stay-{i:03}"].index[0] for i in range(len(NASTY))]
    for row, label in zip(rows, NASTY, strict=True):
        frame.loc[row, ["episode", "state"]] = label
        frame.loc[row, "reward"] = np.nan
    frame.to_csv(tmp_path / "log.csv", index=False)
    done = run(tmp_path / "log.csv")
    assert done.returncode == 1
    assert "<script>alert(1)</script>" in done.stdout
    assert "\x1b" not in done.stdout
    found = json.loads(run(tmp_path / "log.csv", "--json").stdout)
    assert {row["episode"] for row in found["findings"][0]["rows"]} == set(NASTY)


def test_parse_columns():
    assert parse_columns("") == {}
    assert parse_columns("a=b=c , d = e") == {"a": "b=c", "d": "e"}
    with pytest.raises(OptionError, match="without a name"):
        parse_columns("a=")


def test_the_recommended_command_has_the_options_that_were_given(tmp_path, monkeypatch, capsys):
    log, target = tmp_path / "my log.csv", tmp_path / "policy.csv"
    sound().rename(columns={"episode": "stay"}).assign(reward="high").to_csv(log, index=False)
    target.write_text("state,action,prob\nward,treat,0.9\nward,wait,0.1\nicu,treat,1\nhome,wait,1\n")
    options = ["--target", str(target), "--columns", "episode=stay,reward=reward"]
    monkeypatch.setattr(sys, "argv", ["deadweight", "evaluate", str(log), *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    command = shlex.split(capsys.readouterr().err.split(" by: ")[1])
    assert command == ["deadweight", "doctor", str(log), *options]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "DW307" in capsys.readouterr().out


def test_a_log_without_probabilities_says_how_to_go_on(run, tmp_path):
    log, option, policy = small_files(tmp_path)
    lines = [line.rsplit(",", 1)[0] for line in Path(log).read_text(encoding="utf-8").splitlines()]
    Path(log).write_text("\n".join(lines) + "\n", encoding="utf-8")
    asked = run(log, option, policy)
    assert asked.returncode == 0
    command = next(
        line for line in asked.stdout.splitlines() if "--behaviour counts" in line and "Run:" in line
    )
    program, *arguments = shlex.split(command.partition("Run:")[2])
    assert (program, arguments[0]) == ("deadweight", "evaluate")
    assert deadweight.cli.run(arguments) == 0
    assert "DW339" not in run(log, option, policy, "--behaviour", "counts").stdout
