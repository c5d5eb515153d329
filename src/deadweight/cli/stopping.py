"""Signals that stop a command: nothing temporary stays, and the process ends by the signal.

Whoever waits for a process learns from its end that a signal did it: a shell then stops its loop too, and
a scheduler knows that the work is not done. A library must do nothing of this behind a program's back, so
only the command does.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from deadweight.basics.temporary import remove_all, sweep

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
