r"""Contenders: the policies of a comparison with their noise, their differences, and where those arise.

A difference from the mean return, or from a number, is judged as an evaluation of that policy alone judges
it, at the level that several statements together need: so a contender keeps what makes its interval at any
level. Two policies that are judged by the same episodes share most of their noise, and so do the estimates
that contradict a blend. So a contender also keeps the influence of every episode on its value, and on the
distance of its value from each of the estimates that it was mixed from or checked by; those of two contenders
are subtracted, episode by episode, before anything is called large.

**Simultaneous intervals.** With Gaussian multipliers xi the multiplier bootstrap of the influences psi

.. math:: T^*_k = \frac{\left| \frac1n \sum_i \xi_i (\psi_{ki} - \psi_{bi}) \right|}{\mathrm{se}_k}

is, given the log, a normal vector with the influences' correlations; that is what is drawn, without touching
the episodes again. Its largest entry is below c in 95 of 100 draws. One difference alone would need c = 1.96,
and any number of them not more than if they were independent (Sidak, 1967), so c is held between the two.

**Against the mean return, or a number**, c standard errors are what a single statement needs at the level
2 Phi(c) - 1, and each policy has the interval that its own evaluation would give it at that level: of one
policy the same is said as by `evaluate`. Only where the log is sparse for a policy is a comparison more
careful, and the interval at least as wide as the next one.

**Between two policies**, of which one may be the baseline,

.. math:: h_k = f c \sqrt{\mathrm{Var}(\psi_k - \psi_j) + 2 v_{kj}} + E_{kj}

where f is 2.5 / 1.96 for a baseline, as for the interval of a blend, and 1.15 else; v is what the model
hardly saw and the two policies do not share; E is by how much the difference of another pair of estimates
of the same two values differs from theirs beyond noise, or how far the biases of a sparse log are apart.

**Who may be the best** is a smaller question: only the best must not be pushed out, by chance or by a bias.
Policy k is pushed out by whoever is ahead of it by more than the root of the squares of the two,

.. math:: \sqrt{(1.15\, c_k\, s)^2 + E^2}

with c_k for the largest of how much better than k the others are, one-sided: the best of several needs K - 1
comparisons and not all pairs (Hsu, 1996).

**Where two policies differ** is told state by state in the fitted model, by the performance-difference lemma,

.. math:: V(\pi_1) - V(\pi_2) = \sum_s \sum_t \gamma^t d^{2}_t(s) \sum_a
   (\pi_1 - \pi_2)(a \mid s)\, Q^{1}_t(s, a)

where d is how often the second policy comes to a state and Q what the first one makes of it.

References: Sidak (1967), Rectangular confidence regions for the means of multivariate normal distributions.
Hsu (1996), Multiple Comparisons. Chernozhukov, Chetverikov & Kato (2013), Gaussian approximations and
multiplier bootstrap for maxima of sums of high-dimensional random vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from deadweight.answers.blend import NORMAL, Mixture
from deadweight.answers.candidates import CROSS_FITTED, Candidates, gather
from deadweight.answers.intervals import per_episode, t_error
from deadweight.answers.plans import Plan, returns
from deadweight.log.labels import plain
from deadweight.mdp.tabular import occupancies
from deadweight.question.question import Question
from deadweight.results.comparison import BASELINE, ROUNDING, PairStates, StateWorth
from deadweight.results.estimate import Estimate
from deadweight.sums.blocks import Block, Field, powers
from deadweight.tools.limits import NUMBER, require
from deadweight.tools.thresholds import CONTRADICTING, WIDTH
from deadweight.typing import FloatArray, Labels

# Estimates without the bias of what has seen its own episodes: how far these lie is allowed for in full.
OUT_OF_SAMPLE = (CROSS_FITTED, "WPDIS")
# The factor of a blend's interval is for what the normal approximation leaves out. Between two policies that
# the same model and the same weights speak of, less of it is left.
BETWEEN = 1.15
# Standard errors below this share of the largest are rounding.
NO_NOISE = 1e-12
# Normal numbers that are drawn at a time.
DRAWN_AT_ONCE = 1 << 20
# Policies differ where some action's probability does by more than this.
SAME = 1e-9
MOST_STATES = 8
# Of more policies than this only pairs with the first of the ranking and with the baseline are taken apart.
MOST_POLICIES = 8
# Tables of Q_t(s, a) of all policies together hold no more numbers than this.
MOST_VALUES = 1 << 24

# (level, against a number and not the mean return) -> half-widths below and above
AtLevel = Callable[[float, bool], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Distance:
    """The distance of a value from another estimate of it."""

    value: float  # the value less the other estimate
    influence: FloatArray  # (n,) of each episode on that, centred


@dataclass(frozen=True, eq=False)
class Contender:
    """A policy with its value and its noise."""

    value: float
    influence: FloatArray  # (n,) of each episode on the value, centred
    distances: Mapping[str, Distance] = field(default_factory=dict)  # from what may contradict it, by name
    unseen: FloatArray | None = None  # what each pair that was hardly seen could do to the value
    shared_bias: float = 0.0  # of all in-sample estimates, by leaving out folds
    allowance: float = 0.0  # for bias, beside what is above
    sparse: bool = False  # whether the log is sparse for this policy
    ess: float | None = None  # effective episodes with all weights kept; None for what needs no weights
    acts_as_logged: bool = False  # whether all its ratios are 1: it is the behaviour policy
    alone: AtLevel | None = None  # of its difference from a number or the mean return


def known_value(value: float, n: int) -> Contender:
    """A number to beat, which no episode moves."""
    return Contender(value, np.zeros(n))


def behaviour_value(question: Question) -> Contender:
    """The behaviour policy, by the mean return of the log."""
    logged = per_episode(question, partial(returns, question.gamma))
    return Contender(float(logged.mean()), logged - logged.mean(), acts_as_logged=True)


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
        influence = estimate.influence
        return Contender(value, influence, allowance=unsure, ess=ess, acts_as_logged=logged, alone=alone)
    contender = _of_blend(plan.question, gather(plan.question))
    return replace(contender, allowance=0.0 if sound else np.inf, acts_as_logged=logged)


def _half_widths(estimate: Estimate, level: float, known: bool) -> tuple[float, float]:
    """Half-widths of the difference from a number or from the mean return, as in `verbs.verdict`."""
    assert estimate.bounds is not None
    assert estimate.bounds.std_error is not None
    error = estimate.bounds.std_error
    if not known:  # paired, but never narrower than the interval of the estimate alone
        error = max(error, estimate.paired_std_error or 0.0)
    effective = estimate.n_episodes if estimate.ess is None else estimate.ess
    half = t_error(error, effective, level) + (estimate.bias_allowance or 0.0)
    return half, half


def _blend_half_widths(mixture: Mixture, level: float, known: bool) -> tuple[float, float]:
    blend = mixture.at(level)
    return blend.half_widths if known else blend.baseline_half_widths


def _of_blend(question: Question, evidence: Candidates) -> Contender:
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
    value, influence = float(mix @ evidence.values), mix @ rows
    wanted = dict.fromkeys([*mixture.compared, *(OUT_OF_SAMPLE if model else ())])
    distances = {
        name: Distance(value - float(evidence.values[place]), influence - rows[place])
        for place, name in enumerate(names)
        if name in wanted
    }
    unseen = evidence.unseen if model else None
    return Contender(
        value,
        influence,
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
    furthest: FloatArray = np.abs(evaluation.on(block) - behaviour.on(block)).max(axis=1)
    return furthest


# --- Differences that hold all at once


@dataclass(frozen=True, eq=False)
class Draws:
    """The simulation of the largest of several differences."""

    level: float
    resamples: int
    seed: int

    def quantile(self, covariance: FloatArray, two_sided: bool) -> float:
        """The number that the largest of standardised normal numbers stays below, with the confidence level.

        Never less than one number alone needs, nor more than as many independent ones (Sidak's inequality; of
        numbers as they are, Bonferroni's).

        Args:
          covariance: (k, k) of the numbers; those without noise are left out.
          two_sided: the largest in size, or the largest as it is.
        """
        from scipy.special import ndtri

        scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        noisy = scale > NO_NOISE * scale.max(initial=0.0)
        count = max(int(noisy.sum()), 1)
        each = self.level ** (1 / count) if two_sided else 1 - (1 - self.level) / count
        alone, apart = (float(ndtri(0.5 + share / 2 if two_sided else share)) for share in (self.level, each))
        if count == 1:
            return alone
        correlation = covariance[np.ix_(noisy, noisy)] / np.outer(scale[noisy], scale[noisy])
        values, vectors = np.linalg.eigh(correlation)
        # The symmetric root: that of the eigenvectors alone has their signs, which differ between machines.
        root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        rng, largest = np.random.default_rng(self.seed), []
        step = max(1, DRAWN_AT_ONCE // len(root))
        for first in range(0, self.resamples, step):
            drawn = rng.standard_normal((min(step, self.resamples - first), len(root))) @ root
            largest.append((np.abs(drawn) if two_sided else drawn).max(axis=1))
        return min(max(float(np.quantile(np.concatenate(largest), self.level)), alone), apart)


@dataclass(frozen=True)
class Spread:
    """The uncertainty of the difference of two contenders."""

    error: float  # its standard error, what was hardly seen included
    bias: float  # E, as far as it is beyond noise
    at_most: float  # E with all that a sparse log may hide
    allowance: float  # for what is known to be missing, without end where nothing can be said


class Contest:
    """All contenders of a comparison, the baseline last, with what their differences need.

    Args:
      contenders: the policies.
      baseline: what they are compared with.
      draws: how noise is simulated.
    """

    def __init__(self, contenders: Sequence[Contender], baseline: Contender, draws: Draws) -> None:
        self.everyone, self.draws = [*contenders, baseline], draws
        self.count, self.n = len(contenders), len(baseline.influence)
        # Draws go to policies by their values: in which order and under which names they came says nothing.
        self._upwards = sorted(range(self.count), key=lambda k: (contenders[k].value, self.covariance[k, k]))
        self._spreads: dict[tuple[int, int], Spread] = {}

    @cached_property
    def covariance(self) -> FloatArray:
        """(K + 1, K + 1) of the values."""
        rows = np.stack([contender.influence for contender in self.everyone])
        covariance: FloatArray = rows @ rows.T / (self.n * max(self.n - 1, 1))
        return covariance

    def _of_differences(self, pairs: Sequence[tuple[int, int]]) -> FloatArray:
        signs = np.zeros((len(pairs), len(self.everyone)))
        for place, (first, second) in enumerate(pairs):
            signs[place, first] += 1.0
            signs[place, second] -= 1.0
        variances: FloatArray = signs @ self.covariance @ signs.T
        return variances

    @cached_property
    def against_baseline(self) -> float:
        """c of all differences from the baseline; of what is the baseline itself nothing is claimed."""
        last = self.everyone[-1]
        same = [each is last or (last.acts_as_logged and each.acts_as_logged) for each in self.everyone]
        pairs = [(k, self.count) for k in self._upwards if not same[k]]
        return self.draws.quantile(self._of_differences(pairs), two_sided=True)

    @cached_property
    def between_all(self) -> float:
        """c of the differences between any two policies."""
        pairs = [(k, j) for place, k in enumerate(self._upwards) for j in self._upwards[:place]]
        return self.draws.quantile(self._of_differences(pairs), two_sided=True)

    def from_all_others(self, k: int) -> float:
        """c of how much better than policy k the others are."""
        pairs = [(j, k) for j in self._upwards if j != k]
        return self.draws.quantile(self._of_differences(pairs), two_sided=False)

    def difference(self, k: int, j: int) -> float:
        """The value of k less that of j."""
        return self.everyone[k].value - self.everyone[j].value

    def from_baseline(self, k: int) -> tuple[float, float]:
        """Half-widths, below and above, of the difference from the baseline, together with all others."""
        contender, baseline, c = self.everyone[k], self.everyone[-1], self.against_baseline
        if baseline.alone is not None or contender.alone is None:
            return (self.half_width(k, self.count, c, WIDTH / NORMAL),) * 2
        below, above = map(_finite, contender.alone(_level(c), not baseline.acts_as_logged))
        least = self.half_width(k, self.count, c, WIDTH / NORMAL) if contender.sparse else 0.0
        return max(below, least), max(above, least)

    def half_width(self, k: int, j: int, c: float, factor: float = BETWEEN) -> float:
        """The half-width of a difference: c standard errors, and what is allowed for bias."""
        spread = self._spread(k, j)
        return _finite(factor * c * spread.error + spread.at_most + spread.allowance)

    def pushes_out(self, j: int, k: int, c: float) -> float:
        """The lead of j from which k is not the best: noise and bias, as if independent."""
        spread = self._spread(k, j)
        rounding = ROUNDING * max(abs(self.everyone[k].value), abs(self.everyone[j].value))
        return _finite(math.hypot(BETWEEN * c * spread.error, spread.bias) + spread.allowance) + rounding

    def _spread(self, k: int, j: int) -> Spread:
        pair = (min(k, j), max(k, j))
        if pair not in self._spreads:
            first, second, covariance = self.everyone[k], self.everyone[j], self.covariance
            noise = float(covariance[k, k] + covariance[j, j] - 2.0 * covariance[k, j])
            error = math.sqrt(max(noise, 0.0) + 2.0 * _unseen(first, second))
            allowance = first.allowance + second.allowance
            self._spreads[pair] = Spread(error, *self._biases(first, second), allowance)
        return self._spreads[pair]

    def _biases(self, first: Contender, second: Contender) -> tuple[float, float]:
        """E: by how much other estimates of the same difference deny it, or biases are apart.

        Once by what is beyond noise, and once, where the log is sparse for one of the two, with all of the
        distance to what is out of sample.
        """
        bound = most = abs(first.shared_bias - second.shared_bias)
        sparse = first.sparse or second.sparse
        for name in _common(first, second):
            apart, noise = self._distance(first, second, name)
            bound = max(bound, abs(apart) - CONTRADICTING * noise)
            most = max(most, bound, abs(apart) if sparse and name in OUT_OF_SAMPLE else 0.0)
        return bound, most

    def _distance(self, first: Contender, second: Contender, name: str) -> tuple[float, float]:
        """The difference by another pair of estimates less ours, and its standard error."""
        value, rows = 0.0, np.zeros(self.n)
        for sign, each in ((1.0, first), (-1.0, second)):
            if name in each.distances:
                value += sign * each.distances[name].value
                rows = rows + sign * each.distances[name].influence
        return value, math.sqrt(float(rows @ rows) / (self.n * max(self.n - 1, 1)))


def _level(c: float) -> float:
    """The level of a statement on both sides that c standard errors make."""
    from scipy.special import ndtr

    return 2.0 * float(ndtr(c)) - 1.0


def _finite(width: float) -> float:
    return width if math.isfinite(width) else math.inf


def _unseen(first: Contender, second: Contender) -> float:
    """The variance of what the model hardly saw and the two policies do not share."""
    effects = [each.unseen for each in (first, second) if each.unseen is not None]
    if len(effects) == 2 and effects[0].shape == effects[1].shape:
        effects = [effects[0] - effects[1]]
    return sum(float(np.square(effect).sum()) for effect in effects)


def _common(first: Contender, second: Contender) -> list[str]:
    """Names of the estimates that both have; of one alone where the other has none at all."""
    if not first.distances or not second.distances:
        return [*first.distances, *second.distances]
    return [name for name in first.distances if name in second.distances]


# --- Where two policies differ


@dataclass(frozen=True, eq=False)
class Model:
    """A policy in the fitted model."""

    probs: FloatArray  # (S, A) the policy
    q: FloatArray  # (T, S, A) its action values
    reached: FloatArray  # (T, S) gamma^t times how often it comes to each state at each step
    states: Labels
    actions: Labels
    visits: FloatArray  # (S,) of the log


@dataclass(eq=False)
class Behaviours:
    """The behaviour policy in the models of the questions, and how much all of them hold."""

    size: int = 0  # numbers in tables of values
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
    pairs = []
    for place, first in enumerate(ranking):
        first_model = models[first]
        if first_model is None:
            continue
        for second in ranking[place + 1 :] if few or place == 0 else []:
            second_model = models[second]
            if second_model is not None and second_model.probs.shape == first_model.probs.shape:
                pairs.append(_pair(first, second, first_model, second_model.probs, second_model.reached))
        if baseline is not None and baseline.probs.shape == first_model.probs.shape:
            pairs.append(_pair(first, BASELINE, first_model, baseline.probs, baseline.reached))
        elif behaves and first_model.probs.shape in behaviours.logged:
            pairs.append(_pair(first, BASELINE, first_model, *behaviours.logged[first_model.probs.shape]))
    return tuple(pairs)


def _pair(first: str, second: str, model: Model, probs: FloatArray, reached: FloatArray) -> PairStates:
    steps = min(len(model.q), len(reached))
    gain = model.probs - probs
    worth = np.einsum("ts,sa,tsa->s", reached[:steps], gain, model.q[:steps])
    differs = (np.abs(gain).max(axis=1) > SAME) & (model.visits > 0)
    order = np.argsort(-np.abs(worth), kind="stable")
    order = order[differs[order]]
    shown = order[:MOST_STATES]
    return PairStates(
        first,
        second,
        tuple(
            StateWorth(
                plain(model.states[s]),
                _likeliest(model, model.probs[s]),
                _likeliest(model, probs[s]),
                float(worth[s]),
                int(model.visits[s]),
            )
            for s in shown
        ),
        len(order) - len(shown),
        float(worth[order[MOST_STATES:]].sum()),
    )


def _likeliest(model: Model, row: FloatArray) -> Any:
    """The action taken most often, with its share."""
    most = int(row.argmax())
    return plain(model.actions[most]), float(row[most])
