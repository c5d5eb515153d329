"""A pool of worker processes: tasks go to whoever is free, results come as they are made.

Workers are fresh processes (never forked, which is not safe beside threads) with one thread each for linear
algebra, so that numbers do not depend on how many there are. They start without the user's main module, so
that a script needs no guard to use them, and end with the process that started them, even if that is killed.
What is done travels to a worker once; after that only tasks do.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

from deadweight.errors import EstimationError
from deadweight.tools.limits import one_thread

# --------------------------------------------------------------------------------------------------------
# What passes between processes: functions, results, and failures that survive the journey.


def packed(what: Any) -> bytes:
    """Something as it travels; what cannot is refused."""
    try:
        return bytes(ForkingPickler.dumps(what))
    except Exception as error:  # what cannot be packed says so in many ways
        raise cannot_travel(error) from None


def attempted(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call, or a failure that can travel."""
    try:
        return function(*arguments)
    except Exception as error:
        return Failure.of(error)


@dataclass(frozen=True)
class Failure:
    """An error in a worker. Errors with arguments of their own do not survive the journey; this does."""

    kind: type[Exception]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]
    trace: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """From the error that is being handled."""
        plain = isinstance(error, ValueError | OSError | ArithmeticError | LookupError | TypeError)
        if plain:
            return cls(type(error), error.args, dict(vars(error)), traceback.format_exc())
        return cls(RuntimeError, (f"{type(error).__name__}: {error}",), {}, traceback.format_exc())

    def error(self) -> Exception:
        """The error again."""
        again = self.kind.__new__(self.kind, *self.arguments)
        again.args = self.arguments
        again.__dict__.update(self.attributes)
        if not isinstance(again, ValueError):
            again.add_note(f"In a worker:\n{self.trace}")
        return again


def opened(result: Any) -> Any:
    """A worker's result; its failure is raised here."""
    if isinstance(result, Failure):
        raise result.error()
    return result


def cannot_travel(error: Exception) -> EstimationError:
    """The error for work that other processes cannot be given."""
    return EstimationError(
        f"Worker processes cannot be given this work: {type(error).__name__}: {error}",
        fix="What is summed of a block must be a function or a class of a module that workers can import, "
        "not a lambda, a closure or part of a script; or use workers=1.",
    )


class Unreadable:
    """A function that a worker has received and cannot read; says so when it is called."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, task: Any) -> Any:
        """Refused."""
        raise cannot_travel(self.error)


# --------------------------------------------------------------------------------------------------------

START = "spawn"
FUNCTION, TASK = b"f", b"t"  # what a message to a worker is


class WorkerDied(Exception):
    """No worker survived task `number`; `exit_code` is that of the last one."""

    def __init__(self, number: int, exit_code: int | None) -> None:
        super().__init__(number, exit_code)
        self.number, self.exit_code = number, exit_code


class Pool:
    """Worker processes that are started when there is work, and stay until `close`.

    Args:
      workers: how many at the most.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.members: list[_Worker] = []
        self._finalizer = weakref.finalize(self, _close_all, self.members)

    def run(
        self,
        function: Callable[[Any], Any],
        tasks: Iterable[Any],
        ahead: int | None = None,
        retries: int = 0,
    ) -> Iterator[tuple[int, Any]]:
        """(number, result or `Failure`) of every task, as they come.

        Args:
          function: named, or an object of a named class, so that it can travel.
          tasks: arguments; each is taken when a worker is free for it.
          ahead: tasks that may be begun before the first unfinished one is done; None: any number.
          retries: how often a task is given out again after its worker was killed.
        """
        run = _Run(self, FUNCTION + packed(function), tasks, ahead, retries)
        try:
            yield from run.results()
        finally:
            # Whoever is still busy would answer into the next run.
            for worker in [worker for worker in self.members if worker.task is not None]:
                self.dismiss(worker)

    def dismiss(self, worker: _Worker) -> None:
        """End one worker."""
        self.members.remove(worker)
        worker.close()

    def close(self) -> None:
        """End the workers; they come back when there is work again."""
        _close_all(self.members)


class _Run:
    """One function on its way through the pool; `function` is the message that brings it."""

    def __init__(
        self, pool: Pool, function: bytes, tasks: Iterable[Any], ahead: int | None, retries: int
    ) -> None:
        self.pool, self.function, self.ahead, self.retries = pool, function, ahead, retries
        self.tasks, self.begun = iter(tasks), 0
        self.again: deque[int] = deque()
        self.unfinished: dict[int, bytes] = {}
        self.deaths: Counter[int] = Counter()

    def results(self) -> Iterator[tuple[int, Any]]:
        while True:
            self._give_out()
            busy = {worker.pipe: worker for worker in self.pool.members if worker.task is not None}
            if not busy:
                return
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                try:
                    result = worker.pipe.recv()
                except (EOFError, OSError):
                    self._bury(worker)
                    continue
                number, worker.task = worker.task, None
                assert number is not None
                del self.unfinished[number]
                yield number, result

    def _give_out(self) -> None:
        """Tasks to all who are free, as far as there are any and they may be begun."""
        while any(worker.task is None for worker in self.pool.members) or self._may_grow():
            number = self._next()
            if number is None:
                return
            worker = self._free()
            worker.task = number
            if not worker.tell(self.unfinished[number]):
                self._bury(worker)

    def _may_grow(self) -> bool:
        return len(self.pool.members) < self.pool.workers

    def _next(self) -> int | None:
        """The number of a task that is to be done; None if there is none for now."""
        if self.again:
            return self.again.popleft()
        if self.ahead is not None and self.begun - min(self.unfinished, default=self.begun) >= self.ahead:
            return None
        for task in self.tasks:
            number, self.begun = self.begun, self.begun + 1
            self.unfinished[number] = TASK + packed(task)
            return number
        return None

    def _free(self) -> _Worker:
        """Somebody who has no task and knows the function."""
        for worker in [worker for worker in self.pool.members if worker.task is None]:
            if worker.learn(self.function):
                return worker
            self.pool.dismiss(worker)
        worker = _Worker()
        self.pool.members.append(worker)
        worker.learn(self.function)
        return worker

    def _bury(self, worker: _Worker) -> None:
        """A worker is dead: its task goes back to the front of the queue, so often and no more."""
        assert worker.task is not None
        self.deaths[worker.task] += 1
        exit_code = worker.exit_code()
        self.pool.dismiss(worker)
        if self.deaths[worker.task] > self.retries:
            raise WorkerDied(worker.task, exit_code)
        self.again.appendleft(worker.task)


class _Worker:
    """A process and the pipe to it; `task` is the number of what it is working on."""

    def __init__(self) -> None:
        context = multiprocessing.get_context(START)
        self.task: int | None = None
        self.started_by = os.getpid()
        self._function = b""
        self.pipe: Connection
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=serve, args=(theirs,), daemon=True
        )
        with _quiet_start():
            self.process.start()
        theirs.close()

    def learn(self, function: bytes) -> bool:
        """Bring the function, unless it is known; False if the worker is gone."""
        if function is not self._function:
            self._function = function
            return self.tell(function)
        return True

    def tell(self, message: bytes) -> bool:
        """Send a message; False if the worker is gone."""
        try:
            self.pipe.send_bytes(message)
        except OSError:
            return False
        return True

    def exit_code(self) -> int | None:
        self.process.join(timeout=5)
        return self.process.exitcode

    def close(self) -> None:
        """End it at once: whatever it is doing, nobody waits for it. A forked process leaves it alone."""
        self.pipe.close()
        if os.getpid() == self.started_by:
            self.process.terminate()
            self.process.join(timeout=5)


def serve(pipe: Connection) -> None:
    """The life of a worker: remember the function, answer tasks, end with the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    _follow_parent()
    function: Any = None
    while True:
        try:
            message = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        if message[:1] == FUNCTION:
            try:
                function = ForkingPickler.loads(message[1:])
            except Exception as error:  # of something that cannot be imported here
                function = Unreadable(error)
            continue
        result = attempted(function, ForkingPickler.loads(message[1:]))
        try:
            pipe.send(result)
        except OSError:
            return
        except Exception as error:  # a result that cannot travel
            pipe.send(Failure.of(RuntimeError(f"{type(error).__name__}: {error}")))


def _follow_parent() -> None:
    """End this worker when the process that started it is gone, even in the middle of a task."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait_for_end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()


@contextmanager
def _quiet_start() -> Iterator[None]:
    """What a new process inherits: one thread for linear algebra, and not the user's main module."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        with one_thread():
            yield
    finally:
        sys.modules["__main__"] = main


def _close_all(members: list[_Worker]) -> None:
    while members:
        with suppress(OSError, ValueError):
            members.pop().close()
