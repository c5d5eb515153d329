r"""The return test: states in which the logged return does not depend on the action taken.

At each state a one-way analysis of variance compares the return-to-go of the actions. With n_a visits of
action a, mean m_a, grand mean m, and A actions seen in n visits,

.. math:: F = \frac{\sum_a n_a (m_a - m)^2 / (A - 1)}{\sum_a \sum_i (g_{ai} - m_a)^2 / (n - A)}

No model and no scale enter, so alpha carries over between problems where an epsilon does not.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from deadweight.basics.memory import require_table
from deadweight.errors import OptionError
from deadweight.log.features import require_labels
from deadweight.log.interface import require_log
from deadweight.log.state_sets import StateSet
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import check_gamma
from deadweight.negligible.extremes import warn_if_extreme
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Pieces
from deadweight.typing import FloatArray, IntArray

# Relative to the largest return of a state: spreads below it are rounding.
ROUNDING = 1e-12


def return_test(log: Trajectories, alpha: float = 0.05, gamma: float = 1.0) -> StateSet:
    """States where the returns of the actions do not differ: p > alpha in a one-way ANOVA.

    A state that cannot be tested (one action seen, or each action at most once) is kept: nothing says that
    its actions are alike. Where all returns are equal p is 1; where they differ between actions only, 0.

    Args:
      log: episodes of the behaviour policy.
      alpha: significance level; a larger one drops fewer states.
      gamma: discount of the return-to-go.

    Example:
      >>> log = Trajectories.from_episodes([[(0, i % 2, 1.0 * i), (1, i % 2, i % 2)] for i in range(8)])
      >>> return_test(log).states
      [0]

    Reference: Shen, Ma, Gottesman & Doshi-Velez, "State Relevance for Off-Policy Evaluation", ICML 2021, who
    drop states by such a test (OSIRIS).
    """
    require_labels(require_log(log), "The return test")
    check_gamma(gamma)
    timed, rest = log.in_time(gamma)
    states = return_set(timed, alpha, rest)
    return warn_if_extreme(states, states.evidence["visits"])


def return_set(log: Trajectories, alpha: float, gamma: float) -> StateSet:
    """`return_test` without the warning."""
    if not 0 <= alpha < 1:
        raise OptionError(f"alpha must be at least 0 and below 1; found {alpha!r}.", fix="0.05 is customary.")
    check_gamma(gamma)
    p, visits = return_p_values(log, gamma)
    mask = np.greater(p, alpha, where=~np.isnan(p), out=np.zeros(len(p), dtype=bool))
    evidence = {"p_value": p, "visits": visits}
    return StateSet(mask, log.state_labels, f"return test with p > {alpha:g}", evidence)


def return_p_values(log: Trajectories, gamma: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """(S,) p-value of each state, NaN where it cannot be tested, and (S,) visits."""
    from scipy.special import fdtrc

    pair, ahead = _returns_to_go(log, gamma)
    shape = (log.n_states, log.n_actions)
    require_table(*shape, "The return test: a table")
    size = log.n_states * log.n_actions
    count = np.bincount(pair, minlength=size).astype(np.float64)
    mean = np.bincount(pair, weights=ahead, minlength=size) / np.maximum(count, 1)
    # Two passes: deviations from the means keep their digits where sums of squares would lose them.
    deviation = ahead - mean[pair]
    within = np.bincount(pair, weights=deviation * deviation, minlength=size).reshape(shape).sum(axis=1)
    largest = np.zeros(log.n_states)
    np.maximum.at(largest, pair // log.n_actions, np.abs(ahead))

    count, mean = count.reshape(shape), mean.reshape(shape)
    visits, seen = count.sum(axis=1), (count > 0).sum(axis=1)
    grand = (count * mean).sum(axis=1) / np.maximum(visits, 1)
    between = (count * (mean - grand[:, None]) ** 2).sum(axis=1)
    between_df, within_df = seen - 1, visits - seen
    testable = (between_df >= 1) & (within_df >= 1)
    rounding = visits * (ROUNDING * largest) ** 2

    p = np.full(log.n_states, np.nan)
    constant = testable & (within <= rounding)
    p[constant] = np.where(between[constant] <= rounding[constant], 1.0, 0.0)
    rest = testable & ~constant
    f = (between[rest] / between_df[rest]) / (within[rest] / within_df[rest])
    p[rest] = fdtrc(between_df[rest], within_df[rest], f)
    return p, visits


def _returns_to_go(log: Trajectories, gamma: float) -> tuple[IntArray, FloatArray]:
    """(steps,) index s * A + a and discounted return-to-go of each step, block by block."""
    found: Pieces = reduce_log([log], partial(_of_steps, log.n_actions, gamma))[0]
    pairs, ahead = zip(*found.items, strict=True)
    return np.concatenate(pairs), np.concatenate(ahead)


def _of_steps(n_actions: int, gamma: float, block: Block) -> list[Pieces]:
    return [Pieces(((block.flat(block.pairs(n_actions)), block.flat(_backward_sums(block, gamma))),))]


def _backward_sums(block: Block, gamma: float) -> FloatArray:
    if gamma == 1.0 and block.during is None:
        return np.add.accumulate(block.rewards[:, ::-1], axis=1)[:, ::-1]
    sums = np.array(block.paid)
    for t in reversed(range(block.horizon - 1)):
        sums[:, t] += (gamma if block.during is None else block.during[:, t]) * sums[:, t + 1]
    return sums
