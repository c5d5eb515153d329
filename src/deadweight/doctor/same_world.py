"""Several old policies: how much of the log each has made, and whether they met the same world."""

from __future__ import annotations

import numpy as np

from deadweight.doctor.case import Case
from deadweight.errors import how_many
from deadweight.io.findings import Check, Found, show
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


CHECKS: tuple[Check[Case], ...] = (
    Check("DW249", "info", "Several old policies", ("behaviour_id",), several),
    Check("DW250", "warning", "Old policies that met different worlds", ("behaviour_id",), drifted),
)
