"""The one loop over data: summarise block by block, merge in a fixed order.

Blocks depend on the log only and their summaries are merged from the first to the last, so the result has
the same bits however many workers took part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from deadweight.blocks import BLOCK_CELLS, Block, blocks
from deadweight.trajectories import Trajectories


def fold(
    parts: Sequence[Trajectories],
    summarise: Callable[[Block], Sequence[Any]],
    workers: int = 1,
    cells: int = BLOCK_CELLS,
) -> list[Any]:
    """Summaries of a whole log.

    Args:
      parts: the log, or runs of its episodes, in order.
      summarise: the summaries of one block, each with `merge`.
      workers: threads; numpy releases the interpreter lock in its loops.
      cells: size of a block.
    """
    _keep_freed_memory()
    every = (block for part in parts for block in blocks(part, cells))
    if workers == 1:
        return _merge_all(map(summarise, every))
    with ThreadPoolExecutor(workers) as pool:
        return _merge_all(pool.map(summarise, every))


@cache
def _keep_freed_memory() -> None:
    """Free one large array, once.

    The C library of Linux gives freed memory of a block's size back to the system and fetches it again, page
    by page, for the next block: that costs more than the arithmetic. It stops doing so for all sizes up to
    the largest that it has ever seen freed, and caps that at 32 MiB. The array is never written to.
    """
    del_soon = np.empty(31 << 17)
    del del_soon


def _merge_all(summaries: Iterable[Sequence[Any]]) -> list[Any]:
    total: list[Any] = []
    for one in summaries:
        total = [a.merge(b) for a, b in zip(total, one, strict=True)] if total else list(one)
    return total
