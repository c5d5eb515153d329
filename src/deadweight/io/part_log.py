"""From the row groups of a part to its log, cut on the borders of episodes, in the labels of the whole.

Columns of plain numbers without holes become a log almost as they are; a few vector operations check them.
Whatever is different, from text to a missing reward, goes through the same table and the same checks as a
log in memory, so that what is refused, and why, is the same too. An episode that goes on in the next row
group is put together in a small log of its own, so that all others stay where the decoder has left them.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.io.columns import as_labels, pa, pc, to_numpy
from deadweight.io.frames import Columns
from deadweight.io.parquet import ParquetFiles, Part, check_ids, scattered, wrong_footer
from deadweight.io.requirements import LARGEST_REWARD, SMALLEST, inner_flags, log_of
from deadweight.io.schema import FLAGS, LogProblem
from deadweight.io.table import LogTable
from deadweight.log.labels import positions
from deadweight.log.trajectories import TableRows, Trajectories
from deadweight.sums import kernel
from deadweight.sums.blocks import readable
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class CommonLabels:
    """The labels of all parts; `promised` where only the footers say so, and no row has been looked at."""

    states: Labels
    actions: Labels
    promised: bool = False

    @property
    def plain(self) -> bool:
        """Whether labels are indices already: whole numbers from 0, without a gap."""
        return _counts_up(self.states) and _counts_up(self.actions)


def _counts_up(labels: Labels) -> bool:
    return labels.dtype.kind in "iu" and bool(labels[0] == 0) and bool(labels[-1] == len(labels) - 1)


def part_table(files: ParquetFiles, table: Any, states: Labels | None) -> LogTable:
    """The rows of a part for the checks of a table in memory; `states` are those of all parts, if known."""
    names = {ours: files.names[ours] for ours in table.column_names}
    arrow = {theirs: table[ours] for ours, theirs in names.items()}
    return LogTable(Columns(arrow), names, states=states, mending=files.mending, is_part=True)


def in_common_labels(log: Trajectories, labels: CommonLabels, where: str) -> Trajectories:
    """The log with its states and actions as indices into the labels of all parts."""
    states = positions(labels.states, log.state_labels)
    actions = positions(labels.actions, log.action_labels)
    last = log._last_successor
    for what, codes, used in (
        ("state", states, np.concatenate([log.states, last[last >= 0]])),
        ("action", actions, log.actions),
    ):
        if (codes[used] < 0).any():
            raise wrong_footer(where, f"there are {what}s beyond those that the footers promise")
    return Trajectories._from_codes(
        states[log.states],
        actions[log.actions],
        log.rewards,
        log.offsets,
        state_labels=labels.states,
        action_labels=labels.actions,
        propensities=log.propensities,
        target_probs=log.target_probs,
        terminated=log.terminated,
        last_successor=np.where(last >= 0, states[last], UNKNOWN),
        has_next_states=log.has_next_states,
        behaviour_ids=log.behaviour_ids,
        durations=log.durations,
    )


def plain_log(table: Any, labels: CommonLabels, check: bool, sort: bool) -> Trajectories | None:
    """The log of plain columns; None where something needs a closer look.

    Args:
      table: one row for each step, whole episodes, columns by our names.
      labels: of all parts; whole numbers from 0.
      check: look at values as well, not only at the order of the rows.
      sort: rows may be in any order.
    """
    columns = {
        name: _plain(table[name], may_miss=name == "next_state")
        for name in table.column_names
        if name not in ("behaviour_id", *FLAGS)
    }
    makers: Labels | None = None
    if "behaviour_id" in table.column_names:
        makers, columns["behaviour_id"] = _coded(table["behaviour_id"])
    if any(column is None for column in columns.values()):
        return None
    rows: dict[str, Any] = columns
    offsets, order = _offsets(rows["episode"], rows["step"]), None
    if offsets is None and sort:
        order = np.lexsort((rows["step"], rows["episode"]))
        rows = {name: column[order] for name, column in rows.items()}
        offsets = _offsets(rows["episode"], rows["step"])
    if offsets is None:
        return None
    states, actions = _whole(rows["state"]), _whole(rows["action"])
    if states is None or actions is None:
        return None
    if check and not _fits(rows, states, actions, labels):
        return None
    last = offsets[1:] - 1
    terminated = _terminated(table, last if order is None else order[last])
    if terminated is None or (check and not _flags_fit(table, offsets, order)):
        return None
    successor = np.full(len(last), UNKNOWN, dtype=np.int64)
    if "next_state" in rows:
        following = _whole(rows["next_state"])
        if following is None or (check and not _agree(following, states, last, len(labels.states))):
            return None
        successor = np.where(terminated, UNKNOWN, following[last])
    maker = rows["behaviour_id"][offsets[:-1]] if makers is not None else None
    if maker is not None and (rows["behaviour_id"] != np.repeat(maker, np.diff(offsets))).any():
        return None
    return Trajectories._from_codes(
        states,
        actions,
        rows["reward"].astype(np.float64, copy=False),
        offsets,
        state_labels=labels.states,
        action_labels=labels.actions,
        propensities=_probabilities(rows, "behaviour_prob"),
        target_probs=_probabilities(rows, "target_prob"),
        terminated=terminated,
        last_successor=successor,
        has_next_states="next_state" in rows,
        behaviour_ids=None if makers is None else makers[maker],
        durations=rows["duration"].astype(np.float64, copy=False) if "duration" in rows else None,
    )


def _plain(column: Any, may_miss: bool) -> AnyArray | None:
    """A column of numbers or flags as numpy, without a copy where it lies in one piece; None otherwise."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return None
    if column.null_count:
        if not (may_miss and pa.types.is_signed_integer(kind)):
            return None
        column = pc.fill_null(column, UNKNOWN)
    if column.num_chunks == 1:
        values: AnyArray = column.chunk(0).to_numpy(zero_copy_only=False)
        return values
    return np.asarray(column.to_numpy())


def _coded(column: Any) -> tuple[Labels | None, AnyArray | None]:
    """The labels of whole numbers or text without holes, and codes of the rows; None of anything else."""
    kind = column.type
    simple = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if column.null_count or not simple:
        return None, None
    coded = pa.concat_arrays(column.chunks).dictionary_encode()
    return as_labels(coded.dictionary.to_pylist()), coded.indices.to_numpy()


def _offsets(episode: AnyArray, step: AnyArray) -> IntArray | None:
    """First rows of the episodes, then the number of rows; None where rows are not in order."""
    rows = len(episode)
    simple = all(column.dtype == np.int64 and readable(column) for column in (episode, step))
    if kernel.KERNEL is not None and rows and simple:
        borders = np.empty(rows, dtype=np.int64)
        count = kernel.KERNEL.borders(episode, step, borders)
        return None if count < 0 else np.append(borders[:count], rows)
    last = np.flatnonzero(episode[1:] != episode[:-1])
    following = step[1:] > step[:-1]
    following[last] = episode[last + 1] > episode[last]
    if not following.all():
        return None
    return np.concatenate([[0], last + 1, [rows]])


def _whole(column: AnyArray) -> IntArray | None:
    return column.astype(np.int64, copy=False) if column.dtype.kind in "iu" else None


def _fits(rows: Mapping[str, AnyArray], states: IntArray, actions: IntArray, labels: CommonLabels) -> bool:
    """Whether labels are in range, rewards finite and probabilities in (0, 1]; else the checks will say."""
    if not (rows["episode"].dtype.kind in "iu" and rows["step"].dtype.kind in "iu"):
        return False
    if not _plausible(states, actions, rows["reward"], len(labels.states), len(labels.actions)):
        return False
    for name, lowest in (("behaviour_prob", SMALLEST), ("target_prob", 0.0)):
        if name in rows and not (float(rows[name].min()) >= lowest and 0 < float(rows[name].max()) <= 1):
            return False
    return "duration" not in rows or bool(rows["duration"].min() > 0 and np.isfinite(rows["duration"].max()))


def _plausible(states: IntArray, actions: IntArray, rewards: AnyArray, n_states: int, n_actions: int) -> bool:
    """Whether all codes are in range and all rewards numbers that are not too large."""
    simple = rewards.dtype == np.float64 and all(map(readable, (states, actions, rewards)))
    if kernel.KERNEL is not None and simple:
        return bool(kernel.KERNEL.plausible(states, actions, rewards, n_states, n_actions, LARGEST_REWARD))
    # Seen as unsigned, a negative number is a very large one: one look for both ends.
    for codes, known in ((states, n_states), (actions, n_actions)):
        if codes.view(np.uint64).max() >= known:
            return False
    # As Python's numbers: numpy would bring the bound into the column's precision, where it is infinite.
    # Not so either if there is a NaN.
    return max(-float(rewards.min()), float(rewards.max())) <= LARGEST_REWARD


def _terminated(table: Any, last: IntArray) -> BoolArray | None:
    """Whether episodes ended by themselves, of their last rows in the table; None where flags are no flags.

    Only these rows are unpacked: flags are bits there, and bytes here.
    """
    flags = [name for name in FLAGS if name in table.column_names]
    if any(table[name].null_count or not pa.types.is_boolean(table[name].type) for name in flags):
        return None
    if not flags:
        return np.ones(len(last), dtype=bool)
    flag: BoolArray = np.asarray(table[flags[0]].take(pa.array(last)).to_numpy())
    return flag if flags[0] == "terminated" else ~flag


def _flags_fit(table: Any, offsets: IntArray, order: IntArray | None) -> bool:
    """Whether no flag is set within an episode, but for those that are set in all of its rows."""
    last = offsets[1:] - 1 if order is None else order[offsets[1:] - 1]
    for name in FLAGS:
        if name not in table.column_names:
            continue
        column = table[name]
        if pc.sum(column).as_py() == pc.sum(column.take(pa.array(last))).as_py():  # bits, counted as bits
            continue
        flags = np.asarray(column.to_numpy())
        if inner_flags(flags if order is None else flags[order], offsets).any():
            return False
    return True


def _agree(following: IntArray, states: IntArray, last: IntArray, known: int) -> bool:
    """Whether next_state is a state, and the next row's one wherever it is known and the episode goes on."""
    if following.min() < UNKNOWN or following.max() >= known:
        return False
    wrong = following[:-1] != states[1:]
    wrong &= following[:-1] != UNKNOWN
    wrong[last[:-1]] = False
    return not wrong.any()


def _probabilities(rows: Mapping[str, AnyArray], name: str) -> FloatArray | None:
    return np.minimum(rows[name].astype(np.float64, copy=False), 1.0) if name in rows else None


@dataclass(frozen=True, eq=False)
class Fetched:
    """The rows of a part as decoded, not yet looked at."""

    table: Any
    tail: Any  # the rest of its last episode; None if there is none

    @property
    def rows(self) -> Any:
        """The table with the tail below."""
        return self.table if self.tail is None else pa.concat_tables([self.table, self.tail])


def fetch(files: ParquetFiles, part: Part) -> Fetched:
    """The rows of a part."""
    return Fetched(files.table(part), files.tail(part))


def logs_of(
    fetched: Fetched, files: ParquetFiles, part: Part, labels: CommonLabels, check: bool
) -> list[Trajectories]:
    """The logs of a part; `check` its values as well, not only the order of its rows."""
    check_ids(fetched.table, part, place(files, part))
    if labels.plain:
        # A reward that is no number is passed over unless values are looked at, and may have to be mended.
        pieces = _plain_pieces(fetched, part, labels, check or files.mending.of_rewards)
        if pieces is not None:
            return pieces
    return [_checked_log(files, part, labels, fetched)]


def whole_part(files: ParquetFiles, part: Part, labels: CommonLabels | None) -> Trajectories:
    """A part as one log, after all checks; in labels of its own where those of all parts are not known."""
    fetched = fetch(files, part)
    check_ids(fetched.table, part, place(files, part))
    return _checked_log(files, part, labels, fetched)


def _checked_log(
    files: ParquetFiles, part: Part, labels: CommonLabels | None, fetched: Fetched
) -> Trajectories:
    rows, where = own_rows(files, part, fetched), place(files, part)
    try:
        log = log_of(part_table(files, rows, None if labels is None else labels.states))
    except LogProblem as error:
        problem = f"{error.problem} [In {where}; rows count from its first.]"
        raise LogProblem(error.code, problem, fix=error.fix) from None
    return log if labels is None else in_common_labels(log, labels, where)


def only_part(files: ParquetFiles, part: Part) -> Trajectories:
    """The log of a single part, which knows the rows of its files that its steps came from."""
    log = copy(whole_part(files, part, None))
    # Row groups have been put in the order of their episodes; users count as in the files.
    rows = files.rows_of(part)
    log._table_rows = TableRows.whole(rows[log.rows], len(rows), log.n_episodes)
    return log


def _plain_pieces(
    fetched: Fetched, part: Part, labels: CommonLabels, check: bool
) -> list[Trajectories] | None:
    """The part's own episodes, and the one with a tail; None where rows or columns need a closer look."""
    table, tail = fetched.table, fetched.tail
    episode = table["episode"]
    if episode.null_count or not pa.types.is_integer(episode.type):
        return None
    ids = episode.chunk(0).to_numpy() if episode.num_chunks == 1 else episode.to_numpy()
    lo = 0 if part.after is None else int(np.searchsorted(ids, part.after, side="right"))
    hi = len(ids) if tail is None else int(np.searchsorted(ids, part.last))
    # The search is right if rows ascend; that they do, also at the cuts, is seen here and in `plain_log`.
    if not (ids[:lo] == part.after).all() or (hi > lo and tail is not None and ids[hi - 1] >= part.last):
        return None
    if hi > lo > 0 and ids[lo] <= part.after:
        return None
    whole = part.after is None and tail is None
    tables = [table.slice(lo, hi - lo)] if hi > lo else []
    if tail is not None:
        tables.append(pa.concat_tables([table.slice(hi), tail]))
    pieces = []
    for rows in tables:
        log = plain_log(rows, labels, check, sort=whole)
        if log is None:
            return None
        pieces.append(log)
    return pieces if tail is None or pieces[-1].n_episodes == 1 else None


def own_rows(files: ParquetFiles, part: Part, fetched: Fetched) -> Any:
    """The rows of a part without the rest of the episode that the part before has."""
    if part.after is None:
        return fetched.rows
    table = fetched.rows
    episode = table["episode"]
    before = to_numpy(pc.equal(episode, pa.scalar(part.after, episode.type)), False)
    number = int(np.count_nonzero(before))
    if not before[:number].all():
        # The part before has read on only as far as its last episode went on without a break.
        raise scattered(place(files, part))
    return table.slice(number)


def place(files: ParquetFiles, part: Part) -> str:
    """Which row groups of which files these are."""
    places = [
        f"{files.paths[file]!r}, row group {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")
        for file, numbers in part.groups
    ]
    return places[0] + (f" to {places[-1]}" if len(places) > 1 else "")
