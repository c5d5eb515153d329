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
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import sums_by
from deadweight.estimators.family import Fit
from deadweight.estimators.simplex_qp import SimplexSolution, solution_gradient, solve_simplex_qp
from deadweight.sums.blocks import Block
from deadweight.sums.summaries import KeyedSums
from deadweight.sums.weighting import Weighting
from deadweight.typing import BoolArray, FloatArray, IntArray

RIDGE = 1e-3
SCALE = 50.0


@dataclass(frozen=True, eq=False)
class DensitySums:
    """Transition sums and per-state sums."""

    n: int
    flow: KeyedSums  # key s * S + s': sum of the ratio, number
    states: KeyedSums  # key s: visits, then sums over kept and over dropped steps, see `_columns`

    def merge(self, other: DensitySums) -> DensitySums:
        """Both together."""
        return DensitySums(self.n + other.n, self.flow.merge(other.flow), self.states.merge(other.states))


class DensityRatio:
    """SDRE in one of its modes.

    Args:
      weighting: the ratios, with the drop applied.
      horizon: H, the longest episode.
      mode: see the module.
      renewal: whether episodes start anew after their last step (always so in "episodic").
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
        columns = (1.0, *self._columns(step))
        return DensitySums(
            block.n,
            KeyedSums.of(step.state * self.n_states + step.after, step.flow, 1.0),
            KeyedSums.of(step.state, *columns),
        )

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
            return Fit(0.0, influence=_no_influence, flags=("zero-weights",))
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


def _no_influence(block: Block) -> FloatArray:
    return np.zeros(block.n)


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
    """What one more step changes through the density: by the visit itself, and by the flow that it adds."""

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
        own = np.where(left, self._by_flow(np.where(left, j, 0), j), 0.0)
        change: FloatArray = self.by_visit[i] + step.flow * self._by_flow(i, j) - own
        return change

    def _by_flow(self, i: IntArray, j: IntArray) -> FloatArray:
        change: FloatArray = -(self.y[i] * self.u[j] + self.x[i] * self.z[j]) / (SCALE * self.f[i])
        return change
