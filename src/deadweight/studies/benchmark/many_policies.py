"""Ten policies compared at once, against one of them evaluated by itself."""

from __future__ import annotations

from functools import partial

import numpy as np

from deadweight.comparing.compare_policies import compare
from deadweight.estimate import evaluate
from deadweight.studies.benchmark.logs import N_ACTIONS, N_STATES, setting
from deadweight.studies.benchmark.paired import ratio
from deadweight.studies.benchmark.result import Result

POLICIES, HORIZON = 10, 20


def many_policies(scale: float) -> list[Result]:
    """On a short log and on a longer one; the evaluation is the default one, with what its report shows."""
    found = []
    for episodes in (500, int(10_000 * scale)):
        made, rng = setting(episodes, HORIZON), np.random.default_rng(1)
        drawn = [rng.dirichlet(np.full(N_ACTIONS, 20.0), N_STATES) for _ in range(POLICIES)]
        all_of_them = partial(compare, made.log, {f"{k}": one for k, one in enumerate(drawn)}, made.pi_b)
        measured = ratio(all_of_them, partial(evaluate, made.log, drawn[0], made.pi_b), rounds=5)
        what = f"{POLICIES} policies compared, {made.log.n_steps:,} steps, against one evaluated"
        found.append(Result(what, str(measured), "at most 6x"))
    return found
