r"""Poisson weights that belong to (seed, resample, episode): a bootstrap that merges.

Drawing n episodes with replacement gives each of them about Poisson(1) copies. Here the number of copies is a
hash of the seed, the resample and the episode's number, so that it is the same however the log is cut into
blocks or parts. One 64-bit word (Steele, Lea & Flood, 2014) serves four resamples, 16 bits each: the mean is
exactly 1, the variance 1 - 2**-15, and no event is off by more than 4e-5 in probability; nine copies or more,
which have probability 1e-6, do not occur.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from deadweight.sums import kernel
from deadweight.typing import IntArray

WORDS = npt.NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LEVELS = 1 << 16


def poisson_weights(seed: int, episodes: IntArray, resamples: int) -> npt.NDArray[np.uint8]:
    """(m, resamples) numbers of copies, for the episodes with these numbers.

    >>> whole = poisson_weights(0, np.arange(6), 8)
    >>> bool((poisson_weights(0, np.array([4, 2]), 8) == whole[[4, 2]]).all())
    True
    """
    if kernel.KERNEL is None:
        return _by_numpy(seed, episodes, resamples)
    copies = np.empty((len(episodes), resamples), dtype=np.uint8)
    numbers, cuts = np.ascontiguousarray(episodes, dtype=np.int64), _CUTS.astype(np.int64)
    kernel.KERNEL.resample_copies(seed % 2**64, numbers, cuts, resamples, copies.reshape(-1))
    return copies


def _by_numpy(seed: int, episodes: IntArray, resamples: int) -> npt.NDArray[np.uint8]:
    """The same, without the kernel."""
    words = -(-resamples // 4)
    with np.errstate(over="ignore"):
        stream = mixed(mixed(np.array([seed % 2**64], dtype=np.uint64)) + episodes.astype(np.uint64) * GOLDEN)
        cells = stream[:, None] + np.arange(1, words + 1, dtype=np.uint64) * GOLDEN
    levels = mixed(cells).astype("<u8", copy=False).view("<u2")
    # Eight comparisons a cell, many cells at a time, are faster than one look-up in a table.
    reached = np.empty(levels.shape, dtype=bool)
    copies = np.zeros(levels.shape, dtype=np.uint8)
    for cut in _CUTS:
        copies += np.greater_equal(levels, cut, out=reached).view(np.uint8)
    return copies[:, :resamples]


def mixed(words: WORDS) -> WORDS:
    """The words with all their bits mixed, in place (the finaliser of SplitMix64)."""
    shifted = words >> np.uint64(30)
    for shift, factor in ((27, 0xBF58476D1CE4E5B9), (31, 0x94D049BB133111EB)):
        np.bitwise_xor(words, shifted, out=words)
        np.multiply(words, np.uint64(factor), out=words)
        np.right_shift(words, np.uint64(shift), out=shifted)
    np.bitwise_xor(words, shifted, out=words)
    return words


def _cuts() -> npt.NDArray[np.uint16]:
    """The levels from which on there is one copy, are two copies, ...: the distribution function, rounded."""
    below = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(20)])
    levels = np.round(below * LEVELS)
    return levels[levels < LEVELS].astype(np.uint16)


_CUTS = _cuts()
