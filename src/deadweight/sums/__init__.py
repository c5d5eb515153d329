"""The one pass over data: blocks, ratios, running products, the kernel and its twin, sums that merge."""

from __future__ import annotations
