"""Several old policies: how much of the log each has made, and whether they met the same world.

Also where nobody names them: probabilities that differ within a state and action say that the old policy
looked at something else, and what followed may say that it matters.
"""

from __future__ import annotations

import numpy as np

from deadweight.basics.arithmetic import divide, sums_by
from deadweight.doctor.case import Case
from deadweight.errors import how_many
from deadweight.io.findings import Check, Found, show
from deadweight.log.row_numbers import episode_of_rows
from deadweight.sums.logged_slopes import SAME, Confounding, slope_sums
from deadweight.sums.old_policies import old_policies

MOST_NAMED = 10


def several(case: Case) -> Found | None:
    """The old policies with their shares, in the order of their ids."""
    found = sorted(old_policies(case.log), key=lambda one: (isinstance(one.id, str), one.id))
    if len(found) < 2:
        return None
    named = [
        f"{show(one.id)} {how_many(one.episodes, 'episode')} ({one.share:.0%}), mean return "
        f"{one.mean_return:.4g}"
        for one in found[:MOST_NAMED]
    ]
    more = f", and {len(found) - MOST_NAMED:,} more" if len(found) > MOST_NAMED else ""
    own = case.log.propensities is not None
    return Found(
        f"{how_many(len(found), 'old policy').replace('policys', 'policies')} made the log: "
        f"{'; '.join(named)}{more}.",
        "Name their policies, pi_b={id: policy} (--behaviour id=FILE,...), and they are evaluated as one"
        + (", with less noise than by each episode's own behaviour_prob." if own else "."),
    )


def drifted(case: Case) -> Found | None:
    """Old policies that met another world than the others."""
    found = [one for one in old_policies(case.log) if one.drifted]
    if not found:
        return None
    assert case.log.behaviour_ids is not None
    rows = case.rows_of_episodes(np.isin(case.log.behaviour_ids, [one.id for one in found[:1]]))
    return Found(
        f"Old policies must have met the same world; with {show(found[0].id)} {found[0].drift}"
        + (f", and {len(found) - 1:,} more differ." if len(found) > 1 else "."),
        "No verdict is given on all of them together. Find out what changed between them (patients, prices, "
        "the reward); evaluate the episodes of one of them alone, or add what changed (week, site) to the "
        "state.",
        rows,
    )


def looked_at_more(case: Case) -> Found | None:
    """What the old policy looked at, and the state lacks, tells what follows."""
    log, seen = case.log, case.seen
    assert log.propensities is not None
    if not log.has_states:
        return None
    logs, of = np.log(log.propensities), seen.of_step
    mean = seen.sums(logs) / seen.count
    differs = (seen.sums(np.square(logs)) / seen.count - np.square(mean) > SAME**2)[of]
    if not differs.any():
        return None
    earned = np.cumsum(log.rewards)
    episode = episode_of_rows(log)
    to_go = earned[log.offsets[1:] - 1][episode] - earned + log.rewards
    visits = sums_by(log.states, None, log.n_states)
    worth = np.append(divide(sums_by(log.states, to_go, log.n_states), visits), 0.0)  # of -1: nothing
    # Of a step whose outcome was cut off nobody knows what follows.
    known = np.ones(log.n_steps, dtype=bool)
    last = log.offsets[1:] - 1
    known[last] = log.terminated | (log.next_states[last] >= 0)
    differs &= known
    brought = log.rewards + worth[log.next_states]
    number = np.maximum(seen.sums(known), 1.0)
    errors = (brought - (seen.sums(np.where(known, brought, 0.0)) / number)[of])[differs]
    mean = seen.sums(np.where(known, logs, 0.0)) / number
    number, x = np.maximum(number, 2.0)[of][differs], (logs - mean[of])[differs]
    keys = episode[differs] * log.n_actions + log.actions[differs]
    found = Confounding.of(slope_sums(keys, x, errors, number / (number - 1), log.n_actions))
    if not found.found:
        return None
    return Found(
        found.reason,
        "Put what the old policy looked at (a week, a version, a severity) into the state. Without it no "
        "verdict is given.",
        case.rows(differs),
    )


CHECKS: tuple[Check[Case], ...] = (
    Check("DW249", "info", "Several old policies", ("behaviour_id",), several),
    Check("DW250", "warning", "Old policies that met different worlds", ("behaviour_id",), drifted),
    Check(
        "DW253",
        "warning",
        "The old policy looked at more than the state",
        ("behaviour_prob",),
        looked_at_more,
    ),
)
