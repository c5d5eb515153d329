r"""Fingerprints of outputs: what of them must not change, in a few bytes.

Words and structure are exact: a digest of the tree with every number in it blotted out. Numbers may differ
in their last bits from machine to machine, so that no digest of them can be kept. In its place stand a few
random projections,

.. math:: p_k = \sum_j w_{kj} \, \operatorname{asinh}(10^3 x_j),

whose weights are drawn from the position of a number in the tree: a relative change of any number of size
:math:`\delta` moves each of them by at least half of :math:`\delta`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

# A number as it may stand in a text.
NUMBER = re.compile(r"(?<![A-Za-z_])[-+−]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?")
PROJECTIONS = 3
# Rounding moves a projection by less than this share of the sum of absolute terms.
ROUNDING = 1e-12


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The path and value of every leaf; an empty container is one."""
    if isinstance(tree, dict) and tree:
        for key, item in tree.items():
            yield from leaves(item, f"{path}/{key}")
    elif isinstance(tree, list) and tree:
        for place, item in enumerate(tree):
            yield from leaves(item, f"{path}/{place}")
    else:
        yield path, tree


def blotted(text: str) -> str:
    """A text with every number in it as #."""
    return NUMBER.sub("#", text)


@dataclass(frozen=True)
class Fingerprint:
    """What is kept of one tree.

    Attributes:
      words: digest of all but its numbers.
      numbers: how many floats it has that are finite.
      projections: of these, see above.
      size: sum of absolute terms of a projection.
    """

    words: str
    numbers: int
    projections: tuple[float, ...]
    size: float

    @classmethod
    def of(cls, tree: Any) -> Fingerprint:
        """The fingerprint of a tree."""
        digest, paths, values = hashlib.sha256(), [], []
        for path, leaf in leaves(tree):
            if isinstance(leaf, float) and math.isfinite(leaf):
                paths.append(path)
                values.append(leaf)
                leaf = ["a number"]
            elif isinstance(leaf, str):
                leaf = blotted(leaf)
            digest.update(json.dumps([path, leaf]).encode("utf-8", "surrogatepass"))
        terms = np.arcsinh(1e3 * np.array(values))
        seeds = np.array(
            [zlib.crc32(path.encode("utf-8", "surrogatepass")) for path in paths], dtype=np.uint64
        )
        weights = [_weights(seeds, k) for k in range(PROJECTIONS)]
        return cls(
            digest.hexdigest()[:16],
            len(values),
            tuple(float(one @ terms) for one in weights),
            float(np.abs(terms).sum()),
        )

    def differs(self, other: Fingerprint) -> str | None:
        """In what way two fingerprints differ; None where they do not."""
        if self.words != other.words:
            return "words or structure"
        if self.numbers != other.numbers:
            return "number of numbers"
        allowed = ROUNDING * max(self.size, 1.0)
        moved = max(
            (abs(a - b) for a, b in zip(self.projections, other.projections, strict=True)), default=0.0
        )
        return None if moved <= allowed else f"numbers (a projection moved by {moved:.1e})"


def _weights(seeds: np.ndarray, k: int) -> np.ndarray:
    """Weights of either sign between 1/2 and 1, from the hash of a path and the number of the projection."""
    mixed = (seeds * np.uint64(2654435761) + np.uint64(97 * k + 1)) * np.uint64(0x9E3779B97F4A7C15)
    weights = (mixed >> np.uint64(11)).astype(float) / 2.0**52 - 1.0
    return weights / 2.0 + np.copysign(0.5, weights)


def first_difference(before: Any, after: Any) -> str | None:
    """The first leaf in which two trees differ, bit for bit, with both values; None where they are equal."""
    if before == after:
        return None
    theirs, ours = dict(leaves(before)), dict(leaves(after))
    for path in [*theirs, *(one for one in ours if one not in theirs)]:
        old, new = (side.get(path, "(nothing)") for side in (theirs, ours))
        both_nan = isinstance(old, float) and isinstance(new, float) and math.isnan(old) and math.isnan(new)
        if (old != new or type(old) is not type(new)) and not both_nan:
            return f"{path}\n  - {_shown(old, new)}\n  + {_shown(new, old)}"
    return None


def _shown(value: Any, other: Any) -> str:
    """A value; of a long text the place where it departs from the other."""
    if not (isinstance(value, str) and isinstance(other, str)) or len(value) < 200:
        return repr(value)
    start = next((i for i, (a, b) in enumerate(zip(value, other, strict=False)) if a != b), 0)
    return f"...{value[max(start - 60, 0) : start + 100]!r}..."


def largest_change(before: Any, after: Any) -> float:
    """The largest relative change of a float, infinite where anything else differs."""
    theirs, ours = dict(leaves(before)), dict(leaves(after))
    if theirs.keys() != ours.keys():
        return math.inf
    most = 0.0
    for path, old in theirs.items():
        new = ours[path]
        if old == new or (old != old and new != new):
            continue
        if not (isinstance(old, float) and isinstance(new, float)):
            return math.inf
        most = max(most, abs(old - new) / max(abs(old), abs(new)))
    return most
