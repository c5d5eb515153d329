"""Executors: who does the work on the parts of a stored log, one after the other or side by side.

An executor maps a piece of work over part numbers and yields the results in the order of the parts, whoever
was done first, so that the sums that are made of them have the same bits for any number of workers. There are
threads of this process, worker processes, and the tasks of a Ray cluster.

Worker processes are fresh (never forked, which is not safe beside threads) with one thread each for linear
algebra, so that numbers do not depend on how many there are. They start without the user's main module, so
that a script needs no guard to use them, and end with the process that started them, even if that is killed.
What is done travels to a worker once; after that only tasks do. A worker that dies is replaced and its part
given out again, a bounded number of times.
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
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any, NoReturn, Protocol

from deadweight.errors import EstimationError, MissingExtra, OptionError
from deadweight.tools.limits import processors

MOST_THREADS = 4
# Parts that may be begun beyond those that the threads are at: sums that wait for those of a part before.
WAITING = 2
# How often a part is tried again after the worker that had it was killed.
RETRIES = 3
# Parts given out beyond the one that is waited for, for each worker process: results that wait their turn.
AHEAD = 4
# What says to libraries of linear algebra, when a process starts, how many threads they have.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


class Work(Protocol):
    """The work on each part, of named functions and classes, so that it can travel."""

    def load(self, part: int) -> Any:
        """Fetch a part."""

    def add_up(self, loaded: Any) -> Any:
        """The result of a part that has been fetched."""


class Executor(Protocol):
    """One way to do work; `same_disk` says whether workers see the files that others have written."""

    same_disk: bool

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """The results of parts 0, 1, ..., parts - 1, in this order."""

    def close(self) -> None:
        """Let go of workers; they come back when there is work again."""


def executor_for(workers: int = 1, ray_address: str | None = None) -> Executor:
    """The executor that a user asks for.

    Args:
      workers: processes; 1 works in this one.
      ray_address: a Ray cluster instead: its address, or "local" to start one with so many workers.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise OptionError(
            f"workers must be a whole number of at least 1; found {workers!r}.", fix="For example workers=2."
        )
    if ray_address is not None:
        return Ray(None if ray_address == "local" else ray_address, workers if workers > 1 else None)
    return InProcess() if workers == 1 else Processes(workers)


class InProcess:
    """Threads of this process: each decodes a part and sums it, and then takes the next.

    Decoder and kernel let go of the interpreter, so that two threads keep two processors busy whichever of
    the two is more work. As many parts are in memory as there are threads, on any machine a few.
    """

    same_disk = True

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """The results of all parts, computed in this process."""
        count = threads()
        with ThreadPoolExecutor(count) as pool:
            running: deque[Future[Any]] = deque()
            following = 0
            try:
                for _ in range(parts):
                    while following < parts and len(running) < count + WAITING:
                        running.append(pool.submit(lambda part: work.add_up(work.load(part)), following))
                        following += 1
                    yield running.popleft().result()
            finally:
                for future in running:
                    future.cancel()
        # What the decoder keeps for the next part: other passes have no use for it.
        import_module("pyarrow").default_memory_pool().release_unused()

    def close(self) -> None:
        """Nothing is held."""


def threads() -> int:
    """The number of threads that read a log: one for each processor, at least two and at most a few.

    Two keep even a single processor busy while one of them waits for a disk; more take more memory.
    """
    return min(MOST_THREADS, max(2, processors()))


@dataclass(frozen=True)
class OnPart:
    """Work on one part: fetched and added up, with one thread, since workers share the processors."""

    work: Work

    def __call__(self, part: int) -> Any:
        """The result of a part."""
        import pyarrow as pa

        if pa.cpu_count() > 1:
            pa.set_cpu_count(1)
        return self.work.add_up(self.work.load(part))


def attempt(work: Work, part: int) -> Any:
    """The result of a part, or a failure that can travel."""
    return attempted(OnPart(work), part)


def lost(part: int, why: str) -> EstimationError:
    """The error for a part that no worker survived."""
    return EstimationError(
        f"Part {part} of the log was given up: its worker was killed {RETRIES + 1} times ({why}).",
        fix="Most often memory ran out: use fewer workers, or smaller parts (part_rows).",
    )


class Processes:
    """A pool of so many worker processes."""

    same_disk = True

    def __init__(self, workers: int) -> None:
        self.pool = Pool(workers)

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """The results in order; parts go to whoever is free. Work that cannot travel is refused."""
        early: dict[int, Any] = {}
        following = 0
        try:
            for part, result in self.pool.run(
                OnPart(work), range(parts), ahead=AHEAD * self.pool.workers, retries=RETRIES
            ):
                early[part] = result
                while following in early:
                    yield opened(early.pop(following))
                    following += 1
        except WorkerDied as death:
            raise lost(death.number, f"exit code {death.exit_code}") from None

    def close(self) -> None:
        """End the workers."""
        self.pool.close()


@contextmanager
def _kept_handler() -> Iterator[None]:
    """Give SIGTERM back to its handler afterwards: Ray takes it for itself."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


class Ray:
    """Tasks of a Ray cluster: a running one, or one that is started on this machine.

    Args:
      address: of a running cluster, such as "auto" or "ray://host:10001"; None starts a local one.
      workers: processors of a local cluster; None takes all.
    """

    same_disk = False  # of many machines

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self.address, self.workers = address, workers
        self._started = False

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """The results in order, by tasks that carry part numbers; a killed worker costs a retry."""
        ray = self._connected()
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(attempt)
        shared = ray.put(work)
        ahead = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        running = deque(task.remote(shared, part) for part in range(min(ahead, parts)))
        for part in range(parts):
            try:
                result = ray.get(running.popleft())
            except (ray.exceptions.RayError, ray.exceptions.RayTaskError) as error:
                raise lost(part, str(error).splitlines()[0]) from None
            if part + ahead < parts:
                running.append(task.remote(shared, part + ahead))
            yield opened(result)

    def _connected(self) -> Any:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise MissingExtra("Work on a Ray cluster", "ray") from None
        if not ray.is_initialized():
            local = {} if self.address else {"num_cpus": self.workers, "include_dashboard": False}
            try:
                with _kept_handler():
                    ray.init(
                        address=self.address or "local", log_to_driver=False, logging_level="ERROR", **local
                    )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise OptionError(
                    f"No Ray cluster answers at {self.address!r}: {str(error).splitlines()[0]}",
                    fix="Check the address with `ray status`, or leave it out to start a local cluster.",
                ) from None
            self._started = True
        return ray

    def close(self) -> None:
        """Stop the cluster, or leave it, if it was entered here."""
        if self._started:
            self._connected().shutdown()
            self._started = False


# --- What passes between processes: functions, results, and failures that survive the journey.


def packed(what: Any) -> bytes:
    """An object as bytes that travel; one that cannot is refused."""
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
        """The failure of an error that is being handled."""
        plain = isinstance(error, ValueError | OSError | ArithmeticError | LookupError | TypeError)
        if plain:
            return cls(type(error), error.args, dict(vars(error)), traceback.format_exc())
        return cls(RuntimeError, (f"{type(error).__name__}: {error}",), {}, traceback.format_exc())

    def error(self) -> Exception:
        """The error, made again."""
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


# --- The pool of worker processes.

START = "spawn"
FUNCTION, TASK = b"f", b"t"  # what a message to a worker is


class WorkerDied(Exception):
    """No worker survived task `number`; `exit_code` is that of the last one."""

    def __init__(self, number: int, exit_code: int | None) -> None:
        super().__init__(number, exit_code)
        self.number, self.exit_code = number, exit_code


class Pool:
    """At most so many worker processes that are started when there is work, and stay until `close`."""

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
        """End a worker."""
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
        pool = self.pool
        while len(pool.members) < pool.workers or any(worker.task is None for worker in pool.members):
            number = self._next()
            if number is None:
                return
            worker = self._free()
            worker.task = number
            if not worker.tell(self.unfinished[number]):
                self._bury(worker)

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
        """A worker that has no task and knows the function."""
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
    """Run a worker: remember the function, answer tasks, end with the pipe."""
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
                function = partial(_refuse, cannot_travel(error))
            continue
        result = attempted(function, ForkingPickler.loads(message[1:]))
        try:
            pipe.send(result)
        except OSError:
            return
        except Exception as error:  # a result that cannot travel
            pipe.send(Failure.of(RuntimeError(f"{type(error).__name__}: {error}")))


def _refuse(error: Exception, task: Any) -> NoReturn:
    raise error


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
    """Let a process that starts meanwhile inherit one thread for linear algebra, and no main module."""
    main, before = sys.modules["__main__"], {name: os.environ.get(name) for name in ONE_THREAD}
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _close_all(members: list[_Worker]) -> None:
    while members:
        with suppress(OSError, ValueError):
            members.pop().close()
