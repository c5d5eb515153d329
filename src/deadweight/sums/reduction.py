"""The one loop over data: summarise block by block, merge in a fixed order.

Blocks depend on the log only. Their summaries are merged from the first block of a part to its last, and
those of the parts from the first to the last, so the result has the same bits however many workers took part,
threads on a log in memory or processes on a stored one. To everything that folds, a stored log is a sequence
of `Trajectories` with common labels, of which a few are in memory at a time. How many episodes there are, and
how long, is learnt in the first pass over the parts, whatever that pass was for.

A policy that was learnt from a log looks better on that log than it is. It carries the log's fingerprint, so
that whoever evaluates it can tell. A fingerprint is a sum over episodes, and does not depend on their order,
on blocks, on parts or on workers; another log, or a part of this one, has another.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import Any

import numpy as np

from deadweight.log.interface import Census, Log
from deadweight.log.trajectories import EndsUnknownError, Trajectories
from deadweight.sums.blocks import BLOCK_CELLS, SMALL_CELLS, Block, blocks
from deadweight.sums.executors import Executor
from deadweight.sums.summaries import Pieces, Total
from deadweight.tools.limits import processors
from deadweight.tools.progress import Pass
from deadweight.typing import FloatArray

Summarise = Callable[[Block], Sequence[Any]]
# Of a log with so many steps an episode, where small blocks are asked for; in memory a share of the log.
LONG_EPISODE, LARGER_CELLS, SHARE = 32, 4 * SMALL_CELLS, 8
# A log in memory of so many steps has two threads by itself, where there are processors: more would pay, but
# each holds a block.
LONG_LOG, BY_ITSELF = 1 << 20, 2
# Of the mixing function of SplitMix64 (Steele, Lea & Flood, 2014), for fingerprints and copies.
ODD = np.uint64(0x9E3779B97F4A7C15)
MIXERS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


class Stored(Log):
    """A log in parts that are not in memory; `executor` fetches and sums them."""

    executor: Executor
    has_rows = False

    @abstractmethod
    def fetch(self, part: int) -> Any:
        """Read a part, and no more than that: it is done for the next part while this one is summed."""

    @abstractmethod
    def pieces(self, part: int, fetched: Any) -> list[Trajectories]:
        """A fetched part as checked logs of some episodes each, in order: whatever takes fewest copies.

        Before the time limit is known they are those of a log without one.
        """

    def settle_ends(self) -> None:
        """Find out whether a time limit cut episodes, which may take a pass, unless that is known."""
        if not self.knows_limit:
            self.settle_limit()

    @abstractmethod
    def settle_limit(self) -> None:
        """Find out the time limit, which may take a pass."""

    @abstractmethod
    def passed(self, census: Census | None) -> None:
        """All parts have been fetched once without an error; `census` is None if it was known before."""

    @abstractmethod
    def progress(self, done: int) -> None:
        """So many parts of the current pass are done."""

    def visits(self, size: int) -> FloatArray | None:
        """None: they take a pass."""
        return None


def reduce_log(
    parts: Sequence[Trajectories],
    summarise: Summarise,
    workers: int = 1,
    cells: int = BLOCK_CELLS,
    by_ends: bool = False,
) -> list[Any]:
    """Summaries of a whole log.

    Args:
      parts: the log, or runs of its episodes, in order.
      summarise: the summaries of one block, each with `merge`. For a stored log a named function, or an
        object of a class, rather than a closure: it travels to other processes.
      workers: threads on a log in memory; numpy releases the interpreter lock in its loops. With 1 a short
        log has one, and a long one two. A stored log has an executor of its own.
      cells: size of a block.
      by_ends: they depend on how episodes end, so that a stored log settles that first. Where nobody says
        so, the first block that asks for an end stops the pass: it is settled then, and the pass made anew.
    """
    if isinstance(parts, Stored):
        return _fold_stored(parts, summarise, cells, by_ends)
    _keep_freed_memory()
    summarise = _Forgetting(summarise)
    steps = sum(log.n_steps for log in parts)
    cells = max(cells, min(larger_cells(parts, cells), steps // SHARE))
    one_pass = Pass(steps)
    workers = max(workers, min(BY_ITSELF, processors()) if steps >= LONG_LOG else 1)
    with nullcontext() if workers == 1 else ThreadPoolExecutor(workers) as pool:
        mapped: Any = map if pool is None else pool.map
        total = _merge_all(
            _merge_all(_told(mapped, summarise, _numbered(part, [log], cells), one_pass))
            for part, log in enumerate(parts)
        )
    one_pass.end()
    return total


def per_episode(
    parts: Sequence[Trajectories],
    compute: Callable[[Block], FloatArray],
    workers: int = 1,
    cells: int = BLOCK_CELLS,
) -> FloatArray:
    """compute(block), (m,) or (k, m), of all episodes in the order of the log."""
    return in_log_order(reduce_log(parts, partial(_numbered_values, compute), workers, cells)[0])


def _numbered_values(compute: Callable[[Block], FloatArray], block: Block) -> list[Pieces]:
    return [numbered(block, compute(block))]


def numbered(block: Block, values: FloatArray) -> Pieces:
    """Numbers of a block's episodes, (m,) or (k, m), with their places: a summary for `in_log_order`."""
    return Pieces(((block.part, block.first + block.rows, values),))


def in_log_order(pieces: Pieces) -> FloatArray:
    """(n,) or (k, n): numbers of all episodes, from those of all blocks."""
    sizes = np.bincount([part for part, _, _ in pieces.items], [len(rows) for _, rows, _ in pieces.items])
    before = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)  # episodes before each part
    result: FloatArray = np.empty((*pieces.items[0][2].shape[:-1], before[-1]))
    for part, rows, values in pieces.items:
        result[..., before[part] + rows] = values
    return result


def _told(
    mapped: Callable[[Summarise, Iterable[Block]], Iterator[Sequence[Any]]],
    summarise: Summarise,
    of_part: Iterable[Block],
    one_pass: Pass,
) -> Iterator[Sequence[Any]]:
    """The summaries of the blocks of a part; whoever watches is told after each."""
    if not one_pass.watched:
        return mapped(summarise, of_part)
    sizes: list[int] = []

    def counted() -> Iterator[Block]:
        for block in of_part:
            sizes.append(int(block.lengths.sum()))
            yield block

    def told() -> Iterator[Sequence[Any]]:
        for k, summaries in enumerate(mapped(summarise, counted())):
            one_pass.done(sizes[k])
            yield summaries

    return told()


def _numbered(part: int, logs: Iterable[Trajectories], cells: int) -> Iterator[Block]:
    first = 0
    for log in logs:
        for block in blocks(log, cells):
            block.part, block.first = part, first
            yield block
        first += log.n_episodes


def _fold_stored(parts: Stored, summarise: Summarise, cells: int, by_ends: bool) -> list[Any]:
    if by_ends:
        parts.settle_ends()
    try:
        return _pass_over(parts, summarise, cells)
    except EndsUnknownError:
        parts.settle_ends()
        return _pass_over(parts, summarise, cells)


def _pass_over(parts: Stored, summarise: Summarise, cells: int) -> list[Any]:
    work = PartWork(parts, summarise, cells, parts.known is None)
    total: list[Any] = []
    parts.progress(0)
    for done, summaries in enumerate(parts.executor.map(work, len(parts)), 1):
        total = _merged(total, summaries)
        parts.progress(done)
    parts.passed(total.pop() if work.count else None)
    return total


@dataclass(frozen=True, eq=False)
class PartWork:
    """The work on each part of a stored log: fetch it and sum its blocks; with `count` also its census."""

    parts: Stored
    summarise: Summarise
    cells: int
    count: bool

    def load(self, part: int) -> list[Any]:
        """A part with its number, as it was read."""
        return [part, self.parts.fetch(part)]

    def add_up(self, loaded: list[Any]) -> list[Any]:
        """The sums of a part; `loaded` is emptied."""
        part, fetched = loaded
        logs = self.parts.pieces(part, fetched)
        loaded.clear()  # columns that no log needs any more make room for those of the next part
        del fetched
        _keep_freed_memory()
        shown = logs if self.parts.knows_limit else [log.without_ends() for log in logs]
        sums = _merge_all(
            map(_Forgetting(self.summarise), _numbered(part, shown, larger_cells(logs, self.cells)))
        )
        return [*sums, Census.of(logs, look=True)] if self.count else sums


def larger_cells(logs: Sequence[Trajectories], cells: int) -> int:
    """The size of blocks: small ones are for what is kept of each episode, and long ones are few."""
    steps, episodes = sum(log.n_steps for log in logs), sum(log.n_episodes for log in logs)
    return LARGER_CELLS if cells == SMALL_CELLS and steps >= LONG_EPISODE * episodes else cells


@dataclass(frozen=True, eq=False)
class _Forgetting:
    """Summarise a block, and let go of what was computed of it on the way."""

    summarise: Summarise

    def __call__(self, block: Block) -> Sequence[Any]:
        summaries = self.summarise(block)
        block.forget()
        return summaries


@cache
def _keep_freed_memory() -> None:
    """Free one large array, once.

    The C library of Linux gives freed memory of a block's size back to the system and fetches it again, page
    by page, for the next block: that costs more than the arithmetic. It stops doing so for all sizes up to
    the largest that it has ever seen freed, and caps that at 32 MiB. The array is never written to.
    """
    np.empty(31 << 17)


def _merge_all(summaries: Iterable[Sequence[Any]]) -> list[Any]:
    return reduce(_merged, summaries, [])


def _merged(total: list[Any], more: Sequence[Any]) -> list[Any]:
    return [a.merge(b) for a, b in zip(total, more, strict=True)] if total else list(more)


# --- Fingerprints.


def fingerprint(parts: Sequence[Trajectories], workers: int = 1) -> str:
    """The fingerprint of a log, as text."""
    total: Any = reduce_log(parts, _of_block, workers)[0]
    return f"log-{int(total.value[0]):016x}"


def learnt_here(policy: object, parts: Sequence[Trajectories], workers: int = 1) -> bool:
    """Whether a policy says that it was learnt from this log; takes a pass only if it says so of any."""
    mark = getattr(policy, "trained_on", None)
    return mark is not None and mark == fingerprint(parts, workers)


def _of_block(block: Block) -> list[Total]:
    with np.errstate(over="ignore"):  # sums are taken modulo 2**64
        step = np.broadcast_to(np.arange(1, block.horizon + 1, dtype=np.uint64), (block.n, block.horizon))
        rows = mixed(block.paid.astype(np.float64) + 0.0)
        for column in (block.states, block.actions, step):
            rows = mixed(rows * ODD + np.ascontiguousarray(column).astype(np.uint64))
        if block.alive is not None:
            rows = np.where(block.alive, rows, np.uint64(0))
        # keepdims: numpy warns when a scalar of unsigned type overflows, but not when an array does.
        return [Total(np.add.reduce(mixed(np.add.reduce(rows, axis=1)), keepdims=True))]


def mixed(values: Any) -> Any:
    """64 bits of which each depends on all those of the value."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    for shift, factor in MIXERS:
        bits = (bits ^ (bits >> np.uint64(shift))) * factor
    return bits ^ (bits >> np.uint64(31))
