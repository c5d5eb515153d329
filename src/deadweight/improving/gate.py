r"""The gate: would the recipe have gained on episodes that it has not seen?

The log is halved at random, twice. A policy is learnt on each half and judged on the other one, by the value
of a model fitted there (the direct method) with the influence of every episode on it:

.. math:: d = \frac14 \sum_{\text{halves}} \left( \hat V(\pi) - \hat V(\pi_b) \right), \qquad
   \text{open iff } d - t \, \mathrm{se}(d) > 0

It certifies the *recipe*, at half the size of the log, not the policy that the recipe makes of the whole log:
that policy has never been judged on episodes it was not learnt from. The strict form ships the policy of one
half, judged on the other.

The model sees what an action does to the next state and reward, and nothing that states do not carry on:
doses that add up, or a bill that comes later. Weights to first order do (`estimators/first_order.py`). So the
same policies are judged on the same halves by LIN, less the mean return there, which LIN says of pi_b.
Where the two differ by more than chance and LIN is not sure of a gain, nothing is changed: the *veto*. The
influence of the model on LIN's correction is left out, which rarely moves the error of their difference by
more than a tenth, and makes it larger: the veto errs towards silence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from deadweight.estimators.direct import Direct, Episodes
from deadweight.estimators.family import Fit
from deadweight.estimators.first_order import Linear
from deadweight.estimators.product import ProductFamily
from deadweight.improving.advantages import Horizon
from deadweight.improving.recipe import Learnt, Recipe, learn
from deadweight.improving.weighted_counts import count_weighted
from deadweight.question.core import Question
from deadweight.question.solved_values import require_room, solved_backwards
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Table
from deadweight.sums.pairs import PolicyPair
from deadweight.sums.reduction import per_episode
from deadweight.sums.weighting import Weighting
from deadweight.typing import BoolArray, FloatArray
from deadweight.values.model import Counts, mdp_from_counts
from deadweight.values.settling import settle

HALVINGS = 2
FEWEST = 8
"""Episodes below which nothing is halved: a half of three has no standard error to speak of."""
ALLOWED = 0.5
"""Share of the distance from the model's gain to LIN's that the lower end of an interval allows for."""
ROUNDING = 1e-9
"""Estimates that differ by less, relative to their size, are the same."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """What policies gain on episodes that they were not learnt from.

    Attributes:
      gain: mean over the halves.
      std_error: of it, by episode.
      n: episodes that it rests on.
      by_half: the gain on each half.
      linear, linear_error: the mean gain over the same halves by LIN, and its standard error.
      apart: LIN's gain less this one, in standard errors of the difference.
      learnt: the policy that was judged there.
      halves: (n,) which episodes it was judged on.
    """

    gain: float
    std_error: float
    n: int
    by_half: tuple[float, ...]
    linear: float
    linear_error: float
    apart: float
    learnt: tuple[Learnt, ...]
    halves: tuple[BoolArray, ...]

    def quantile(self, level: float) -> float:
        """Standard errors that a gain may be off by, to one side, at a level of confidence."""
        from scipy.special import stdtrit

        return float(stdtrit(max(self.n // 2 - 1, 1), level))


def judge(
    question: Question, recipe: Recipe, rng: np.random.Generator, halvings: int = HALVINGS
) -> Judgement:
    """Learn on each half of some halvings, judge on the other."""
    halves = [half for _ in range(halvings) for half in _halved(question.n, rng)]
    learnt = [learn(question, recipe, rng, half.astype(np.float64)) for half in halves]
    # Halves come in pairs: the other half of the k-th is its neighbour.
    others = [halves[k ^ 1] for k in range(len(halves))]
    return judged(question, learnt, others)


def judge_strictly(question: Question, recipe: Recipe, rng: np.random.Generator) -> Judgement:
    """Learn on one half, judge on the other."""
    half, other = _halved(question.n, rng)
    return judged(question, [learn(question, recipe, rng, half.astype(np.float64))], [other])


def judge_in_sample(question: Question, learnt: Learnt) -> Judgement:
    """The gain on the episodes that the policy was learnt from: likely more than it is."""
    return judged(question, [learnt], [np.ones(question.n, dtype=bool)])


def gain_of_shipped(found: Judgement, level: float, own: Judgement | None = None) -> tuple[float, float]:
    """An interval of the gain of the policy that is shipped, not of those that were judged for it.

    It allows for a model that is wrong by what LIN differs from it. A policy of the whole log has learnt from
    twice the episodes, and may gain as much as it seems to on its own, where it looks better than it is. That
    the ends hold is measured, not proved.

    Args:
      found: what the gate has found.
      level: of confidence, of both ends together.
      own: of the policy on the episodes that it was learnt from, where `found` is about policies of halves.
    """
    t = found.quantile((1.0 + level) / 2)
    upper = [found.gain + t * found.std_error, found.linear + t * found.linear_error]
    if own is not None:
        upper.append(own.gain + t * own.std_error)
    lower = found.gain - t * found.std_error - ALLOWED * abs(found.linear - found.gain)
    return lower, max(upper)


def _halved(n: int, rng: np.random.Generator) -> tuple[BoolArray, BoolArray]:
    first = np.zeros(n, dtype=bool)
    first[rng.permutation(n)[: n // 2]] = True
    return first, ~first


def judged(question: Question, learnt: list[Learnt], halves: list[BoolArray]) -> Judgement:
    """The gain of each policy on some of the episodes, and of all of them together.

    Args:
      question: the log.
      learnt: policies.
      halves: (n,) which episodes each is judged on.
    """
    sizes = (question.pair.n_states, question.pair.n_actions)
    counts = count_weighted(question.parts, np.array(halves, dtype=np.float64), sizes, question.workers)
    estimates = [
        _Estimates.of(question, counts.of(k), one.pi, int(half.sum()))
        for k, (one, half) in enumerate(zip(learnt, halves, strict=True))
    ]
    gains = np.array([one.new.value - one.old.value for one in estimates])
    found = per_episode(question.parts, partial(_by_episode, estimates, question.gamma), question.workers)
    influence, linear = np.split(found, 2)  # (halves, n) each
    first_order = np.array([own[half].mean() for own, half in zip(linear, halves, strict=True)])
    gain, of_linear = float(gains.mean()), float(first_order.mean())
    return Judgement(
        gain=gain,
        std_error=_std_error(influence, halves),
        n=int(np.any(halves, axis=0).sum()),
        by_half=tuple(map(float, gains)),
        linear=of_linear,
        linear_error=_std_error(linear, halves),
        apart=_in_standard_errors(of_linear, gain, _std_error(linear - influence, halves)),
        learnt=tuple(learnt),
        halves=tuple(halves),
    )


def _std_error(influence: FloatArray, halves: list[BoolArray]) -> float:
    """Of the mean over the halves, from the influence of each episode on each of them, (halves, n)."""
    total = np.zeros(influence.shape[1])
    for own, half in zip(influence, halves, strict=True):
        # Each half's gain is the mean of its own episodes' influences, and weighs as much as any other's.
        total[half] += (own[half] - own[half].mean()) / (half.sum() * len(halves))
    judging = int(np.any(halves, axis=0).sum())
    return float(np.sqrt(np.square(total).sum() * judging / max(judging - 1, 1)))


def _in_standard_errors(one: float, other: float, error: float) -> float:
    """The difference of two estimates; 0 where it is rounding."""
    if abs(one - other) <= ROUNDING * max(abs(one), abs(other), error):
        return 0.0
    return (one - other) / error if error else math.copysign(math.inf, one - other)


@dataclass(frozen=True, eq=False)
class _Estimates:
    """What is estimated on a half: the direct method for a policy and for pi_b, and LIN for the policy."""

    new: Fit
    old: Fit
    linear: ProductFamily

    @classmethod
    def of(cls, question: Question, counts: Counts, pi: FloatArray, n: int) -> _Estimates:
        """From the model of the half: until values settle if they do for both, else over the same steps."""
        horizon, unseen, pi_b = Horizon.of(question), question.options.unseen, question.pi_b
        model = mdp_from_counts(counts, horizon.steps, unseen)
        new, old = (
            settle(model, policy, horizon.gamma, horizon.steps) if horizon.settles else None
            for policy in (pi, pi_b)
        )
        if new is None or old is None:
            new = old = None
        by_model = (
            Direct(model, policy, horizon.steps, horizon.gamma, counts, unseen, settled)
            for policy, settled in ((pi, new), (pi_b, old))
        )
        fit, base = (direct.finish(Episodes(n), weighted=False) for direct in by_model)
        if new is not None:
            q, v = Table(new.q, by_action=True), Table(new.v)
        else:
            require_room(model, question.horizon, 2 * HALVINGS)
            solved = solved_backwards(model, pi, question.horizon, horizon.steps, horizon.gamma)
            q, v = solved.q, solved.v
        maker = Linear(question.discounted(q), question.discounted(v), pi)
        pair = PolicyPair(pi, pi_b, question.pair.state_labels, question.pair.action_labels)
        return cls(fit, base, ProductFamily([maker], Weighting(pair), horizon.gamma))


def _by_episode(estimates: list[_Estimates], gamma: float, block: Block) -> FloatArray:
    """(2 * halves, m) of a block's episodes: influences on the gains, then LIN's terms less the returns."""
    influences, terms = [], []
    for one in estimates:
        assert one.new.influence is not None, "fitted models have one"
        assert one.old.influence is not None
        influences.append(one.new.influence(block) - one.old.influence(block))
        terms.append(sum(group.plain(gamma) for group in one.linear.terms(block)) - block.returns(gamma))
    return np.stack([*influences, *terms])
