"""Chains of few states as tables: what `chains` does, where sparse matrices cost more than the sums do."""

from __future__ import annotations

import numpy as np

from deadweight.typing import BoolArray, FloatArray

# A chain of no more states than this is a table: systems of that size are solved faster so.
SMALL = 200


def reached_in(chain: FloatArray, d0: FloatArray) -> BoolArray:
    """(S,) which states the chain visits with positive probability from d0."""
    return _closure(chain[:, :-1].T, d0 > 0)


def ending_in(chain: FloatArray) -> BoolArray:
    """(S,) states from which the chain is sure to terminate: it reaches no state that cannot."""
    inner = chain[:, :-1]
    may_end = _closure(inner, chain[:, -1] > 0)
    return may_end if may_end.all() else ~_closure(inner, ~may_end)


def _closure(links: FloatArray, start: BoolArray) -> BoolArray:
    """(S,) what the start grows to when whoever has a link to one of it (a number above 0) joins."""
    found = start
    while True:
        more = found | (links @ found.astype(np.float64) > 0)
        if np.count_nonzero(more) == np.count_nonzero(found):
            return found
        found = more
