r"""The recipe: change the behaviour policy only where that pays, by more than the log leaves open.

From pi = pi_b, at most four times: what each action is worth in each state if pi is followed otherwise, with
the standard error of twenty models of the Bayesian bootstrap; a state takes the action with the highest
advantage less `caution` standard errors if that is above 0 and the action was tried there often enough, and
keeps pi_b otherwise. The result is a policy that state-based importance sampling can evaluate: it is pi_b
nearly everywhere.

Then the gate: would the recipe have gained on episodes that it has not seen? The log is halved at random,
twice. A policy is learnt on each half and judged on the other one, by the value of a model fitted there (the
direct method) with the influence of every episode on it:

.. math:: d = \frac14 \sum_{\text{halves}} \left( \hat V(\pi) - \hat V(\pi_b) \right), \qquad
   \text{open iff } d - t \, \mathrm{se}(d) > 0

It certifies the *recipe*, at half the size of the log, not the policy that the recipe makes of the whole log,
which has never been judged on episodes it was not learnt from. The strict form ships the policy of one half,
judged on the other.

The model sees what an action does to the next state and reward, and nothing that states do not carry on:
doses that add up, or a bill that comes later. Weights to first order do (LIN). So the same policies are
judged on the same halves by LIN, less the mean return there, which LIN says of pi_b. Where the two differ by
more than chance and LIN is not sure of a gain, nothing is changed: the *veto*. The influence of the model on
LIN's correction is left out, which rarely moves the error of their difference by more than a tenth, and makes
it larger: the veto errs towards silence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from deadweight.errors import OptionError
from deadweight.estimators.direct import Direct, Episodes
from deadweight.estimators.product import Fit, Linear, ProductFamily
from deadweight.log.interface import Log
from deadweight.mdp.tabular import TabularMDP, backward, occupancies
from deadweight.question.question import Question, require_room, solved_backwards
from deadweight.sums.blocks import Block, Folds, Table, powers
from deadweight.sums.pairs import PolicyPair
from deadweight.sums.reduction import per_episode, reduce_log
from deadweight.sums.summaries import KeyedSums
from deadweight.sums.weighting import Weighting
from deadweight.tools.arithmetic import divide
from deadweight.tools.limits import NUMBER, require
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray
from deadweight.values.model import COUNT_CELLS, Counts, distinct, mdp_from_counts, successors
from deadweight.values.until_end import settle

ROUNDS = 4
RESAMPLES = 20
KEEP = -1
"""In place of an action: the state keeps the behaviour policy."""
HALVINGS = 2
FEWEST = 8
"""Episodes below which nothing is halved: a half of three has no standard error to speak of."""
ALLOWED = 0.5
"""Share of the distance from the model's gain to LIN's that the lower end of an interval allows for."""
ROUNDING = 1e-9
"""Estimates that differ by less, relative to their size, are the same."""


@dataclass(frozen=True)
class Horizon:
    """Over how many steps models of a log are solved; or until they settle, where they do."""

    steps: int  # at least the longest episode
    settles: bool  # whether no episode was cut, so that values until the end mean something
    gamma: float  # discount

    @classmethod
    def of(cls, question: Question) -> Horizon:
        """The horizon over which the log's own model is solved."""
        return cls(question.model_horizon, question.has_end, question.gamma)


@dataclass(frozen=True, eq=False)
class Models:
    """Models of the same states and actions, stacked: state s of the k-th is state k * S + s."""

    stacked: TabularMDP
    count: int  # how many there are
    horizon: Horizon

    def mean_values(self, pi: FloatArray, pi_b: FloatArray) -> FloatArray:
        r"""(count, S, A) action values of a policy (S, A) in each model, over the steps at which it is there.

        .. math:: \bar Q(s, a) = \frac{\sum_t \gamma^t d_t(s) \, Q_t(s, a)}{\sum_t \gamma^t d_t(s)}

        with d_t the share of episodes in which it is in s at step t. In a model that is solved until it
        settles they are the same at all steps. Where the policy never comes, values are averaged over the
        steps at which pi_b does: a state that is not visited any more, because of what was changed elsewhere,
        keeps its values.
        """
        every, horizon = np.tile(pi, (self.count, 1)), self.horizon
        shape = (self.count, *pi.shape)
        if horizon.settles:
            settled = settle(self.stacked, every, horizon.gamma, horizon.steps)
            if settled is not None:
                return settled.q.reshape(shape)
        visits = self._visits(every)
        never = visits.sum(axis=0) == 0
        if never.any():
            visits[:, never] = self._visits(np.tile(pi_b, (self.count, 1)))[:, never]
        total = np.zeros(self.stacked.r.shape)
        for t, q_t, _ in backward(self.stacked, every, horizon.steps, horizon.gamma):
            total += visits[t][:, None] * q_t
        return divide(total, visits.sum(axis=0)[:, None]).reshape(shape)

    def _visits(self, every: FloatArray) -> FloatArray:
        """(steps, count * S) discounted share of episodes in each state at each step."""
        horizon = self.horizon
        require(
            2 * NUMBER * float(horizon.steps) * self.stacked.n_states,
            f"Visits of {horizon.steps:,} steps x {len(every):,} states of {self.count} models",
            "Use coarser states.",
        )
        visits = occupancies(self.stacked, every, horizon.steps, stacked=True)
        visits *= powers(horizon.gamma, horizon.steps)[:, None]
        return visits


@dataclass(frozen=True, eq=False)
class WeightedCounts:
    """Counts under several sets of weights of the episodes, one a column of each sum; merges.

    A weight of 0 or 1 makes the model of some of the episodes, weights drawn from the exponential
    distribution one of the Bayesian bootstrap (Rubin, 1981): how a model differs from one such draw to the
    next is how little the log pins it down. A block is counted once, and multiplied by all its weights.
    """

    n_states: int
    n_actions: int
    transitions: KeyedSums  # keys as in `Counts`; the discounts of all sets, if any, follow their numbers
    visits: KeyedSums
    rewards: KeyedSums
    starts: KeyedSums

    def merge(self, other: WeightedCounts) -> WeightedCounts:
        """The counts of the episodes of both."""
        names = ("transitions", "visits", "rewards", "starts")
        return replace(self, **{name: getattr(self, name).merge(getattr(other, name)) for name in names})

    def of(self, column: int) -> Counts:
        """The counts under one set of weights, without what has weight 0."""
        seen = self.visits.sums[column] > 0
        sets = len(self.visits.sums)
        moves = self.transitions.sums[column::sets]  # the number and, where there is one, the discount
        there, begun = moves[0] > 0, self.starts.sums[column] > 0
        numbers = np.stack([self.visits.sums[column][seen], self.rewards.sums[column][seen]])
        return Counts(
            self.n_states,
            self.n_actions,
            KeyedSums(self.transitions.keys[there], moves[:, there]),
            KeyedSums(self.visits.keys[seen], numbers),
            KeyedSums(self.starts.keys[begun], self.starts.sums[column : column + 1, begun]),
        )

    def stacked(self, columns: Sequence[int]) -> Counts:
        """The counts of several sets of weights as those of one problem that is as many problems at once.

        State s of the k-th is state k * S + s. No step leads from one into another, so that whatever is
        solved of the whole is solved of each.
        """
        size, ends = self.n_states, len(columns) * self.n_states
        parts = [self.of(column) for column in columns]
        moves, pairs, starts = [], [], []
        for place, part in enumerate(parts):
            rows, after = np.divmod(part.transitions.keys, size + 1)
            rows = rows + place * size * self.n_actions
            moves.append(rows * (ends + 1) + np.where(after == size, ends, after + place * size))
            pairs.append(part.pairs.keys + place * size * self.n_actions)
            starts.append(part.starts.keys + place * size)
        return Counts(
            ends,
            self.n_actions,
            _side_by_side(moves, [part.transitions for part in parts]),
            _side_by_side(pairs, [part.pairs for part in parts]),
            _side_by_side(starts, [part.starts for part in parts]),
        )


def _side_by_side(keys: list[IntArray], sums: list[KeyedSums]) -> KeyedSums:
    """The sums of parts whose keys are larger from part to part."""
    return KeyedSums(np.concatenate(keys), np.concatenate([part.sums for part in sums], axis=1))


def count_weighted(
    parts: Log, weights: FloatArray, sizes: tuple[int, int], workers: int = 1
) -> WeightedCounts:
    """Counts of a log under each of k weights, (k, n) by episode; `sizes` are S and A."""
    place = Folds.of(1, parts.sizes)
    summarise = partial(_count_block, np.ascontiguousarray(weights.T), place.first, sizes)
    counts: WeightedCounts = reduce_log(parts, summarise, workers, COUNT_CELLS, by_ends=True)[0]
    return counts


def _count_block(
    weights: FloatArray, first: IntArray, sizes: tuple[int, int], block: Block
) -> list[WeightedCounts]:
    """Counts of a block; `weights` is (n, k)."""
    n_states, n_actions = sizes
    weights = weights[first[block.part] + block.first + block.rows]  # (m, k)
    pair, after = block.pairs(n_actions), successors(block, n_states)
    known = after >= 0
    episode = np.broadcast_to(np.arange(block.n)[:, None], pair.shape)
    moves, movers = pair[known] * (n_states + 1) + after[known], episode[known]
    numbers = _weighted(moves, movers, 1.0, weights)
    if block.during is not None:
        discounts = _weighted(moves, movers, block.during[known], weights)
        numbers = KeyedSums(numbers.keys, np.concatenate([numbers.sums, discounts.sums]))
    steps, by = block.flat(pair), block.flat(episode)
    return [
        WeightedCounts(
            n_states,
            n_actions,
            numbers,
            _weighted(steps, by, 1.0, weights),
            _weighted(steps, by, block.flat(block.paid), weights),
            _weighted(block.states[:, 0], np.arange(block.n), 1.0, weights),
        )
    ]


def _weighted(keys: IntArray, episodes: IntArray, values: AnyArray | float, weights: FloatArray) -> KeyedSums:
    """Sums by key of values times each of the weights of the episode."""
    from scipy import sparse

    sorted_keys, index = distinct(keys, int(keys.max(initial=-1)) + 1)
    entries: Any = np.broadcast_to(np.asarray(values, dtype=np.float64), keys.shape)
    table: Any = sparse.csr_array((entries, (index, episodes)), shape=(sorted_keys.size, weights.shape[0]))
    return KeyedSums(sorted_keys, np.ascontiguousarray((table @ weights).T))


@dataclass(frozen=True)
class Recipe:
    """The settings that a policy is learnt with."""

    caution: float = 2.0  # standard errors by which a change must pay
    min_visits: int = 10  # how often an action must have been tried in a state

    def __post_init__(self) -> None:
        if not (isinstance(self.caution, int | float) and 0 <= self.caution < float("inf")):
            raise OptionError(
                f"caution must be a number of at least 0, in standard errors; found {self.caution!r}.",
                fix="2 is the default; more changes less.",
            )
        if isinstance(self.min_visits, bool) or not isinstance(self.min_visits, int) or self.min_visits < 1:
            raise OptionError(
                f"min_visits must be a whole number of at least 1; found {self.min_visits!r}.",
                fix="10 is the default: how often an action was tried in a state before it may be taken.",
            )


@dataclass(frozen=True, eq=False)
class Learnt:
    """A policy with the advantages that it rests on."""

    pi: FloatArray  # (S, A)
    action: IntArray  # (S,) what is done instead of pi_b; `KEEP` where nothing is changed
    advantage: FloatArray  # (S, A) what an action is worth above pi_b in one visit of a state
    std_error: FloatArray  # (S, A) of the advantage
    visits: FloatArray  # (S, A) how often the action was tried there

    @property
    def changed(self) -> IntArray:
        """States in which the policy differs from pi_b."""
        return np.flatnonzero(self.action != KEEP)


def learn(question: Question, recipe: Recipe, rng: np.random.Generator, among: FloatArray) -> Learnt:
    """The policy of the episodes for which `among`, (n,), is 1 and not 0; `rng` draws the resamples."""
    require(
        2 * NUMBER * float(RESAMPLES) * question.n,
        f"Weights of {RESAMPLES} resamples x {question.n:,} episodes",
        "Take a part of the episodes.",
    )
    weights = np.concatenate([among[None], among * rng.exponential(size=(RESAMPLES, question.n))])
    sizes = (question.pair.n_states, question.pair.n_actions)
    counts = count_weighted(question.parts, weights, sizes, question.workers)
    stacked = mdp_from_counts(counts.stacked(range(len(weights))), question.horizon, question.options.unseen)
    models = Models(stacked, len(weights), Horizon.of(question))
    return improved(models, question.pi_b, counts.of(0).visits(), recipe)


def improved(models: Models, pi_b: FloatArray, visits: FloatArray, recipe: Recipe) -> Learnt:
    """The policy that the first model, that of the log, gives; the others, of its resamples, give errors."""
    every = np.arange(len(pi_b))
    action = np.full(len(pi_b), KEEP)
    for _ in range(ROUNDS):
        pi = _policy(pi_b, action)
        q = models.mean_values(pi, pi_b)
        above = q - (q * pi_b).sum(axis=-1, keepdims=True)
        advantage, std_error = above[0], above[1:].std(axis=0, ddof=1)
        surely = np.where(visits >= recipe.min_visits, advantage - recipe.caution * std_error, -np.inf)
        best = surely.argmax(axis=1)
        # Actions that do the same differ in their last digits.
        rounding = ROUNDING * float(np.abs(q[0]).max())
        before, action = action, np.where(surely[every, best] > rounding, best, KEEP)
        if np.array_equal(before, action):
            break
    return Learnt(_policy(pi_b, action), action, advantage, std_error, visits)


def _policy(pi_b: FloatArray, action: IntArray) -> FloatArray:
    pi = pi_b.copy()
    changed = np.flatnonzero(action != KEEP)
    pi[changed] = 0.0
    pi[changed, action[changed]] = 1.0
    return pi


# --- The gate


@dataclass(frozen=True, eq=False)
class Judgement:
    """The gain of policies on episodes that they were not learnt from."""

    gain: float  # mean over the halves
    std_error: float  # of it, by episode
    n: int  # episodes that it rests on
    by_half: tuple[float, ...]
    linear: float  # the mean gain over the same halves by LIN
    linear_error: float  # its standard error
    apart: float  # LIN's gain less this one, in standard errors of the difference
    learnt: tuple[Learnt, ...]  # the policies that were judged there
    halves: tuple[BoolArray, ...]  # (n,) which episodes each was judged on

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
    return judged(question, learnt, [halves[k ^ 1] for k in range(len(halves))])


def judge_strictly(question: Question, recipe: Recipe, rng: np.random.Generator) -> Judgement:
    """Learn on one half, judge on the other."""
    half, held_out = _halved(question.n, rng)
    return judged(question, [learn(question, recipe, rng, half.astype(np.float64))], [held_out])


def judge_in_sample(question: Question, learnt: Learnt) -> Judgement:
    """The gain on the episodes that the policy was learnt from: likely more than it is."""
    return judged(question, [learnt], [np.ones(question.n, dtype=bool)])


def gain_of_shipped(
    judgement: Judgement, level: float, in_sample: Judgement | None = None
) -> tuple[float, float]:
    """An interval of the gain of the policy that is shipped, not of those that were judged for it.

    It allows for a model that is wrong by what LIN differs from it. A policy of the whole log has learnt from
    twice the episodes, and may gain as much as it seems to on its own, where it looks better than it is. That
    the ends hold is measured, not proved.

    Args:
      judgement: of the gate.
      level: of confidence, of both ends together.
      in_sample: of the policy on the episodes that it was learnt from, where `judgement` is of policies of
        halves.
    """
    t, gain, linear = judgement.quantile((1.0 + level) / 2), judgement.gain, judgement.linear
    upper = [gain + t * judgement.std_error, linear + t * judgement.linear_error]
    if in_sample is not None:
        upper.append(in_sample.gain + t * in_sample.std_error)
    return gain - t * judgement.std_error - ALLOWED * abs(linear - gain), max(upper)


def _halved(n: int, rng: np.random.Generator) -> tuple[BoolArray, BoolArray]:
    first = np.zeros(n, dtype=bool)
    first[rng.permutation(n)[: n // 2]] = True
    return first, ~first


def judged(question: Question, learnt: list[Learnt], halves: list[BoolArray]) -> Judgement:
    """The gain of each policy, on the (n,) episodes that it is judged on, and of all of them together."""
    sizes = (question.pair.n_states, question.pair.n_actions)
    counts = count_weighted(question.parts, np.array(halves, dtype=np.float64), sizes, question.workers)
    estimates = [
        _Estimates.of(question, counts.of(k), policy.pi, int(half.sum()))
        for k, (policy, half) in enumerate(zip(learnt, halves, strict=True))
    ]
    gains = np.array([estimate.new.value - estimate.old.value for estimate in estimates])
    by_episode = partial(_by_episode, estimates, question.gamma)
    influence, linear = np.split(per_episode(question.parts, by_episode, question.workers), 2)  # (halves, n)
    first_order = np.array([terms[half].mean() for terms, half in zip(linear, halves, strict=True)])
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
    """The standard error of the mean over the halves, from the influences of episodes, (halves, n)."""
    total = np.zeros(influence.shape[1])
    for on_half, half in zip(influence, halves, strict=True):
        # Each half's gain is the mean of its own episodes' influences, and weighs as much as any other's.
        total[half] += (on_half[half] - on_half[half].mean()) / (half.sum() * len(halves))
    judging = int(np.any(halves, axis=0).sum())
    return float(np.sqrt(np.square(total).sum() * judging / max(judging - 1, 1)))


def _in_standard_errors(a: float, b: float, error: float) -> float:
    """The difference of two estimates; 0 where it is rounding."""
    if abs(a - b) <= ROUNDING * max(abs(a), abs(b), error):
        return 0.0
    return (a - b) / error if error else math.copysign(math.inf, a - b)


@dataclass(frozen=True, eq=False)
class _Estimates:
    """The estimates on a half: the direct method for a policy and for pi_b, and LIN for the policy."""

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
    for estimate in estimates:
        assert estimate.new.influence is not None, "fitted models have one"
        assert estimate.old.influence is not None
        influences.append(estimate.new.influence(block) - estimate.old.influence(block))
        terms.append(sum(group.plain(gamma) for group in estimate.linear.terms(block)) - block.returns(gamma))
    return np.stack([*influences, *terms])
