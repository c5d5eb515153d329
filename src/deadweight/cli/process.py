"""The process of a command: how it runs and is stopped, everything that it says, and its exit code.

Results go to standard output, all else to standard error. Text is made safe for a terminal on its way
(`deadweight.errors`), so that no command has to think of it. A reader that has seen enough does not end the
work: the exit code is still that of the command. Tables are no wider than the terminal, and nothing is cut
off: what does not fit is folded, where a column is text, or goes into a second table below that begins with
the same column, since a number without its end, or a table without its numbers, is worse than a long one.
Piped, they are as wide as they need to be.

Exit codes 1 and 4 are answers: the doctor found errors, or a gate is closed. An exception becomes one message
and never one of these: a user's mistake is 2; a defect of deadweight is 3, with what to report. A signal that
stops a command leaves nothing temporary behind, and the process ends by that signal: a shell then stops its
loop too, and a scheduler knows that the work is not done. A library must do nothing of this behind a
program's back, so only the command does.
"""

from __future__ import annotations

import _thread
import errno
import json
import math
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from deadweight._version import SCHEMA, __version__
from deadweight.errors import DeadweightError, OptionError, OutputError, TooLarge, printable
from deadweight.tools.files import remove_all, sweep

NAME = "deadweight"
COMMANDS = ("Run: ", "See: ")
"""Beginnings of lines that are to be pasted."""
GAP = "  "
# Text is folded to no less than this: below, it would be a pile of single words.
NARROWEST = 20
MISTAKE = 2
DEFECT = 3
GATE_CLOSED = 1
# A closed gate of its own: more episodes, or a sound log, may open it.
NO_ANSWER = 4
USAGE = "DW910"
INTERNAL = "DW999"
TRACEBACK = "DEADWEIGHT_TRACEBACK"
# As shells tell that a signal ended a command.
BY_SIGNAL = 128
NUMBERS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
UNTOUCHED = (signal.SIG_DFL, signal.default_int_handler)
# Seconds to let go of workers and of unfinished files; a thread may be waiting for a disk that is gone.
PATIENCE = 5.0


def main() -> None:
    """Run the command line and exit with its code; see `run`. A signal that stops it ends the process."""
    sys.exit(ended_by_signals(lambda: run(sys.argv[1:])))


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code.

    0: done; 1: the doctor found errors, or a gate is closed; 2: bad usage or input, one message; 3: a defect
    of deadweight; 4: a gate is closed since nobody can tell. Whatever happens there is no traceback.
    """
    as_json = "--json" in arguments
    with outlets() as output:
        try:
            from deadweight.cli.app import app

            _refuse_unwritable(arguments)
            # Never in its own mode: typer would exit with 1 on an interrupt, or when a pipe is closed.
            result = app(list(arguments), prog_name=program(), standalone_mode=False)
            code = result if isinstance(result, int) else 0
        except BaseException as error:
            code = failed(error, as_json)
        output.flush()
        if output.is_full:
            reason = output.problem.strerror if output.problem else ""
            lost = OutputError(
                f"Standard output could not be written: {reason}.", fix="Make room, or write elsewhere."
            )
            code = refuse(lost, as_json=False)
    return code


def _refuse_unwritable(arguments: Sequence[str]) -> None:
    """Refuse characters that no file name and no label can have: half of a surrogate pair."""
    for argument in arguments:
        try:
            os.fsencode(argument)
        except UnicodeEncodeError:
            raise OptionError(
                f"An argument has a character that cannot be written: {argument!r}.", fix="Type it anew."
            ) from None


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
    before = {number: handler for number in handled if (handler := signal.getsignal(number)) in UNTOUCHED}
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        # Here and not only on the way out, where a thread may have to be waited for.
        remove_all()
        came.append(number)
        for each in before:  # whoever cannot wait sends another
            signal.signal(each, signal.SIG_DFL)
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


def program() -> str:
    """The command as it can be typed here: after `make demo` it is in .venv/bin, where no shell looks."""
    typed = sys.argv[0] if sys.argv else NAME
    return typed if os.path.basename(typed) == NAME and shutil.which(NAME) is None else NAME


def tell(text: str = "") -> None:
    """Print a line of the result."""
    sys.stdout.write(printable(text) + "\n")


def say(text: str) -> None:
    """Print a line beside the result: progress, warnings, errors."""
    sys.stderr.write(fitted(printable(text), terminal_width(sys.stderr)) + "\n")


def tell_words(text: str) -> None:
    """Print sentences of the result; at a terminal lines end between words."""
    sys.stdout.write(fitted(printable(text), terminal_width(sys.stdout)) + "\n")


def tell_flags(flags: Sequence[tuple[str, Sequence[str], str]]) -> None:
    """Print what flags say, each with the rows that have it."""
    if flags:
        tell("\nFlags:")
    for flag, names, said in flags:
        tell_words(f"  {flag} ({', '.join(names)}): {said}")


def terminal_width(stream: Any) -> int | None:
    """Columns of the terminal that a stream is; None if it is a file or a pipe, which take any width."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def fitted(text: str, width: int | None) -> str:
    """The text with lines that end between words; commands stay in one piece, to be pasted."""
    if width is None:
        return text
    return "\n".join(_fitted_line(line, width) for line in text.split("\n"))


def _fitted_line(line: str, width: int) -> str:
    words = line.lstrip(" ")
    if len(line) <= width or words.startswith(COMMANDS):
        return line
    indent = line[: len(line) - len(words)]
    return textwrap.fill(
        words,
        max(width, len(indent) + 20),
        initial_indent=indent,
        subsequent_indent=2 * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def out_json(document: Mapping[str, Any]) -> None:
    """Print the result as a JSON document in plain ASCII; what is not finite is null."""
    text = json.dumps({"schema": SCHEMA, **_plain(document)}, indent=2, allow_nan=False)
    # The one control character that JSON leaves as it is.
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def _plain(value: Any) -> Any:
    """The value in what JSON knows: no infinity, no NaN, no numbers of other libraries."""
    from deadweight.log.labels import plain  # brings numpy, for which `--help` need not wait

    value = plain(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)


class Outlet:
    """A stream that can be written to whatever happens to its reader; `problem` says what did."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.problem: OSError | None = None

    def write(self, text: str) -> int:
        """Write, or do nothing once the reader is gone."""
        self._attempt(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Hand over what was written."""
        self._attempt(self._stream.flush)

    @property
    def is_full(self) -> bool:
        """Whether something was lost that a reader still waits for."""
        return self.problem is not None and self.problem.errno != errno.EPIPE

    def _attempt(self, action: Callable[..., object], *arguments: str) -> None:
        if self.problem is None:
            try:
                action(*arguments)
            except OSError as error:
                self.problem = error
                with suppress(OSError, ValueError):  # what is still buffered goes nowhere, at exit as well
                    nowhere = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(nowhere, self._stream.fileno())
                    os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def outlets() -> Iterator[Outlet]:
    """Standard output and error as outlets, for as long as a command runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_outlet(stream) for stream in before)
    try:
        yield sys.stdout
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def _outlet(stream: Any) -> Outlet:
    if stream is None:  # closed by whoever started the command
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    with suppress(AttributeError, ValueError):
        stream.reconfigure(errors="backslashreplace")  # a terminal that knows ASCII only
    return Outlet(stream)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> None:
    """Print rows under headings; columns in `left` are text and aligned left, all others right."""
    for line in table_lines(headings, rows, left, terminal_width(sys.stdout)):
        sys.stdout.write(line + "\n")


def table_lines(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Sequence[int] = (0,),
    width: int | None = None,
) -> list[str]:
    """The lines of a table that is no wider than `width`."""
    from rich.cells import cell_len

    cells = [[printable(cell, keep="") for cell in row] for row in (headings, *rows)]
    needed = [max(cell_len(row[j]) for row in cells) for j in range(len(headings))]
    least = [min(wide, NARROWEST) if j in left and j else wide for j, wide in enumerate(needed)]
    lines: list[str] = []
    for place, group in enumerate(_groups(least, width)):
        widths = _shrunk([needed[j] for j in group], [least[j] for j in group], width)
        lines += [""] if lines else []
        for number, row in enumerate(cells):
            chosen = [row[j] for j in group]
            if place and number and not any(chosen[1:]):
                continue  # nothing to add to the table above
            lines += _row_lines(chosen, widths, [j in left for j in group])
    return lines


def _groups(least: Sequence[int], width: int | None) -> list[list[int]]:
    """The columns of each table: as many as fit beside the first one, which all of them begin with."""
    groups, taken = [[0]], least[0]
    for j in range(1, len(least)):
        taken += len(GAP) + least[j]
        if width is not None and taken > width and len(groups[-1]) > 1:
            groups.append([0])
            taken = least[0] + len(GAP) + least[j]
        groups[-1].append(j)
    return groups


def _shrunk(needed: Sequence[int], least: Sequence[int], width: int | None) -> list[int]:
    """Widths of the columns of a table: the widest text gives way first."""
    widths = list(needed)
    over = 0 if width is None else sum(widths) + len(GAP) * (len(widths) - 1) - width
    while over > 0:
        widest = max(range(len(widths)), key=lambda j: (widths[j] > least[j], widths[j]))
        gives = min(over, widths[widest] - least[widest])
        if gives <= 0:
            break
        widths[widest] -= gives
        over -= gives
    return widths


def _row_lines(row: Sequence[str], widths: Sequence[int], left: Sequence[bool]) -> list[str]:
    """The lines of one row, more than one if a cell is folded."""
    from rich.cells import cell_len

    def padded(text: str, width: int, is_left: bool) -> str:
        blank = " " * (width - cell_len(text))
        return text + blank if is_left else blank + text

    folded = [_folded(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = zip_longest(*folded, fillvalue="")
    return [GAP.join(map(padded, texts, widths, left)).rstrip() for texts in lines]


def _folded(cell: str, width: int) -> list[str]:
    from rich.cells import cell_len

    if cell_len(cell) <= width:
        return [cell]
    from rich.console import Console
    from rich.text import Text

    return [line.plain.rstrip() for line in Text(cell).wrap(Console(), width)]


Extra = Mapping[str, object]


@dataclass(frozen=True)
class File:
    """A file that belongs to a result: its path and what writes it."""

    field: str  # where the JSON document has its path, or null if it could not be written
    path: Path
    write: Callable[[], object]
    said: str  # what is printed once it is there


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
        return max(
            [failed(errors[0], whole is not None, whole), *(failed(error, False) for error in errors[1:])]
        )
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
        problem, fix = error.format_message(), _usage(error)
        return _report(MISTAKE, USAGE, problem, fix, as_json, f"Error: {problem}\n  {fix}")
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
    return _report(MISTAKE, error.code, error.problem, error.fix, as_json, f"Error: {error}", extra)


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
    return _report(DEFECT, INTERNAL, problem, fix, as_json, f"Internal error {problem} {fix}", extra)


def _report(
    exit_code: int, code: str, problem: str, fix: str, as_json: bool, text: str, extra: Extra | None = None
) -> int:
    if as_json:
        out_json({"error": {"code": code, "message": problem, "fix": fix}, **(extra or {})})
    say(text)
    return exit_code


def _usage(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    see = f"See: {getattr(context, 'command_path', program())} --help"
    stray = re.match(r"Got unexpected extra arguments? ?(?:\(s\) )?\((.+)\)$", error.format_message())  # type: ignore[attr-defined]
    options = getattr(getattr(context, "command", None), "params", ())
    if stray is None or not any("--target" in option.opts for option in options):
        return see
    return f"One log at a time; a policy goes after --target, as in --target {stray[1].split()[0]}.\n  {see}"


@dataclass(frozen=True)
class Gate:
    """An exit code for pipelines that go on only if the answer is the one they ask for."""

    asked: str | None  # what it asks for; None where there is no gate, which is open
    is_open: bool  # whether the answer is that; each command decides it
    answer: str  # "better", "worse" or "cannot tell"
    doubts: tuple[str, ...] = ()  # flags that keep it closed

    @property
    def exit_code(self) -> int:
        """0 where it is open, 4 where it is closed since nobody can tell, 1 where the answer is another."""
        if self.is_open:
            return 0
        return NO_ANSWER if self.answer == "cannot tell" else GATE_CLOSED

    def words(self, least: float = 0.0) -> str:
        """A sentence on what the gate does, for the log of a pipeline; empty where there is none.

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
        """The entry of the JSON document; empty where no gate was asked for."""
        return {} if self.asked is None else {"gate": {"asked": self.asked, "open": self.is_open}}
