"""The rows of a fitted model: counts of transitions, with what unseen pairs borrow, as sparse probabilities.

Everything is done on flat arrays of the distinct (s, a, s'), sorted; a matrix is made once, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.basics.arithmetic import sums_by
from deadweight.basics.memory import require
from deadweight.sums.summaries import KeyedSums
from deadweight.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from deadweight.mdp.transitions import Sparse

# Bytes of an entry of a sparse matrix while it is added up: value, place, and both once more.
ENTRY = 32


@dataclass(frozen=True, eq=False)
class ModelRows:
    """Transitions of (S, A) pairs, by key (s * A + a) * (S + 1) + s', s' = S for termination.

    Attributes:
      moves: their number and, where transitions have discounts of their own, the sums of these.
      n_states, n_actions: S and A.
    """

    moves: KeyedSums
    n_states: int
    n_actions: int

    @property
    def pairs(self) -> IntArray:
        """The pair of each transition."""
        pairs: IntArray = self.moves.keys // (self.n_states + 1)
        return pairs

    @property
    def totals(self) -> FloatArray:
        """(S * A,) number of transitions of each pair."""
        return sums_by(self.pairs, self.moves.sums[0], self.n_states * self.n_actions)

    def pooled(self) -> ModelRows:
        """Those in which an unseen pair has the transitions of its state, all actions together."""
        unseen = np.flatnonzero(self.totals == 0)
        if not unseen.size:
            return self
        width = self.n_states + 1
        pairs, after = np.divmod(self.moves.keys, width)
        borrowed = KeyedSums.of(pairs // self.n_actions * width + after, *self.moves.sums)
        states = unseen // self.n_actions
        first, last = (np.searchsorted(borrowed.keys, at * width) for at in (states, states + 1))
        lengths = last - first
        require(
            ENTRY * (float(lengths.sum()) + len(pairs)),
            f"A model in which {unseen.size:,} pairs never seen behave like their states",
            'Use fewer, coarser states and actions, or unseen="terminate".',
        )
        begins = np.cumsum(lengths) - lengths
        at = np.repeat(first - begins, lengths) + np.arange(int(lengths.sum()))
        keys = np.repeat(unseen * width, lengths) + borrowed.keys[at] % width
        return self._with(keys, borrowed.sums[:, at])

    def ended(self) -> ModelRows:
        """Those in which a pair without any successor ends; no discount is left of it."""
        rest = np.flatnonzero(self.totals == 0)
        if not rest.size:
            return self
        sums = np.zeros((len(self.moves.sums), rest.size))
        sums[0] = 1.0
        return self._with(rest * (self.n_states + 1) + self.n_states, sums)

    def _with(self, keys: IntArray, sums: FloatArray) -> ModelRows:
        """These and others, whose keys are not among them."""
        every = np.concatenate([self.moves.keys, keys])
        order = np.argsort(every, kind="stable")
        both = np.concatenate([self.moves.sums, sums], axis=1)[:, order]
        return ModelRows(KeyedSums(every[order], both), self.n_states, self.n_actions)

    def matrix(self, totals: FloatArray) -> Sparse:
        """(S * A, S + 1) what is last in the sums, over the totals of the pairs; without zeros."""
        from scipy import sparse

        pairs, columns = np.divmod(self.moves.keys, self.n_states + 1)
        shares: FloatArray = (1.0 / totals)[pairs] * self.moves.sums[-1]
        there: BoolArray = shares != 0
        if not there.all():
            pairs, columns, shares = pairs[there], columns[there], shares[there]
        ends = np.zeros(self.n_states * self.n_actions + 1, dtype=np.int64)
        np.cumsum(np.bincount(pairs, minlength=len(ends) - 1), out=ends[1:])
        shape = (len(ends) - 1, self.n_states + 1)
        kind = np.int32 if max(*shape, len(shares)) < 2**31 else np.int64
        made: Any = sparse.csr_array((shares, columns.astype(kind), ends.astype(kind)), shape=shape)
        made.has_canonical_format = True  # keys are sorted and distinct
        return made  # type: ignore[no-any-return]
