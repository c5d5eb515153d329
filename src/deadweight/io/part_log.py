"""From the table of a part to its log, in the labels of the whole.

Columns of plain numbers without holes become a log almost as they are; a few vector operations check them.
Whatever is different, from text to a missing reward, goes through the same table and the same checks as a
log in memory, so that what is refused, and why, is the same too.
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
from deadweight.io.schema import LogProblem, Mending
from deadweight.io.table import LogTable
from deadweight.log.labels import positions
from deadweight.log.trajectories import TableRows, Trajectories
from deadweight.sums import kernel
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

UNKNOWN = -1
# How episodes end, of their last rows; the first of them that there is says so.
FLAGS = ("terminated", "truncated")


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


def checked_log(
    table: Any, names: Mapping[str, str], mending: Mending, labels: CommonLabels | None = None
) -> Trajectories:
    """The log of a table with columns by our names, in labels of its own, after all checks.

    Args:
      table: one row for each step, whole episodes.
      names: our names -> the user's, for messages.
      mending: what blank rewards are.
      labels: of all parts, where they are known: they say whether -1 is a state.
    """
    return log_of(part_table(table, names, mending, None if labels is None else labels.states))


def part_table(
    table: Any, names: Mapping[str, str], mending: Mending, states: Labels | None = None
) -> LogTable:
    """The rows of a part for the checks of a table in memory; `states` are those of all parts, if known."""
    arrow = {names[ours]: table[ours] for ours in table.column_names}
    own = {ours: names[ours] for ours in table.column_names}
    return LogTable(Columns(arrow), own, states=states, mending=mending, is_part=True)


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
      table: as in `checked_log`.
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
    found: dict[str, Any] = columns
    offsets, order = _offsets(found["episode"], found["step"]), None
    if offsets is None and sort:
        order = np.lexsort((found["step"], found["episode"]))
        found = {name: column[order] for name, column in found.items()}
        offsets = _offsets(found["episode"], found["step"])
    if offsets is None:
        return None
    states, actions = _whole(found["state"]), _whole(found["action"])
    if states is None or actions is None:
        return None
    if check and not _fits(found, states, actions, labels):
        return None
    last = offsets[1:] - 1
    terminated = _terminated(table, last if order is None else order[last])
    if terminated is None or (check and not _flags_fit(table, offsets, order)):
        return None
    successor = np.full(len(last), UNKNOWN, dtype=np.int64)
    if "next_state" in found:
        following = _whole(found["next_state"])
        if following is None or (check and not _agree(following, states, last, len(labels.states))):
            return None
        successor = np.where(terminated, UNKNOWN, following[last])
    made_by = found["behaviour_id"][offsets[:-1]] if makers is not None else None
    if made_by is not None and (found["behaviour_id"] != np.repeat(made_by, np.diff(offsets))).any():
        return None
    return Trajectories._from_codes(
        states,
        actions,
        found["reward"].astype(np.float64, copy=False),
        offsets,
        state_labels=labels.states,
        action_labels=labels.actions,
        propensities=_probabilities(found, "behaviour_prob"),
        target_probs=_probabilities(found, "target_prob"),
        terminated=terminated,
        last_successor=successor,
        has_next_states="next_state" in found,
        behaviour_ids=None if makers is None else makers[made_by],
        durations=found["duration"].astype(np.float64, copy=False) if "duration" in found else None,
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
    if kernel.KERNEL is not None and rows and all(map(_readable, (episode, step))):
        found = np.empty(rows, dtype=np.int64)
        count = kernel.KERNEL.borders(episode, step, found)
        return None if count < 0 else np.append(found[:count], rows)
    last = np.flatnonzero(episode[1:] != episode[:-1])
    following = step[1:] > step[:-1]
    following[last] = episode[last + 1] > episode[last]
    if not following.all():
        return None
    return np.concatenate([[0], last + 1, [rows]])


def _readable(column: AnyArray) -> bool:
    return column.dtype == np.int64 and kernel.readable(column)


def _whole(column: AnyArray) -> IntArray | None:
    return column.astype(np.int64, copy=False) if column.dtype.kind in "iu" else None


def _fits(found: Mapping[str, AnyArray], states: IntArray, actions: IntArray, labels: CommonLabels) -> bool:
    """Whether labels are in range, rewards finite and probabilities in (0, 1]; else the checks will say."""
    if not (found["episode"].dtype.kind in "iu" and found["step"].dtype.kind in "iu"):
        return False
    rewards = found["reward"]
    if not _plausible(states, actions, rewards, len(labels.states), len(labels.actions)):
        return False
    if "behaviour_prob" in found and not _within(found["behaviour_prob"], SMALLEST):
        return False
    if "duration" in found and not (found["duration"].min() > 0 and np.isfinite(found["duration"].max())):
        return False
    return not ("target_prob" in found and not _within(found["target_prob"], 0.0))


def _plausible(states: IntArray, actions: IntArray, rewards: AnyArray, n_states: int, n_actions: int) -> bool:
    """Whether all codes are in range and all rewards numbers that are not too large."""
    simple = rewards.dtype == np.float64 and all(map(kernel.readable, (states, actions, rewards)))
    if kernel.KERNEL is not None and simple:
        return bool(kernel.KERNEL.plausible(states, actions, rewards, n_states, n_actions, LARGEST_REWARD))
    # Seen as unsigned, a negative number is a very large one: one look for both ends.
    for codes, known in ((states, n_states), (actions, n_actions)):
        if codes.view(np.uint64).max() >= known:
            return False
    # As Python's numbers: numpy would bring the bound into the column's precision, where it is infinite.
    return (
        max(-float(rewards.min()), float(rewards.max())) <= LARGEST_REWARD
    )  # not so either if there is a NaN


def _within(column: AnyArray, lowest: float) -> bool:
    return float(column.min()) >= lowest and 0 < float(column.max()) <= 1


def _terminated(table: Any, last: IntArray) -> BoolArray | None:
    """Whether episodes ended by themselves, of their last rows in the table; None where flags are no flags.

    Only these rows are unpacked: flags are bits there, and bytes here.
    """
    flags = [name for name in FLAGS if name in table.column_names]
    if any(table[name].null_count or not pa.types.is_boolean(table[name].type) for name in flags):
        return None
    if not flags:
        return np.ones(len(last), dtype=bool)
    found: BoolArray = np.asarray(table[flags[0]].take(pa.array(last)).to_numpy())
    return found if flags[0] == "terminated" else ~found


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


def _probabilities(found: Mapping[str, AnyArray], name: str) -> FloatArray | None:
    return np.minimum(found[name].astype(np.float64, copy=False), 1.0) if name in found else None


def in_part(error: LogProblem, where: str) -> LogProblem:
    """The problem with the place of the part: its rows are counted within it."""
    return LogProblem(error.code, f"{error.problem} [In {where}; rows count from its first.]", fix=error.fix)


# --------------------------------------------------------------------------------------------------------
# Fetching a part: its row groups, cut on the borders of episodes.
#
# An episode that goes on in the next row group is put together in a small log of its own, so that all the
# others stay where the decoder has left them.


@dataclass(frozen=True, eq=False)
class Fetched:
    """The rows of a part as decoded, not yet looked at."""

    table: Any
    tail: Any  # the rest of its last episode; None if there is none


def fetch(files: ParquetFiles, part: Part) -> Fetched:
    """The rows of a part."""
    return Fetched(files.table(part), files.tail(part))


def logs_of(
    fetched: Fetched, files: ParquetFiles, part: Part, labels: CommonLabels, check: bool
) -> list[Trajectories]:
    """The logs of a part.

    Args:
      fetched: its rows.
      files, part: where it is.
      labels: of all parts.
      check: look at the values, not only at the order of the rows.
    """
    check_ids(fetched.table, part, place(files, part))
    if labels.plain:
        # A reward that is no number is passed over unless values are looked at, and may have to be mended.
        check = check or files.mending.of_rewards
        pieces = _plain_pieces(fetched.table, fetched.tail, part, labels, check)
        if pieces is not None:
            return pieces
    return [_whole_part(files, part, labels, fetched)]


def whole_part(files: ParquetFiles, part: Part, labels: CommonLabels | None) -> Trajectories:
    """A part as one log, after all checks; in labels of its own where those of all parts are not known."""
    fetched = fetch(files, part)
    check_ids(fetched.table, part, place(files, part))
    return _whole_part(files, part, labels, fetched)


def only_part(files: ParquetFiles, part: Part) -> Trajectories:
    """The log of a single part, which knows the rows of its files that its steps came from."""
    log = copy(whole_part(files, part, None))
    # Row groups have been put in the order of their episodes; users count as in the files.
    rows = files.rows_of(part)
    log._table_rows = TableRows.whole(rows[log.rows], len(rows), log.n_episodes)
    return log


def check_order(files: ParquetFiles, part: Part, fetched: Fetched) -> None:
    """Refuse a part whose episodes are not where the plan has them; only their column is looked at."""
    check_ids(fetched.table, part, place(files, part))
    tail = fetched.tail
    _own_rows(files, part, fetched.table if tail is None else pa.concat_tables([fetched.table, tail]))


def first_table(files: ParquetFiles, part: Part, states: Labels) -> LogTable:
    """The rows of the first part as a table, for whoever wants to look at them before a log is made."""
    fetched = fetch(files, part)
    tables = [fetched.table] if fetched.tail is None else [fetched.table, fetched.tail]
    return part_table(pa.concat_tables(tables), files.names, files.mending, states)


def _plain_pieces(
    table: Any, tail: Any, part: Part, labels: CommonLabels, check: bool
) -> list[Trajectories] | None:
    """The part's own episodes, and the one with a tail; None where rows or columns need a closer look."""
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
    for some in tables:
        log = plain_log(some, labels, check, sort=whole)
        if log is None:
            return None
        pieces.append(log)
    return pieces if tail is None or pieces[-1].n_episodes == 1 else None


def _whole_part(
    files: ParquetFiles, part: Part, labels: CommonLabels | None, fetched: Fetched
) -> Trajectories:
    table, tail = fetched.table, fetched.tail
    own = _own_rows(files, part, table if tail is None else pa.concat_tables([table, tail]))
    where = place(files, part)
    try:
        log = checked_log(own, files.names, files.mending, labels)
    except LogProblem as error:
        raise in_part(error, where) from None
    return log if labels is None else in_common_labels(log, labels, where)


def _own_rows(files: ParquetFiles, part: Part, table: Any) -> Any:
    """The table without the rest of the episode that the part before has."""
    if part.after is None:
        return table
    episode = table["episode"]
    others = to_numpy(pc.equal(episode, pa.scalar(part.after, episode.type)), False)
    number = int(np.count_nonzero(others))
    if not others[:number].all():
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
