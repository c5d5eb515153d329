"""Contenders: what a comparison needs to know of each policy, with its noise episode by episode.

A difference from the mean return, or from a number, is judged as an evaluation of that policy alone judges
it, at the level that several statements together need: so a contender keeps what makes its interval at any
level.

Two policies that are judged by the same episodes share most of their noise, and so do the estimates that
contradict a blend. So a contender also keeps the influence of every episode on its value, and on the distance
of its value from each of the estimates that it was mixed from or checked by; the same of two contenders are
subtracted, episode by episode, before anything is called large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as made_by
from functools import partial

import numpy as np

from deadweight.answers.plans import Plan
from deadweight.basics.memory import NUMBER, require
from deadweight.blend.evidence import gather
from deadweight.blend.mixing import CROSS_FITTED, Evidence, Mixture
from deadweight.inference.per_episode import per_episode
from deadweight.inference.student_t import t_error
from deadweight.question.core import Question
from deadweight.results import Estimate
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Field
from deadweight.typing import FloatArray

# What has no such bias, and how far it lies is then allowed for in full.
OUT_OF_SAMPLE = (CROSS_FITTED, "WPDIS")

# (level, against a number and not the mean return) -> half-widths below and above
AtLevel = Callable[[float, bool], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Distance:
    """How far a value lies from another estimate of it.

    Attributes:
      value: the value less the other estimate.
      influence: (n,) of each episode on that, centred.
    """

    value: float
    influence: FloatArray


@dataclass(frozen=True, eq=False)
class Contender:
    """A policy with its value and its noise.

    Attributes:
      value: the estimate.
      influence: (n,) of each episode on it, centred.
      distances: from the estimates that may contradict it, by name.
      unseen: what each state and action that was hardly seen could do to the value, flat; None for nothing.
      shared_bias: of all in-sample estimates, by leaving out folds.
      allowance: for bias, beside what is above.
      sparse: whether the log is sparse for this policy.
      ess: effective episodes with all weights kept; None for what needs no weights.
      acts_as_logged: whether all its ratios are 1: it is the behaviour policy.
      alone: half-widths of its difference from a number, or from the mean return, as an evaluation has it;
        None for what is no estimate of a policy.
    """

    value: float
    influence: FloatArray
    distances: Mapping[str, Distance] = made_by(default_factory=dict)
    unseen: FloatArray | None = None
    shared_bias: float = 0.0
    allowance: float = 0.0
    sparse: bool = False
    ess: float | None = None
    acts_as_logged: bool = False
    alone: AtLevel | None = None


def known_value(value: float, n: int) -> Contender:
    """A number to beat, which no episode moves."""
    return Contender(value, np.zeros(n))


def behaviour_value(question: Question) -> Contender:
    """The behaviour policy, by the mean return of the log."""
    returns = per_episode(question, partial(_returns, question.gamma))
    return Contender(float(returns.mean()), returns - returns.mean(), acts_as_logged=True)


def contender_of(plan: Plan, estimate: Estimate, ess: float | None, sound: bool) -> Contender:
    """The contender of a policy.

    Args:
      plan: of its headline.
      estimate: the headline, with an influence unless it is a blend.
      ess: effective episodes with all weights kept.
      sound: whether its own evaluation allows a verdict at all; nothing is known of its differences from
        other policies if not.
    """
    logged = _acts_as_logged(plan.question, ess)
    if estimate.blend is None:
        value = estimate.centre
        unsure = estimate.bias_allowance or 0.0 if sound and np.isfinite(value) else np.inf
        alone = partial(_half_widths, estimate)
        own = estimate.influence
        return Contender(value, own, allowance=unsure, ess=ess, acts_as_logged=logged, alone=alone)
    made = _of_blend(plan.question, gather(plan.question))
    return replace(made, allowance=0.0 if sound else np.inf, acts_as_logged=logged)


def _half_widths(estimate: Estimate, level: float, known: bool) -> tuple[float, float]:
    """Of the difference of an estimate from a number or from the mean return; see `deadweight.verdict`."""
    assert estimate.bounds is not None
    assert estimate.bounds.std_error is not None
    error = estimate.bounds.std_error
    if not known:  # paired, but never narrower than the interval of the estimate alone
        error = max(error, estimate.paired_std_error or 0.0)
    effective = estimate.n_episodes if estimate.ess is None else estimate.ess
    half = t_error(error, effective, level) + (estimate.bias_allowance or 0.0)
    return half, half


def _blend_half_widths(mixture: Mixture, level: float, known: bool) -> tuple[float, float]:
    """The same of a blend, by its own rule."""
    blend = mixture.at(level)
    return blend.half_widths if known else blend.baseline_half_widths


def _of_blend(question: Question, evidence: Evidence) -> Contender:
    n, names = question.n, evidence.names
    require(
        2 * NUMBER * float(n) * len(names),
        f"The influences of {n:,} episodes on {len(names)} estimates",
        "Compare fewer policies, or on a sample of the episodes.",
    )
    assert evidence.rows is not None, "the question keeps them"
    rows = evidence.rows - evidence.rows.mean(axis=1, keepdims=True)
    # Without what only the question needs: a log of influences for every policy is large.
    mixture = Mixture(replace(evidence, rows=None, influences=(), unseen=None))
    mix, model = mixture.mix, not mixture.by_weights
    value, own = float(mix @ evidence.values), mix @ rows
    wanted = dict.fromkeys([*mixture.witnesses, *(OUT_OF_SAMPLE if model else ())])
    distances = {
        name: Distance(value - float(evidence.values[place]), own - rows[place])
        for place, name in enumerate(names)
        if name in wanted
    }
    unseen = evidence.unseen if model else None
    return Contender(
        value,
        own,
        distances,
        None if unseen is None else unseen.ravel(),
        evidence.shared_bias if model else 0.0,
        sparse=mixture.is_sparse,
        ess=evidence.ess,
        alone=partial(_blend_half_widths, mixture),
    )


def _acts_as_logged(question: Question, ess: float | None) -> bool:
    """Whether every logged action has the same probability under both policies, up to rounding."""
    pair = question.pair
    if ess is not None and ess < question.n * (1 - 1e-9):  # weights that are all 1 have no less
        return False
    furthest = per_episode(question, partial(_furthest, pair.evaluation, pair.behaviour))
    return bool(furthest.max() <= 1e-12)


def _furthest(evaluation: Field, behaviour: Field, block: Block) -> FloatArray:
    """(m,) the largest difference of the two policies' probabilities of an action that was taken."""
    found: FloatArray = np.abs(evaluation.on(block) - behaviour.on(block)).max(axis=1)
    return found


def _returns(gamma: float, block: Block) -> FloatArray:
    return block.returns(gamma)
