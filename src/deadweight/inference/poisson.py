r"""Poisson weights that belong to (seed, resample, episode): a bootstrap that merges.

Drawing n episodes with replacement gives each of them about Poisson(1) copies. Here the number of copies is a
hash of the seed, the resample and the episode's number, so that it is the same however the log is cut into
blocks or parts. One 64-bit word (Steele, Lea & Flood, 2014) serves four resamples, 16 bits each.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from deadweight.typing import FloatArray, IntArray

WORDS = npt.NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LEVELS = 1 << 16


def poisson_weights(seed: int, episodes: IntArray, resamples: int) -> FloatArray:
    """(m, resamples) numbers of copies, for the episodes with these numbers.

    >>> whole = poisson_weights(0, np.arange(6), 8)
    >>> bool((poisson_weights(0, np.array([4, 2]), 8) == whole[[4, 2]]).all())
    True
    """
    words = -(-resamples // 4)
    with np.errstate(over="ignore"):
        stream = mixed(mixed(np.array([seed % 2**64], dtype=np.uint64)) + episodes.astype(np.uint64) * GOLDEN)
        cells = stream[:, None] + np.arange(1, words + 1, dtype=np.uint64) * GOLDEN
    levels = mixed(cells).astype("<u8", copy=False).view("<u2")
    return _COPIES.take(levels[:, :resamples])


def mixed(words: WORDS) -> WORDS:
    """The words with all their bits mixed, in place (the finaliser of SplitMix64)."""
    shifted = words >> np.uint64(30)
    for shift, factor in ((27, 0xBF58476D1CE4E5B9), (31, 0x94D049BB133111EB)):
        np.bitwise_xor(words, shifted, out=words)
        np.multiply(words, np.uint64(factor), out=words)
        np.right_shift(words, np.uint64(shift), out=shifted)
    np.bitwise_xor(words, shifted, out=words)
    return words


def _copies() -> FloatArray:
    """(LEVELS,) the quantile function of Poisson(1) at evenly spaced levels."""
    below = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(20)])
    level = (np.arange(LEVELS) + 0.5) / LEVELS
    return np.searchsorted(below, level, side="right").astype(np.float64)


_COPIES = _copies()
