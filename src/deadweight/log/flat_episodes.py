"""Episodes as flat columns and offsets: what a log holds, and what can be read off it.

Episode i is the rows `offsets[i]:offsets[i + 1]` of every column, so episodes of any length stand side by
side without padding. `Trajectories` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import frozen, sums_by
from deadweight.log.checks import Cuts, limit_by_flags
from deadweight.log.durations import Discounting
from deadweight.log.features import Features
from deadweight.log.labelled import Labelled
from deadweight.log.labels import plain
from deadweight.log.table_rows import TableRows
from deadweight.typing import BoolArray, FloatArray, IntArray, Labels

NO_POLICIES: Mapping[str, Any] = MappingProxyType({})


class FlatEpisodes(Labelled):
    """The columns of a log, one entry for each step or an episode, and views of them."""

    states: IntArray
    actions: IntArray
    rewards: FloatArray
    offsets: IntArray
    propensities: FloatArray | None
    target_probs: FloatArray | None
    durations: FloatArray | None
    terminated: BoolArray
    behaviour_ids: Labels | None
    time_limit: int | None
    has_states: bool
    has_next_states: bool
    discounting: Discounting | None = None
    _policies: Mapping[str, Any] = NO_POLICIES  # in the order of the steps
    _table_rows: TableRows | None = None
    _last_successor: IntArray
    _described: Features | None

    # --- sizes ---------------------------------------------------------------------------------------

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return len(self.offsets) - 1

    @property
    def n_steps(self) -> int:
        """Number of steps in all episodes."""
        return int(self.offsets[-1])

    @cached_property
    def lengths(self) -> IntArray:
        """(n,) steps of each episode."""
        lengths: IntArray = frozen(np.diff(self.offsets))
        return lengths

    @property
    def horizon(self) -> int:
        """Steps of the longest episode."""
        return int(self.lengths.max())

    @property
    def cuts(self) -> Cuts:
        """Where the episodes stop that were cut."""
        return Cuts.of(self.lengths[~self.terminated])

    def limit_by_flags(self, said: int | None, tell: Callable[[str], None]) -> int | None:
        """The time limit if the log has flags; see `deadweight.log.checks.limit_by_flags`."""
        return limit_by_flags(said, self.cuts, self.horizon, tell)

    @property
    def n_cut_early(self) -> int:
        """Number of episodes that were cut elsewhere than at the time limit."""
        cut: BoolArray = ~self.terminated
        if self.time_limit is not None:
            cut = cut & (self.lengths != self.time_limit)
        return int(np.count_nonzero(cut))

    # --- the table it was read from --------------------------------------------------------------------

    @property
    def rows(self) -> IntArray | None:
        """(steps,) the row of the user's table, from 0, that each step came from; None without a table.

        `read` sorts rows by episode and step, and this is the way back: `column[log.rows]` is a column of the
        table in the order of `log.actions` and all other arrays of the log. What is given row by row, as a
        `RowPolicy`, a frame or an array of probabilities, `GivenQ` or one flag for each step, is in the order
        of the table. Several files count on from one to the next, in the order of their names.
        """
        return None if self._table_rows is None else self._table_rows.rows

    @property
    def order_of_rows(self) -> TableRows:
        """What is given row by row is matched by: rows of the table; without one, the log's own."""
        return self._table_rows or TableRows.whole(np.arange(self.n_steps), self.n_steps, self.n_episodes)

    @property
    def policies(self) -> Mapping[str, Any]:
        """Policies that came with a table row by row, in its order: "pi_e", "pi_b" -> `RowPolicy`."""
        return {name: one.in_table_order() for name, one in self._policies.items()}

    # --- features -------------------------------------------------------------------------------------

    @property
    def features(self) -> FloatArray | None:
        """(steps, d) what describes the state of each step; None where the log has labels only."""
        return None if self._described is None else self._described.values

    @property
    def feature_names(self) -> tuple[str, ...]:
        """(d,) names of the features."""
        return () if self._described is None else self._described.names

    @property
    def last_features(self) -> FloatArray | None:
        """(n, d) what follows each episode's last step; NaN where it is unknown."""
        return None if self._described is None else self._described.last

    # --- views ---------------------------------------------------------------------------------------

    @cached_property
    def next_states(self) -> IntArray:
        """(steps,) the state after each step; -1 where the task ended or the log does not say."""
        following: IntArray = np.empty(self.n_steps, dtype=np.int64)
        following[:-1] = self.states[1:]
        following[self.offsets[1:] - 1] = self._last_successor
        following.flags.writeable = False
        return following

    @property
    def ends(self) -> tuple[IntArray, BoolArray]:
        """(n,) each episode's last successor, -1 where there is none, and whether it terminated."""
        return self._last_successor, self.terminated

    @cached_property
    def start_states(self) -> IntArray:
        """(n,) first state of each episode."""
        starts: IntArray = frozen(self.states[self.offsets[:-1]])
        return starts

    @cached_property
    def visits(self) -> FloatArray:
        """(S,) number of steps in each state."""
        visits: FloatArray = frozen(sums_by(self.states, size=len(self.state_labels)))
        return visits

    def where(self, row: int) -> str:
        """'episode i, step t (row k)' for messages, with the row of the table where there is one."""
        episode = int(np.searchsorted(self.offsets, row, side="right")) - 1
        of_table = row if self.rows is None else int(self.rows[row])
        return f"episode {episode}, step {row - int(self.offsets[episode])} (row {of_table})"

    def __iter__(self) -> Iterator[list[tuple[Any, Any, float]]]:
        """Episodes as lists of (state label, action label, reward); without labels, of (features, ...)."""
        for lo, hi in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield [
                (self._state_of(row), plain(self.action_labels[self.actions[row]]), float(self.rewards[row]))
                for row in range(lo, hi)
            ]

    def _state_of(self, row: int) -> Any:
        if self.has_states or self._described is None:
            return plain(self.state_labels[self.states[row]])
        return tuple(self._described.values[row].tolist())

    def __len__(self) -> int:
        return self.n_episodes

    def __repr__(self) -> str:
        cut = int((~self.terminated).sum())
        return (
            f"Trajectories({self.n_episodes:,} episodes, {self.n_steps:,} steps, longest {self.horizon:,}, "
            f"{self._states_in_words()}, {self.n_actions:,} actions"
            + (f", {cut:,} truncated" if cut else "")
            + ("" if self.propensities is None else ", propensities logged")
            + ")"
        )

    def _states_in_words(self) -> str:
        width = len(self.feature_names)
        counted = [f"{self.n_states:,} states"] if self.has_states else []
        counted += [f"{width:,} feature{'s' if width > 1 else ''}"] if width else []
        return ", ".join(counted) or "states by row"
