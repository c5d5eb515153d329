"""Fingerprints: which log was that?

A policy that was learnt from a log looks better on that log than it is. It carries the log's fingerprint, so
that whoever evaluates it can tell. A fingerprint is a sum over episodes, and does not depend on their order,
on blocks, on parts or on workers; another log, or a part of this one, has another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Total

# Of the mixing function of SplitMix64 (Steele, Lea & Flood, 2014).
ODD = np.uint64(0x9E3779B97F4A7C15)
MIXERS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


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
        rows = _mixed(block.paid.astype(np.float64) + 0.0)
        for column in (block.states, block.actions, step):
            rows = _mixed(rows * ODD + np.ascontiguousarray(column).astype(np.uint64))
        if block.alive is not None:
            rows = np.where(block.alive, rows, np.uint64(0))
        # keepdims: numpy warns when a scalar of unsigned type overflows, but not when an array does.
        return [Total(np.add.reduce(_mixed(np.add.reduce(rows, axis=1)), keepdims=True))]


def _mixed(values: Any) -> Any:
    """64 bits of which each depends on all those of the value."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    for shift, factor in MIXERS:
        bits = (bits ^ (bits >> np.uint64(shift))) * factor
    return bits ^ (bits >> np.uint64(31))
