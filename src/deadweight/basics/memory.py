"""How large a table may become: one limit, and one question to ask before anything large is made.

Whatever has the size of states x actions (or states x states, or steps x states x actions) is asked about
here first, and so is what a small file says it unpacks to. Over the limit there is one error, with a code,
instead of a machine that swaps or a process that is killed.

The limit is half of the memory that there is: of the machine, of the container, or of the process where it
has a limit of its own. `DEADWEIGHT_MEMORY=8GB` in the environment sets another.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cache
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
TABLES = 6
"""Tables of states x actions that an evaluation holds at once, roughly: policies, counts, a model."""


def allowed() -> int:
    """Bytes that one thing may take."""
    wanted = os.environ.get(VARIABLE, "").strip()
    if not wanted:
        return int(SHARE * min(_physical(), _of_this_process()))
    found = SIZE.fullmatch(wanted)
    if found is None:
        raise OptionError(
            f"{VARIABLE} must be a number of bytes such as 8GB or 500MB; found {wanted!r}.",
            fix=f"Correct the variable, or unset it to allow {SHARE:.0%} of the memory there is.",
        )
    return int(float(found[1]) * UNITS[found[2].upper()])


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
    """Bytes in the unit that suits them.

    >>> in_words(28.8e9), in_words(1234)
    ('28.8 GB', '1.2 KB')
    """
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
