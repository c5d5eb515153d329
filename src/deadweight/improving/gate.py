r"""The gate: would the recipe have gained on episodes that it has not seen?

The log is halved at random, twice. A policy is learnt on each half and judged on the other one, by the value
of a model fitted there (the direct method) with the influence of every episode on it:

.. math:: d = \frac14 \sum_{\text{halves}} \left( \hat V(\pi) - \hat V(\pi_b) \right), \qquad
   \text{open iff } d - t \, \mathrm{se}(d) > 0

It certifies the *recipe*, at half the size of the log, not the policy that the recipe makes of the whole log:
that policy has never been judged on episodes it was not learnt from. The strict form ships the policy of one
half, judged on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from deadweight.estimators.direct import Direct, Episodes
from deadweight.estimators.family import Fit
from deadweight.improving.advantages import Horizon
from deadweight.improving.recipe import Learnt, Recipe, learn
from deadweight.improving.weighted_counts import count_weighted
from deadweight.question.core import Question
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import per_episode
from deadweight.typing import BoolArray, FloatArray
from deadweight.values.model import Counts, mdp_from_counts
from deadweight.values.settling import settle

HALVINGS = 2
FEWEST = 8
"""Episodes below which nothing is halved: a half of three has no standard error to speak of."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """What policies gain on episodes that they were not learnt from.

    Attributes:
      gain: mean over the halves.
      std_error: of it, by episode.
      n: episodes that it rests on.
      by_half: the gain on each half.
      learnt: the policy that was judged there.
      halves: (n,) which episodes it was judged on.
    """

    gain: float
    std_error: float
    n: int
    by_half: tuple[float, ...]
    learnt: tuple[Learnt, ...]
    halves: tuple[BoolArray, ...]

    def error(self, level: float) -> float:
        """What the gain may be off by, to one side, at a level of confidence."""
        from scipy.special import stdtrit

        return float(stdtrit(max(self.n // 2 - 1, 1), level)) * self.std_error


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
    horizon, unseen = Horizon.of(question), question.options.unseen
    pairs = [
        _values(counts.of(k), [one.pi, question.pi_b], horizon, unseen, int(half.sum()))
        for k, (one, half) in enumerate(zip(learnt, halves, strict=True))
    ]
    gains = np.array([new.value - old.value for new, old in pairs])
    influence = per_episode(question.parts, partial(_differences, pairs), question.workers)  # (halves, n)
    total = np.zeros(question.n)
    for own, half in zip(influence, halves, strict=True):
        # Each half's gain is the mean of its own episodes' influences, and weighs as much as any other's.
        total[half] += (own[half] - own[half].mean()) / (half.sum() * len(halves))
    judging = int(np.any(halves, axis=0).sum())
    error = float(np.sqrt(np.square(total).sum() * judging / max(judging - 1, 1)))
    by_half = tuple(map(float, gains))
    return Judgement(float(gains.mean()), error, judging, by_half, tuple(learnt), tuple(halves))


def _values(
    counts: Counts, policies: list[FloatArray], horizon: Horizon, unseen: str, n: int
) -> tuple[Fit, ...]:
    """The direct method for each policy: until values settle if they do for all, else over the same steps."""
    model = mdp_from_counts(counts, horizon.steps, unseen)
    settled = [
        settle(model, pi, horizon.gamma, horizon.steps) if horizon.settles else None for pi in policies
    ]
    if any(one is None for one in settled):
        settled = [None] * len(policies)
    return tuple(
        Direct(model, pi, horizon.steps, horizon.gamma, counts, unseen, one).finish(Episodes(n), False)
        for pi, one in zip(policies, settled, strict=True)
    )


def _differences(pairs: list[tuple[Fit, ...]], block: Block) -> FloatArray:
    """(halves, m) the influence of a block's episodes on the gain of each policy."""
    found = []
    for new, old in pairs:
        assert new.influence is not None, "fitted models have one"
        assert old.influence is not None
        found.append(new.influence(block) - old.influence(block))
    return np.stack(found)
