r"""Bumps: features of states as columns that a linear model can bend with.

.. math:: \phi(x) = [1,\; z,\; e^{-|z - c_1|^2 / 2 h^2}, \ldots], \qquad z = (x - \text{mean}) / \text{sd}

z is cut at six standard deviations, so that one wild row does not decide a slope; the centres c are those of
k-means on a fixed sample of rows, and the width h is how far centres are from their neighbours.

With many features such bumps are far apart, and what bends along one of them is lost. Half of the bumps may
stand along each feature by itself instead, at its quantiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.typing import FloatArray, IntArray

FURTHEST = 6.0
SAMPLE_ROWS = 20_000
ROUNDS = 20
# Bumps along one feature by itself; fewer than the least are none.
LEAST_ALONG, MOST_ALONG = 3, 6


@dataclass(frozen=True, eq=False)
class Bumps:
    """A basis fitted to some rows."""

    mean: FloatArray  # (d,) of the rows looked at
    scale: FloatArray  # (d,) their standard deviation; 1 of a constant column
    centres: FloatArray  # (k, d) standardised; none gives a linear basis
    width: float  # of the bumps
    feature: IntArray  # (q,) of the bumps along one feature: which one
    middles: FloatArray  # (q,) where they stand
    widths: FloatArray  # (q,) how wide they are

    @classmethod
    def fitted(cls, x: FloatArray, size: int = 100, seed: int = 0, along: bool = False) -> Bumps:
        """The basis of these rows: `size` bumps between features or, if `along`, half of them along each."""
        rng = np.random.default_rng(seed)
        rows = x if len(x) <= SAMPLE_ROWS else x[np.sort(rng.choice(len(x), SAMPLE_ROWS, replace=False))]
        mean, scale = rows.mean(axis=0), rows.std(axis=0)
        scale[scale <= 1e-12 * np.maximum(1.0, np.abs(mean))] = 1.0
        z = _standardised(rows, mean, scale)
        alone = _along(z, size // 2 if along else 0)
        between = size // 2 if len(alone[0]) else size
        centres = k_means(z, between, rng) if between else np.empty((0, x.shape[1]))
        return cls(mean, scale, centres, _neighbourhood(centres), *alone)

    @property
    def size(self) -> int:
        """Number of columns: the constant, the features and the bumps."""
        return 1 + len(self.mean) + len(self.centres) + len(self.middles)

    def nearest(self, x: FloatArray) -> IntArray:
        """(m,) the number of the centre that is nearest to each row."""
        far = squared_distances(_standardised(x, self.mean, self.scale), self.centres)
        return np.asarray(far.argmin(axis=1))

    def of(self, x: FloatArray) -> FloatArray:
        """(m, size) the columns of these rows."""
        z = _standardised(x, self.mean, self.scale)
        columns = np.empty((len(z), self.size))
        columns[:, 0] = 1.0
        columns[:, 1 : 1 + z.shape[1]] = z
        between = columns[:, 1 + z.shape[1] : self.size - len(self.middles)]
        if len(self.centres):
            far = squared_distances(z, self.centres)
            far *= -0.5 / self.width**2
            np.exp(far, out=between)
        if len(self.middles):
            near = (z[:, self.feature] - self.middles) / self.widths
            near *= near
            near *= -0.5
            np.exp(near, out=columns[:, self.size - len(self.middles) :])
        return columns


def squared_distances(x: FloatArray, y: FloatArray) -> FloatArray:
    """(m, k) squared distances between the rows of x, (m, d), and of y, (k, d)."""
    far = x @ (-2.0 * y.T)
    far += np.square(x).sum(axis=1)[:, None]
    far += np.square(y).sum(axis=1)
    return np.maximum(far, 0.0, out=far)


def k_means(x: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
    """(k, d) centres by k-means, k at most `size` and at most the number of different rows.

    It starts from rows drawn far from each other.

    Reference: Arthur & Vassilvitskii (2007).
    """
    chosen = [x[rng.integers(len(x))]]
    nearest = squared_distances(x, chosen[0][None])[:, 0]
    while len(chosen) < size and nearest.max() > 1e-18:
        chosen.append(x[rng.choice(len(x), p=nearest / nearest.sum())])
        np.minimum(nearest, squared_distances(x, chosen[-1][None])[:, 0], out=nearest)
    centres = np.array(chosen)
    for _ in range(ROUNDS):
        home = squared_distances(x, centres).argmin(axis=1)
        members = np.bincount(home, minlength=len(centres))
        sums = np.stack([np.bincount(home, column, minlength=len(centres)) for column in x.T], axis=1)
        moved = np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return np.asarray(centres[np.lexsort(centres.T[::-1])])


def _standardised(x: FloatArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    return np.clip((x - mean) / scale, -FURTHEST, FURTHEST)


def _along(z: FloatArray, size: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Features, middles and widths of at most so many bumps along features with more than a few values.

    None where there is one feature only, or where there would be too few along each.
    """
    feature: list[int] = []
    middles: list[float] = []
    widths: list[float] = []
    many = [j for j, column in enumerate(z.T) if len(np.unique(column)) > MOST_ALONG] if size else []
    count = min(MOST_ALONG, size // max(len(many), 1)) if z.shape[1] > 1 else 0
    for j in many if count >= LEAST_ALONG else ():
        places = np.unique(np.quantile(z[:, j], (np.arange(count) + 0.5) / count))
        if len(places) < 2:
            continue
        feature += [j] * len(places)
        middles += places.tolist()
        widths += [max(float(np.median(np.diff(places))), 1e-6)] * len(places)
    return np.array(feature, dtype=np.int64), np.array(middles), np.array(widths)


def _neighbourhood(centres: FloatArray) -> float:
    """Typical distance of a centre from its nearest neighbours: one more than there are features."""
    if len(centres) < 2:
        return 1.0
    far = np.sqrt(squared_distances(centres, centres))
    near = np.sort(far, axis=1)[:, 1 : 2 + centres.shape[1]]
    return max(float(np.median(near.mean(axis=1))), 1e-9)
