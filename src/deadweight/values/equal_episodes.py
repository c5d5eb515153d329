r"""Are there more equal episodes in a log than there can be by chance?

Exports that were joined twice, or rows that were sampled with replacement, leave exact copies of episodes:
equal states, actions and rewards, step by step. Two episodes are equal by chance with the probability

.. math:: p_2 = \sum_\tau p(\tau)^2, \qquad \text{so that} \quad \binom n2 p_2

equal pairs are expected, which a recursion over the counted model gives: squares of first states, of the old
policy and of moves. Where rewards are real numbers they are hardly ever equal, and those of a state and
action tell how often; others (integers, few values) are taken to be the same whenever state and action are,
so that nothing is called a copy that need not be one. Episodes of one step are left alone: they say too
little.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from deadweight.log.interface import Log
from deadweight.sums.blocks import Block, Folds
from deadweight.sums.reduction import MIXERS, ODD, mixed
from deadweight.sums.summaries import Added, Pieces
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.tools.thresholds import COPIED
from deadweight.typing import FloatArray, IntArray
from deadweight.values.model import Counts

# Rewards are real numbers where more than this share of those that are not 0 are different, and not all are
# integers.
REAL = 0.25
# So many steps, the first of the log, show what rewards are like.
SAMPLED = 1 << 16
# Of so many episodes or more only a share is compared, chosen by content: copies stay together.
MOST_COMPARED = 1 << 22
# What is left of the probability that two episodes are still equal, when nobody needs to look further.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class Copies:
    """Equal episodes, beside how many there would be by chance."""

    pairs: int  # of equal episodes
    expected: float  # how many there would be by chance
    deviation: float  # and their standard deviation
    real: bool = False  # whether rewards are real numbers, which are hardly ever equal

    @property
    def found(self) -> bool:
        """Whether there are copies."""
        from scipy.special import gammainc, ndtr

        beyond = self.pairs > self.expected + COPIED * self.deviation
        return bool(beyond and gammainc(self.pairs, self.expected) < ndtr(-COPIED))


@dataclass(frozen=True, eq=False)
class Contents(Added):
    """Numbers that stand for contents of episodes, whether anything was paid, and first steps; merges."""

    marks: Pieces
    sample: Pieces


class EpisodeContents:
    """The sums behind `Copies`."""

    key: Hashable = "episode-contents"

    def __init__(self, log: Log, n_actions: int) -> None:
        self.n_actions, self.first = n_actions, Folds.of(1, log.sizes).first
        self.n, self.limit = log.n_episodes, log.known_limit or log.horizon
        self.share = min(1.0, MOST_COMPARED / self.n)
        self.sampled = max(1, SAMPLED // log.horizon)

    def summarise(self, block: Block) -> Contents:
        """Of a block."""
        marks = marks_of(block, self.n_actions)
        paid = (block.paid != 0.0).any(axis=1)
        places = self.first[block.part] + block.first + block.rows
        sampled = (places < self.sampled)[:, None] & (np.arange(block.horizon) < block.lengths[:, None])
        steps = block.pairs(self.n_actions)[sampled], block.paid[sampled]
        kept = block.lengths > 1
        if self.share < 1.0:
            kept &= marks < np.uint64(self.share * 2.0**64)
        return Contents(Pieces(((marks[kept], paid[kept]),)), Pieces((steps,)))

    def finish(self, contents: Contents, counts: Counts, habits: bool) -> Copies:
        """What is to be made of it.

        Args:
          contents: of the whole log.
          counts: of its transitions.
          habits: whether the log was made by policies that differ in what they do in a state: whoever does
            one thing may always do it, and nothing is to be told from equal actions.
        """
        marks, paid = (np.concatenate(columns) for columns in zip(*contents.marks.items, strict=True))
        steps, rewards = (np.concatenate(columns) for columns in zip(*contents.sample.items, strict=True))
        real, size = are_real(rewards), counts.n_states * counts.n_actions
        # Whoever earned nothing may do so again; of real numbers it takes one that is not 0.
        _, times = np.unique(marks[paid] if real else marks, return_counts=True)
        pairs = int((times * (times - 1) // 2).sum())
        if pairs == 0:
            return Copies(0, 0.0, 0.0)
        alike = equal_rewards(steps, rewards, size)
        two, three = (chance_of_equals(counts, alike, power, self.limit, habits) for power in (2, 3))
        if real:
            nothing = equal_rewards(steps, np.where(rewards == 0.0, 0.0, np.arange(len(rewards)) + 0.5), size)
            two -= chance_of_equals(counts, nothing, 2, self.limit, habits)
            two, three = max(two, 0.0), max(two, 0.0) ** 2
        expected = self.share * self.n * (self.n - 1) / 2 * two
        variance = expected + (self.share * self.n) ** 3 * max(three - two * two, 0.0)
        return Copies(pairs, expected, math.sqrt(variance), real)


def marks_of(block: Block, n_actions: int) -> IntArray:
    """(m,) numbers of 64 bits that are equal where states, actions and rewards are."""
    (_, of_pair), (_, of_step) = MIXERS
    rewards = np.ascontiguousarray(block.paid + 0.0)  # one zero, not two
    marks = rewards.view(np.uint64) * ODD
    marks ^= (block.pairs(n_actions) + 1).astype(np.uint64) * of_pair
    marks += (np.arange(block.horizon, dtype=np.uint64) + np.uint64(1)) * of_step
    marks = mixed(marks)
    if block.alive is not None:
        marks[~block.alive] = 0
    total: IntArray = np.add.reduce(marks, axis=1)
    return total


def are_real(rewards: FloatArray) -> bool:
    """Whether rewards are real numbers: not all integers, and hardly one of them twice."""
    paid = rewards[rewards != 0.0]
    return bool((paid != np.rint(paid)).any()) and len(np.unique(paid)) > REAL * paid.size


def equal_rewards(pairs: IntArray, rewards: FloatArray, size: int) -> FloatArray:
    """(size,) the chance that two visits of a pair of state and action bring the same, as some steps show it.

    One, where rewards are no real numbers, and where nobody has seen two visits.
    """
    chance: FloatArray = np.ones(size)
    if not are_real(rewards):
        return chance
    order = np.lexsort((rewards, pairs))
    pairs, rewards = pairs[order], rewards[order]
    first = np.flatnonzero(np.append(True, (np.diff(pairs) != 0) | (np.diff(rewards) != 0)))
    times = np.diff(np.append(first, len(pairs))).astype(np.float64)
    equal, visits = sums_by(pairs[first], times * (times - 1), size), sums_by(pairs, None, size)
    several = visits > 1
    chance[several] = equal[several] / (visits * (visits - 1))[several]
    return chance


def chance_of_equals(counts: Counts, alike: FloatArray, power: int, limit: int, habits: bool) -> float:
    """The probability that so many episodes of two steps or more are equal, in the counted model.

    `alike` is that of rewards, and `habits` as in `EpisodeContents.finish`.

    Powers of probabilities are estimated without bias, by n (n - 1) ... / (N (N - 1) ...).
    """
    visits = counts.visits()
    pair, after = np.divmod(counts.transitions.keys, counts.n_states + 1)
    moved, state = counts.transitions.sums[0], pair // counts.n_actions
    leaving = sums_by(pair, moved, visits.size)
    told = 1 if habits else power
    acts = divide(_falling(visits, told), _falling(visits.sum(axis=1), told)[:, None])
    acts *= alike.reshape(acts.shape)
    goes = acts.ravel()[pair] * divide(_falling(moved, power), _falling(leaving, power)[pair])
    starts = counts.starts.sums[0]
    mass: FloatArray = np.zeros(counts.n_states)
    mass[counts.starts.keys] = divide(_falling(starts, power), _falling(starts.sum(), power))
    equal = 0.0
    for step in range(1, limit):
        following = sums_by(after, mass[state] * goes, counts.n_states + 1)
        mass = following[:-1]
        equal += float(following[-1]) if step > 1 else 0.0
        if mass.sum() < NEGLIGIBLE:
            break
    # Where the last step of all leads is no part of an episode.
    return equal + float(mass @ acts.sum(axis=1)) if limit > 1 else 0.0


def _falling(n: FloatArray, power: int) -> FloatArray:
    """n (n - 1) ..., so many factors, none below zero."""
    product = np.ones_like(n)
    for k in range(power):
        product = product * np.maximum(n - k, 0.0)
    return product
