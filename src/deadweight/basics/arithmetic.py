"""Two small operations on arrays that numpy leaves half-way: division by zero, and sums by index."""

from __future__ import annotations

import numpy as np

from deadweight.typing import AnyArray, FloatArray, IntArray


def divide(top: FloatArray | float, bottom: FloatArray) -> FloatArray:
    """top / bottom, and 0 where the bottom is 0.

    >>> divide(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    array([0.5, 0. ])
    """
    shape = np.broadcast_shapes(np.shape(top), np.shape(bottom))
    return np.divide(top, bottom, out=np.zeros(shape), where=np.asarray(bottom) != 0)


def sums_by(index: IntArray, values: AnyArray | None = None, size: int = 0) -> FloatArray:
    """Sum of the values (or the number) of each index.

    >>> sums_by(np.array([0, 2, 2]), size=4)
    array([1., 0., 2., 0.])
    """
    return np.bincount(index, values, minlength=size).astype(np.float64, copy=False)
