"""What a log says of its old policies: how much each has made of it, and whether they met the same world.

Estimates from several old policies together take them to have met one world: the same starts, and the same
consequences of the same actions. Both are compared with simple tests, between the episodes of each old
policy and all others. A test that finds nothing is no proof. All of it is made of sums over episodes, in two
passes: what was earned from each state on, and how far each step is from what such steps bring.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from deadweight.log.interface import Log, LogLike, as_log
from deadweight.log.labels import plain
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Extent, KeyedSums
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.tools.thresholds import CONFOUNDED, DRIFTED
from deadweight.typing import FloatArray, IntArray, Labels

# Deviations below this share of the largest number are rounding.
ROUNDING = 1e-7


# What was found of a log, which several people ask for, as long as the log is there.
_KNOWN: WeakKeyDictionary[Log, list[OldPolicy]] = WeakKeyDictionary()


@dataclass(frozen=True)
class OldPolicy:
    """One old policy's part of a log.

    Steps bring their reward, and what the next state is usually worth.
    """

    id: Any  # its label
    episodes: int  # that it made
    share: float  # of all episodes
    mean_return: float  # of its episodes
    starts_z: float  # how much better its episodes start than the others, in standard errors
    steps_z: float  # how much more its steps bring than others of the same states and actions, likewise

    @property
    def drifted(self) -> bool:
        """Whether it met another world than the others did."""
        return max(abs(self.starts_z), abs(self.steps_z)) > DRIFTED

    @property
    def drift(self) -> str:
        """What is different, in words."""
        if abs(self.starts_z) > abs(self.steps_z):
            return f"its episodes start in other states ({self.starts_z:+.1f} standard errors)"
        return (
            f"the same actions in the same states bring {'more' if self.steps_z > 0 else 'less'} "
            f"({self.steps_z:+.1f} standard errors)"
        )


@dataclass(frozen=True)
class Part:
    """An old policy's part of a log: its episodes, the sum of their returns, and the place of the first."""

    episodes: int
    returns: float
    first: tuple[int, int]

    def merge(self, other: Part) -> Part:
        """Both together."""
        return Part(
            self.episodes + other.episodes, self.returns + other.returns, min(self.first, other.first)
        )


@dataclass(frozen=True, eq=False)
class Makers:
    """Which old policies made some episodes, by their ids; merges."""

    parts: dict[Any, Part]

    @classmethod
    def of(cls, block: Block) -> Makers:
        """Those of a block, whose log must have ids."""
        places = (block.first + block.rows).tolist()
        totals = zip(ids_of(block), block.returns(1.0).tolist(), places, strict=True)
        return cls({})._with((label, Part(1, total, (block.part, at))) for label, total, at in totals)

    def merge(self, other: Makers) -> Makers:
        """Those of both."""
        return self._with(other.parts.items())

    def _with(self, others: Iterable[tuple[Any, Part]]) -> Makers:
        parts = dict(self.parts)
        for label, part in others:
            parts[label] = parts[label].merge(part) if label in parts else part
        return Makers(parts)

    @property
    def ids(self) -> tuple[Any, ...]:
        """Their labels, in the order in which they occur in the log."""
        return tuple(sorted(self.parts, key=lambda label: self.parts[label].first))

    @property
    def shares(self) -> FloatArray:
        """(J,) of the episodes, in that order."""
        episodes = np.array([self.parts[label].episodes for label in self.ids])
        return np.asarray(episodes / episodes.sum())


def ids_of(block: Block) -> Labels:
    """(m,) the id of each episode's old policy."""
    assert block.log.behaviour_ids is not None
    return block.log.behaviour_ids[block.rows]


def members_of(ids: Labels, known: tuple[Any, ...]) -> IntArray:
    """(m,) the number of each id among those that are known."""
    place = {label: j for j, label in enumerate(known)}
    return np.array([place[label] for label in ids], dtype=np.int64)


def old_policies(log: LogLike) -> list[OldPolicy]:
    """The old policies of a log with `behaviour_ids`, in the order in which they occur.

    >>> from deadweight.log.trajectories import Trajectories
    >>> log = Trajectories([0, 0], [0, 1], [1.0, 0.0], [0, 1, 2], behaviour_ids=["v1", "v2"])
    >>> [(policy.id, policy.share, policy.mean_return) for policy in old_policies(log)]
    [('v1', 0.5, 1.0), ('v2', 0.5, 0.0)]
    """
    whole = as_log(log)
    if not whole.has_behaviour_ids:
        return []
    if whole not in _KNOWN:
        _KNOWN[whole] = _compare(whole)
    return _KNOWN[whole]


def have_mixed_worlds(log: Log) -> bool:
    """Whether the old policies of a log worked under different conditions."""
    return any(policy.drifted for policy in old_policies(log))


def _compare(log: Log) -> list[OldPolicy]:
    # Where no state is ever visited again, nothing can be told of the worlds.
    again = log.has_states and log.n_states < log.n_steps
    makers, *earned = reduce_log(log, partial(_earned, again))
    z = np.zeros((2, len(makers.ids)))
    if again:
        total = np.zeros((2, log.n_states))
        total[:, earned[0].keys] = earned[0].sums
        *sums, extent = reduce_log(log, partial(_compared, makers.ids, divide(*total)))
        z = np.stack([_apart(each, len(makers.ids), extent) for each in sums])
    policies = []
    for label, share, starts, steps in zip(makers.ids, makers.shares, *z, strict=True):
        part = makers.parts[label]
        mean = part.returns / part.episodes
        policies.append(
            OldPolicy(plain(label), part.episodes, float(share), mean, float(starts), float(steps))
        )
    return policies


def _earned(again: bool, block: Block) -> list[Any]:
    """Who made the episodes and, where states occur again, what was earned from each of them on."""
    if not again:
        return [Makers.of(block)]
    to_go = np.flip(np.cumsum(np.flip(block.rewards, axis=1), axis=1), axis=1)
    return [Makers.of(block), KeyedSums.of(block.flat(block.states), block.flat(to_go), 1.0)]


def _compared(ids: tuple[Any, ...], worth: FloatArray, block: Block) -> list[Any]:
    """What episodes start with, and what steps bring, by group and old policy."""
    member = members_of(ids_of(block), ids)
    start = worth[block.states[:, 0]]
    following = block.next_states
    brought = block.flat(block.rewards + np.where(following >= 0, worth[following], 0.0))
    pairs = block.flat(block.pairs(block.log.n_actions))
    made_by = block.flat(np.repeat(member[:, None], block.horizon, axis=1))
    return [
        KeyedSums.of(member, 1.0, start, np.square(start)),
        KeyedSums.of(pairs * len(ids) + made_by, 1.0, brought, np.square(brought)),
        Extent.of(np.append(brought, start)),
    ]


def _apart(sums: KeyedSums, count: int, extent: Extent) -> FloatArray:
    """(count,) z of the sum of each member's deviations from the means of their groups.

    Within a group of n values with variance v, of which k are a member's, the sum of those k deviates with
    variance k (n - k) / n * v, as if they had been drawn from the n.
    """
    groups, member = np.divmod(sums.keys, count)
    _, group = np.unique(groups, return_inverse=True)
    number, total, squares = sums.sums
    n = sums_by(group, number)
    mean = sums_by(group, total) / n
    spread = sums_by(group, squares) - n * np.square(mean)
    rounding = ROUNDING * max(abs(extent.lowest), abs(extent.highest))
    spread[spread <= n * rounding**2] = 0.0
    variance = spread / np.maximum(n - 1, 1)
    beyond = np.where(variance[group] > 0, total - number * mean[group], 0.0)
    noise = number * (n[group] - number) / n[group] * variance[group]
    error = np.sqrt(sums_by(member, noise, count))
    return divide(sums_by(member, beyond, count), error)


# --- Slopes of what followed by the logged probability, for `answers.trust` and `io.doctor_policies`

# A tail below this is no number any more; the z of it is 38.
SMALLEST = 1e-300
# Degrees of freedom of a slope that a single episode carries: it says next to nothing.
LEAST_DEGREES = 0.1
# Logarithms of probabilities that spread less than this within a state and action are the same number, with
# the digits that somebody has kept.
SAME = 1e-3


@dataclass(frozen=True)
class Confounding:
    """The slope of the model's errors by the logged probabilities, of the action for which it is clearest."""

    z: float  # in standard errors, counted as if that action had been the only one

    @classmethod
    def of(cls, sums: FloatArray) -> Confounding:
        """From (5, A) sums over episodes of xd, x^2, and of the squares and the product of both."""
        from scipy.special import ndtri, stdtr

        both, squares, both_squared, product, squares_squared = sums[:, sums[1] > 0]
        slopes = both / squares
        variance = both_squared - 2 * slopes * product + np.square(slopes) * squares_squared
        sizes = np.abs(divide(both, np.sqrt(np.maximum(variance, 0.0))))
        degrees = np.maximum(np.square(squares) / squares_squared - 1.0, LEAST_DEGREES)
        tails = stdtr(degrees, -sizes) * len(sizes)
        if not tails.size:
            return cls(0.0)
        clearest = int(np.argmin(tails))
        size = -float(ndtri(np.clip(tails[clearest], SMALLEST, 0.5)))
        return cls(math.copysign(size, slopes[clearest]))

    @property
    def found(self) -> bool:
        """Whether what the old policy looked at tells what follows."""
        return abs(self.z) > CONFOUNDED

    @property
    def reason(self) -> str:
        """The finding in words."""
        return (
            "The old policy looked at something that the states leave out: where its logged probability of "
            f"the same action in the same state was higher, {'more' if self.z > 0 else 'less'} followed than "
            f"the model says ({self.z:+.0f} standard errors)."
        )


def slope_sums(
    keys: IntArray, x: FloatArray, errors: FloatArray, larger: FloatArray, n_actions: int
) -> FloatArray:
    """(5, A) the sums over episodes that `Confounding.of` takes.

    Args:
      keys: (steps,) episode times A plus action.
      x: (steps,) logarithms of logged probabilities, less their mean in the state and action.
      errors: (steps,) what followed, less what follows on average.
      larger: (steps,) n / (n - 1) for n such steps: an error is seen from a mean that it is part of.
      n_actions: A.
    """
    columns = np.stack([x * errors, np.square(x)])
    of_episode = KeyedSums.of(keys, *columns, *(columns * larger))
    both, squares, more, wider = of_episode.sums
    sums = both, squares, np.square(more), more * wider, np.square(wider)
    return np.stack([sums_by(of_episode.keys % n_actions, products, n_actions) for products in sums])
