"""Limits of the machine: how large a table may become, and how many threads and processors work.

Whatever has the size of states x actions (or states x states, or steps x states x actions) is asked about
here first, and so is what a small file says it unpacks to. Over the limit there is one error, with a code,
instead of a machine that swaps or a process that is killed. The limit is half of the memory that there is: of
the machine, of the container, or of the process where it has a limit of its own. `DEADWEIGHT_MEMORY=8GB` in
the environment sets another.

OpenBLAS, which numpy and scipy bring along, shares every product out among all cores and waits for the
slowest, busily. On a machine that has other things to do the many small products of a model of features
then take ten times as long, and a system of a hundred states a thousand times. So small logs and models have
one thread. Where its switch cannot be found, as with another library, nothing is switched.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from importlib import import_module
from pathlib import Path

from deadweight.errors import OptionError, TooLarge

VARIABLE = "DEADWEIGHT_MEMORY"
SHARE = 0.5
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?\s*", re.IGNORECASE)
WITHOUT_A_SYSTEM = 8 * 10**9
CONTAINERS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
NUMBER = 8
"""Bytes of a number."""
# Tables of states x actions that an evaluation holds at once, roughly: policies, counts, a model.
TABLES = 6
# Logs with more steps than this gain from several threads.
FEW_STEPS = 50_000
# Where wheels keep the libraries that come with them, on Linux and Windows, and on macOS.
PLACES = ("../{name}.libs", ".dylibs")


def allowed() -> int:
    """Bytes that one thing may take."""
    wanted = os.environ.get(VARIABLE, "").strip()
    if not wanted:
        return int(SHARE * min(_physical(), _of_this_process()))
    size = SIZE.fullmatch(wanted)
    if size is None:
        raise OptionError(
            f"{VARIABLE} must be a number of bytes such as 8GB or 500MB; found {wanted!r}.",
            fix=f"Correct the variable, or unset it to allow {SHARE:.0%} of the memory there is.",
        )
    return int(float(size[1]) * UNITS[size[2].upper()])


def require(size: float, what: str, fix: str) -> None:
    """Refuse what would take more bytes than are allowed; `fix` says how to do with less."""
    limit = allowed()
    if size <= limit:
        return
    raise TooLarge(
        f"{what} would take about {in_words(size)} of memory; {in_words(limit)} are allowed.",
        fix=f"{fix} {VARIABLE}={in_words(1.1 * size).replace(' ', '').replace(',', '')} in the environment "
        "allows it all the same.",
    )


def require_table(n_states: int, n_actions: int, what: str, tables: float = TABLES) -> None:
    """Refuse a computation on so many tables of states x actions that would not fit."""
    require(
        float(n_states) * n_actions * NUMBER * tables,
        f"{what} of {n_states:,} states x {n_actions:,} actions",
        "Use fewer, coarser states and actions (bins, clusters): each should be seen many times.",
    )


def in_words(size: float) -> str:
    """A number of bytes in the unit that suits it, such as '28.8 GB'."""
    unit = next((unit for unit in "GMK" if size >= UNITS[unit]), "")
    return f"{size / UNITS[unit]:,.1f} {unit}B"


@cache
def _physical() -> float:
    """Memory of the machine, or of the container around it."""
    sizes = []
    with suppress(AttributeError, ValueError, OSError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in CONTAINERS:
        with suppress(OSError, ValueError):  # "max" is no number
            sizes.append(int(Path(file).read_text()))
    return min((size for size in sizes if size > 0), default=WITHOUT_A_SYSTEM)


def _of_this_process() -> float:
    """The limit that whoever started this process has set, if any."""
    try:
        import resource
    except ImportError:  # not on Windows
        return float("inf")
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return float("inf") if soft == resource.RLIM_INFINITY else float(soft)


Switch = tuple[Callable[[], int], Callable[[int], object]]


@contextmanager
def one_blas_thread(*libraries: str) -> Iterator[None]:
    """One thread of linear algebra meanwhile, in numpy or in these libraries; as before afterwards."""
    before = [(turn, ask()) for ask, turn in switches(*libraries or ("numpy",))]
    try:
        for turn, _ in before:
            turn(1)
        yield
    finally:
        for turn, count in before:
            turn(count)


def few_threads(steps: int) -> AbstractContextManager[None]:
    """One thread meanwhile in numpy and scipy if there are few steps."""
    return one_blas_thread("numpy", "scipy.linalg") if steps <= FEW_STEPS else nullcontext()


def switches(*libraries: str) -> tuple[Switch, ...]:
    """How to ask for, and to set, the number of threads of the OpenBLAS of each library."""
    return tuple(switch for name in libraries for switch in _switches_of(name))


@cache
def _switches_of(name: str) -> tuple[Switch, ...]:
    import_module(name)  # which loads its library
    home = Path(import_module(name.partition(".")[0]).__path__[0])
    folders = [home / place.format(name=home.name) for place in PLACES]
    paths = [path for folder in folders for path in sorted(folder.glob("*openblas*"))]
    return tuple(switch for path in paths for switch in _switch_of(path))


def _switch_of(path: Path) -> list[Switch]:
    try:
        library = ctypes.CDLL(str(path))  # the one that is loaded already
    except OSError:
        return []
    for prefix in ("scipy_openblas", "openblas"):
        for suffix in ("64_", ""):
            ask = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
            turn = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
            if ask is not None and turn is not None:
                return [(ask, turn)]
    return []


def processors() -> int:
    """Number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
