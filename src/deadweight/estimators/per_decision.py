r"""Per-decision importance sampling (PDIS, WPDIS and, with a drop, SPDIS, WSPDIS).

.. math:: \hat G = \frac1n \sum_i \sum_t \gamma^t W^{(i)}_t r^{(i)}_t, \qquad W_t = \prod_{j \le t} k_j

A reward is weighted by the ratios up to its own step only. Precup, Sutton & Singh (2000).
"""

from __future__ import annotations

from collections.abc import Hashable

from deadweight.blocks import Block
from deadweight.estimators.product import Terms, normaliser_members
from deadweight.weighting import Weighting


class PerDecision:
    """Terms of PDIS: (W_t, r_t) for each step."""

    key: Hashable = "per-decision"

    def __call__(self, block: Block, weighting: Weighting, gamma: float, finished: str) -> list[Terms]:
        """One term a step; after the end the weight stays and the reward is zero."""
        counted = normaliser_members(block, finished)
        return [Terms(weighting.running(block), block.rewards, counted=counted)]
