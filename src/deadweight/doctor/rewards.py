"""Rewards and returns: constant, extreme, codes for nothing, sums instead of rewards."""

from __future__ import annotations

import numpy as np

from deadweight.doctor.case import Case
from deadweight.errors import how_many
from deadweight.io.findings import Check, Found

SENTINELS = (-1.0, 1.0)
CODES = np.array([sign * (10.0**k - 1) for k in range(2, 10) for sign in SENTINELS])  # 99, -99, 999, ...
FAR = 20.0


def constant_rewards(case: Case) -> Found | None:
    """The same reward in every row."""
    rewards = case.log.rewards
    if rewards.min() != rewards.max() or len(rewards) < 2:
        return None
    value = rewards[0]
    return Found(
        f"Every reward is {value:g}"
        + (": every policy is worth 0." if value == 0 else ": the return only counts the steps."),
        f"Check that {case.table.called('reward')} is the reward.",
    )


def constant_returns(case: Case) -> Found | None:
    """The same return in every episode, from rewards that vary."""
    returns, rewards = case.returns, case.log.rewards
    if len(returns) < 2 or rewards.min() == rewards.max() or np.ptp(returns) > 1e-9 * np.abs(returns).max():
        return None
    return Found(
        f"Every episode has the same return, {returns[0]:g}, although rewards vary.",
        "Check that rewards were not normalised within episodes.",
    )


def outlier_returns(case: Case) -> Found | None:
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


def sentinel_rewards(case: Case) -> Found | None:
    """-999 and the like, far from all other rewards."""
    rewards = case.log.rewards
    coded = np.isin(rewards, CODES)
    if not coded.any() or coded.all():
        return None
    low, high = rewards[~coded].min(), rewards[~coded].max()
    room = 5 * max(high - low, 1.0)
    coded &= (rewards < low - room) | (rewards > high + room)
    if not coded.any():
        return None
    rows = case.rows(coded)
    return Found(
        f"Reward {rewards[coded][0]:g} looks like a code for a missing value (others lie in {low:g} to "
        f"{high:g}): {case.table.rows(rows)}.",
        "Replace it by the reward, or remove those episodes.",
        rows,
    )


def only_at_the_end(case: Case) -> Found | None:
    """Nothing but zeros before the last step."""
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


def running_total(case: Case) -> Found | None:
    """Rewards that hardly ever fall within an episode and rise nearly always: returns so far."""
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


CHECKS: tuple[Check[Case], ...] = (
    Check("DW601", "warning", "Constant rewards", (), constant_rewards),
    Check("DW602", "warning", "Constant returns", (), constant_returns),
    Check("DW603", "warning", "Outlying returns", (), outlier_returns),
    Check("DW604", "warning", "Rewards that look like codes", (), sentinel_rewards),
    Check("DW605", "info", "Rewards at the end only", (), only_at_the_end),
    Check("DW606", "warning", "Rewards that look like running totals", (), running_total),
)
