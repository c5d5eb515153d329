r"""The Q gap: states in which the choice of action hardly changes what follows.

.. math:: \mathrm{gap}(s) = \max_t \left( \max_a Q_t(s, a) - \min_a Q_t(s, a) \right)

with Q of the evaluation policy in the model fitted to the log. Dropping the ratios of states with a small gap
costs little bias, whatever they do to the variance.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deadweight.errors import OptionError
from deadweight.log.features import require_labels
from deadweight.log.interface import in_memory, require_log
from deadweight.log.state_sets import StateSet
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP
from deadweight.negligible.extremes import warn_if_extreme
from deadweight.policy.behaviour import estimate_behaviour
from deadweight.policy.policies import TabularPolicy
from deadweight.question.asking import ask
from deadweight.question.core import Question
from deadweight.question.options import Options
from deadweight.typing import BoolArray

# Actions whose probabilities differ by less than this do not need to have been seen.
SAME_PROBABILITY = 0.02


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
      solve: over how many steps; see `deadweight.question.options.Options`.

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
    allowed: BoolArray = np.logical_not(np.logical_or.reduce(missing, axis=1))
    return allowed
