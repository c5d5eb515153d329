r"""Where two policies differ, and what that is worth, state by state in the fitted model.

By the performance-difference lemma the difference of two values is a sum over states,

.. math:: V(\pi_1) - V(\pi_2) = \sum_s \sum_t \gamma^t d^{2}_t(s) \sum_a
   (\pi_1 - \pi_2)(a \mid s)\, Q^{1}_t(s, a)

where d is how often the second policy comes to a state and Q what the first one makes of it. Where the two
agree nothing is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deadweight.log.labels import plain
from deadweight.mdp.tabular import occupancies
from deadweight.question.core import Question
from deadweight.results.differences import BASELINE, PairStates, StateWorth
from deadweight.sums.blocks import powers
from deadweight.typing import FloatArray, Labels

# Policies differ where some action's probability does by more than this.
SAME = 1e-9
MOST_STATES = 8
# Of more policies than this only pairs with the first of the ranking and with the baseline are taken apart.
MOST_POLICIES = 8
# Tables of Q_t(s, a) of all policies together hold no more numbers than this.
MOST_VALUES = 1 << 24


@dataclass(frozen=True, eq=False)
class Model:
    """A policy in the fitted model.

    Attributes:
      probs: (S, A) the policy.
      q: (T, S, A) its action values.
      reached: (T, S) gamma^t times how often it comes to each state at each step.
      states, actions: labels.
      visits: (S,) of the log.
    """

    probs: FloatArray
    q: FloatArray
    reached: FloatArray
    states: Labels
    actions: Labels
    visits: FloatArray


@dataclass(eq=False)
class Behaviours:
    """What is remembered while one policy after the other is asked about."""

    size: int = 0
    logged: dict[tuple[int, int], tuple[FloatArray, FloatArray]] = field(default_factory=dict)


def model_of(question: Question, behaviours: Behaviours) -> Model | None:
    """The policy of a question in its model; None where there are no states, or too many for all policies."""
    if not (question.parts.has_states and question.can_solve_model):
        return None
    q = question.values.q.values
    behaviours.size += q.size
    if behaviours.size > MOST_VALUES or q.ndim != 3:
        return None
    pi_e = question.pi_e("A comparison of states")
    discounts = powers(question.gamma, len(q))[:, None]
    reached = discounts * occupancies(question.model, pi_e, len(q))
    if question.shape not in behaviours.logged:
        came = discounts * occupancies(question.model, question.pi_b, len(q))
        behaviours.logged[question.shape] = (question.pi_b, came)
    pair = question.pair
    return Model(pi_e, q, reached, pair.state_labels, pair.action_labels, question.visits)


def where_they_differ(
    models: Mapping[str, Model | None],
    ranking: list[str],
    baseline: Model | None,
    behaves: bool,
    behaviours: Behaviours,
) -> tuple[PairStates, ...]:
    """For each pair of policies, in the order of the ranking, and for each against the baseline."""
    few = len(ranking) <= MOST_POLICIES
    found = []
    for place, first in enumerate(ranking):
        one = models[first]
        if one is None:
            continue
        for second in ranking[place + 1 :] if few or place == 0 else []:
            other = models[second]
            if other is not None and other.probs.shape == one.probs.shape:
                found.append(_pair(first, second, one, other.probs, other.reached))
        if baseline is not None and baseline.probs.shape == one.probs.shape:
            found.append(_pair(first, BASELINE, one, baseline.probs, baseline.reached))
        elif behaves and one.probs.shape in behaviours.logged:
            found.append(_pair(first, BASELINE, one, *behaviours.logged[one.probs.shape]))
    return tuple(found)


def _pair(first: str, second: str, one: Model, probs: FloatArray, reached: FloatArray) -> PairStates:
    steps = min(len(one.q), len(reached))
    gain = one.probs - probs
    worth = np.einsum("ts,sa,tsa->s", reached[:steps], gain, one.q[:steps])
    differs = (np.abs(gain).max(axis=1) > SAME) & (one.visits > 0)
    order = np.argsort(-np.abs(worth), kind="stable")
    order = order[differs[order]]
    shown = order[:MOST_STATES]
    return PairStates(
        first,
        second,
        tuple(_state(one, probs, int(s), float(worth[s])) for s in shown),
        len(order) - len(shown),
        float(worth[order[MOST_STATES:]].sum()),
    )


def _state(one: Model, probs: FloatArray, s: int, worth: float) -> StateWorth:
    return StateWorth(
        plain(one.states[s]),
        _action(one, one.probs[s]),
        _action(one, probs[s]),
        worth,
        int(one.visits[s]),
    )


def _action(one: Model, row: FloatArray) -> Any:
    """The action taken most often, with its share."""
    most = int(row.argmax())
    return plain(one.actions[most]), float(row[most])
