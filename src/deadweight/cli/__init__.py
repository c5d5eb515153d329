"""The command `deadweight`: its process, from the arguments to the exit code, and the signals that end it.

The commands and their options are declared in `app`, and each command is a file of its name.

A signal that stops a command leaves nothing temporary behind, and the process ends by that signal: a shell
then stops its loop too, and a scheduler knows that the work is not done. A library must do nothing of this
behind a program's back, so only the command does.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from deadweight.tools.files import remove_all, sweep

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
    from deadweight.cli.output import failed, outlets, program, refuse
    from deadweight.errors import OutputError

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
    from deadweight.errors import OptionError

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
