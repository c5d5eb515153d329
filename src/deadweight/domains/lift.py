"""The lift domains (Section VI.A of the paper): a line on which most states move the agent by themselves.

Positions -b+1..b-1 with the bounds -b and b terminal; index = position + b - 1; actions left, right. Only
at the start and next to the bounds does the action decide; everywhere else a lift carries the agent away from
the start. Each move costs 1, and the bound pays its own coordinate.
"""

from __future__ import annotations

import numpy as np

from deadweight.domains.problem import Problem, as_policy, uniform
from deadweight.errors import OptionError
from deadweight.mdp.tabular import TabularMDP

STEP_REWARD = -1.0


def deterministic_lift(size: int) -> Problem:
    """The lift without noise: pi_e always goes right (value 1), pi_b tosses a coin (value -b - 1).

    Args:
      size: number of positions, bounds included: odd, at least 5; b = size // 2.

    Example:
      >>> deterministic_lift(17).behaviour_value
      -9.0
    """
    mdp = _lift(size, delta=0.0, reversed_pays_bound=True)
    pi_e = as_policy(np.tile([0.0, 1.0], (mdp.n_states, 1)), mdp)
    return Problem(f"deterministic lift {size}", mdp, pi_e, uniform(mdp))


def stochastic_lift(size: int, delta: float = 0.05, reward: str = "exact") -> Problem:
    """The lift in which every move is reversed with probability delta, and so is pi_e's choice.

    Args:
      size: number of positions, bounds included: odd, at least 5.
      delta: probability of a reversed move, and of pi_e going left.
      reward: "exact" pays every arrival at a bound its coordinate; "published" pays -1 for a reversed move
        into a bound, as the reference values of the paper do.

    Example:
      >>> [round(stochastic_lift(7, reward=reward).true_value, 10) for reward in ("exact", "published")]
      [-1.0496521162, -0.9932554494]
    """
    if not 0.0 <= delta < 1.0:
        raise OptionError(
            f"delta must be a probability below 1; found {delta!r}.",
            fix="For example stochastic_lift(11, delta=0.05).",
        )
    if reward not in ("exact", "published"):
        raise OptionError(
            f"reward must be 'exact' or 'published'; found {reward!r}.",
            fix="For example stochastic_lift(11, reward='exact').",
        )
    mdp = _lift(size, delta, reversed_pays_bound=reward == "exact")
    pi_e = as_policy(np.tile([delta, 1.0 - delta], (mdp.n_states, 1)), mdp)
    name = f"stochastic lift {size}" + ("" if reward == "exact" else ", published reward")
    return Problem(name, mdp, pi_e, uniform(mdp))


def _lift(size: int, delta: float, reversed_pays_bound: bool) -> TabularMDP:
    if size != int(size) or size < 5 or size % 2 == 0:
        raise OptionError(
            f"The size of a lift is odd and at least 5; found {size!r}.",
            fix="The paper uses 7, 9, 11, 13, 15 and 17.",
        )
    b = int(size) // 2
    n = 2 * b - 1
    P = np.zeros((n, 2, n + 1))
    R = np.zeros_like(P)
    for position in range(-b + 1, b):
        s = position + b - 1
        lifted = position != 0 and abs(position) != b - 1
        for action, direction in enumerate((-1, 1)):
            intended = int(np.sign(position)) if lifted else direction
            for step, probability in ((intended, 1.0 - delta), (-intended, delta)):
                end = position + step
                target = n if abs(end) == b else end + b - 1
                paid = abs(end) == b and (reversed_pays_bound or step == intended)
                P[s, action, target] += probability
                R[s, action, target] = end if paid else STEP_REWARD
    d0 = np.zeros(n)
    d0[b - 1] = 1.0
    return TabularMDP(P, R, d0)
