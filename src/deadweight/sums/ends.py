r"""How episodes end where nobody says it: a time limit, read off the log itself.

Where a task is cut after T steps, many episodes have exactly that length, and what was done at their last
steps is followed by something wherever else it was done. Where a task ends by itself at its last steps, it
ends there every time. With the share of the steps at (s, a) that went on, those of the episodes of length T
left out,

.. math:: g(s, a) = \frac{\text{went on}}{\text{went on} + \text{ended} + 1}, \qquad
   \prod_{i: L_i = T} \left( 1 - g(s_{i,T-1}, a_{i,T-1}) \right)

is about the chance that all of them ended just there. A limit is inferred where T is frequent and that chance
is small. Counts merge, so that a log in memory and one in parts are read the same way.

And when rewards come: at the end of episodes of different lengths, or on the way. A reward that comes last
makes per-decision weights poor: each step has a normaliser of its own, and only the episodes that end there
have a reward in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deadweight.errors import OptionError
from deadweight.log.columns import checked_time_limit
from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import KeyedSums
from deadweight.tools.bumps import Bumps
from deadweight.typing import FloatArray

TimeLimit = int | Literal["infer"] | None
"""A time limit as a user gives it: its steps, that there is none, or to look."""

# A length is frequent if so many episodes, and such a share of them, have it.
FEWEST, SHARE = 5, 0.05
# A chance that is small enough to say that the task did not end there by itself.
BY_CHANCE = 0.01
# Groups of rows that are alike, where features describe the states.
CELLS = 50
# Steps of an episode of which the last two are its end.
LONG = 4


@dataclass(frozen=True, eq=False)
class Ends:
    """Counts of the ends of some episodes; they merge."""

    n: int  # episodes
    longest: int  # T, steps of the longest
    steps: KeyedSums  # by pair s * A + a: steps that went on, last steps
    at_limit: KeyedSums  # by pair: last steps of the episodes of length T
    open_at_limit: int  # episodes of length T that are known to be cut, and not among those

    @classmethod
    def of(cls, block: Block) -> Ends:
        """The counts of the episodes of a block."""
        pairs, last = block.pairs(block.log.n_actions), block.flat(block.last)
        # Open episodes that are known to be cut neither ended nor went on.
        known = block.log.terminated[block.rows]
        ended = block.flat(block.last & known[:, None])
        is_longest = block.lengths == block.horizon
        longest = pairs[known & is_longest, block.horizon - 1]
        return cls(
            block.n,
            block.horizon,
            KeyedSums.of(block.flat(pairs), (~last).astype(np.float64), ended.astype(np.float64)),
            KeyedSums.of(longest, 1.0),
            int(np.count_nonzero(is_longest & ~known)),
        )

    def merge(self, other: Ends) -> Ends:
        """The counts of the episodes of both."""
        if self.longest == other.longest:
            at_limit = self.at_limit.merge(other.at_limit)
            open_at_limit = self.open_at_limit + other.open_at_limit
        else:
            longer = max(self, other, key=lambda ends: ends.longest)
            at_limit, open_at_limit = longer.at_limit, longer.open_at_limit
        longest = max(self.longest, other.longest)
        return Ends(self.n + other.n, longest, self.steps.merge(other.steps), at_limit, open_at_limit)

    @property
    def n_at_limit(self) -> int:
        """Number of episodes as long as the longest."""
        return int(self.at_limit.sums[0].sum())

    @property
    def time_limit(self) -> int | None:
        """The limit that the log shows, or None."""
        if not is_frequent(self.n_at_limit, self.n):
            return None
        number = self.at_limit.sums[0]
        went_on, ended = self.steps.sums[:, np.searchsorted(self.steps.keys, self.at_limit.keys)]
        share = went_on / (went_on + (ended - number) + 1.0)
        chance = np.exp(number @ np.log1p(-share))
        return self.longest if chance <= BY_CHANCE else None


def is_frequent(number: int, n: int) -> bool:
    """Whether so many of n episodes are enough to look for a limit."""
    return number >= max(FEWEST, SHARE * n)


def count_ends(parts: Sequence[Trajectories]) -> Ends:
    """The ends of a log, in memory or stored."""
    ends: Ends = reduce_log(parts, _of_block)[0]
    return ends


def _of_block(block: Block) -> list[Ends]:
    return [Ends.of(block)]


def checked(time_limit: TimeLimit) -> TimeLimit:
    """The time limit as the user gives it, after a check."""
    if isinstance(time_limit, str) and time_limit != "infer":
        raise OptionError(
            f'time_limit is a whole number of steps, None or "infer"; found {time_limit!r}.',
            fix="Give the number of steps after which episodes were cut, or None if there is no such limit.",
        )
    return time_limit if time_limit is None or time_limit == "infer" else checked_time_limit(time_limit)


def inferred_limit(log: Trajectories) -> int | None:
    """The time limit that a log in memory shows, or None."""
    lengths = log.lengths
    if not is_frequent(int(np.count_nonzero(lengths == log.horizon)), log.n_episodes):
        return None
    if log.features is not None and not log.has_states:
        return _ends_by_cell(log.features, log).time_limit
    return count_ends([log]).time_limit


def _ends_by_cell(x: FloatArray, log: Trajectories) -> Ends:
    """The ends of a log with features: rows are grouped by the nearest of some centres, and by action.

    Nothing but how episodes end is read off such groups.
    """
    cell = Bumps.fitted(x, CELLS).nearest(x)
    pairs = cell * log.n_actions + log.actions
    last = log.offsets[1:] - 1
    went_on, ended = np.ones(log.n_steps), np.zeros(log.n_steps)
    went_on[last], ended[last] = 0.0, log.terminated
    at_limit = pairs[last[log.terminated & (log.lengths == log.horizon)]]
    steps = KeyedSums.of(pairs, went_on, ended)
    open_at_limit = int(np.count_nonzero(~log.terminated & (log.lengths == log.horizon)))
    return Ends(log.n_episodes, log.horizon, steps, KeyedSums.of(at_limit, 1.0), open_at_limit)


def assumption(limit: int, number: int, n: int) -> str:
    """The assumption of a limit, and how to say otherwise, in one line."""
    return (
        f"Nothing in the log says how its episodes end. {number:,} of {n:,} stop after exactly {limit:,} "
        "steps, in states from which the log goes on elsewhere: they are taken to be cut there by a time "
        "limit (time_limit=None, or --time-limit none, says that they ended; a column terminated says it for "
        "each)."
    )


@dataclass(frozen=True, eq=False)
class Timing:
    """When rewards come, and how long episodes are; merges."""

    early: bool  # some reward comes before the last step
    earlier: bool  # some comes before the last but one, or an episode is paid twice
    paid: bool  # there is any
    shortest: int  # steps of the shortest episode
    longest: int  # steps of the longest

    def merge(self, other: Timing) -> Timing:
        """The timing of the episodes of both."""
        return Timing(
            self.early or other.early,
            self.earlier or other.earlier,
            self.paid or other.paid,
            min(self.shortest, other.shortest),
            max(self.longest, other.longest),
        )

    @property
    def is_late(self) -> bool:
        """Whether all reward comes at the end of episodes of different lengths.

        The end is the last step, or, in longer episodes, the one before: many logs have a last row for the
        state in which an episode has ended, in which nothing is earned any more.
        """
        late = not self.early or (self.longest >= LONG and not self.earlier)
        return self.paid and late and self.shortest < self.longest


class RewardTiming:
    """A pass that sums up when rewards come."""

    key: Hashable = "reward-timing"

    def summarise(self, block: Block) -> Timing:
        """The timing of a block."""
        rewards, ends = block.log.rewards, block.log.offsets[block.rows + 1]
        first, last = int(block.log.offsets[block.rows[0]]), int(ends[-1])
        if last - first == block.lengths.sum():  # episodes that lie one after the other
            paid = int(np.count_nonzero(rewards[first:last]))
        else:
            paid = int(np.count_nonzero(block.rewards))  # padding has reward 0
        at_last = rewards[ends - 1] != 0.0
        before = (block.lengths > 1) & (rewards[np.maximum(ends - 2, 0)] != 0.0)
        return Timing(
            early=paid > int(at_last.sum()),
            earlier=paid > int((at_last ^ before).sum()),  # less is counted where an episode has both
            paid=paid > 0,
            shortest=int(block.lengths.min()),
            longest=int(block.lengths.max()),
        )
