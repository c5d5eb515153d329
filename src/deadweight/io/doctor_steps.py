"""Checks of episodes (how many, how long, how they end), of steps and flags, of rewards, and of support.

Support is what the log has seen: actions and states that are rare, alone, or never there.
"""

from __future__ import annotations

import numpy as np

from deadweight.errors import how_many
from deadweight.io.doctor_labels import Case, named
from deadweight.io.schema import Checks, Found, about, show
from deadweight.log.interface import in_memory
from deadweight.sums.ends import inferred_limit
from deadweight.sums.reduction import reduce_log
from deadweight.typing import BoolArray
from deadweight.values.equal_episodes import EpisodeContents
from deadweight.values.model import count

FEW = 30
FAR_LONGER = 10
MANY_AT_THE_LIMIT = 0.1
# More pairs of state and action make no table, by which one could tell what happens by chance.
MOST_PAIRS = 1 << 22

EPISODE_CHECKS = Checks[Case]()


@EPISODE_CHECKS.add("DW241", "warning", "Few episodes")
def _few_episodes(case: Case) -> Found | None:
    n = case.log.n_episodes
    if n >= FEW:
        return None
    return Found(
        f"The log has {how_many(n, 'episode')}: intervals will be wide"
        + (", and with one there is none." if n == 1 else "."),
        f"Log at least {FEW} episodes; check that {case.table.called('episode')} is what tells episodes "
        "apart.",
    )


@EPISODE_CHECKS.add("DW242", "warning", "Every row is an episode of its own")
def _one_row_each(case: Case) -> Found | None:
    if case.log.horizon > 1 or case.log.n_episodes < 2 or np.ptp(case.table.steps.values) == 0:
        return None
    return Found(
        f"Every row is an episode of its own, although {case.table.called('step')} takes several values.",
        "Name the column that tells episodes apart, not one that numbers the rows: --columns "
        "episode=your_name.",
    )


@EPISODE_CHECKS.add("DW243", "warning", "Episodes far longer than usual")
def _far_longer(case: Case) -> Found | None:
    lengths = case.log.lengths
    usual = float(np.median(lengths))
    long = lengths > max(FAR_LONGER * usual, 20)
    return about(
        case.rows_of_episodes(long),
        lambda rows: (
            f"Found {how_many(len(rows), 'episode')} more than {FAR_LONGER} times as long as usual "
            f"({usual:g} steps; longest {lengths.max():,}): {case.table.episodes(rows)}."
        ),
        "Check whether several episodes share an id.",
    )


@EPISODE_CHECKS.add("DW244", "info", "Episodes of one step")
def _single_steps(case: Case) -> Found | None:
    lengths = case.log.lengths
    return about(
        case.rows_of_episodes((lengths == 1) & (np.median(lengths) >= 5)),
        lambda rows: (
            f"Found {how_many(len(rows), 'episode')} of {len(lengths):,} with one step only: "
            f"{case.table.episodes(rows)}."
        ),
        "Check that their other rows were not filtered away.",
    )


@EPISODE_CHECKS.add("DW245", "warning", "A time limit without a flag")
def _time_limit(case: Case) -> Found | None:
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


@EPISODE_CHECKS.add("DW246", "warning", "Truncated episodes without successor")
def _no_successor(case: Case) -> Found | None:
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


@EPISODE_CHECKS.add("DW247", "info", "No episode terminates")
def _none_terminates(case: Case) -> Found | None:
    if case.log.terminated.any() or not case.table.says_ends:
        return None
    return Found(
        f"All {case.log.n_episodes:,} episodes are truncated: values are those of the logged steps.",
        "Nothing to do if the horizon is what you evaluate; else check the flags.",
    )


@EPISODE_CHECKS.add("DW248", "info", "A time limit inferred")
def _limit_inferred(case: Case) -> Found | None:
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


@EPISODE_CHECKS.add("DW251", "warning", "Episodes that may have been cut are flagged as ended")
def _ended_at_a_cap(case: Case) -> Found | None:
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


@EPISODE_CHECKS.add("DW252", "warning", "A time limit that the flags contradict")
def _contradicted_limit(case: Case) -> Found | None:
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


@EPISODE_CHECKS.add("DW254", "warning", "Copies of episodes")
def _copied(case: Case) -> Found | None:
    log = case.log
    if not log.has_states or log.n_states * log.n_actions > MOST_PAIRS:
        return None
    wanted = EpisodeContents(in_memory(log), log.n_actions)
    contents = reduce_log([log], lambda block: [wanted.summarise(block)])[0]
    copies = wanted.finish(contents, count([log], log.n_states, log.n_actions), log.behaviour_ids is not None)
    if not copies.found:
        return None
    return Found(
        f"{how_many(copies.pairs, 'pair')} of episodes are equal in all states, actions and rewards; about "
        f"{copies.expected:.2g} would be by chance.",
        "Find out how they came into the log (files that were read twice, a join), and leave copies out. "
        "Until then no verdict is given.",
    )


# --- Steps and flags

ORDERED = ("episode", "step")
SECONDS_SINCE_1970 = 1e8  # a step count this high is a clock

STEP_CHECKS = Checks[Case]()


@STEP_CHECKS.add("DW221", "warning", "Steps missing in between", *ORDERED)
def _gaps(case: Case) -> Found | None:
    table = case.table
    if table.steps.are_times or _clock(case) or table.steps.values.dtype.kind == "f":
        return None
    return about(
        np.sort(table.inner[1][~table.in_sequence]),
        lambda rows: (
            f"Steps should follow each other; {how_many(len(rows), 'gap')} in {table.episodes(rows)}, the "
            f"first before {table.where(int(rows[0]))}. The steps on both sides will count as neighbours."
        ),
        "Log every step, or make sure that rows were not filtered away; renumber the steps if the numbers "
        "mean something else.",
    )


@STEP_CHECKS.add("DW222", "warning", "Episodes that begin late", *ORDERED)
def _late_start(case: Case) -> Found | None:
    table = case.table
    if table.steps.are_times or _clock(case):
        return None
    rows = table.order[table.offsets[:-1]]
    first = table.steps.values[rows]
    usual = min(first.min(), 1)
    late = first > usual
    if not late.any():
        return None
    return Found(
        f"Episodes should begin at step {show(usual)}; found a later start in "
        f"{how_many(int(late.sum()), 'episode')} of {len(first):,}, for example "
        f"{table.where(int(rows[late][0]))}: is the beginning missing?",
        "Log episodes from their first step; one that begins in the middle is evaluated as if it began "
        "there.",
        np.sort(rows[late]),
    )


@STEP_CHECKS.add("DW223", "info", "Times as steps", *ORDERED)
def _times(case: Case) -> Found | None:
    if not (case.table.steps.are_times or _clock(case)):
        return None
    return Found(
        f"{case.table.called('step')} holds times. They order the rows, but gaps cannot be seen, and time "
        "that passes between two steps is not discounted.",
        "Nothing to do if the order is all that matters; else number the steps.",
    )


@STEP_CHECKS.add("DW224", "warning", "Steps that are not whole numbers", *ORDERED)
def _fractions(case: Case) -> Found | None:
    values = case.table.steps.values
    return about(
        values != np.floor(values),
        lambda rows: (
            f"Steps should be whole numbers; found {show(values[rows[0]])} in {case.table.rows(rows)}."
        ),
        "They are used as they sort; number the steps if they are something else than a count.",
    )


@STEP_CHECKS.add("DW227", "warning", "Terminated and truncated at once", *ORDERED, "terminated", "truncated")
def _both_flags(case: Case) -> Found | None:
    table, last = case.table, case.table.last_rows
    return about(
        np.sort(last[table.flags("terminated").values[last] & table.flags("truncated").values[last]]),
        lambda rows: (
            f"An episode ends or is cut; both flags are set on {how_many(len(rows), 'last row')}, first "
            f"{table.rows(rows)}. They count as ended."
        ),
        "Set truncated only where the log stops although the task goes on.",
    )


@STEP_CHECKS.add("DW228", "warning", "Neither terminated nor truncated", *ORDERED, "terminated", "truncated")
def _no_flag(case: Case) -> Found | None:
    table, last = case.table, case.table.last_rows
    flagged = table.flags("terminated").values[last] | table.flags("truncated").values[last]
    return about(
        np.sort(last[~flagged]),
        lambda rows: (
            f"Neither flag is set at the end of {how_many(len(rows), 'episode')}, first {table.rows(rows)}. "
            "That counts as cut."
        ),
        "Set terminated where the task was over, truncated where the log stops.",
    )


@STEP_CHECKS.add("DW229", "warning", "No flag on the last row", *ORDERED, each=("terminated", "truncated"))
def _flag_missing(case: Case, name: str) -> Found | None:
    table, last = case.table, case.table.last_rows
    return about(
        np.sort(last[table.flags(name).missing[last]]),
        lambda rows: (
            f"{table.called(name)} is empty on the last row of {how_many(len(rows), 'episode')}, first "
            f"{table.rows(rows)}. That counts as False."
        ),
        "Fill in the flag on the last row of every episode.",
    )


@STEP_CHECKS.add("DW230", "warning", "Negative steps", *ORDERED)
def _negative_steps(case: Case) -> Found | None:
    steps = case.table.steps
    return about(
        np.zeros(0, dtype=bool) if steps.are_times else steps.values < 0,
        lambda rows: (
            f"Steps usually count from 0 or 1; found {show(steps.values[rows[0]])} in "
            f"{case.table.rows(rows)}."
        ),
        "Check that negative steps are not a code for something else; they are sorted before step 0.",
    )


def _clock(case: Case) -> bool:
    return bool(np.abs(case.table.steps.values).min() >= SECONDS_SINCE_1970)


# --- Rewards and returns

CODES = np.array([sign * (10.0**k - 1) for k in range(2, 10) for sign in (-1.0, 1.0)])  # 99, -99, 999, ...
FAR = 20.0

REWARD_CHECKS = Checks[Case]()


@REWARD_CHECKS.add("DW601", "warning", "Constant rewards")
def _constant_rewards(case: Case) -> Found | None:
    rewards = case.log.rewards
    if rewards.min() != rewards.max() or len(rewards) < 2:
        return None
    value = rewards[0]
    return Found(
        f"Every reward is {value:g}"
        + (": every policy is worth 0." if value == 0 else ": the return only counts the steps."),
        f"Check that {case.table.called('reward')} is the reward.",
    )


@REWARD_CHECKS.add("DW602", "warning", "Constant returns")
def _constant_returns(case: Case) -> Found | None:
    returns, rewards = case.returns, case.log.rewards
    if len(returns) < 2 or rewards.min() == rewards.max() or np.ptp(returns) > 1e-9 * np.abs(returns).max():
        return None
    return Found(
        f"Every episode has the same return, {returns[0]:g}, although rewards vary.",
        "Check that rewards were not normalised within episodes.",
    )


@REWARD_CHECKS.add("DW603", "warning", "Outlying returns")
def _outlier_returns(case: Case) -> Found | None:
    """Returns far outside the others.

    What is usual is told by returns that differ from the median at all: where most episodes earn nothing, an
    ordinary purchase is no outlier. Nine tenths of them bound the usual deviation, 1.645 spreads of a normal
    distribution, so that long tails to one side are usual as well.
    """
    returns = case.returns
    centre = np.median(returns)
    deviations = np.abs(returns - centre)
    apart = deviations[deviations > 1e-9 * np.abs(returns).max()]  # by more than rounding
    if not apart.size:
        return None
    spread = np.quantile(apart, 0.9, method="lower") / 1.645
    far = deviations > FAR * spread
    if len(returns) < 10 or not far.any() or far.mean() > 0.05:
        return None
    rows = case.rows_of_episodes(far)
    worst = returns[np.argmax(np.abs(returns - centre))]
    return Found(
        f"Returns of {how_many(int(far.sum()), 'episode')} are more than {FAR:g} spreads from the median "
        f"{centre:g}, up to {worst:g}: {case.table.episodes(rows)}. They may decide every estimate.",
        "Check those episodes for wrong units or codes for missing rewards.",
        rows,
    )


@REWARD_CHECKS.add("DW604", "warning", "Rewards that look like codes")
def _sentinel_rewards(case: Case) -> Found | None:
    rewards = case.log.rewards
    coded = np.isin(rewards, CODES)
    if not coded.any() or coded.all():
        return None
    low, high = rewards[~coded].min(), rewards[~coded].max()
    room = 5 * max(high - low, 1.0)
    coded &= (rewards < low - room) | (rewards > high + room)
    return about(
        case.rows(coded),
        lambda rows: (
            f"Reward {rewards[coded][0]:g} looks like a code for a missing value (others lie in {low:g} to "
            f"{high:g}): {case.table.rows(rows)}."
        ),
        "Replace it by the reward, or remove those episodes.",
    )


@REWARD_CHECKS.add("DW605", "info", "Rewards at the end only")
def _only_at_the_end(case: Case) -> Found | None:
    log = case.log
    inner = np.ones(log.n_steps, dtype=bool)
    inner[log.offsets[1:] - 1] = False
    if not inner.any() or log.rewards[inner].any() or not log.rewards.any():
        return None
    return Found(
        "Rewards other than 0 come on last steps only: per-decision estimators gain little over "
        "whole-episode ones.",
        "Nothing to do; log rewards when they are earned, if there are any.",
    )


@REWARD_CHECKS.add("DW606", "warning", "Rewards that look like running totals")
def _running_total(case: Case) -> Found | None:
    log = case.log
    follows = np.ones(log.n_steps, dtype=bool)
    follows[log.offsets[:-1]] = False
    later = np.flatnonzero(follows)
    rise = log.rewards[later] - log.rewards[later - 1]
    if len(rise) < 20 or (rise < 0).any() or (rise > 0).mean() < 0.9:
        return None
    return Found(
        "Within episodes the reward never falls and nearly always rises: is it the return so far?",
        "Log what each step earned, not the running total.",
    )


# --- Support

FEW_STATES = 20

SUPPORT_CHECKS = Checks[Case]()


@SUPPORT_CHECKS.add("DW511", "warning", "One action only")
def _one_action(case: Case) -> Found | None:
    if (case.seen.taken > 0).sum() > 1:
        return None
    return Found(
        f"Only one action was ever taken, {named(case.log.action_labels, case.seen.taken > 0)}: "
        "the log says nothing about any other.",
        f"Check that {case.table.called('action')} is the action; a log needs some variety to evaluate "
        "another policy.",
    )


@SUPPORT_CHECKS.add("DW512", "warning", "Actions never logged")
def _never_logged(case: Case) -> Found | None:
    never = case.seen.taken == 0
    if not never.any():
        return None
    return Found(
        f"Actions are numbered 0 to {case.log.n_actions - 1}, but no row has "
        f"{named(case.log.action_labels, never)}. That counts as an action that was never taken.",
        "Nothing to do if they exist; else use names, or numbers without gaps.",
    )


@SUPPORT_CHECKS.add("DW513", "info", "Actions taken in one state only", "state")
def _in_one_state(case: Case) -> Found | None:
    if (case.seen.visits > 0).sum() < 2:
        return None
    alone = case.seen.states_seen == 1
    if not alone.any():
        return None
    return Found(
        f"Found {how_many(int(alone.sum()), 'action')} taken in one state only: "
        f"{named(case.log.action_labels, alone)}.",
        "Nothing to do if they exist only there; else their effect elsewhere is unknown.",
        case.rows(alone[case.log.actions]),
    )


@SUPPORT_CHECKS.add("DW514", "warning", "States in which one action only was ever taken", "state")
def _no_choice(case: Case) -> Found | None:
    visits = case.seen.visits
    single = (case.seen.actions_seen == 1) & (visits > 1)
    share = visits[single].sum() / visits.sum()
    if share < 0.5 or (case.seen.taken > 0).sum() == 1:
        return None
    return Found(
        f"In {how_many(int(single.sum()), 'state')} with {share:.0%} of the steps, one action only was "
        f"ever taken ({named(case.log.state_labels, single)}): other choices there cannot be evaluated.",
        "Merge states that are alike, or restrict the new policy to what was done there.",
    )


@SUPPORT_CHECKS.add("DW515", "warning", "States seen once", "state")
def _seen_once(case: Case) -> Found | None:
    visits = case.seen.visits
    visited, once = (visits > 0).sum(), (visits == 1).sum()
    if visited < FEW_STATES or once < 0.5 * visited:
        return None
    return Found(
        f"{once:,} of {visited:,} states were seen once only "
        f"({named(case.log.state_labels, visits == 1)}): is the state too fine, or an id or a time?",
        "Use fewer, coarser states (bins, clusters), so that each is seen many times.",
    )


@SUPPORT_CHECKS.add("DW516", "warning", "Too many states for the data", "state")
def _too_many_states(case: Case) -> Found | None:
    visited = int((case.seen.visits > 0).sum())
    actions = int((case.seen.taken > 0).sum())
    if visited < FEW_STATES or visited * actions <= case.log.n_steps:
        return None
    return Found(
        f"{visited:,} states x {actions:,} actions are more pairs than there are steps "
        f"({case.log.n_steps:,}).",
        "Use coarser states or more data; counts and models will be poor.",
    )


@SUPPORT_CHECKS.add("DW517", "info", "One state only", "state")
def _one_state(case: Case) -> Found | None:
    if (case.seen.visits > 0).sum() > 1:
        return None
    return Found(
        f"Every row is in one state, {named(case.log.state_labels, case.seen.visits > 0)}.",
        f"Nothing to do if there is nothing to see; else check {case.table.called('state')}.",
    )
