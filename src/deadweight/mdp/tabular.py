"""TabularMDP: a known or a fitted Markov decision process, sparse, its dynamic programme, and its chains.

A domain and a model fitted to a log are the same noun. One backward recursion serves them both: true
values, Q for doubly robust estimates, and the gaps that decide which states are negligible.

Users write P dense with or without a termination column, or sparse; R per state and action or per transition.
`read_transitions` checks each form once and returns the only one the library computes with: a CSR matrix of
S*A rows and S+1 columns (row s*A + a, last column = termination), and the reward of each stored transition
when it depends on where the transition leads.

A policy turns these transitions into a Markov chain of (S, S+1), last column termination: which states does
it reach, does it end, and what are sums until it does? The same averaging with other weights than
probabilities (squared ratios, say) gives the second moments of `deadweight.theory`. Chains of few states are
tables (`reached_in`, `ending_in`), where sparse matrices cost more than the sums do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deadweight.errors import MDPError, OptionError, PolicyError
from deadweight.log.interface import check_gamma
from deadweight.tools.arithmetic import each_row
from deadweight.tools.limits import NUMBER, one_blas_thread, require
from deadweight.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Sparse: TypeAlias = csr_array[np.float64, tuple[int, int]]

TOLERANCE = 1e-9
# Less missing mass than this is the rounding of a row's sum, not a chance to terminate.
ROUNDING = 1e-12
# A matrix of transitions of no more cells than this is multiplied as a dense one: nothing is faster.
DENSE = 1 << 16
# A chain of no more states than this is a table: systems of that size are solved faster so.
SMALL = 200


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
        flat = dense.reshape(n_states * n_actions, -1)
        for row, column in np.argwhere(~np.isfinite(flat) | (flat < 0)):
            raise _bad_entry(flat[row, column], row, column, n_actions)
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
        fix = "Give every possible transition a finite reward."
        raise MDPError("R has a NaN or infinite reward.", fix=fix)


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


class TabularMDP:
    """States 0..S-1, actions 0..A-1, and termination as column S of the transition matrix.

    Args:
      P: (S, A, S+1), last column = termination; or (S, A, S), whose missing mass is termination; or sparse
        (S*A, S+1) with state s and action a on row s*A + a.
      R: (S, A), paid whatever follows; or the shape of P, paid on that transition.
      d0: (S,) distribution of the first state.
      horizon: steps after which every episode is cut; None when episodes run until they terminate.

    Example:
      >>> coin = TabularMDP(P=[[[0.5], [0.0]]], R=[[-1.0, -1.0]], d0=[1.0])
      >>> policy_value(coin, [[1.0, 0.0]])
      -2.0
    """

    r: FloatArray
    d0: FloatArray
    horizon: int | None
    transition_rewards: FloatArray | None
    _stored: Sparse
    _spread: FloatArray | None
    _open_end: bool

    def __init__(self, P: Any, R: Any, d0: Any, horizon: int | None = None) -> None:
        table, n_states, n_actions = read_transitions(P)
        r, paid = read_rewards(R, table, n_states, n_actions)
        start = np.array(d0, dtype=np.float64)
        if start.shape != (n_states,):
            raise MDPError(
                f"d0 needs shape ({n_states},), one probability a state; found {start.shape}.",
                fix="For example [1.0, 0.0] of two states, of which the first is the start.",
            )
        if not (start >= 0).all() or abs(start.sum() - 1.0) > TOLERANCE:
            raise MDPError(
                f"d0 is not a distribution: smallest entry {start.min():g}, sum {start.sum():.12g}.",
                fix="Give probabilities of at least 0 that sum to 1.",
            )
        self._fill(table, r, start, None if horizon is None else checked_horizon(horizon), paid)

    @classmethod
    def _trusted(
        cls,
        P: Sparse,
        r: FloatArray,
        d0: FloatArray,
        horizon: int | None = None,
        transition_rewards: FloatArray | None = None,
        spread: FloatArray | None = None,
        open_end: bool = False,
    ) -> TabularMDP:
        """An MDP of arrays in the final form (canonical CSR, no stored zeros), neither checked nor copied.

        `spread` (S*A,) is probability that every successor has on top of P. Smoothed counts would fill P;
        kept apart, they cost one number a row. `open_end`: the horizon is only how long the longest
        episode happened to be.
        """
        mdp = cls.__new__(cls)
        mdp._fill(P, r, d0, horizon, transition_rewards, spread, open_end)
        return mdp

    def _fill(
        self,
        P: Sparse,
        r: FloatArray,
        d0: FloatArray,
        horizon: int | None,
        transition_rewards: FloatArray | None,
        spread: FloatArray | None = None,
        open_end: bool = False,
    ) -> None:
        _freeze(P.data, P.indices, P.indptr, r, d0, transition_rewards, spread)
        arrays = {"_stored": P, "r": r, "d0": d0, "transition_rewards": transition_rewards, "_spread": spread}
        self.__dict__.update(arrays, horizon=horizon, _open_end=open_end)

    @property
    def has_limit(self) -> bool:
        """Whether the horizon is a limit of the task, and not only the longest episode of a log."""
        return self.horizon is not None and not self._open_end

    @cached_property
    def P(self) -> Sparse:
        """(S*A, S+1) transition probabilities, row s*A + a, last column = termination."""
        if self._spread is None:
            return self._stored
        from scipy import sparse

        cells = float(self._stored.shape[0]) * self._stored.shape[1]
        require(3 * NUMBER * cells, "A smoothed model without zeros", 'Use unseen="pool".')
        smoothed = sparse.csr_array(self._stored.toarray() + self._spread[:, None])
        _freeze(smoothed.data, smoothed.indices, smoothed.indptr)
        return smoothed

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a TabularMDP cannot be changed ('{name}'); build a new one")

    def __repr__(self) -> str:
        ends = "until termination" if self.horizon is None else f"horizon {self.horizon}"
        sizes = f"{self.n_states} states, {self.n_actions} actions, {self._stored.nnz} transitions"
        return f"TabularMDP({sizes}, {ends})"

    @property
    def n_states(self) -> int:
        """S, termination not counted."""
        return int(self.r.shape[0])

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.r.shape[1])

    def forward(self, weights: FloatArray) -> FloatArray:
        """(..., S) sum over pairs of weights(s, a) P(. | s, a), termination left out, of (..., S * A).

        Each row of weights has the bits that it has alone.
        """
        dense = self._table is not None
        following: FloatArray = (
            each_row(weights, self._backwards.T) if dense else np.asarray((self._backwards @ weights.T).T)
        )
        if self._spread is None:
            return following
        return following + each_row(weights, self._spread[:, None])

    @cached_property
    def _backwards(self) -> Any:
        """(S, S * A) P transposed, without termination: dense where that is small."""
        if self._table is not None:
            return np.ascontiguousarray(self._table[:, :-1].T)
        stored: Any = self._stored[:, :-1].T
        return stored.tocsr()

    @cached_property
    def _table(self) -> FloatArray | None:
        """(S * A, S + 1) the stored transitions as a dense table; None where that is not small."""
        small = self._stored.shape[0] * self._stored.shape[1] <= DENSE
        return self._stored.toarray() if small else None

    @cached_property
    def _distinct(self) -> tuple[Sparse, IntArray | None]:
        """P's rows in action-major order (row a*S + s), or the distinct ones and where each is used.

        Many pairs (s, a) share their successors: moves that meet in one cell, actions never seen in a log.
        Equal rows give equal products, so each is multiplied once.
        """
        order = np.arange(self._stored.shape[0]).reshape(self.r.shape).T.ravel()
        # Equal rows have bit-equal products with any vector; the comparison below settles the converse.
        probe: Any = self._stored @ np.random.default_rng(0).random(self._stored.shape[1])
        _, first, index = np.unique(probe, return_index=True, return_inverse=True)
        twins = self._stored[first[index]] if first.size < 0.7 * probe.size else None
        if twins is None or not (
            np.array_equal(twins.indptr, self._stored.indptr)
            and np.array_equal(twins.indices, self._stored.indices)
            and np.array_equal(twins.data, self._stored.data)
        ):
            return self._stored[order], None
        return self._stored[first], index[order]


def policy_table(pi: Any, mdp: TabularMDP) -> FloatArray:
    """The (S, A) probabilities of a `TabularPolicy` or a plain array, checked against the MDP's shape."""
    probs = np.asarray(getattr(pi, "probs", pi), dtype=np.float64)
    if probs.shape != mdp.r.shape:
        raise PolicyError(
            f"The policy has shape {probs.shape}; this MDP needs {mdp.r.shape}, a row a state and a "
            "column an action.",
            fix="Check that policy and MDP number the same states and actions.",
        )
    if not (probs >= 0).all() or (np.abs(probs.sum(axis=1) - 1.0) > 1e-6).any():
        state = int(np.flatnonzero((probs < 0).any(axis=1) | ~(np.abs(probs.sum(axis=1) - 1.0) <= 1e-6))[0])
        raise PolicyError(
            f"The policy's row for state {state} is not a distribution: {probs[state]}.",
            fix="Each row holds probabilities of at least 0 that sum to 1.",
        )
    return probs


def backward(
    mdp: TabularMDP, pi: Any, horizon: int, gamma: float = 1.0
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    r"""Yield (t, Q_t, V_t) for t = H-1, ..., 0, keeping none of them.

    .. math:: Q_t = r + \gamma P V_{t+1}, \qquad V_t(s) = \sum_a \pi(a|s) Q_t(s, a), \qquad V_H = 0

    Each Q_t is an (S, A) view of a fresh action-major array (its transpose is contiguous), each V_t a
    fresh (S,) array; callers may keep them.
    """
    pi_by_action = np.ascontiguousarray(policy_table(pi, mdp).T)  # (A, S)
    r_by_action = np.ascontiguousarray(mdp.r.T)
    rows, index = mdp._distinct
    spread = None if mdp._spread is None else np.ascontiguousarray(mdp._spread.reshape(mdp.r.shape).T)
    v = np.zeros(mdp.n_states + 1)  # the last entry is termination and stays 0
    weighted = np.empty_like(pi_by_action)
    check_gamma(gamma)
    for t in reversed(range(checked_horizon(horizon))):
        following: Any = rows @ v
        q = (following if index is None else following.take(index)).reshape(r_by_action.shape)
        if spread is not None:
            q += spread * v.sum()
        if gamma != 1.0:
            q *= gamma
        q += r_by_action
        v = np.zeros(mdp.n_states + 1)
        np.multiply(pi_by_action, q, out=weighted)
        np.add.reduce(weighted, axis=0, out=v[:-1])
        yield t, q.T, v[:-1]


def chain_table(mdp: TabularMDP, weights: FloatArray, smoothed: bool = True) -> FloatArray:
    """(S, S + 1) sum_a weights(s, a) P(s, a, .) as a dense table, with smoothing or without."""
    stored = mdp._table
    if stored is None:
        sparse: Any = average_actions(mdp._stored, weights)
        chain: FloatArray = sparse.toarray()
    else:
        chain = average_rows(stored, weights)
    if smoothed and mdp._spread is not None:
        chain += (weights * mdp._spread.reshape(weights.shape)).sum(axis=1)[:, None]
    return chain


def occupancies(mdp: TabularMDP, pi: FloatArray, horizon: int, *, stacked: bool = False) -> FloatArray:
    """(H, S) the distribution of the state at each step under pi; what is missing to 1 has terminated.

    Of several models `stacked` into one, equal ones keep equal bits, which they need not in a dense chain.
    """
    d = np.empty((horizon, mdp.n_states))
    d[0] = mdp.d0
    if mdp._table is not None and not stacked:
        onwards = np.ascontiguousarray(chain_table(mdp, pi)[:, :-1].T)
        with one_blas_thread():
            for t in range(1, horizon):
                np.dot(onwards, d[t - 1], out=d[t])
        return d
    for t in range(1, horizon):
        d[t] = mdp.forward((d[t - 1][:, None] * pi).ravel())
    return d


def state_values(mdp: TabularMDP, pi: FloatArray, horizon: int, gamma: float) -> FloatArray:
    """(H, S) V_t of pi for t = 0..H-1 with H - t steps to go."""
    v = np.empty((horizon, mdp.n_states))
    if mdp._table is None:
        for t, _, v_t in backward(mdp, pi, horizon, gamma):
            v[t] = v_t
        return v
    chain, gain = gamma * chain_table(mdp, pi)[:, :-1], (pi * mdp.r).sum(axis=1)
    v[-1] = gain
    with one_blas_thread():
        for t in reversed(range(horizon - 1)):
            np.dot(chain, v[t + 1], out=v[t])
            v[t] += gain
    return v


def q_values(mdp: TabularMDP, pi: Any, horizon: int, gamma: float = 1.0) -> FloatArray:
    """Q_t(s, a) of pi for t = 0..H-1 with H - t steps to go: (H, S, A).

    Args:
      mdp: the MDP.
      pi: a `TabularPolicy` or (S, A) probabilities.
      horizon: H, the number of steps.
      gamma: discount in (0, 1].

    Example:
      >>> coin = TabularMDP(P=[[[0.5], [0.0]]], R=[[-1.0, -1.0]], d0=[1.0])
      >>> q_values(coin, [[1.0, 0.0]], horizon=2).tolist()
      [[[-1.5, -1.0]], [[-1.0, -1.0]]]
    """
    steps = checked_horizon(horizon)
    require(NUMBER * float(steps) * mdp.r.size, f"Q of {steps:,} steps", "Take a shorter horizon.")
    q = np.empty((steps, *mdp.r.shape))
    for t, q_t, _ in backward(mdp, pi, horizon, gamma):
        q[t] = q_t
    return q


def gaps(mdp: TabularMDP, pi: Any, horizon: int, gamma: float = 1.0, before: int | None = None) -> FloatArray:
    r"""How much one action can matter in each state: :math:`\max_t (\max_a Q_t - \min_a Q_t)`, (S,).

    A running maximum: memory does not grow with the horizon. Only steps `before` a given one are looked at,
    if one is given.
    """
    gap = np.zeros(mdp.n_states)
    high, low = np.empty_like(gap), np.empty_like(gap)
    v_tp1: FloatArray | None = None
    for t, q_t, v_t in backward(mdp, pi, horizon, gamma):
        if before is not None and t >= before:
            continue
        np.maximum.reduce(q_t, axis=1, out=high)
        np.minimum.reduce(q_t, axis=1, out=low)
        np.subtract(high, low, out=high)
        np.maximum(gap, high, out=gap)
        # Bit-equal values at two steps: every earlier step repeats them, and nothing changes any more.
        if t % 16 == 0 and v_tp1 is not None and np.array_equal(v_t, v_tp1):
            break
        v_tp1 = v_t
    return gap


def policy_value(mdp: TabularMDP, pi: Any, horizon: int | None = None, gamma: float = 1.0) -> float:
    """Expected return of pi from d0 over `horizon` steps.

    Args:
      mdp: the MDP.
      pi: a `TabularPolicy` or (S, A) probabilities.
      horizon: None takes the MDP's own horizon or, when it has none, runs until termination: one sparse
        linear solve over the states that pi reaches from d0.
      gamma: discount in (0, 1].

    Raises:
      MDPError: the value until termination does not exist, because pi reaches a state from where
        termination cannot be reached (gamma = 1 only).

    Example:
      >>> coin = TabularMDP(P=[[[0.5], [0.0]]], R=[[-1.0, -1.0]], d0=[1.0])
      >>> policy_value(coin, [[1.0, 0.0]]), policy_value(coin, [[1.0, 0.0]], horizon=2)
      (-2.0, -1.5)
    """
    probs = policy_table(pi, mdp)
    chain, r = average_actions(mdp.P, probs), (probs * mdp.r).sum(axis=1)
    check_gamma(gamma)
    steps = mdp.horizon if horizon is None else checked_horizon(horizon)
    if steps is None:
        states = reached(chain, mdp.d0)
        if gamma == 1.0:
            check_terminates(chain, states)
        return float(mdp.d0[states] @ sum_until_end(chain, states, r[states], gamma))
    v = np.zeros(mdp.n_states + 1)
    for _ in range(steps):
        v[:-1] = r + gamma * (chain @ v)
    return float(mdp.d0 @ v[:-1])


def checked_horizon(horizon: int) -> int:
    """The horizon as a positive whole number."""
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise OptionError(
            f"horizon is a whole number of steps, at least 1; found {horizon!r}.",
            fix="For example horizon=50, or None for no limit.",
        )
    return int(horizon)


def _freeze(*arrays: Any) -> None:
    for array in arrays:
        if array is not None:
            array.flags.writeable = False


# --- Chains under a policy.


def average_actions(P: Sparse, weights: FloatArray) -> Sparse:
    """sum_a weights(s, a) P(s, a, .): (S, S+1) from (S*A, S+1) transitions and (S, A) weights."""
    from scipy import sparse

    n_states, n_actions = weights.shape
    pairs = np.arange(weights.size + 1)
    average = sparse.csr_array(
        (weights.ravel(), pairs[:-1], pairs[::n_actions]), shape=(n_states, weights.size)
    )
    chain: Any = average @ P
    chain.eliminate_zeros()
    return chain  # type: ignore[no-any-return]


def average_rows(table: FloatArray, weights: FloatArray) -> FloatArray:
    """`average_actions` of a dense table; added in the same order, so that both have the same bits."""
    by_action = table.reshape(*weights.shape, -1)
    chain: FloatArray = weights[:, :1] * by_action[:, 0]
    for action in range(1, weights.shape[1]):
        chain += weights[:, action, None] * by_action[:, action]
    return chain


def reached(chain: Sparse, d0: FloatArray) -> IntArray:
    """States, in order, that the chain visits with positive probability from d0."""
    from scipy import sparse
    from scipy.sparse.csgraph import breadth_first_order

    # The termination node doubles as the start: nothing else leaves it.
    start = sparse.csr_array(np.append(d0, 0.0)[None, :])
    graph = sparse.vstack([chain, start], format="csr")
    nodes = breadth_first_order(graph, d0.size, return_predecessors=False)
    return np.sort(nodes[nodes < d0.size]).astype(np.int64)


def ending(chain: Sparse) -> BoolArray:
    """(S,) states from which the chain is sure to terminate: it reaches no state that cannot."""
    n = chain.shape[0]
    stuck = np.setdiff1d(np.arange(n), _leading_to(chain, [n]))
    fine = np.ones(n, dtype=bool)
    if stuck.size:
        fine[_leading_to(chain, stuck)] = False
    return fine


def _leading_to(chain: Sparse, targets: IntArray | list[int]) -> IntArray:
    """States from which the chain may get to one of the targets, themselves included; S is termination."""
    from scipy import sparse
    from scipy.sparse.csgraph import breadth_first_order

    n = chain.shape[0]
    # The reversed chain starts from all targets at once: from a node of its own that leads to them.
    start = np.zeros((n + 2, 1))
    start[targets] = 1.0
    forwards: Any = sparse.vstack([chain, sparse.csr_array((2, n + 1))])
    graph: Any = sparse.hstack([forwards, sparse.csr_array(start)]).T.tocsr()
    nodes = breadth_first_order(graph, n + 1, return_predecessors=False)
    return np.sort(nodes[nodes < n]).astype(np.int64)


def check_terminates(chain: Sparse, states: IntArray) -> None:
    """Refuse a chain in which one of the given states cannot reach termination."""
    stuck = np.setdiff1d(states, _leading_to(chain, [chain.shape[0]]))
    if stuck.size:
        raise MDPError(
            f"The value until termination does not exist: the policy reaches state {stuck[0]} and never "
            "terminates from there.",
            fix="Pass a horizon, or gamma below 1.",
        )


def sum_until_end(chain: Sparse, states: IntArray, gain: FloatArray, discount: float = 1.0) -> FloatArray:
    """x = gain + discount * chain x on the given states: (len(states),) or, for several gains, (.., k)."""
    from scipy import sparse
    from scipy.sparse.linalg import spsolve

    inner = chain[states][:, states]
    system = sparse.csc_array(sparse.eye_array(states.size) - discount * inner)
    return np.asarray(spsolve(system, gain), dtype=np.float64).reshape(gain.shape)


def reached_in(chain: FloatArray, d0: FloatArray) -> BoolArray:
    """(S,) which states the chain visits with positive probability from d0."""
    return _closure(chain[:, :-1].T, d0 > 0)


def ending_in(chain: FloatArray) -> BoolArray:
    """(S,) states from which the chain is sure to terminate: it reaches no state that cannot."""
    inner = chain[:, :-1]
    may_end = _closure(inner, chain[:, -1] > 0)
    return may_end if may_end.all() else ~_closure(inner, ~may_end)


def _closure(links: FloatArray, start: BoolArray) -> BoolArray:
    """(S,) the set that the start grows to when every state with a link into it (above 0) joins."""
    members = start
    while True:
        more = members | (links @ members.astype(np.float64) > 0)
        if np.count_nonzero(more) == np.count_nonzero(members):
            return members
        members = more
