"""Episodes: how many, how long, and how they end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.doctor.case import Case
from deadweight.errors import how_many
from deadweight.io.findings import Check, Found
from deadweight.log.interface import in_memory
from deadweight.sums.blocks import Block
from deadweight.sums.ends import inferred_limit
from deadweight.sums.reduction import reduce_log
from deadweight.typing import BoolArray
from deadweight.values.equal_episodes import Contents, EpisodeContents
from deadweight.values.model import count

FEW = 30
FAR_LONGER = 10
MANY_AT_THE_LIMIT = 0.1
# More pairs of state and action make no table, by which one could tell what happens by chance.
MOST_PAIRS = 1 << 22


def few_episodes(case: Case) -> Found | None:
    """Too few for any interval to mean much."""
    n = case.log.n_episodes
    if n >= FEW:
        return None
    return Found(
        f"The log has {how_many(n, 'episode')}: intervals will be wide"
        + (", and with one there is none." if n == 1 else "."),
        f"Log at least {FEW} episodes; check that {case.table.called('episode')} is what tells episodes "
        "apart.",
    )


def one_row_each(case: Case) -> Found | None:
    """Every row is an episode of its own, although the steps count on."""
    if case.log.horizon > 1 or case.log.n_episodes < 2 or np.ptp(case.table.steps.values) == 0:
        return None
    return Found(
        f"Every row is an episode of its own, although {case.table.called('step')} takes several values.",
        "Name the column that tells episodes apart, not one that numbers the rows: --columns "
        "episode=your_name.",
    )


def far_longer(case: Case) -> Found | None:
    """A few episodes many times longer than the others."""
    lengths = case.log.lengths
    usual = float(np.median(lengths))
    long = lengths > max(FAR_LONGER * usual, 20)
    if not long.any():
        return None
    rows = case.rows_of_episodes(long)
    return Found(
        f"Found {how_many(int(long.sum()), 'episode')} more than {FAR_LONGER} times as long as usual "
        f"({usual:g} steps; longest {lengths.max():,}): {case.table.episodes(rows)}.",
        "Check whether several episodes share an id.",
        rows,
    )


def single_steps(case: Case) -> Found | None:
    """Episodes of one step among long ones."""
    lengths = case.log.lengths
    short = lengths == 1
    if not short.any() or np.median(lengths) < 5:
        return None
    rows = case.rows_of_episodes(short)
    return Found(
        f"Found {how_many(int(short.sum()), 'episode')} of {len(lengths):,} with one step only: "
        f"{case.table.episodes(rows)}.",
        "Check that their other rows were not filtered away.",
        rows,
    )


def time_limit(case: Case) -> Found | None:
    """Many episodes end at the same longest length, no flag says why, and it is not taken for a limit."""
    lengths, at_limit = case.log.lengths, _at_limit(case)
    if case.time_limit != "infer" or case.table.says_ends or case.log.time_limit is not None:
        return None
    if case.log.n_episodes < FEW or lengths.max() < 5 or at_limit.mean() < MANY_AT_THE_LIMIT:
        return None
    return Found(
        f"{how_many(int(at_limit.sum()), 'episode')} of {len(lengths):,} stop after exactly "
        f"{lengths.max():,} steps, the longest length: is that a time limit? They count as ended there.",
        "Add a column truncated that is true on the last row of episodes that were cut, or say "
        f"--time-limit {lengths.max()}; --time-limit none if they ended.",
        case.rows_of_episodes(at_limit),
    )


def limit_inferred(case: Case) -> Found | None:
    """A time limit that nobody has mentioned and that the log shows."""
    limit = case.log.time_limit
    if limit is None or case.time_limit != "infer" or case.table.says_ends:
        return None
    at_limit = _at_limit(case)
    return Found(
        f"{how_many(int(at_limit.sum()), 'episode')} of {case.log.n_episodes:,} stop after exactly {limit:,} "
        "steps, in states from which the log goes on elsewhere: they count as cut by a time limit, and "
        "values are those of that many steps.",
        f"Say it: --time-limit {limit}, or --time-limit none if they ended there; better, add a column "
        "terminated or truncated.",
        case.rows_of_episodes(at_limit),
    )


def ended_at_a_cap(case: Case) -> Found | None:
    """Many episodes are flagged as ended at the longest length, as if a time limit had cut them."""
    log, at_limit = case.log, _at_limit(case)
    if case.time_limit != "infer" or not case.table.says_ends or not log.terminated[at_limit].all():
        return None
    limit = inferred_limit(log)
    if limit is None:
        return None
    return Found(
        f"{how_many(int(at_limit.sum()), 'episode')} of {log.n_episodes:,} are flagged as ended after "
        f"exactly {limit:,} steps, the longest length, in states from which the log goes on elsewhere: were "
        "they cut by a time limit? A model of these flags has random endings.",
        "If they were cut, say so on their last rows (terminated false, truncated true), or leave the flags "
        f"out and say --time-limit {limit}; --time-limit none if they ended.",
        case.rows_of_episodes(at_limit),
    )


def contradicted_limit(case: Case) -> Found | None:
    """A time limit that is said, and flags that say otherwise."""
    if not case.table.says_ends or not isinstance(case.time_limit, int):
        return None
    told: list[str] = []
    case.log.limit_by_flags(case.time_limit, told.append)
    fix = "Correct the flags or the limit: only one of them can be right."
    return Found(told[0], fix) if told else None


def _at_limit(case: Case) -> BoolArray:
    """(n,) which episodes are as long as the longest."""
    at_limit: BoolArray = case.log.lengths == case.log.horizon
    return at_limit


def no_successor(case: Case) -> Found | None:
    """Cut episodes of which nobody knows what came next."""
    after = "next_state" if case.log.has_states else f"next_{case.log.feature_names[0]} and the like"
    cut = ~case.log.terminated & (case.log.next_states[case.log.offsets[1:] - 1] < 0)
    if not cut.any() or not case.table.says_ends:  # a limit without flags says nothing of successors
        return None
    rows = case.rows(case.log.offsets[1:][cut] - 1)
    return Found(
        f"No {after} on the last row of {how_many(int(cut.sum()), 'truncated episode')} of "
        f"{int((~case.log.terminated).sum()):,}, first {case.table.rows(rows)}. A model then cannot learn "
        "where the last action led.",
        f"Log what followed in {after}.",
        rows,
    )


def none_terminates(case: Case) -> Found | None:
    """Every episode cut."""
    if case.log.terminated.any() or not case.table.says_ends:
        return None
    return Found(
        f"All {case.log.n_episodes:,} episodes are truncated: values are those of the logged steps.",
        "Nothing to do if the horizon is what you evaluate; else check the flags.",
    )


def copied(case: Case) -> Found | None:
    """Episodes that stand in the log more than once."""
    log = case.log
    if not log.has_states or log.n_states * log.n_actions > MOST_PAIRS:
        return None
    wanted = EpisodeContents(in_memory(log), log.n_actions)
    contents = reduce_log([log], _Contents(wanted))[0]
    found = wanted.finish(contents, count([log], log.n_states, log.n_actions), log.behaviour_ids is not None)
    if not found.found:
        return None
    return Found(
        f"{how_many(found.pairs, 'pair')} of episodes are equal in all states, actions and rewards; about "
        f"{found.expected:.2g} would be by chance.",
        "Find out how they came into the log (files that were read twice, a join), and leave copies out. "
        "Until then no verdict is given.",
    )


@dataclass(frozen=True, eq=False)
class _Contents:
    """The contents of a block's episodes, to be summed."""

    wanted: EpisodeContents

    def __call__(self, block: Block) -> list[Contents]:
        return [self.wanted.summarise(block)]


CHECKS: tuple[Check[Case], ...] = (
    Check("DW241", "warning", "Few episodes", (), few_episodes),
    Check("DW242", "warning", "Every row is an episode of its own", (), one_row_each),
    Check("DW243", "warning", "Episodes far longer than usual", (), far_longer),
    Check("DW244", "info", "Episodes of one step", (), single_steps),
    Check("DW245", "warning", "A time limit without a flag", (), time_limit),
    Check("DW246", "warning", "Truncated episodes without successor", (), no_successor),
    Check("DW247", "info", "No episode terminates", (), none_terminates),
    Check("DW248", "info", "A time limit inferred", (), limit_inferred),
    Check("DW251", "warning", "Episodes that may have been cut are flagged as ended", (), ended_at_a_cap),
    Check("DW252", "warning", "A time limit that the flags contradict", (), contradicted_limit),
    Check("DW254", "warning", "Copies of episodes", (), copied),
)
