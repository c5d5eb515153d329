"""From the row groups of a part to its log, cut on the borders of episodes, in the labels of the whole.

Columns of plain numbers without holes become a log almost as they are; a few vector operations check them.
Whatever is different, from text to a missing reward, goes through the same table and the same checks as a
log in memory, so that what is refused, and why, is the same too. An episode that goes on in the next row
group is put together in a small log of its own, so that all others stay where the decoder has left them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.io.columns import pa, pc, to_numpy
from deadweight.io.frames import Columns
from deadweight.io.parquet import ParquetFiles, Part, check_ids, scattered, wrong_footer
from deadweight.io.requirements import LARGEST_REWARD, SMALLEST, inner_flags, log_of
from deadweight.io.schema import FLAGS, LogProblem
from deadweight.io.table import LogTable
from deadweight.log.labels import objects, positions
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


class NotPlain(Exception):
    """Columns or rows that need a closer look: that of the checks of a table in memory."""


def plain_log(table: Any, labels: CommonLabels, check: bool, sort: bool) -> Trajectories:
    """The log of plain columns; raises `NotPlain`.

    Args:
      table: one row for each step, whole episodes, columns by our names.
      labels: of all parts; whole numbers from 0.
      check: look at values as well, not only at the order of the rows.
      sort: rows may be in any order.
    """
    rows, makers = _plain_rows(table)
    rows, offsets, order = _in_order(rows, sort)
    states, actions = _whole(rows["state"]), _whole(rows["action"])
    last = offsets[1:] - 1
    terminated = _terminated(table, last if order is None else order[last])
    if check and not (_fits(rows, states, actions, labels) and _flags_fit(table, offsets, order)):
        raise NotPlain
    successor = np.full(len(last), UNKNOWN, dtype=np.int64)
    if "next_state" in rows:
        following = _whole(rows["next_state"])
        if check and not _agree(following, states, last, len(labels.states)):
            raise NotPlain
        successor = np.where(terminated, UNKNOWN, following[last])
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
        behaviour_ids=None if makers is None else makers[_of_episodes(rows["behaviour_id"], offsets)],
        durations=rows["duration"].astype(np.float64, copy=False) if "duration" in rows else None,
    )


def _plain_rows(table: Any) -> tuple[dict[str, AnyArray], Labels | None]:
    """The columns as numbers, but for flags, and the labels that the codes of `behaviour_id` stand for."""
    columns = {
        name: _plain(table[name], may_miss=name == "next_state")
        for name in table.column_names
        if name not in ("behaviour_id", *FLAGS)
    }
    if "behaviour_id" not in table.column_names:
        return columns, None
    column = table["behaviour_id"]
    kind = column.type
    simple = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if column.null_count or not simple:
        raise NotPlain
    coded = pa.concat_arrays(column.chunks).dictionary_encode()
    return columns | {"behaviour_id": coded.indices.to_numpy()}, objects(coded.dictionary.to_pylist())


def _plain(column: Any, may_miss: bool) -> AnyArray:
    """A column of numbers or flags as numpy, without a copy where it lies in one piece."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise NotPlain
    if column.null_count:
        if not (may_miss and pa.types.is_signed_integer(kind)):
            raise NotPlain
        column = pc.fill_null(column, UNKNOWN)
    return _in_one_piece(column)


def _in_one_piece(column: Any) -> AnyArray:
    flat = column.chunk(0).to_numpy(zero_copy_only=False) if column.num_chunks == 1 else column.to_numpy()
    return np.asarray(flat)


def _in_order(rows: dict[str, AnyArray], sort: bool) -> tuple[dict[str, AnyArray], IntArray, IntArray | None]:
    """The rows in the order of episodes and steps, the episodes' offsets, and the order if it is another."""
    offsets, order = _offsets(rows["episode"], rows["step"]), None
    if offsets is None and sort:
        order = np.lexsort((rows["step"], rows["episode"]))
        rows = {name: column[order] for name, column in rows.items()}
        offsets = _offsets(rows["episode"], rows["step"])
    if offsets is None:
        raise NotPlain
    return rows, offsets, order


def _of_episodes(codes: AnyArray, offsets: IntArray) -> AnyArray:
    """(n,) the code that all rows of an episode have."""
    of_first = codes[offsets[:-1]]
    if (codes != np.repeat(of_first, np.diff(offsets))).any():
        raise NotPlain
    return of_first


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


def _whole(column: AnyArray) -> IntArray:
    if column.dtype.kind not in "iu":
        raise NotPlain
    return column.astype(np.int64, copy=False)


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


def _terminated(table: Any, last: IntArray) -> BoolArray:
    """Whether episodes ended by themselves, of their last rows in the table.

    Only these rows are unpacked: flags are bits there, and bytes here.
    """
    flags = [name for name in FLAGS if name in table.column_names]
    if any(table[name].null_count or not pa.types.is_boolean(table[name].type) for name in flags):
        raise NotPlain
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
        with suppress(NotPlain):
            return _plain_pieces(fetched, part, labels, check or files.mending.of_rewards)
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


def _plain_pieces(fetched: Fetched, part: Part, labels: CommonLabels, check: bool) -> list[Trajectories]:
    """The part's own episodes, and the one with a tail; raises `NotPlain`."""
    table, tail = fetched.table, fetched.tail
    lo, hi = _own_span(table["episode"], part, tail is not None)
    tables = [table.slice(lo, hi - lo)] if hi > lo else []
    if tail is not None:
        tables.append(pa.concat_tables([table.slice(hi), tail]))
    whole = part.after is None and tail is None
    pieces = [plain_log(rows, labels, check, sort=whole) for rows in tables]
    if tail is not None and pieces[-1].n_episodes != 1:
        raise NotPlain
    return pieces


def _own_span(episode: Any, part: Part, has_tail: bool) -> tuple[int, int]:
    """The rows of the part's own episodes: after the one of the part before, before the one with a tail.

    They are searched, which is right if rows ascend; that they do, also at the cuts, is seen here and in
    `plain_log`.
    """
    if episode.null_count or not pa.types.is_integer(episode.type):
        raise NotPlain
    ids = _in_one_piece(episode)
    lo = 0 if part.after is None else int(np.searchsorted(ids, part.after, side="right"))
    hi = int(np.searchsorted(ids, part.last)) if has_tail else len(ids)
    goes_back = hi > lo and ((has_tail and ids[hi - 1] >= part.last) or (lo > 0 and ids[lo] <= part.after))
    if goes_back or not (ids[:lo] == part.after).all():
        raise NotPlain
    return lo, hi


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
