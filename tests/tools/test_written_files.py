"""Every file that a verb or a command writes: its mode, the link that it may be, and what else lies there.

A file that nobody else may read stays one, a new one is as the umask says; a link stays a link, and what it
leads to is written; whatever has the name of a temporary file is neither followed nor removed.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deadweight_studies
import numpy as np
import pytest
from cli.small import small_files
from deadweight_studies import taxi_training
from deadweight_studies.coverage import write_tables
from deadweight_studies.headline_tables import write_headline
from deadweight_studies.work import _show

import deadweight as dw
from deadweight.cli import run
from deadweight.io.policy_files import write_policy
from deadweight.tools import files as atomic

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX")

LIFT = dw.domains.stochastic_lift(7)
LOG = LIFT.sample(60, seed=0)
RESULTS: dict[str, Callable[[], Any]] = {
    "estimate": lambda: dw.estimate("WIS", LOG, LIFT.pi_e, LIFT.pi_b),
    "evaluation": lambda: dw.evaluate(LOG, LIFT.pi_e, LIFT.pi_b),
    "verdict": lambda: dw.evaluate(LOG, LIFT.pi_e, LIFT.pi_b).verdict,
    "path": lambda: dw.epsilon_path("WSPDIS", LOG, LIFT.pi_e, LIFT.pi_b),
    "comparison": lambda: dw.compare(LOG, {"a": LIFT.pi_e, "b": LIFT.pi_b}, LIFT.pi_b, resamples=100),
    "improvement": lambda: dw.improve(LOG),
}
RESULTS = {kind: functools.cache(made) for kind, made in RESULTS.items()}
WITH_A_REPORT = ("evaluation", "comparison", "improvement")
IN = {"log": "", "policy": ""}
"""Input of the commands, in a folder of its own."""

Writer = Callable[[Path], object]


@pytest.fixture(scope="module", autouse=True)
def _inputs(tmp_path_factory: pytest.TempPathFactory) -> None:
    log, _, policy = small_files(tmp_path_factory.mktemp("inputs"))
    np.savez(Path(policy).with_name("old.npz"), probs=LIFT.pi_b.probs, states=np.arange(5), actions=[0, 1])
    Path(log).chmod(0o666)  # for all to read, as a mended log then may be
    long = Path(policy).with_name("long.csv")
    rows = [f"{i},{t},0,0,{np.sin(i + t)!r},0.5" for i in range(500) for t in range(2)]
    long.write_text("\n".join(["episode,step,state,action,reward,behaviour_prob", *rows]))
    IN.update(long=str(long), log=log, policy=policy, old=str(Path(policy).with_name("old.npz")))


def _command(*words: str) -> Writer:
    return lambda folder: run([word.format(folder=folder, **IN) for word in words])


def _trained(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(taxi_training, "train", lambda: [np.ones((1, 6)) / 6] * 2)
        taxi_training.main([str(folder / "policies.npz")])


NAMED_WORDS = {
    "evaluate": ("evaluate", "{log}", "--target", "{policy}", "--report", "{folder}/x"),
    "compare": (
        *("compare", "{log}", "--target", "{policy}", "--target", "{old}", "--resamples", "100"),
        *("--report", "{folder}/x"),
    ),
    "improve": ("improve", "{log}", "--out", "{folder}/x.csv", "--report", "{folder}/x"),
    "doctor": ("doctor", "{log}", "--fix", "{folder}/x.parquet"),
    "demo": ("demo", "--episodes", "60", "--logs", "1", "--report", "{folder}/x"),
    "demo of the lift": ("demo", "--domain", "lift", "--logs", "1", "--report", "{folder}/x"),
}
# Files whose paths a user names.
NAMED: dict[str, Writer] = {
    **{
        f"saved {kind}": (lambda folder, made=made: made().save(folder / "x"))
        for kind, made in RESULTS.items()
    },
    **{
        f"report of {one}": (lambda folder, made=RESULTS[one]: made().report(folder / "x"))
        for one in WITH_A_REPORT
    },
    "policy.csv": lambda folder: write_policy(LIFT.pi_e, folder / "x.csv"),
    "policy.parquet": lambda folder: write_policy(LIFT.pi_e, folder / "x.parquet"),
    **{name: _command(*words) for name, words in NAMED_WORDS.items()},
}
# Files in a folder that a user names.
WRITERS: dict[str, Writer] = {
    **NAMED,
    "demo --files": _command("demo", "--files", "{folder}"),
    "reproduce a table": _command(
        "reproduce", "table-5", "--runs", "1", "--workers", "1", "--out", "{folder}"
    ),
    "reproduce a figure": _command(
        "reproduce", "figure-1", "--runs", "1", "--workers", "1", "--out", "{folder}"
    ),
    "study": lambda folder: _show(folder, "a table"),
    "study of the headline": lambda folder: write_headline(folder, 1),
    "coverage": lambda folder: write_tables(folder, 1),
    "policies of taxi": _trained,
}

every_writer = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
every_named = pytest.mark.parametrize("write", NAMED.values(), ids=NAMED.keys())


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if not path.is_dir() and path.name != ".lock")


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def _is_kept(path: Path) -> bool:
    """Whether it is a store, which is not written again where nothing is new."""
    return path.suffix == ".jsonl"


@every_writer
def test_modes(write: Writer, tmp_path: Path, umask: None) -> None:
    write(tmp_path)
    files = _files(tmp_path)
    assert files
    assert {path.name: _mode(path) for path in files} == {path.name: 0o640 for path in files}
    for mode in (0o600, 0o664):
        for path in files:
            path.chmod(mode)
        before = {path: path.stat().st_ino for path in files}
        write(tmp_path)
        assert _files(tmp_path) == files
        assert {path.name: _mode(path) for path in files} == {path.name: mode for path in files}
        assert all(path.stat().st_ino != before[path] for path in files if not _is_kept(path))


@every_writer
def test_links(write: Writer, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir(), elsewhere.mkdir()
    write(folder)
    files = _files(folder)
    for number, path in enumerate(files):
        path.replace(elsewhere / f"{number}{path.suffix}")
        path.symlink_to(Path(os.path.relpath(elsewhere, path.parent)) / f"{number}{path.suffix}")
    before = {path: path.stat().st_ino for path in files}
    write(folder)
    assert _files(folder) == files
    assert all(path.is_symlink() for path in files)
    assert [path.stem for path in _files(elsewhere)] == sorted(map(str, range(len(files))))
    assert all(path.stat().st_ino != before[path] for path in files if not _is_kept(path))


@every_writer
def test_links_with_the_names_of_temporary_files(write: Writer, tmp_path: Path) -> None:
    folder, victim = tmp_path / "folder", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("mine")
    write(folder)
    files = _files(folder)
    planted = [path.with_name(f".{path.name}.{os.getpid()}.part") for path in files]
    planted += [path.with_name(f".{path.name}.2147483646.{'0' * 16}.part") for path in files]
    for path in planted:
        path.symlink_to(victim)
    write(folder)
    assert victim.read_text() == "mine"
    assert _files(folder) == sorted([*files, *planted])
    assert all(path.is_symlink() for path in planted)
    assert not any(path.is_symlink() for path in files)


@every_named
def test_pipes(write: Writer, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder)
    files = _files(folder)
    sizes = {path: path.stat().st_size for path in files}
    for path in files:
        path.unlink()
        os.mkfifo(path)
    finished, came = threading.Event(), dict.fromkeys(files, 0)
    reader = threading.Thread(target=_read_all, args=[came, _opened(files), finished])
    reader.start()
    try:
        write(folder)
    finally:
        finished.set()
        reader.join()
    assert all(path.is_fifo() for path in files)
    # A name of the folder is in what is written, so that sizes are not quite the same.
    assert all(came[path] > 0.9 * sizes[path] for path in files)


def _opened(pipes: list[Path]) -> dict[Path, int]:
    return {path: os.open(path, os.O_RDONLY | os.O_NONBLOCK) for path in pipes}


def _read_all(came: dict[Path, int], handles: dict[Path, int], finished: threading.Event) -> None:
    """Count the bytes that come out of pipes, until the writer has finished and nothing is left."""
    while True:
        last = finished.is_set()
        for path, handle in handles.items():
            with contextlib.suppress(BlockingIOError):
                while piece := os.read(handle, 1 << 16):
                    came[path] += len(piece)
        if last:
            break
        time.sleep(0.001)
    for handle in handles.values():
        os.close(handle)


def test_devices(tmp_path: Path) -> None:
    """A terminal, in whose folder nobody can put a file: a broken door must not do so as root."""
    reader, terminal = os.openpty()
    try:
        (tmp_path / "link").symlink_to(os.ttyname(terminal))
        for path in (tmp_path / "link", Path(os.ttyname(terminal))):
            atomic.probe(path)
            atomic.write_text(path, "whole")
            assert os.read(reader, 100) == b"whole"
        assert (tmp_path / "link").is_symlink()
    finally:
        os.close(reader)
        os.close(terminal)


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(dw.errors.OutputError, match="nobody reads from this pipe"):
        RESULTS["estimate"]().save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_disk_and_a_socket_are_no_files(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as there:
        place = os.getcwd()
        os.chdir(tmp_path)  # the path of a socket may not be long
        try:
            there.bind("socket")
        finally:
            os.chdir(place)
        with pytest.raises(dw.errors.OutputError, match="it is a disk or a socket, not a file"):
            RESULTS["estimate"]().save(tmp_path / "socket")
        assert (tmp_path / "socket").is_socket()


def test_nobody_reads_a_file_while_it_is_written(tmp_path: Path, umask: None) -> None:
    seen = []

    def write(file) -> None:
        (one,) = tmp_path.glob(".x.*")
        seen.append((_mode(one), one.is_symlink()))
        file.write(b"done")

    for mode in (None, 0o666):
        if mode is not None:
            (tmp_path / "x").chmod(mode)
        atomic.write_whole(tmp_path / "x", write)
    assert seen == [(0o600, False)] * 2
    assert _mode(tmp_path / "x") == 0o666


def test_a_file_system_without_modes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)
    atomic.write_text(tmp_path / "x", "whole")
    assert (tmp_path / "x").read_text() == "whole"
    assert _mode(tmp_path / "x") == 0o600


def test_what_dead_processes_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f".x.{gone.pid}.{'a' * 16}.part"
    others = [
        tmp_path / f".x.{os.getpid()}.{'a' * 16}.part",  # of one that goes on
        tmp_path / f".x.{gone.pid}.{'a' * 16}.part.csv",
        tmp_path / f".x.{gone.pid}.aaaa.part",
        tmp_path / f".x.y.{gone.pid}.{'a' * 16}.part",  # of another file
    ]
    for path in (left, *others):
        path.write_text("part")
    linked = tmp_path / f".x.{gone.pid}.{'b' * 16}.part"
    linked.symlink_to(others[0])
    foreign = tmp_path / f".x.{gone.pid}.{'c' * 16}.part"
    foreign.write_text("part")
    if os.geteuid() == 0:
        os.chown(foreign, 12345, -1)
    atomic.probe(tmp_path / "x")
    assert not left.exists()
    left.write_text("part")
    atomic.write_text(tmp_path / "x", "whole")
    expected = {*others, linked, tmp_path / "x"} | ({foreign} if os.geteuid() == 0 else set())
    assert set(tmp_path.iterdir()) == expected


def _fixed(source: Path, folder: Path) -> list[int]:
    out = folder / "mended.parquet"
    run(["doctor", str(source), "--fix", str(out)])
    return [_mode(out), _mode(out.with_name(out.name + ".changes.json"))]


def test_a_mended_log_is_as_private_as_the_log(tmp_path: Path, umask: None) -> None:
    log, link, parts = tmp_path / "log.csv", tmp_path / "link.csv", tmp_path / "parts"
    log.write_bytes(Path(IN["log"]).read_bytes())
    link.symlink_to(log)
    for mode, expected in [(0o600, 0o600), (0o400, 0o600), (0o666, 0o640), (0o640, 0o640), (0o444, 0o640)]:
        log.chmod(mode)
        for source in (log, link):
            assert _fixed(source, tmp_path) == [expected] * 2
            (tmp_path / "mended.parquet").unlink()
            (tmp_path / "mended.parquet.changes.json").unlink()
    parts.mkdir()
    for number, mode in enumerate([0o666, 0o606, 0o660]):
        shutil.copy(log, parts / f"{number}.csv")
        (parts / f"{number}.csv").chmod(mode)
    assert _fixed(parts, tmp_path) == [0o600] * 2  # the umask's 640 and those of all three
    for path in tmp_path.glob("mended*"):
        path.chmod(0o666)  # an older one for everybody
    log.chmod(0o640)
    assert _fixed(log, tmp_path) == [0o640] * 2


def test_a_mended_log_from_standard_input_is_as_the_umask_says(
    tmp_path: Path, umask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Path(IN["log"]).open() as given:
        monkeypatch.setattr("sys.stdin", given)
        assert _fixed(Path("-"), tmp_path) == [0o640] * 2


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_mended_log_of_another_group_has_what_all_have(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_bytes(Path(IN["log"]).read_bytes())
    os.chown(log, 12345, 12346)
    log.chmod(0o664)
    assert _fixed(log, tmp_path) == [0o644] * 2
    log.chmod(0o640)
    assert _fixed(log, tmp_path) == [0o600] * 2


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_owner_and_group_stay_where_they_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    os.chown(path, 12345, 12346)
    path.chmod(0o664)
    atomic.write_text(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid, _mode(path)) == (12345, 12346, 0o664)

    def refuse(*given: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    for mode, left in [(0o664, 0o644), (0o640, 0o600), (0o604, 0o600), (0o666, 0o666)]:
        os.chown(path, 12345, 12346)
        path.chmod(mode)
        atomic.write_text(path, "new")
        assert (path.stat().st_gid, _mode(path)) == (os.getegid(), left)


def _deadweight(*words: str, out: Any) -> int:
    given = [word.format(**IN) for word in words]
    return subprocess.run([sys.executable, "-m", "deadweight", *given], stdout=out, timeout=120).returncode


def test_a_report_to_standard_output_follows_the_table(tmp_path: Path) -> None:
    words = ("evaluate", "{log}", "--target", "{policy}", "--report", "/dev/fd/1")
    with (tmp_path / "out").open("wb") as file:
        assert _deadweight(*words, out=file) == 0
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pipe:
        assert _deadweight(*words, out=pipe.stdin) == 0
        piped = pipe.communicate()[0].decode()
    for text in (piped, (tmp_path / "out").read_text()):
        assert text.index("Verdict: ") < text.index("<!doctype html>") < text.index("</html>")
        assert text.endswith("Report: /dev/fd/1\n")


def test_a_report_to_standard_output_is_no_part_of_a_json_document(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        words = ("evaluate", "nowhere.csv", "--json", "--report", str(tmp_path / "out"))
        assert _deadweight(*words, out=file) == 2
    error = json.loads((tmp_path / "out").read_text())["error"]
    assert "it is standard output, where --json prints its document" in error["message"]


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "{log}", "--target", "{policy}", "--behaviour", "{old}", "--report", "{old}"),
        ("evaluate", "{log}", "--target", "{policy}", "--behaviour", "0={old}", "--report", "{old}"),
        ("compare", "{log}", "--target", "{policy}", "--target", "{old}", "--report", "{old}"),
        ("improve", "{folder}/part.csv", "--out", "{folder}/x.csv", "--report", "{folder}/part.csv/0.csv"),
        ("improve", "{folder}/part.csv", "--out", "{folder}/part.csv/0.csv"),
        ("improve", "{folder}/part.csv", "--out", "{folder}/link.csv"),
        ("evaluate", "{folder}/part.csv", "--target", "{policy}", "--report", "{folder}/part.csv/0.csv"),
    ],
)
def test_no_input_is_replaced(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "part.csv").mkdir()
    shutil.copy(IN["log"], tmp_path / "part.csv" / "0.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "part.csv" / "0.csv")
    inputs = [Path(IN["old"]), tmp_path / "part.csv" / "0.csv"]
    before = [path.read_bytes() for path in inputs]
    assert _command(*words)(tmp_path) == 2
    assert "would replace the input" in capsys.readouterr().err
    assert [path.read_bytes() for path in inputs] == before
    assert not (tmp_path / "x.csv").exists()


def test_two_names_of_one_file_are_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x.csv")
    assert _command("improve", "{log}", "--out", "{folder}/x.csv", "--report", "{folder}/link")(tmp_path) == 2
    assert "--out and --report name the same file" in capsys.readouterr().err


def test_the_record_of_changes_is_checked_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.parquet.changes.json").mkdir()
    assert _command("doctor", "nowhere.csv", "--fix", "{folder}/x.parquet")(tmp_path) == 2
    assert "x.parquet.changes.json' could not be written: it is a folder" in capsys.readouterr().err
    assert run(["doctor", "nowhere.csv", "--fix", str(tmp_path / f"{'x' * 240}.parquet")]) == 2
    assert "File name too long" in capsys.readouterr().err


def test_trying_a_folder_leaves_what_is_in_it(tmp_path: Path) -> None:
    for name in ("writable", "any"):
        (tmp_path / name).write_text("mine")
    atomic.check_folder(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"writable": "mine", "any": "mine"}


def _lost(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command on a disk that is full after the first letters: no file may be longer."""
    small = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (4096, r.RLIM_INFINITY))"
    command = [sys.executable, "-c", f"{small}; from deadweight.cli import main; main()"]
    given = [word.format(folder=folder, **IN) for word in words]
    return subprocess.run([*command, *given], capture_output=True, text=True, timeout=120)


COMPUTED = {
    "evaluate": (
        (*NAMED_WORDS["evaluate"], "--gate", "worse"),
        "Verdict: ",
        "estimates",
        {"report": None},
    ),
    "compare": (NAMED_WORDS["compare"], "Recommendation: ", "ranking", {"report": None}),
    "improve": (NAMED_WORDS["improve"], "Answer: ", "answer", {"report": None}),
    "doctor": (
        ("doctor", "{long}", "--fix", "{folder}/x.parquet"),
        "What is left:",
        "left",
        {"written": None},
    ),
    "demo": (NAMED_WORDS["demo"], "Verdicts that are wrong: ", "estimates", {"report": None}),
}


@pytest.mark.parametrize(("words", "said", "field", "paths"), COMPUTED.values(), ids=COMPUTED.keys())
def test_a_full_disk_takes_no_result_away(
    words: tuple[str, ...], said: str, field: str, paths: dict[str, None], tmp_path: Path
) -> None:
    old = dict.fromkeys((tmp_path / "x", tmp_path / "x.parquet"), "old")
    for path, text in old.items():
        path.write_text(text)
    printed = _lost(tmp_path, *words)
    assert printed.returncode == 2, printed.stderr
    assert said in printed.stdout
    assert "Report: " not in printed.stdout
    assert "File too large" in printed.stderr
    document = _lost(tmp_path, *words, "--json")
    assert document.returncode == 2, document.stderr
    shown = json.loads(document.stdout)
    assert field in shown
    assert paths.items() <= shown.items()
    assert "File too large" in shown["error"]["message"]
    assert "File too large" in document.stderr
    assert {path: path.read_text() for path in old} == old
    assert not list(tmp_path.glob(".*"))


def test_what_could_be_written_is_named(tmp_path: Path) -> None:
    """The policy is short, and there was room for it."""
    shown = json.loads(_lost(tmp_path, *NAMED_WORDS["improve"], "--json").stdout)
    assert (shown["policy"], shown["report"]) == (str(tmp_path / "x.csv"), None)
    assert (tmp_path / "x.csv").exists()


def test_a_defect_in_the_report_takes_no_result_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*given: object) -> str:
        raise KeyError("defect")

    monkeypatch.setattr("deadweight.report.page.render", broken)
    assert _command(*NAMED_WORDS["evaluate"])(tmp_path) == 3
    captured = capsys.readouterr()
    assert "Verdict: " in captured.out
    assert "DW999" in captured.err
    assert _command(*NAMED_WORDS["evaluate"], "--json")(tmp_path) == 3
    shown = json.loads(capsys.readouterr().out)
    assert (shown["error"]["code"], shown["report"], "estimates" in shown) == ("DW999", None, True)


# Where else something is written, and why: appended to; or in a temporary folder that is the process's own.
APART = {
    "cli/process.py": {"open"},  # /dev/null in the place of a closed stream
    "io/files.py": {"open"},  # standard input, kept for the passes that follow
    "io/scratch.py": {"ParquetWriter", "tofile", "write_table", "write_text"},
    "tools/files.py": {"open", "fdopen"},
    "deadweight_studies/benchmark/cases.py": {"write_table", "write_text"},
    "deadweight_studies/records.py": {"open"},
}
WRITING = {"write_bytes", "write_text", "tofile", "savefig", "savez", "savez_compressed", "save", "savetxt"}
WRITING |= {"write_table", "write_csv", "to_parquet", "to_csv", "to_json", "ParquetWriter", "fdopen", "dump"}


def test_there_is_no_other_door() -> None:
    """A call that writes a file by itself: given `file` by `write_whole`, or in the list above."""
    source, seen = Path(dw.__file__).parent, {}
    studies = Path(deadweight_studies.__file__).parent
    for path in [*sorted(source.rglob("*.py")), *sorted(studies.rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (name := _writes(node)):
                home = source if path.is_relative_to(source) else studies.parent
                seen.setdefault(path.relative_to(home).as_posix(), set()).add(name)
    assert seen == APART


def _writes(call: ast.Call) -> str:
    of_a_module = isinstance(call.func, ast.Attribute)
    name = call.func.attr if of_a_module else getattr(call.func, "id", "")
    words = [one.value for one in ast.walk(call) if isinstance(one, ast.Constant)]
    given = {one.id for one in ast.walk(call) if isinstance(one, ast.Name)}
    if name == "open":
        modes = [word for word in words if isinstance(word, str) and 0 < len(word) <= 3]
        flags = {one.attr for one in ast.walk(call) if isinstance(one, ast.Attribute)}
        new = {"O_CREAT", "O_WRONLY", "O_RDWR"} & flags or {"NEW", "THROUGH"} & given
        return name if new or any(set(mode) & set("wax+") for mode in modes) else ""
    in_memory = {"file", "sink"} & given
    ours = name == "write_text" and not of_a_module
    return name if name in WRITING and not (in_memory or ours) and of_a_module else ""
