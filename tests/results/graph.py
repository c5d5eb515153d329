"""Walks through everything that an object holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def held(thing: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """The object, and all that can be reached from it."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    yield thing
    inner: list[Any] = []
    if isinstance(thing, dict):
        inner = [*thing, *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        inner = list(thing)
    elif isinstance(thing, np.ndarray) and thing.dtype == object:
        inner = thing.tolist()
    elif hasattr(thing, "__dict__"):
        inner = list(vars(thing).values())
    closure = getattr(thing, "__closure__", None)
    inner += [cell.cell_contents for cell in closure or ()]
    for one in inner:
        yield from held(one, seen)
