"""Simulation: logs drawn from any TabularMDP, all live episodes advancing together.

One step costs two vectorised draws (action, transition) for all episodes at once, so the cost of Python is
paid once a step instead of once an episode and step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deadweight.errors import OptionError
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.chains import average_actions, check_terminates, reached
from deadweight.mdp.tabular import TabularMDP, checked_horizon, policy_table
from deadweight.typing import AnyArray, FloatArray, IntArray


class RowSampler:
    """Draws an entry from a row of a matrix of probabilities, for many rows at once.

    Inverse CDF with a guide table: row k's CDF is shifted to (k, k + 1], so that one sorted array serves
    all rows, and [k, k + 1) is cut into bins whose first possible entry is known. Few draws need to look
    further than that entry.

    Reference: Chen & Asau (1974).
    """

    def __init__(self, probs: FloatArray, indptr: AnyArray) -> None:
        lengths = np.diff(indptr)
        sums = np.cumsum(probs)
        within = sums - np.repeat(sums[indptr[:-1]] - probs[indptr[:-1]], lengths)
        # Dividing by the row's own last sum makes the end of row k exactly k + 1.
        within /= np.repeat(within[indptr[1:] - 1], lengths)
        self._cdf = within + np.repeat(np.arange(lengths.size), lengths)
        # A power of two of bins: their edges are exact, so no draw starts beyond its entry.
        self._bins = 2.0 ** np.ceil(np.log2(2.0 * lengths))
        size = self._bins.astype(np.int64)
        self._first_bin = np.cumsum(size) - size
        row = np.repeat(np.arange(size.size), size)
        edge = row + (np.arange(row.size) - self._first_bin[row]) / self._bins[row]
        self._guide = self._cdf.searchsorted(edge, side="right")

    def draw(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        """One entry (a position in `probs`) for each of the given rows; entries of probability 0 never."""
        u = rng.random(rows.size)
        found: IntArray = self._guide[self._first_bin[rows] + (u * self._bins[rows]).astype(np.int64)]
        # k + u can round to k + 1, which belongs to the next row.
        u += rows
        np.minimum(u, np.nextafter(rows + 1.0, 0.0), out=u)
        beyond = np.flatnonzero(self._cdf[found] <= u)
        while beyond.size:
            found[beyond] += 1
            beyond = beyond[self._cdf[found[beyond]] <= u[beyond]]
        return found


def simulate(
    mdp: TabularMDP,
    pi: Any,
    episodes: int,
    seed: int | np.random.SeedSequence | np.random.Generator,
    horizon: int | None = None,
) -> Trajectories:
    """Episodes of pi in the MDP, with propensities.

    Args:
      mdp: the MDP.
      pi: the policy that acts: a `TabularPolicy` or (S, A) probabilities.
      episodes: how many.
      seed: the same seed gives the same log.
      horizon: steps after which an episode is cut; None takes the MDP's own or, when it has none, waits for
        termination.

    Returns:
      A log in which an episode cut at the horizon is not `terminated` and keeps its last successor.

    Example:
      >>> clock = TabularMDP(P=[[[1.0]]], R=[[1.0]], d0=[1.0])
      >>> simulate(clock, [[1.0]], episodes=3, seed=0, horizon=2)
      Trajectories(3 episodes, 6 steps, longest 2, 1 states, 1 actions, 3 truncated, propensities logged)
    """
    if episodes < 1:
        raise OptionError(
            f"episodes must be at least 1; found {episodes!r}.",
            fix="For example simulate(mdp, policy, 1000, seed=0).",
        )
    probs = policy_table(pi, mdp)
    limit = mdp.horizon if horizon is None else checked_horizon(horizon)
    if limit is None:
        chain = average_actions(mdp.P, probs)
        check_terminates(chain, reached(chain, mdp.d0))
    rng = np.random.default_rng(seed)
    live, pairs, entries, last = _roll(mdp, probs, episodes, rng, limit)

    lengths = np.bincount(np.concatenate(live), minlength=episodes)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # Step t of episode i goes to row offsets[i] + t.
    rows = np.concatenate([offsets[alive] + t for t, alive in enumerate(live)])
    pair = np.empty(rows.size, dtype=np.int64)
    pair[rows] = np.concatenate(pairs)
    if mdp.transition_rewards is None:
        rewards = mdp.r.ravel()[pair]
    else:
        rewards = np.empty(rows.size)
        rewards[rows] = mdp.transition_rewards[np.concatenate(entries)]
    states, actions = np.divmod(pair, mdp.n_actions)
    cut = last >= 0
    following = None
    if cut.any():
        following = np.append(states[1:], -1)
        following[offsets[1:] - 1] = last
    return Trajectories(
        states,
        actions,
        rewards,
        offsets,
        probs.ravel()[pair],
        terminated=~cut,
        next_states=following,
    )._limited_to(limit)


def _roll(
    mdp: TabularMDP, probs: FloatArray, episodes: int, rng: np.random.Generator, limit: int | None
) -> tuple[list[IntArray], list[IntArray], list[IntArray], IntArray]:
    """Per step the live episodes, their rows s*A + a and entries of P; then where each was cut off, or -1."""
    n_states, n_actions = probs.shape
    choose = RowSampler(probs.ravel(), np.arange(0, probs.size + 1, n_actions))
    move = RowSampler(mdp.P.data, mdp.P.indptr)
    start = RowSampler(mdp.d0, np.array([0, n_states]))
    alive = np.arange(episodes)
    state = start.draw(np.zeros(episodes, dtype=np.int64), rng)
    live: list[IntArray] = []
    pairs: list[IntArray] = []
    entries: list[IntArray] = []
    while alive.size and (limit is None or len(live) < limit):
        pair = choose.draw(state, rng)  # position s*A + a in the flat policy is the row of P
        entry = move.draw(pair, rng)
        live.append(alive)
        pairs.append(pair)
        entries.append(entry)
        state = mdp.P.indices[entry].astype(np.int64)
        stay = state < n_states
        if not stay.all():
            alive, state = alive[stay], state[stay]
    last = np.full(episodes, -1, dtype=np.int64)
    last[alive] = state
    return live, pairs, entries, last
