"""What an exception becomes at the command line: one message, a code, and an exit code that is never 1.

1 and 4 are answers: the doctor found errors, or a gate is closed. A user's mistake is 2; a defect of
deadweight is 3, with what to report.
"""

from __future__ import annotations

import _thread
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from deadweight._version import __version__
from deadweight.cli.output import out_json, program, say, tell
from deadweight.errors import DeadweightError, OutputError, TooLarge
from deadweight.tools.files import remove_all, sweep

# --------------------------------------------------------------------------------------------------------
# Signals that stop a command: nothing temporary stays, and the process ends by the signal.
#
# Whoever waits for a process learns from its end that a signal did it: a shell then stops its loop too, and
# a scheduler knows that the work is not done. A library must do nothing of this behind a program's back, so
# only the command does.

# As shells tell that a signal ended a command.
BY_SIGNAL = 128
NUMBERS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
UNTOUCHED = (signal.SIG_DFL, signal.default_int_handler)
# Seconds to let go of workers and of unfinished files; a thread may be waiting for a disk that is gone.
PATIENCE = 5.0


class Stopped(BaseException):
    """A signal has come: like `KeyboardInterrupt`, which typer takes for its own, but of any signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def ended_by_signals(command: Callable[[], int]) -> int:
    """The exit code of a command; where a signal stops it, this does not return.

    Signals that somebody chose to ignore, as `nohup` does, stay ignored.
    """
    handled = NUMBERS if threading.current_thread() is threading.main_thread() else []
    before = {number: signal.getsignal(number) for number in handled}
    before = {number: handler for number, handler in before.items() if handler in UNTOUCHED}
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        # Here and not only on the way out, where a thread may have to be waited for.
        remove_all()
        came.append(number)
        for one in before:  # whoever cannot wait sends another
            signal.signal(one, signal.SIG_DFL)
        _thread.start_new_thread(_end_later, (number,))  # without the locks of `threading`, which may be held
        raise Stopped(number)

    try:
        try:
            for number in before:
                signal.signal(number, stop)
            sweep()
            return command()
        finally:
            remove_all()
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if came else handler)
    finally:
        if came:
            _end(came[0])


def _end_later(number: int) -> None:
    time.sleep(PATIENCE)
    remove_all()
    _end(number)


def _end(number: int) -> NoReturn:
    """End this process by a signal; the first process of a container survives those that it sends itself."""
    os.kill(os.getpid(), number)
    os._exit(BY_SIGNAL + number)


# --------------------------------------------------------------------------------------------------------

MISTAKE = 2
DEFECT = 3
USAGE = "DW910"
INTERNAL = "DW999"
TRACEBACK = "DEADWEIGHT_TRACEBACK"


Extra = Mapping[str, object]


@dataclass(frozen=True)
class File:
    """A file that belongs to a result.

    Attributes:
      field: where the JSON document has its path; null if it could not be written.
      path: where it goes.
      write: what writes it.
      said: what is printed once it is there.
    """

    field: str
    path: Path
    write: Callable[[], object]
    said: str


def report_files(path: Path | None, write: Callable[[Path], object], said: str = "Report: {}") -> list[File]:
    """The report, where one is asked for."""
    return [] if path is None else [File("report", path, lambda: write(path), said.format(path))]


def finish(code: int, files: Sequence[File], document: Extra | None = None, closing: str = "") -> int:
    """Write the files of a result; the exit code, which is `code` where all could be written.

    The result is not lost with them: it was printed before or, as a JSON document, is printed now, with the
    error. `closing` is the last line, once all is there.
    """
    sys.stdout.flush()
    paths: dict[str, object] = {}
    errors = []
    for file in files:
        try:
            file.write()
        except Exception as error:
            errors.append(error)
            paths[file.field] = None
        else:
            paths[file.field] = str(file.path)
            if document is None:
                tell(file.said)
    whole = None if document is None else {**document, **paths}
    if errors:
        return max([failed(errors[0], whole is not None, whole), *(failed(one, False) for one in errors[1:])])
    if whole is not None:
        out_json(whole)
    elif closing:
        tell(closing)
    return code


def failed(error: BaseException, as_json: bool, extra: Extra | None = None) -> int:
    """Say what went wrong; the exit code. `extra` joins the JSON document."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0
    if isinstance(error, KeyboardInterrupt | Stopped) or type(error).__name__ == "Abort":
        say("Stopped.")
        return BY_SIGNAL + (error.number if isinstance(error, Stopped) else signal.SIGINT)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]
        return MISTAKE
    if hasattr(error, "format_message"):  # typer's own, of which it has several copies
        return _report(USAGE, error.format_message(), _usage(error), as_json)
    if isinstance(error, MemoryError):
        error = TooLarge("There is not enough memory for this.", fix="Use fewer rows or coarser states.")
    elif isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        error = OutputError(
            f"A file cannot be read or written: {error.strerror or error}{where}.", fix="Check disk and path."
        )
    if isinstance(error, DeadweightError):
        return refuse(error, as_json, extra)
    if os.environ.get(TRACEBACK):
        say("".join(traceback.format_exception(error)))
    return _defect(error, as_json, extra)


def refuse(error: DeadweightError, as_json: bool, extra: Extra | None = None) -> int:
    """Say a user's mistake; `extra` joins the JSON document."""
    return _report(error.code, error.problem, error.fix, as_json, f"{error}", extra)


def _report(
    code: str, problem: str, fix: str, as_json: bool, text: str = "", extra: Extra | None = None
) -> int:
    if as_json:
        out_json({"error": {"code": code, "message": problem, "fix": fix}, **(extra or {})})
    say(f"Error: {text or problem + chr(10) + '  ' + fix}")
    return MISTAKE


def _defect(error: BaseException, as_json: bool, extra: Extra | None = None) -> int:
    frames = traceback.extract_tb(error.__traceback__)
    last = next((frame for frame in reversed(frames) if "deadweight" in frame.filename), None)
    where = "" if last is None else f" in {Path(last.filename).name}, line {last.lineno}"
    what = f"{type(error).__name__}{where}: {' '.join(str(error).split())[:200]}"
    problem = f"{INTERNAL}: {what} (deadweight {__version__}, Python {sys.version.split()[0]})."
    fix = (
        "This is a defect of deadweight, not of your data: please report this line and the command as an "
        f"issue; {TRACEBACK}=1 shows more."
    )
    if as_json:
        out_json({"error": {"code": INTERNAL, "message": problem, "fix": fix}, **(extra or {})})
    say(f"Internal error {problem} {fix}")
    return DEFECT


def _usage(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    see = f"See: {getattr(context, 'command_path', program())} --help"
    stray = re.match(r"Got unexpected extra arguments? ?(?:\(s\) )?\((.+)\)$", error.format_message())  # type: ignore[attr-defined]
    asked = {word for one in getattr(getattr(context, "command", None), "params", ()) for word in one.opts}
    if stray and "--target" in asked:
        return (
            f"One log at a time; a policy goes after --target, as in --target {stray[1].split()[0]}.\n  {see}"
        )
    return see


# --------------------------------------------------------------------------------------------------------
# Gates: an exit code for pipelines that go on only if the answer is the one they ask for.
#
# What opens a gate is the command's own matter; what a gate says and returns is here. A gate that is closed
# since there is no answer has an exit code of its own: more episodes, or a sound log, may open it.

GATE_CLOSED = 1
NO_ANSWER = 4


@dataclass(frozen=True)
class Gate:
    """A gate with the answer that it was asked about.

    Attributes:
      asked: what it asks for; None where there is no gate, which is open.
      is_open: whether the answer is that.
      answer: "better", "worse" or "cannot tell".
      doubts: flags that keep it closed.
    """

    asked: str | None
    is_open: bool
    answer: str
    doubts: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 where it is open, 4 where it is closed since nobody can tell, 1 where the answer is another."""
        if self.is_open:
            return 0
        return NO_ANSWER if self.answer == "cannot tell" else GATE_CLOSED

    def words(self, least: float = 0.0) -> str:
        """What the gate does, for whoever reads the log of a pipeline; nothing where there is none.

        >>> Gate("better", False, "worse").words(0.5)
        'Gate better, by more than 0.5: closed, exit code 1.'
        """
        if self.asked is None:
            return ""
        by = {"better": "by more than", "worse": "by more than", "not-worse": "by no more than"}
        asked = f"{self.asked}, {by[self.asked]} {least:g}" if least and self.asked in by else self.asked
        doubt = f", because of {', '.join(self.doubts)}" if self.doubts and not self.is_open else ""
        return f"Gate {asked}: {'open' if self.is_open else 'closed'}{doubt}, exit code {self.exit_code}."

    @property
    def entry(self) -> dict[str, Any]:
        """What the JSON document says of it: nothing where none was asked for."""
        return {} if self.asked is None else {"gate": {"asked": self.asked, "open": self.is_open}}
