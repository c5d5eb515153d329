"""Mistakes that newcomers make at the command line: each message says what to type next, and that works."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import numpy as np
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from cli.small import small_files

from deadweight import cli
from deadweight.cli import process
from deadweight.io import files as stdin


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    assert cli.run(list(arguments)) == code
    found = capsys.readouterr()
    return found.out + found.err


def table(folder: Path, name: str, *lines: str) -> str:
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


def with_a_zero(log: str) -> None:
    """Probability 0 for the action of the second row."""
    lines = Path(log).read_text().split("\n")
    lines[2] = lines[2].rpartition(",")[0] + ",0"
    Path(log).write_text("\n".join(lines))


def test_a_policy_without_its_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, _, policy = small_files(tmp_path)
    assert f"as in --target {policy}." in said(capsys, "evaluate", log, policy)
    assert "--target" not in said(capsys, "demo", log)


def test_log_and_policy_swapped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, _, _ = small_files(tmp_path)
    policy = table(tmp_path, "policy.csv", "state,action,prob", "0,0,1")
    assert "It looks like a log" in said(capsys, "evaluate", policy, "--target", log)
    assert "If this is a policy" in said(capsys, "doctor", policy)


def test_percentages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, _, _ = small_files(tmp_path)
    policy = table(tmp_path, "policy.csv", "state,action,prob", "0,0,90", "0,1,10", "1,1,100")
    assert "They look like percentages" in said(capsys, "evaluate", log, "--target", policy)
    policy = table(tmp_path, "policy.csv", "state,action,prob", "0,0,90", "0,1,20")
    assert "sum to 1." in said(capsys, "evaluate", log, "--target", policy)


def test_a_smallest_effect_that_nobody_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = small_files(tmp_path)
    assert "--gate better --min-effect 0.5" in said(capsys, "evaluate", *files, "--min-effect", "0.5")


def test_features_are_named_as_this_command_line_takes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = table(tmp_path, "log.csv", "episode,step,temp,action,reward", "0,0,1.5,a,1")
    assert "--features a,x_*" in said(capsys, "doctor", log)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("behaviour", ["counts", "learned", "file"])
def test_probabilities_that_are_not_asked_for_may_be_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str, behaviour: str
) -> None:
    """DW406 says: use --behaviour counts. Then it must not say it again."""
    log, *target = small_files(tmp_path)
    with_a_zero(log)
    if suffix == "parquet":
        pq.write_table(csv.read_csv(log), tmp_path / "log.parquet")
        log = str(tmp_path / "log.parquet")
    assert "--behaviour counts" in said(capsys, "doctor", log, *target, code=1)
    if behaviour == "file":
        behaviour = str(tmp_path / "old.npy")
        np.save(behaviour, np.full((5, 2), 0.5))
    for verb in ("doctor", "evaluate", "states"):
        assert "DW406" not in said(capsys, verb, log, *target, "--behaviour", behaviour, code=0)


def test_probabilities_that_are_not_asked_for_are_not_read_in_parts_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, *target = small_files(tmp_path)
    with_a_zero(log)
    pq.write_table(csv.read_csv(log), tmp_path / "log.parquet")
    streamed = ("evaluate", str(tmp_path / "log.parquet"), *target, "--stream", "--behaviour")
    said(capsys, *streamed, "column")
    said(capsys, *streamed, "counts", code=0)


def test_an_old_policy_that_never_does_what_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, never = small_files(tmp_path), str(tmp_path / "old.npy")
    np.save(never, np.tile([1.0, 0.0], (5, 1)))
    assert "--behaviour counts" in said(capsys, "evaluate", *files, "--behaviour", never)
    said(capsys, "evaluate", *files, "--behaviour", "counts", code=0)


def test_a_command_that_is_pasted_has_every_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{e},0,a,b,{e}" for e in range(5)]  # few episodes, one action
    log = table(tmp_path, "log.csv", "episode,step,state,action,reward", *rows)
    shown = said(capsys, "doctor", log, "--behaviour", "counts", code=0)
    runs = [line.partition("Run: ")[2] for line in shown.split("\n") if "Run: " in line]
    assert runs
    for run in runs:
        assert "--behaviour counts" in run
        said(capsys, *shlex.split(run)[1:], code=0)


def test_the_command_is_named_so_that_it_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `make demo` it is .venv/bin/deadweight, and no shell finds deadweight."""
    monkeypatch.setattr(process.sys, "argv", [".venv/bin/deadweight", "doctor"])
    monkeypatch.setattr(process.shutil, "which", lambda _: None)
    assert process.program() == ".venv/bin/deadweight"
    monkeypatch.setattr(process.shutil, "which", lambda _: "/usr/bin/deadweight")
    assert process.program() == "deadweight"
    monkeypatch.setattr(process.shutil, "which", lambda _: None)
    monkeypatch.setattr(process.sys, "argv", ["/usr/bin/pytest"])
    assert process.program() == "deadweight"


@pytest.mark.parametrize("verb", ["evaluate", "compare", "improve"])
def test_an_inferred_time_limit_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{e},{t},{rng.integers(2)},{rng.integers(2)},1,0.5" for e in range(60) for t in range(4)]
    log = table(tmp_path, "log.csv", "episode,step,state,action,reward,behaviour_prob", *rows)
    one = table(tmp_path, "one.csv", "state,action", "0,1", "1,1")
    two = table(tmp_path, "two.csv", "state,action", "0,0", "1,1")
    more = {
        "evaluate": ["--target", one],
        "compare": ["--target", one, "--target", two],
        "improve": ["--out", str(tmp_path / "out.csv")],
    }[verb]
    assert cli.run([verb, log, *more]) in (0, 1)
    assert capsys.readouterr().err.count("exactly 4 steps") == 1


def test_a_terminal_is_told_that_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr(stdin.sys, "stdin", nothing)
        monkeypatch.setattr(nothing, "isatty", lambda: True, raising=False)
        shown = said(capsys, "doctor", "-")
    assert "Waiting for a log on standard input" in shown
    assert "nothing came" in shown


@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_weights_for_cuts_that_have_nothing_to_weigh_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """The flag truncated suggests --cut-weights auto, which has nothing to weigh by at the last step."""
    rng = np.random.default_rng(0)
    lengths = [4 if e % 3 else 2 for e in range(60)]
    rows = [
        f"{e},{t},{rng.integers(2)},{rng.integers(2)},1,0.5,{int(t == 3)}"
        for e, length in enumerate(lengths)
        for t in range(length)
    ]
    names = "episode,step,state,action,reward,behaviour_prob,truncated"
    log = table(tmp_path, "log.csv", names, *rows)
    policies = [table(tmp_path, f"{k}.csv", "state,action", f"0,{k}", "1,1") for k in (0, 1)]
    files = [log, *(word for one in policies[: 1 + (verb == "compare")] for word in ("--target", one))]
    shown = said(capsys, verb, *files, "--cut-weights", "auto", code=0)
    assert "--cut-weights auto changes nothing here: no episode was cut before the time limit of 4 " in shown
    alone = [f"{row.rpartition(',')[0]},{int(row.startswith('1,3,'))}" for row in rows]
    table(tmp_path, "log.csv", names, *alone)
    shown = said(capsys, verb, *files, "--cut-weights", "auto", code=0)
    assert "--cut-weights auto changes nothing here: the only cut is at the last step" in shown
    uncut = [f"{row.rpartition(',')[0]},0" for row in rows]
    table(tmp_path, "log.csv", names, *uncut)
    assert "no episode was cut." in said(capsys, verb, *files, "--cut-weights", "auto", code=0)
    assert "changes nothing" not in said(capsys, verb, *files, code=0)


def test_a_misspelt_word_is_not_taken_for_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = small_files(tmp_path)
    assert "Did you mean 'counts'?" in said(capsys, "evaluate", *files, "--behaviour", "count")
    assert "Expected a policy at" in said(capsys, "evaluate", *files, "--behaviour", "old.csv")


def test_a_mended_log_has_a_name_by_which_it_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is Parquet, and as out.csv nobody could read it."""
    log, *_ = small_files(tmp_path)
    out = tmp_path / "out.csv"
    assert "For example --fix out.parquet." in said(capsys, "doctor", log, "--fix", str(out))
    assert not out.exists()
    said(capsys, "doctor", log, "--fix", str(tmp_path / "out.parquet"), code=0)
    said(capsys, "doctor", str(tmp_path / "out.parquet"), code=0)


def test_other_files_say_how_to_save_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.xlsx").write_bytes(b"PK")
    assert "save it as 'CSV UTF-8'" in said(capsys, "doctor", str(tmp_path / "log.xlsx"))
    log, *_ = small_files(tmp_path)
    notes = table(tmp_path, "rule.csv", "state,action,notes", "0,1,why")
    assert "and no other column" in said(capsys, "evaluate", log, "--target", notes)


def test_bounds_name_the_option_that_they_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = small_files(tmp_path)
    assert "--return-range 0,1" in said(capsys, "evaluate", *files, "--interval", "guaranteed")


def test_an_old_policy_over_features_is_learned_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{e},{t},{rng.normal():.3f},{rng.integers(2)},1,0.5,0.5" for e in range(40) for t in range(2)]
    names = "episode,step,temp,action,reward,target_prob_0,target_prob_1"
    log = table(tmp_path, "log.csv", names, *rows)
    asked = ("evaluate", log, "--features", "temp", "--time-limit", "2", "--behaviour")
    assert "--behaviour learned" in said(capsys, *asked, "counts")
    said(capsys, *asked, "learned", code=0)
