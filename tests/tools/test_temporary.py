"""Temporary folders: where the user says or not at all, and none outlives its process for long."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream.folders import policies, table_of, write

import deadweight as dw
from deadweight.errors import OutputError
from deadweight.io.part_log import CommonLabels
from deadweight.io.scratch import Scratch
from deadweight.io.stream import open_stream
from deadweight.tools import files as temporary
from deadweight.tools.files import VARIABLES, NoRoom, TemporaryFolder, remove_all, sweep

TWO = CommonLabels(np.arange(2), np.arange(2))
NEEDS_A_LOCK = pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that nobody else writes to, named as users do."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    named(str(folder), monkeypatch)
    return folder


def named(folder: str, monkeypatch: pytest.MonkeyPatch, variable: str = "TMPDIR") -> None:
    for one in VARIABLES:
        monkeypatch.delenv(one, raising=False)
    monkeypatch.setenv(variable, folder)
    monkeypatch.setattr(tempfile, "tempdir", None)


# --- where -------------------------------------------------------------------------------------------------


def from_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"episode,step,state,action,reward\n0,0,0,0,1\n"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text)))
    dw.read("-")


def evaluated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dw.evaluate(open_stream(write(folder / "log", table_of()), part_rows=40), *policies())


def sorted_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_stream(write(folder / "log", table_of()), part_rows=40, sort=True)


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("use", [from_standard_input, evaluated, sorted_first])
def test_a_named_folder_that_is_not_there_is_an_error(
    use: Callable[[Path, pytest.MonkeyPatch], None],
    variable: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = str(tmp_path / "encrypted")
    named(missing, monkeypatch, variable)
    with pytest.raises(OutputError) as caught:
        use(tmp_path, monkeypatch)
    assert f"{variable} must name a folder" in caught.value.problem
    assert f"{missing!r}: No such file or directory" in caught.value.problem
    assert "Nothing is written anywhere else" in caught.value.fix


def test_neither_is_a_file_a_folder_nor_one_that_must_not_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    named(str(file), monkeypatch)
    with pytest.raises(OutputError, match="Not a directory"):
        Scratch().shelf(["reward"], 1, TWO)

    named(str(tmp_path), monkeypatch)
    monkeypatch.setattr(os, "mkdir", failing(errno.EROFS))
    with pytest.raises(OutputError, match=r"TMPDIR must name .* Read-only file system"):
        Scratch().shelf(["reward"], 1, TWO)


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_full_disk_is_an_error_only_where_there_is_no_doing_without(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write(tmp_path / "log", table_of())
    monkeypatch.setattr(temporary, "_hold", failing(errno.ENOSPC))
    assert Scratch().shelf(["reward"], 1, TWO) is None
    with pytest.raises(NoRoom, match=r"No space left on device.\n .*TMPDIR="):
        open_stream(log, part_rows=40, sort=True)
    assert not list(place.iterdir())


def test_a_full_disk_is_named_where_standard_input_is_kept(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.copyfileobj", failing(errno.ENOSPC))
    with pytest.raises(NoRoom, match=r"temporary' for temporary files: No space left"):
        from_standard_input(tmp_path, monkeypatch)
    assert not list(place.iterdir())


def test_what_a_program_chose_goes_first(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(chosen))
    assert TemporaryFolder().path.parent == chosen
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")  # where Python went before TMPDIR was set, or without it
    assert TemporaryFolder().path.parent == place


def test_a_sorted_copy_does_not_outlive_an_error_that_is_kept(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deadweight.io.stream.common_labels", failing(errno.EIO))
    log = write(tmp_path / "log", table_of())
    with pytest.raises(OSError, match="Input/output") as caught:
        open_stream(log, part_rows=40, sort=True)
    assert caught.value.__traceback__ is not None
    assert not list(place.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are not all there is")
def test_a_folder_is_for_its_user_alone(place: Path) -> None:
    before = os.umask(0)
    try:
        folder = TemporaryFolder()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.close()
    folder.close()  # nobody minds
    assert not list(place.iterdir())


# --- whose -------------------------------------------------------------------------------------------------

HOLDS = """
import sys
import numpy as np
from deadweight.io.part_log import CommonLabels
from deadweight.io.scratch import Scratch
scratch = Scratch()
shelf = scratch.shelf(["reward"], 1, CommonLabels(np.arange(2), np.arange(2)))
open(shelf.folder + "/data", "w").close()
print("here", flush=True)
sys.stdin.read()
"""


@contextmanager
def a_process_with_a_folder(place: Path, code: str = HOLDS) -> Iterator[subprocess.Popen[str]]:
    """One that has made its folder, and stays until its standard input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "here\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=600)


def name_of_a_folder(place: Path) -> str:
    """One that was there."""
    folder = TemporaryFolder()
    folder.close()
    assert folder.path.parent == place
    return folder.path.name


@NEEDS_A_LOCK
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["KILL", "TERM"])
def test_what_a_dead_process_left_goes_with_the_next_folder_that_is_made(number: int, place: Path) -> None:
    with a_process_with_a_folder(place) as dead, a_process_with_a_folder(place) as living:
        assert len(list(place.iterdir())) == 2
        dead.send_signal(number)
        dead.wait(timeout=600)
        folder = TemporaryFolder()
        left = set(place.iterdir()) - {folder.path}
        assert len(left) == 1, "that of the process which lives"
        assert list(left.pop().glob("*/data"))
        folder.close()
        living.communicate(timeout=600)
        assert living.returncode == 0
    assert not list(place.iterdir())


@NEEDS_A_LOCK
def test_a_sweep_removes_nothing_else(place: Path, tmp_path: Path) -> None:
    name = name_of_a_folder(place)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "data").touch()
    here, system, number = name.split("-")[1:]
    other = "0123abcd"
    strangers = [
        f"deadweight-{other}-{'0' * 8}-{number}",
        f"deadweight-{other}-{other}-{number}",
        "deadweight-1",
    ]
    for stranger in strangers:
        (place / stranger).mkdir()
    (place / f"deadweight-{here}-{system}-{'1' * 16}").symlink_to(kept, target_is_directory=True)
    (place / f"deadweight-{here}-{system}-{'2' * 16}").touch()
    before = set(place.iterdir())
    dead = [f"deadweight-{here}-{other}-{number}", f"deadweight-{here}-{system}-{'3' * 16}"]
    for one in dead:  # of this machine before it was started anew, and since
        (place / one).mkdir()
        (place / one / "link").symlink_to(kept, target_is_directory=True)
    sweep(str(place))
    assert set(place.iterdir()) == before
    assert (kept / "data").exists()


@NEEDS_A_LOCK
def test_another_users_folder_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = name_of_a_folder(place)
    (place / name).mkdir()
    nobody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: nobody)
    sweep(str(place))
    assert (place / name).exists()


def test_a_folder_that_is_swept_before_it_is_held_is_made_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, swept = temporary._hold, []

    def late(path: str) -> int | None:
        if not swept:
            swept.append(path)
            os.rmdir(path)
        return hold(path)

    monkeypatch.setattr(temporary, "_hold", late)
    folder = TemporaryFolder()
    assert list(place.iterdir()) == [folder.path]
    folder.close()


MAKES_MANY = """
import sys
from deadweight.tools.files import TemporaryFolder
print("here", flush=True)
sys.stdin.readline()
for number in range(200):
    folder = TemporaryFolder()
    (folder.path / "data").write_text(str(number))
    other = TemporaryFolder()
    assert (folder.path / "data").read_text() == str(number)
    folder.close()
    assert other.path.exists()
    other.close()
print("done")
"""


def test_processes_that_sweep_at_once_leave_each_other_alone(place: Path) -> None:
    with a_process_with_a_folder(place, MAKES_MANY) as one, a_process_with_a_folder(place, MAKES_MANY) as two:
        for process in (one, two):
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.communicate(timeout=600)[0] for process in (one, two)] == ["done\n", "done\n"]
    assert not list(place.iterdir())


FORKS = HOLDS.replace(
    'print("here"',
    """
import gc, os
child = os.fork()
if not child:
    scratch.close()
    del scratch, shelf
    gc.collect()
    sys.exit(3)
assert os.waitpid(child, 0)[1] == 3 << 8
print("here\"""",
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nobody forks here")
def test_a_forked_process_leaves_the_folder_of_its_parent(place: Path) -> None:
    with a_process_with_a_folder(place, FORKS) as process:
        assert len(list(place.glob("*/*/data"))) == 1
        process.communicate(timeout=600)
        assert process.returncode == 0
    assert not list(place.iterdir())


def test_all_can_be_removed_at_once(place: Path, tmp_path: Path) -> None:
    stream = open_stream(write(tmp_path / "log", table_of()), part_rows=40)
    expected = dw.evaluate(stream, *policies()).to_dict()
    assert list(place.iterdir())
    remove_all()
    assert not list(place.iterdir())
    assert dw.evaluate(stream, *policies()).to_dict() == expected, "what is gone is decoded again"
    remove_all()
