"""Support: actions of the evaluation policy that the log never shows.

Importance weights cannot correct for what was never tried. Where pi_e takes an action in a visited state in
which it was never logged, its effect is unknown: estimates leave that probability out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.log.features import require_labels
from deadweight.log.interface import in_memory
from deadweight.log.labels import plain
from deadweight.log.trajectories import Trajectories
from deadweight.policy.policies import TabularPolicy
from deadweight.question.asking import ask
from deadweight.question.core import Question
from deadweight.typing import FloatArray


@dataclass(frozen=True)
class Violation:
    """An action that pi_e takes in a visited state in which it was never logged.

    `possible` says whether pi_b could have taken it: more episodes would then show it.
    """

    state: Any
    action: Any
    probability: float
    visits: int
    possible: bool


@dataclass(frozen=True, eq=False)
class SupportReport:
    """What pi_e does and the log does not show.

    Attributes:
      violations: largest unseen probability first.
      unseen_mass: mean over the logged steps of the probability that pi_e gives to actions never logged
        in their state.
      n_states: visited states with a violation.

    Example:
      >>> log = Trajectories.from_episodes([[("ward", "wait", 1.0)]])
      >>> policy = TabularPolicy([[0.9, 0.1]], states=["ward"], actions=["wait", "treat"])
      >>> support(log, policy, policy).n_states
      1
    """

    violations: tuple[Violation, ...]
    unseen_mass: float
    n_states: int


def support(
    log: Trajectories, pi_e: TabularPolicy | npt.ArrayLike, pi_b: TabularPolicy | npt.ArrayLike | None = None
) -> SupportReport:
    """Actions with pi_e > 0 that were never logged in a visited state.

    Args:
      log: episodes of the behaviour policy.
      pi_e: evaluation policy.
      pi_b: behaviour policy, which says whether such an action was possible; None where it is not known.

    Example:
      >>> log = Trajectories.from_episodes([[("ward", "wait", 1.0)]])
      >>> policy = TabularPolicy([[0.9, 0.1]], states=["ward"], actions=["wait", "treat"])
      >>> support(log, policy, policy).violations[0]
      Violation(state='ward', action='treat', probability=0.1, visits=1, possible=True)
    """
    return support_of(ask(in_memory(log), pi_e, pi_b))


def support_of(question: Question) -> SupportReport:
    """The same for a question."""
    require_labels(question.parts, "The support report")
    pair, pi_e = question.pair, question.pi_e("The support report")
    visits: FloatArray = question.visits
    unseen = (pi_e > 0) & (question.counts.visits() == 0) & (visits > 0)[:, None]
    states, actions = np.nonzero(unseen)
    order = np.lexsort((actions, states, -pi_e[states, actions]))
    violations = tuple(
        Violation(
            plain(pair.state_labels[s]),
            plain(pair.action_labels[a]),
            float(pi_e[s, a]),
            int(visits[s]),
            pair.pi_b is None or bool(pair.pi_b[s, a] > 0),
        )
        for s, a in zip(states[order], actions[order], strict=True)
    )
    mass = (pi_e * unseen).sum(axis=1)
    return SupportReport(violations, float(visits @ mass / visits.sum()), int(unseen.any(axis=1).sum()))
