"""Transition and reward arrays, read into one sparse form.

Users write P dense with or without a termination column, or sparse; R per state and action or per
transition. `read_transitions` checks each form once and returns the only one the library computes with:
a CSR matrix of S*A rows and S+1 columns (row s*A + a, last column = termination), and the reward of each
stored transition when it depends on where the transition leads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deadweight.errors import MDPError
from deadweight.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Sparse: TypeAlias = csr_array[np.float64, tuple[int, int]]

TOLERANCE = 1e-9
# Less missing mass than this is the rounding of a row's sum, not a chance to terminate.
ROUNDING = 1e-12


def read_transitions(P: Any) -> tuple[Sparse, int, int]:
    """P in any accepted form as CSR (S*A, S+1), with S and A."""
    from scipy import sparse

    table: Any
    if _is_sparse(P):
        n_states = P.shape[1] - 1
        if n_states < 1 or P.shape[0] == 0 or P.shape[0] % n_states:
            raise MDPError(
                f"A sparse P needs shape (S*A, S+1); found {P.shape}.",
                fix="Put state s and action a on row s*A + a, and termination in the last column.",
            )
        n_actions = P.shape[0] // n_states
        # A copy: canonicalising below works in place, and the user's matrix is not ours to change.
        table = sparse.csr_array(P, dtype=np.float64, copy=True)
        table.sum_duplicates()
    else:
        dense = np.asarray(P, dtype=np.float64)
        if dense.ndim != 3 or 0 in dense.shape or dense.shape[2] - dense.shape[0] not in (0, 1):
            raise MDPError(
                f"P needs shape (S, A, S+1) or (S, A, S); found {dense.shape}.",
                fix="The last column of (S, A, S+1) is termination; with (S, A, S) it is the missing mass.",
            )
        n_states, n_actions = dense.shape[:2]
        _check_entries(dense.reshape(n_states * n_actions, -1), n_actions)
        if dense.shape[2] == n_states:
            ends = 1.0 - dense.sum(axis=2)
            _refuse_row(ends < -TOLERANCE, 1.0 - ends, n_actions, "at most 1")
            dense = np.concatenate([dense, np.where(ends > ROUNDING, ends, 0.0)[:, :, None]], axis=2)
        table = sparse.csr_array(dense.reshape(n_states * n_actions, n_states + 1))
    bad = np.flatnonzero(~np.isfinite(table.data) | (table.data < 0))
    if bad.size:
        raise _bad_entry(table.data[bad[0]], entry_rows(table)[bad[0]], table.indices[bad[0]], n_actions)
    sums = np.asarray(table.sum(axis=1)).reshape(n_states, n_actions)
    _refuse_row(np.abs(sums - 1.0) > TOLERANCE, sums, n_actions, "1, termination included")
    table.eliminate_zeros()
    table.sort_indices()
    if max(*table.shape, table.nnz) < 2**31:  # half the index memory, faster products
        table.indices, table.indptr = table.indices.astype(np.int32), table.indptr.astype(np.int32)
    return table, n_states, n_actions


def read_rewards(R: Any, P: Sparse, n_states: int, n_actions: int) -> tuple[FloatArray, FloatArray | None]:
    """Expected reward (S, A), and the reward of each stored entry of P, or None when R is (S, A)."""
    rows = entry_rows(P)
    if _is_sparse(R):
        if R.shape != P.shape:
            raise MDPError(
                f"A sparse R needs the shape of P, {P.shape}; found {R.shape}.",
                fix="Give R the shape of P, or (states, actions) where what follows does not matter.",
            )
        paid = np.asarray(R.tocsr()[rows, P.indices], dtype=np.float64).ravel()
    else:
        dense = np.asarray(R, dtype=np.float64)
        per_pair = (n_states, n_actions)
        if dense.shape == per_pair:
            _check_rewards(dense)
            return dense.copy(), None
        if dense.shape not in ((*per_pair, n_states), (*per_pair, n_states + 1), P.shape):
            raise MDPError(
                f"R needs shape {per_pair} or that of P; found {dense.shape}.",
                fix="Give one reward per state and action, or one per transition.",
            )
        flat = dense.reshape(P.shape[0], -1)
        ends = P.indices >= flat.shape[1]  # termination, when R has no column for it: it pays 0
        paid = np.where(ends, 0.0, flat[rows, np.where(ends, 0, P.indices)])
    _check_rewards(paid)
    expected = np.asarray(np.bincount(rows, P.data * paid, P.shape[0]), dtype=np.float64)
    return expected.reshape(n_states, n_actions), paid


def entry_rows(P: Sparse) -> IntArray:
    """The row of each stored entry of P."""
    return np.repeat(np.arange(P.shape[0]), np.diff(P.indptr))


def _is_sparse(array: Any) -> bool:
    from scipy import sparse

    return bool(sparse.issparse(array))


def _check_rewards(values: FloatArray) -> None:
    if not np.isfinite(values).all():
        raise MDPError(
            "R has a NaN or infinite reward.", fix="Give every possible transition a finite reward."
        )


def _check_entries(table: FloatArray, n_actions: int) -> None:
    bad = ~np.isfinite(table) | (table < 0)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise _bad_entry(table[row, column], row, column, n_actions)


def _bad_entry(entry: float, row: int, column: int, n_actions: int) -> MDPError:
    return MDPError(
        f"P has the entry {entry:g} at state {row // n_actions}, action {row % n_actions}, "
        f"next state {column}.",
        fix="Transition probabilities are finite and at least 0.",
    )


def _refuse_row(bad: BoolArray, sums: FloatArray, n_actions: int, wanted: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise MDPError(
            f"P at state {row // n_actions}, action {row % n_actions} sums to {sums.ravel()[row]:.12g}; "
            f"it must be {wanted}.",
            fix="Normalise the row, in double precision.",
        )
