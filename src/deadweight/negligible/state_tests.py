r"""Tests of single states: by the Q gap, by the logged returns, or by the MDP itself.

The Q gap finds states in which the choice of action hardly changes what follows,

.. math:: \mathrm{gap}(s) = \max_t \left( \max_a Q_t(s, a) - \min_a Q_t(s, a) \right)

with Q of the evaluation policy in the model fitted to the log. Dropping the ratios of states with a small gap
costs little bias, whatever they do to the variance.

The return test finds states in which the logged return does not depend on the action taken: at each state a
one-way analysis of variance compares the return-to-go of the actions. With n_a visits of action a, mean m_a,
grand mean m, and A actions seen in n visits,

.. math:: F = \frac{\sum_a n_a (m_a - m)^2 / (A - 1)}{\sum_a \sum_i (g_{ai} - m_a)^2 / (n - A)}

No model and no scale enter, so alpha carries over between problems where an epsilon does not.

A set that covers nearly every logged step turns any estimator into the naive average of the returns; one that
covers none leaves the plain estimator. Neither is wrong, but nobody should come to it unawares: both warn.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import numpy.typing as npt

from deadweight.errors import OptionError
from deadweight.log.behaviour import estimate_behaviour
from deadweight.log.columns import require_labels
from deadweight.log.interface import check_gamma, in_memory, require_log
from deadweight.log.labels import StateSet
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP
from deadweight.question.asked import Options
from deadweight.question.question import Question, ask
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Pieces
from deadweight.tools.limits import require_table
from deadweight.tools.thresholds import NEARLY_ALL
from deadweight.typing import BoolArray, FloatArray

# Actions whose probabilities differ by less than this do not need to have been seen.
SAME_PROBABILITY = 0.02
# Relative to the largest return of a state: spreads below it are rounding.
ROUNDING = 1e-12
# Relative to the largest reward of the MDP, differences below it are rounding.
TOLERANCE = 1e-12


class DropWarning(UserWarning):
    """A drop set that covers nearly all logged steps, or none of them.

    Example:
      >>> import deadweight as dw
      >>> lift = dw.domains.deterministic_lift(7)
      >>> with warnings.catch_warnings():
      ...     warnings.simplefilter("ignore", DropWarning)
      ...     everything = dw.negligible.q_gap(lift.sample(100), lift.pi_e, epsilon=100.0)
      >>> len(everything)
      5
    """


def warn_if_extreme(states: StateSet, visits: FloatArray) -> StateSet:
    """The set itself, with a warning to the caller's caller if it covers nearly all steps or none."""
    share = float(visits[states.mask].sum() / visits.sum())
    if share >= NEARLY_ALL:
        message = (
            f"'{states.origin}' covers {share:.1%} of the logged steps: with it, an estimate is close to the "
            "naive average of the returns."
        )
        warnings.warn(message, DropWarning, stacklevel=3)
    elif share == 0.0:
        message = f"'{states.origin}' covers no logged step: with it, an estimate is the plain estimator."
        warnings.warn(message, DropWarning, stacklevel=3)
    return states


def q_gap(
    log: Trajectories,
    pi_e: TabularPolicy | npt.ArrayLike,
    epsilon: float,
    pi_b: TabularPolicy | npt.ArrayLike | None = None,
    min_visits: int = 0,
    gamma: float = 1.0,
    unseen: str = "pool",
    model: TabularMDP | None = None,
    solve: str = "settled",
) -> StateSet:
    """States whose Q gap is below epsilon.

    Args:
      log: episodes of the behaviour policy.
      pi_e: evaluation policy.
      epsilon: states with a gap strictly below it are negligible; in units of the return.
      pi_b: behaviour policy; None takes the one observed in the log. Only `min_visits` needs it.
      min_visits: a state may be dropped only if every action on which the policies differ by more than 0.02
        was seen there at least so many times. With 0 a state never visited is negligible.
      gamma: discount.
      unseen: what an action never seen does in the model; see `fit_mdp`.
      model: a `TabularMDP` to use instead of the fitted one.
      solve: over how many steps; see `deadweight.question.asked.Options`.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(9)
      >>> q_gap(lift.sample(1000), lift.pi_e, epsilon=1.0).states
      [1, 2, 4, 5]

    Reference: Bossens & Thomas (2024), Section V.
    """
    require_labels(require_log(log), "A set of states by Q gap")
    observed = estimate_behaviour(log) if pi_b is None else pi_b
    options = Options(unseen=unseen, model=model, solve=solve)
    question = ask(in_memory(log), pi_e, observed, gamma, options)
    require_labels(question.parts, "A set of states by Q gap")
    return warn_if_extreme(states_below(question, epsilon, min_visits), question.visits)


def states_below(question: Question, epsilon: float, min_visits: int = 0) -> StateSet:
    """The states of a question whose gap is strictly below epsilon."""
    if not epsilon >= 0:
        raise OptionError(
            f"epsilon must be at least 0; found {epsilon!r}.", fix="It is in units of the return."
        )
    gap = question.gaps
    mask = (gap < epsilon) & may_drop(question, min_visits)
    origin = f"Q gap < {epsilon:g}" + (f" with min_visits={min_visits}" if min_visits else "")
    return StateSet(mask, question.pair.state_labels, origin, {"gap": gap, "visits": question.visits})


def may_drop(question: Question, min_visits: int) -> BoolArray:
    """(S,) where each action on which the policies differ was seen at least `min_visits` times."""
    if isinstance(min_visits, bool) or not isinstance(min_visits, int | np.integer) or min_visits < 0:
        raise OptionError(
            f"min_visits must be a whole number of at least 0; found {min_visits!r}.",
            fix="For example min_visits=3.",
        )
    if not question.parts.has_states:
        return question.visits > 0  # each row is a state of its own, seen once
    if min_visits == 0:
        return np.ones(question.pair.n_states, dtype=bool)
    matters = np.abs(question.pi_e("min_visits") - question.pi_b) > SAME_PROBABILITY
    missing = matters & (question.counts.visits() < min_visits)
    return np.asarray(np.logical_not(np.logical_or.reduce(missing, axis=1)))


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
    timed, gamma = log.in_time(gamma)
    states = return_set(timed, alpha, gamma)
    return warn_if_extreme(states, states.evidence["visits"])


def return_set(log: Trajectories, alpha: float, gamma: float) -> StateSet:
    """`return_test` without the warning."""
    if not 0 <= alpha < 1:
        raise OptionError(f"alpha must be at least 0 and below 1; found {alpha!r}.", fix="0.05 is customary.")
    p, visits = return_p_values(log, gamma)
    mask = np.greater(p, alpha, where=~np.isnan(p), out=np.zeros(len(p), dtype=bool))
    evidence = {"p_value": p, "visits": visits}
    return StateSet(mask, log.state_labels, f"return test with p > {alpha:g}", evidence)


def return_p_values(log: Trajectories, gamma: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """(S,) p-value of each state, NaN where it cannot be tested, and (S,) visits."""
    from scipy.special import fdtrc

    pieces: Pieces = reduce_log([log], partial(_returns_to_go, log.n_actions, gamma))[0]
    pair, ahead = map(np.concatenate, zip(*pieces.items, strict=True))
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


def _returns_to_go(n_actions: int, gamma: float, block: Block) -> list[Pieces]:
    """(steps,) index s * A + a and discounted return-to-go of each step of a block."""
    return [Pieces(((block.flat(block.pairs(n_actions)), block.flat(_backward_sums(block, gamma))),))]


def _backward_sums(block: Block, gamma: float) -> FloatArray:
    if gamma == 1.0 and block.during is None:
        return np.add.accumulate(block.rewards[:, ::-1], axis=1)[:, ::-1]
    sums = np.array(block.paid)
    for t in reversed(range(block.horizon - 1)):
        sums[:, t] += (gamma if block.during is None else block.during[:, t]) * sums[:, t + 1]
    return sums


def lift(mdp: TabularMDP) -> StateSet:
    """States in which all actions have the same transitions and the same expected reward.

    Dropping them costs no bias: every action there has the same value. Needs the MDP; from a log,
    `q_gap` finds them approximately.

    Args:
      mdp: the MDP.

    Example:
      >>> from deadweight.domains import stochastic_lift
      >>> lift(stochastic_lift(11).mdp).states
      [1, 2, 3, 5, 6, 7]

    Reference: Bossens & Thomas (2024), Section VI.A.
    """
    scale = max(1.0, float(np.abs(mdp.r).max()))
    same = np.ptp(mdp.r, axis=1) <= TOLERANCE * scale
    first = mdp.P[:: mdp.n_actions]
    for action in range(1, mdp.n_actions):
        difference = abs(mdp.P[action :: mdp.n_actions] - first)
        same &= difference.max(axis=1).toarray().ravel() <= TOLERANCE
    return StateSet(same, np.arange(mdp.n_states), origin="lift states of the MDP")
