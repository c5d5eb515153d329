"""`doctor`: commands that can be pasted, rows of a finding, and `--fix`."""

from __future__ import annotations

import csv
import errno
import io
import json
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli.small import small_files

import deadweight as dw
from deadweight.cli import run

HEADER = "stay,when,ward,done,points,chance"


def broken(folder: Path, chance: str = "50") -> list[str]:
    """A log with own names, German dates, blank rewards, a row that stands twice, and percentages."""
    lines = [HEADER]
    for stay in range(30):
        for day in range(1, 4):
            reward = stay % 2 if day == 3 else ""
            lines.append(f"{stay},0{day}.02.2026,{'ward' if day < 3 else 'icu'},{day % 2},{reward},{chance}")
    lines.append(lines[5])
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    names = "episode=stay,step=when,state=ward,action=done,reward=points,behaviour_prob=chance"
    return [str(folder / "log.csv"), "--columns", names]


def commands_of(text: str) -> list[list[str]]:
    return [shlex.split(line)[2:] for line in text.splitlines() if line.startswith("  Run: ")]


def test_pasting_what_is_printed_leads_to_a_log(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["doctor", *broken(tmp_path)]
    for _ in range(6):
        code = run(arguments)
        shown = capsys.readouterr().out
        if code == 0:
            break
        (arguments, *_) = [words for words in commands_of(shown) if words[1:]]
    assert code == 0, shown
    assert (tmp_path / "mended.parquet").exists()
    log = dw.read(tmp_path / "mended.parquet")
    assert (log.n_episodes, log.n_steps) == (30, 90)
    assert log.propensities is not None
    assert set(log.propensities) == {0.5}
    assert log.rewards.sum() == 15


def test_the_record_says_what_was_changed(tmp_path: Path, capsys):
    options = ["--time-format", "%d.%m.%Y", "--fill-reward", "0", "--fix", str(tmp_path / "out.parquet")]
    assert run(["doctor", *broken(tmp_path), *options, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    rows = {change["code"]: change["rows"] for change in shown["changes"] if change["code"]}
    assert rows == {"DW305": 61, "DW306": 91, "DW404": 91, "DW202": 1, "DW223": 90}
    beside = json.loads((tmp_path / "out.parquet.changes.json").read_text())
    assert beside["changes"] == shown["changes"]
    inside = pq.read_schema(tmp_path / "out.parquet").metadata[b"deadweight.changes"]
    assert json.loads(inside)["changes"] == shown["changes"]
    assert shown["left"]["ok"]


def test_numbers_in_the_way_of_a_country_are_written_as_numbers(tmp_path: Path, capsys):
    rows = [f"{stay};{step};a;{stay % 2};{stay},25;50%" for stay in range(30) for step in range(2)]
    header = "episode;step;state;action;reward;behaviour_prob"
    (tmp_path / "log.csv").write_text("\n".join([header, *rows]))
    out = tmp_path / "out.parquet"
    assert run(["doctor", str(tmp_path / "log.csv"), "--fix", str(out), "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert [one["column"] for one in changes if one["code"] == "DW336"] == ["reward", "behaviour_prob"]
    table = pq.read_table(out)
    assert table["reward"].to_pylist()[:3] == [0.25, 0.25, 1.25]
    assert set(table["behaviour_prob"].to_pylist()) == {0.5}
    assert run(["doctor", str(tmp_path / "log.csv")]) == 0
    assert "such as '0,25', which was read as 0.25" in capsys.readouterr().out


def test_unusable_probabilities_are_left_out(tmp_path: Path, capsys):
    options = ["--time-format", "%d.%m.%Y", "--fill-reward", "0", "--fix", str(tmp_path / "out.parquet")]
    assert run(["doctor", *broken(tmp_path, chance="0"), *options]) == 0
    assert "--behaviour counts" in capsys.readouterr().out
    assert dw.read(tmp_path / "out.parquet").propensities is None


def test_rows_of_a_finding(tmp_path: Path, capsys):
    arguments = ["doctor", *broken(tmp_path)]
    assert run([*arguments, "--rows", "dw305"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 60 + 1
    assert all(row["points"] == "" for row in rows)
    assert run([*arguments, "--rows", "DW999"]) == 2


def test_every_finding_of_json_has_a_command(tmp_path: Path, capsys):
    assert run(["doctor", *broken(tmp_path), "--json"]) == 1
    for finding in json.loads(capsys.readouterr().out)["findings"]:
        assert finding["command"].startswith("deadweight ")


def test_the_input_is_never_replaced(tmp_path: Path, capsys):
    given = broken(tmp_path)
    before = Path(given[0]).read_bytes()
    assert run(["doctor", *given, "--fix", given[0]]) == 2
    assert Path(given[0]).read_bytes() == before
    assert "would replace the input" in capsys.readouterr().err


@pytest.mark.parametrize("writer", ["pyarrow.parquet.write_table", "deadweight.cli.doctor.write_text"])
def test_a_full_disk_is_one_message_that_names_an_option_of_the_command(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch, writer: str
):
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer, full)
    options = ["--time-format", "%d.%m.%Y", "--fill-reward", "0", "--fix", str(tmp_path / "out.parquet")]
    assert run(["doctor", *broken(tmp_path), *options]) == 2
    said = capsys.readouterr().err
    assert "could not be written: No space left on device." in said
    assert said.splitlines()[-1] == "  Free some space, or name a file on another disk with --fix."


def test_a_full_disk_under_demo_names_an_option_of_the_command(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
):
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("deadweight.domains.write_text", full)
    assert run(["demo", "--files", str(tmp_path / "ward")]) == 2
    said = capsys.readouterr().err
    assert said.splitlines()[-1] == "  Free some space, or name a folder on another disk with --files."


def test_features_and_policies_row_by_row_are_kept(tmp_path: Path, capsys):
    lines = ["episode,step,x_1,x_2,action,reward,target_prob_a,target_prob_b,behaviour_prob"]
    for i in range(30):
        lines += [f"{i},{t},{i % 7},{t},{'ab'[(i + t) % 2]},{'' if t else 1},0.25,0.75,50" for t in range(3)]
    (tmp_path / "log.csv").write_text("\n".join([*lines, lines[6]]) + "\n")
    options = ["--features", "x_*", "--fill-reward", "0", "--fix", str(tmp_path / "out.parquet")]
    assert run(["doctor", str(tmp_path / "log.csv"), *options]) == 0, capsys.readouterr()
    log = dw.read(tmp_path / "out.parquet", features="x_*")
    assert log.n_steps == 90
    assert list(log.feature_names) == ["x_1", "x_2"]
    assert set(log.propensities) == {0.5}
    assert {"target_prob_a", "target_prob_b"} <= set(pq.read_schema(tmp_path / "out.parquet").names)


def test_the_reward_has_a_name_in_the_report(tmp_path: Path):
    given = small_files(tmp_path)
    report = tmp_path / "report.html"
    assert run(["evaluate", *given, "--report", str(report), "--reward", "minutes saved"]) == 0
    assert "minutes saved" in report.read_text(encoding="utf-8")
