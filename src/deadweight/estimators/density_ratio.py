r"""Stationary density ratio estimation (SDRE and, with a drop, SSDRE), tabular, after Liu et al. (2018).

The density ratio w(s) of the state distributions of pi_e and pi_b satisfies a balance: what flows into s',
weighted by w(s) rho, equals w(s') times the visits. With Ghat[s,s'] += rho and Ghat[s',s'] -= 1 for every
transition, f the state frequencies and M = diag(1/f) Ghat / 50,

.. math:: x = \arg\min_{x \ge 0,\ \sum x = 1} \|M'x\|^2 + 0.001 \|x\|^2, \qquad w = x / f

over the states that were left at least once. What is made of w is the `mode`:

- ``published``: H sum(w k r) / sum(w k), as in the authors' code: dropped states lose rho and keep w.
- ``corrected``: the same with weight 1 on dropped states, as in the paper's SSDRE equation.
- ``literal``: (1/n) sum r w, w = 1 on dropped states: the paper's printed formula, without action ratio.
- ``episodic``: the last step leads to the episode's start; sum(w k r) / sum(w k 1[last step]) by the renewal
  theorem. For episodes that terminate, where the forms above have no meaning.
- ``policy`` (default): the density of the policy that really is evaluated, pi_b on dropped states and pi_e
  elsewhere: k in Ghat and in the estimate; renewal form when episodes terminate, H steps when truncated.

The density is the non-negative null vector of a sparse matrix, found by ridge regression on the simplex.
Scaling removes the equality and leaves a linear complementarity problem. Its active bounds come from a small
non-negative least squares problem, and pivots on refined numbers confirm them. One factor serves all of this,
the derivative included, because an active bound is a projection of the factor and not a new factor.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.estimators.influence import no_influence
from deadweight.estimators.product import Fit
from deadweight.sums.blocks import Block
from deadweight.sums.summaries import Added, KeyedSums
from deadweight.sums.weighting import Weighting
from deadweight.tools.arithmetic import sums_by
from deadweight.tools.limits import NUMBER, require
from deadweight.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix


RIDGE, SCALE = 1e-3, 50.0
# Full exchanges allowed without progress before single exchanges, which cannot cycle, take over.
PATIENCE = 10
# Bounds added a round in the search for active bounds; more rounds or more wasted columns on either side.
BLOCK = 48
# Relative size below which that search ignores a negative entry: the pivots after it decide.
START_TOLERANCE = 1e-12
# Beyond this share of active bounds a new factor of the free block is cheaper than projecting the old one.
PROJECTED_SHARE = 0.1
# A smaller pivot of the Gram matrix, whose diagonal is one, is mostly rounding; QR keeps its digits.
SMALLEST_PIVOT = 1e-13
# Corrections a solve may take; three are usual.
REFINEMENTS = 12
# Sparse elimination is for matrices of more states, of a lower density, and for sets of at least this share.
SMALL, SPARSE_SHARE, WORTHWHILE = 200, 0.1, 0.03


@dataclass(frozen=True)
class SimplexSolution:
    """The minimiser, with what is needed to trust it and to differentiate it.

    The multiplier nu has (M M' + ridge I) x = nu on the free entries, >= nu on the others; it is the minimum.
    The residual is the larger of `kkt_residual` and of the last Newton step relative to x. The step is there
    because a long log hides an error along the null space from any residual scaled by the gradient.
    """

    x: FloatArray  # (S,) non-negative with sum one
    multiplier: float
    residual: float
    free: BoolArray  # (S,) entries with x > 0
    system: _System = field(repr=False, compare=False)


def solve_simplex_qp(M: csr_array | csr_matrix, ridge: float = 1e-3) -> SimplexSolution:
    r"""Minimise a ridge-regularised sum of squares over the simplex.

    .. math:: \min_x \|M'x\|^2 + \lambda \|x\|^2 \quad\text{subject to}\quad x \ge 0,\; 1'x = 1

    With H = M M' + ridge I, the scaled vector z = x / nu solves the complementarity problem
    z >= 0, s = H z - 1 >= 0, z's = 0, which has one solution because H is positive definite.

    Args:
      M: sparse square matrix, finite entries.  # (S, S)
      ridge: lambda > 0.

    Example:
      >>> import scipy.sparse
      >>> solve_simplex_qp(scipy.sparse.csr_array([[1.0, 0.0], [0.0, 2.0]]), ridge=1.0).x.round(4)
      array([0.7143, 0.2857])

    References: Liu, Li, Tang & Zhou (2018), the programme; Portugal, Judice & Vicente (1994), the pivots.
    """
    from scipy.sparse import csr_array

    system = _System(csr_array(M), ridge)
    z, step = _pivot(system)
    x = z / z.sum()
    nu = 1.0 / float(z.sum())
    residual = max(kkt_residual(system.M, x, nu, ridge), step)
    return SimplexSolution(x, nu, residual, x > 0, system)


def solution_gradient(solution: SimplexSolution, g: FloatArray) -> FloatArray:
    r"""Adjoint y of a linear function g'x of the minimiser, for derivatives with respect to M.

    .. math:: y_F = H_{FF}^{-1} (g_F - (g'x) 1_F), \qquad y = 0 \text{ elsewhere}

    With the active bounds held fixed, a change dM of M changes g'x by

    .. math:: d(g'x) = - \sum_{ij} dM_{ij} \,\bigl( y_i (M'x)_j + x_i (M'y)_j \bigr)

    and a change of ridge by :math:`- y'x` times that change. The factor of the solution is used again.

    Args:
      solution: from `solve_simplex_qp`.
      g: one function, or one a column.  # (S,) or (S, k)
    """
    g = np.asarray(g, dtype=np.float64)
    free = solution.free if g.ndim == 1 else solution.free[:, None]
    y, _ = solution.system.solve(solution.free, np.where(free, g - solution.x @ g, 0.0))
    return y


def kkt_residual(M: csr_array | csr_matrix, x: FloatArray, multiplier: float, ridge: float) -> float:
    """Largest violation of the optimality conditions, each on a scale of its own.

    With h = M M'x + ridge x and c = max(|M| |M|'x + ridge x), the size of the terms that h sums up:
    |h - nu| / c where x > 0, (nu - h)+ / c where x = 0, |1 - sum x|, (-min x)+, and |x'h - nu| / nu.
    """
    h = M @ (M.T @ x) + ridge * x
    c = float((abs(M) @ (abs(M).T @ abs(x)) + ridge * abs(x)).max())
    off = np.where(x > 0, abs(h - multiplier), multiplier - h)
    gap = abs(float(x @ h) - multiplier) / multiplier
    return max(float(off.max()) / c, abs(1.0 - float(x.sum())), -float(x.min()), gap, 0.0)


def _pivot(system: _System) -> tuple[FloatArray, float]:
    """Block principal pivoting from a good start: exchange the entries of the wrong sign until there is none.

    The start is nearly always right, so that one pass confirms it on refined numbers. When full exchanges
    stall, single exchanges of the last wrong entry take over: these cannot cycle.
    """
    n = system.M.shape[0]
    free = _free_entries(system)
    fewest, patience = n + 1, PATIENCE
    for _ in range(100 + 10 * n):
        z, step = system.solve(free, free.astype(np.float64))
        wrong = np.flatnonzero(np.where(free, z <= 0, system.slack(z) < 0))
        if wrong.size == 0:
            break
        if wrong.size < fewest:
            fewest, patience = wrong.size, PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            wrong = wrong[-1:]
        free[wrong] = ~free[wrong]
    return np.maximum(z, 0.0), step


def _free_entries(system: _System) -> BoolArray:
    """Free set by non-negative least squares in the multipliers s of the bounds, many new bounds a round.

    With H = L L', b = L^-1 1 and W the columns of L^-1 that belong to the bounds met so far, s minimises
    |b + W s|^2 over s >= 0, and z = L^-T (b + W s). Every round lowers the minimum strictly, as in the method
    of Lawson & Hanson (1974), which adds one bound at a time: among the new bounds there is always one that
    descends, and those that do not leave before the first step.
    """
    n = system.M.shape[0]
    b = system.factor.lower(system.scale)
    known = np.zeros(0, dtype=np.intp)  # bounds met so far, in order of arrival
    W, K, s = np.zeros((n, 0), order="F"), np.zeros((0, 0)), np.zeros(0)  # K = W'W
    for _ in range(n):
        z = system.factor.upper(b + W @ s)
        violated = z < -START_TOLERANCE * abs(z).max()
        violated[known[s > 0]] = False
        if not violated.any():
            break
        # Most violated bounds turn out free in the end, and each costs a column: take the worst.
        if n > BLOCK:
            violated &= z <= np.partition(z, BLOCK)[BLOCK]
        new = np.setdiff1d(np.flatnonzero(violated), known)
        columns = system.factor.lower(_unit_columns(n, new))
        cross = W.T @ columns
        K = np.block([[K, cross], [cross.T, columns.T @ columns]])
        W = np.asfortranarray(np.hstack([W, columns]))
        known, s = np.concatenate([known, new]), np.concatenate([s, np.zeros(new.size)])
        s = _descend(K, W.T @ b, s, (s > 0) | violated[known])
    free = np.ones(n, dtype=np.bool_)
    free[known[s > 0]] = False
    return free


def _descend(K: FloatArray, c: FloatArray, s: FloatArray, passive: BoolArray) -> FloatArray:
    """Walk from s to the minimum of s'Ks / 2 + c's on the passive set; entries that reach zero leave it."""
    while passive.any():
        target = np.zeros_like(s)
        target[passive] = _solve_gram(K[np.ix_(passive, passive)], -c[passive])
        blocked = passive & (target <= 0)
        if not blocked.any():
            return target
        reach = s[blocked] / np.maximum(s[blocked] - target[blocked], np.finfo(np.float64).tiny)
        s = s + reach.min() * (target - s)
        leaving = np.flatnonzero(blocked)[reach <= reach.min()]
        s[leaving], passive[leaving] = 0.0, False
    return np.zeros_like(s)


def _solve_gram(K: FloatArray, c: FloatArray) -> Any:
    from scipy.linalg import lapack, lstsq

    _, solution, info = lapack.dposv(K, c)
    # Bounds that move together make K singular to rounding; the pivots that follow check the answer.
    return solution if info == 0 else lstsq(K, c, check_finite=False)[0]


def _unit_columns(n: int, rows: IntArray) -> FloatArray:
    columns = np.zeros((n, rows.size), order="F")
    columns[rows, np.arange(rows.size)] = 1.0
    return columns


class _System:
    """Solves H_FF v = r for any free set F, with one factor of a base set B that contains F.

    With H = L L' on B, the solution that vanishes on B minus F is L^-T (I - Q Q') L^-1 r, where Q spans the
    columns of L^-1 that belong to B minus F. Refinement takes its residuals from M and not from M M', which
    keeps the digits of the null space that the Gram matrix rounds away.
    """

    base: BoolArray
    free: BoolArray
    factor: _Factor
    Q: FloatArray

    def __init__(self, M: csr_array, ridge: float) -> None:
        self.M, self.ridge = M, ridge
        self.transpose = M.T.tocsr()
        self.absolute = abs(M)
        # Rare states have rows that are orders of magnitude larger: unit rows make the pivots comparable.
        self.scale = 1.0 / np.sqrt(self.absolute.power(2).sum(axis=1) + ridge)
        self._factorise(np.ones(M.shape[0], dtype=np.bool_))

    def solve(self, free: BoolArray, r: FloatArray) -> tuple[FloatArray, float]:
        """v with H_FF v_F = r_F and zero elsewhere, and its last correction relative to v."""
        self._prepare(free)
        v = self._apply(r)
        inside = free if r.ndim == 1 else free[:, None]
        last = np.inf
        for _ in range(REFINEMENTS):
            d = self._apply(np.where(inside, r - self.multiply(v), 0.0))
            size = float(abs(d).max()) / (float(abs(v).max()) or 1.0)
            # A correction that no longer halves is rounding noise: adding it gains nothing.
            if not size < last / 2:
                break
            v, last = v + d, size
            if size < 2 * np.finfo(np.float64).eps:
                break
        return v, last

    def multiply(self, v: FloatArray) -> FloatArray:
        """H v without forming H."""
        return np.asarray(self.M @ (self.transpose @ v) + self.ridge * v)

    def slack(self, z: FloatArray) -> FloatArray:
        """H z - 1, lifted by its rounding error, so that a degenerate bound does not come and go for ever."""
        noise = self.absolute @ (self.absolute.T @ abs(z)) + self.ridge * abs(z) + 1.0
        return np.asarray(self.multiply(z) - 1.0 + 64 * np.finfo(np.float64).eps * noise)

    def _prepare(self, free: BoolArray) -> None:
        """Make the projection for this free set, or a new factor when that costs less."""
        from scipy.linalg import qr

        if np.array_equal(free, self.free):
            return
        gone = np.flatnonzero(self.base & ~free)
        if np.any(free & ~self.base) or gone.size > PROJECTED_SHARE * self.base.sum():
            self._factorise(free)
            return
        position = np.cumsum(self.base) - 1
        columns = self.factor.lower(_unit_columns(int(self.base.sum()), position[gone]))
        self.Q = np.asarray(qr(columns, mode="economic", overwrite_a=True, check_finite=False)[0], np.float64)
        self.free = free.copy()

    def _factorise(self, base: BoolArray) -> None:
        from scipy.sparse import csr_array, diags_array

        self.base, self.free = base.copy(), base.copy()
        rows = csr_array(diags_array(self.scale[base]) @ self.M[base])
        self.factor = _Factor(rows, self.ridge * self.scale[base] ** 2)
        self.Q = np.zeros((rows.shape[0], 0))

    def _apply(self, r: FloatArray) -> FloatArray:
        scale = self.scale[self.base] if r.ndim == 1 else self.scale[self.base, None]
        b = self.factor.lower(r[self.base] * scale)
        v = np.zeros_like(r)
        v[self.base] = self.factor.upper(b - self.Q @ (self.Q.T @ b)) * scale
        v[~self.free] = 0.0
        return v


@dataclass(frozen=True)
class _Level:
    """One sparse elimination: pivots without an edge between them, so that their block is diagonal."""

    pivots: IntArray
    rest: IntArray
    root: FloatArray  # square roots of the diagonal
    coupling: csr_array  # H[pivots, rest] / root
    transpose: csr_array


class _Factor:
    """L with L L' = rows rows' + diag(ridge), up to the order of its columns.

    Short logs have a sparse Gram matrix: independent sets of states are eliminated first, level by level, and
    LAPACK's dense Cholesky takes over when the rest has filled in. When a pivot is lost to rounding, L comes
    from the QR factorisation of (rows, diag(sqrt(ridge)))', which needs no Gram matrix.
    """

    def __init__(self, rows: csr_array, ridge: FloatArray) -> None:
        from scipy.linalg import lapack, qr
        from scipy.sparse import csr_array, diags_array, hstack

        self.levels: list[_Level] = []
        ridged = csr_array(hstack([rows, diags_array(np.sqrt(ridge))], format="csr"))
        gram = self._eliminate(csr_array(ridged @ ridged.T))
        require(
            3 * NUMBER * float(gram.shape[0]) ** 2,
            f"The density ratio of {len(ridge):,} states: a matrix of {gram.shape[0]:,} x {gram.shape[0]:,}",
            "Use coarser states, or MIS instead of SDRE.",
        )
        # Symmetric: the transpose is a free change to the column order that LAPACK wants.
        L, info = lapack.dpotrf(gram.toarray().T, lower=1, overwrite_a=1, clean=0)
        pivots = np.concatenate([level.root for level in self.levels] + [np.diagonal(L)])
        if info != 0 or not pivots.min() ** 2 > SMALLEST_PIVOT:
            self.levels = []
            R = qr(ridged.T.toarray(), mode="r", overwrite_a=True, check_finite=False)[0]
            L = R[: len(ridge)].T.copy(order="F")
        self.L: FloatArray = L

    def lower(self, b: FloatArray) -> FloatArray:
        """L^-1 b, for one vector or for columns."""
        done = []
        for level in self.levels:
            done.append((b[level.pivots].T / level.root).T)
            b = b[level.rest] - level.transpose @ done[-1]
        return np.concatenate([*done, self._triangular(b, 0)])

    def upper(self, c: FloatArray) -> FloatArray:
        """L^-T c, for one vector or for columns."""
        end = len(c) - len(self.L)
        v = self._triangular(c[end:], 1)
        for level in reversed(self.levels):
            start = end - level.pivots.size
            merged = np.empty((level.pivots.size + len(v), *c.shape[1:]))
            merged[level.pivots] = ((c[start:end] - level.coupling @ v).T / level.root).T
            merged[level.rest] = v
            v, end = merged, start
        return v

    def _eliminate(self, gram: csr_array) -> csr_array:
        """Strip independent sets of low degree off the Gram matrix while it stays sparse."""
        from scipy.sparse import csr_array, diags_array

        rng = np.random.default_rng(0)  # breaks ties between equal degrees, the same way every time
        while gram.shape[0] > SMALL and gram.nnz < SPARSE_SHARE * gram.shape[0] ** 2:
            n = gram.shape[0]
            rank = np.empty(n, dtype=np.intp)
            rank[np.lexsort((rng.random(n), np.diff(gram.indptr)))] = np.arange(n)
            chosen = np.minimum.reduceat(rank[gram.indices], gram.indptr[:-1]) == rank
            pivots, rest = np.flatnonzero(chosen), np.flatnonzero(~chosen)
            diagonal = gram.diagonal()[pivots]
            if pivots.size < WORTHWHILE * n or not diagonal.min() > 0:
                break
            root = np.sqrt(diagonal)
            coupling = csr_array(diags_array(1.0 / root) @ gram[pivots][:, rest])
            transpose = csr_array(coupling.T)
            self.levels.append(_Level(pivots, rest, root, coupling, transpose))
            gram = csr_array(gram[rest][:, rest] - transpose @ coupling)
        return gram

    def _triangular(self, b: FloatArray, trans: int) -> FloatArray:
        # Straight to BLAS: the checks and copies of the wrappers cost more than the solve.
        from scipy.linalg.blas import dtrsm, dtrsv

        if b.ndim == 1:
            return np.asarray(dtrsv(self.L, b, lower=1, trans=trans))
        return np.asarray(dtrsm(1.0, self.L, b, lower=1, trans_a=trans))


# --- The estimator


@dataclass(frozen=True, eq=False)
class DensitySums(Added):
    """Transition sums and per-state sums."""

    n: int
    flow: KeyedSums  # key s * S + s': sum of the ratio, number
    states: KeyedSums  # key s: visits, then sums over kept and over dropped steps, see `_columns`


class DensityRatio:
    """SDRE in one of its modes, see the module.

    `renewal`: episodes start anew after their last step, as they always do in "episodic".
    """

    def __init__(self, weighting: Weighting, horizon: int, mode: str, renewal: bool) -> None:
        self.weighting, self.horizon, self.mode = weighting, horizon, mode
        self.renewal = renewal or mode == "episodic"
        self.n_states = weighting.pair.n_states

    @property
    def key(self) -> Hashable:
        """Everything that the sums depend on."""
        return ("density-ratio", self.weighting, self.mode, self.renewal)

    def summarise(self, block: Block) -> DensitySums:
        """Ratio-weighted transitions, and the sums from which every mode's estimate is made."""
        step = self._steps(block)
        flow = KeyedSums.of(step.state * self.n_states + step.after, step.flow, 1.0)
        return DensitySums(block.n, flow, KeyedSums.of(step.state, 1.0, *self._columns(step)))

    def finish(self, summary: DensitySums, weighted: bool) -> Fit:
        """Solve for the density ratio, then form the estimate of the mode."""
        density = _Density(summary, self.n_states)
        kept_top, kept_bottom, dropped_top, dropped_bottom = summary.states.sums[1:]
        on_dropped = np.ones_like(density.w) if self.mode in ("corrected", "literal") else density.w
        top = float(density.w @ kept_top + on_dropped @ dropped_top)
        bottom = float(density.w @ kept_bottom + on_dropped @ dropped_bottom)
        if self.mode == "literal":
            bottom = float(summary.n)
        factor = 1.0 if self.renewal or self.mode == "literal" else float(self.horizon)
        if bottom == 0:
            return Fit(0.0, influence=no_influence, flags=("zero-weights",))
        ratio = top / bottom
        slope = factor / bottom
        centre = 0.0 if self.mode == "literal" else ratio
        through_w = kept_top - centre * kept_bottom
        if on_dropped is density.w:
            through_w = through_w + dropped_top - centre * dropped_bottom
        gradient = density.gradient(slope * through_w)
        influence = _Influence(self, summary.n, density.w, on_dropped, centre, slope, gradient)
        details = {"kkt_residual": density.solution.residual}
        return Fit(factor * ratio, influence=influence, details=details)

    def _columns(self, step: _Steps) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Per step what it adds to numerator and denominator, kept and dropped steps apart."""
        counted = step.last if self.renewal else np.ones(len(step.state))
        dropped = step.dropped
        ratio = np.ones(len(step.state)) if self.mode == "literal" else step.kept
        kept_top, kept_bottom = ratio * step.reward, ratio * counted
        return (
            np.where(dropped, 0.0, kept_top),
            np.where(dropped, 0.0, kept_bottom),
            np.where(dropped, step.reward, 0.0),
            np.where(dropped, counted, 0.0),
        )

    def _steps(self, block: Block) -> _Steps:
        """The steps of a block in flat form, with where each leads."""
        elsewhere = block.states[:, :1] if self.renewal else block.states
        after = np.where(block.next_states >= 0, block.next_states, elsewhere)
        if self.renewal:
            after = np.where(block.last, block.states[:, :1], after)
        weighted = self.weighting.on(block)
        kept, rho, dropped = weighted.kept, weighted.full, weighted.dropped
        flat = block.flat
        return _Steps(
            row=flat(np.broadcast_to(np.arange(block.n)[:, None], block.states.shape)),
            state=flat(block.states),
            after=flat(after),
            flow=flat(kept if self.mode == "policy" else rho),
            kept=flat(kept),
            reward=flat(block.rewards),
            last=flat(block.last).astype(np.float64),
            dropped=flat(np.zeros(block.states.shape, dtype=bool) if dropped is None else dropped),
        )


@dataclass(frozen=True, eq=False)
class _Influence:
    """Influence of a block's episodes: what they add themselves, and what they change in the density."""

    family: DensityRatio
    n: int
    w: FloatArray
    on_dropped: FloatArray
    centre: float
    slope: float
    gradient: _Gradient

    def __call__(self, block: Block) -> FloatArray:
        step = self.family._steps(block)
        kept_top, kept_bottom, dropped_top, dropped_bottom = self.family._columns(step)
        at = self.gradient.index[step.state]
        direct = self.w[at] * (kept_top - self.centre * kept_bottom)
        direct = direct + self.on_dropped[at] * (dropped_top - self.centre * dropped_bottom)
        change = self.slope * direct + self.gradient(step)
        return self.n * sums_by(step.row, change, block.n)


@dataclass(frozen=True, eq=False)
class _Steps:
    """Flat columns of a block's steps."""

    row: IntArray
    state: IntArray
    after: IntArray
    flow: FloatArray
    kept: FloatArray
    reward: FloatArray
    last: FloatArray
    dropped: BoolArray


class _Density:
    """The density ratio of the visited states, and its derivative with respect to every sum."""

    def __init__(self, sums: DensitySums, n_states: int) -> None:
        from scipy import sparse

        visited = sums.states.keys
        self.index = np.full(n_states, -1, dtype=np.int64)
        self.index[visited] = np.arange(len(visited))
        self.visits = float(sums.states.sums[0].sum())
        self.f: FloatArray = sums.states.sums[0] / self.visits

        source, after = np.divmod(sums.flow.keys, n_states)
        # A state that was reached but never left has no density; the flow into it still has to balance.
        only_reached = np.setdiff1d(after, visited)
        self.index[only_reached] = len(visited) + np.arange(len(only_reached))
        rows, columns = self.index[source], self.index[after]
        ratio, number = sums.flow.sums
        left = columns < len(visited)
        entries = np.concatenate([ratio, -number[left]])
        places = (np.concatenate([rows, columns[left]]), np.concatenate([columns, columns[left]]))
        flow = sparse.csr_array((entries, places), shape=(len(visited), len(visited) + len(only_reached)))
        self.M: Any = sparse.csr_array(sparse.diags_array(1.0 / (SCALE * self.f)) @ flow)
        self.solution: SimplexSolution = solve_simplex_qp(self.M, RIDGE)
        self.w: FloatArray = self.solution.x / self.f

    def gradient(self, through_w: FloatArray) -> _Gradient:
        """Derivative of through_w'w in each step's own part of the sums.

        M_ij = Ghat_ij / (50 f_i), so a step changes M through Ghat and through f, and w = x / f once more.
        """
        x, f = self.solution.x, self.f
        y = solution_gradient(self.solution, through_w / f)
        u, z = self.M.T @ x, self.M.T @ y
        by_f = -through_w * x / f**2 + (y * (self.M @ u) + x * (self.M @ z)) / f
        by_visit = (by_f - by_f @ f) / self.visits
        return _Gradient(self.index, by_visit, x, y, u, z, f)


@dataclass(frozen=True, eq=False)
class _Gradient:
    """The change by one more step through the density: by the visit itself, and by the flow that it adds."""

    index: IntArray  # (S,) row of each state
    by_visit: FloatArray
    x: FloatArray
    y: FloatArray
    u: FloatArray
    z: FloatArray
    f: FloatArray

    def __call__(self, step: _Steps) -> FloatArray:
        i, j = self.index[step.state], self.index[step.after]
        left = j < len(self.f)
        visited = np.where(left, self._by_flow(np.where(left, j, 0), j), 0.0)
        return np.asarray(self.by_visit[i] + step.flow * self._by_flow(i, j) - visited)

    def _by_flow(self, i: IntArray, j: IntArray) -> FloatArray:
        return np.asarray(-(self.y[i] * self.u[j] + self.x[i] * self.z[j]) / (SCALE * self.f[i]))
