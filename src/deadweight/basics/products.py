"""Threads for products of matrices in this process: one, where they are those of a small log or model.

OpenBLAS, which numpy and scipy bring along, shares every product out among all cores and waits for the
slowest, busily. On a machine that has other things to do the many small products of a model of features then
take ten times as long, and a system of a hundred states a thousand times. Where its switch cannot be found,
as with another library, nothing is switched.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path

# Logs with more steps than this gain from several threads.
FEW_STEPS = 50_000
# Where wheels keep the libraries that come with them, on Linux and Windows, and on macOS.
PLACES = ("../{name}.libs", ".dylibs")

Switch = tuple[Callable[[], int], Callable[[int], object]]


@contextmanager
def few_threads(steps: int) -> Iterator[None]:
    """One thread meanwhile if there are few steps; as before afterwards."""
    with _turned_down(switches() if steps <= FEW_STEPS else ()):
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread meanwhile for what numpy computes of models of few states, however long the log is."""
    with _turned_down(_switches_of("numpy")):
        yield


@contextmanager
def _turned_down(switches: tuple[Switch, ...]) -> Iterator[None]:
    before = [(turn, ask()) for ask, turn in switches]
    try:
        for turn, _ in before:
            turn(1)
        yield
    finally:
        for turn, count in before:
            turn(count)


def switches() -> tuple[Switch, ...]:
    """How to ask for, and to set, the number of threads of each OpenBLAS there is."""
    return _switches_of("numpy") + _switches_of("scipy.linalg")


@cache
def _switches_of(name: str) -> tuple[Switch, ...]:
    import_module(name)  # which loads its library
    home, found = Path(import_module(name.partition(".")[0]).__path__[0]), []
    for place in PLACES:
        for path in sorted((home / place.format(name=home.name)).glob("*openblas*")):
            found += _switch_of(path)
    return tuple(found)


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
