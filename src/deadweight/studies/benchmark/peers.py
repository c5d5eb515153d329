"""Against other libraries, where they are installed, and only once their numbers agree with ours.

SCOPE-RL reads one flat array a column and the new policy's probabilities of all actions at every step; these
are made before the clock starts. Its estimators, like ours, are called once an estimate, checks included;
ours of policies as tables, and of their probabilities as two columns of the log.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module, metadata, util
from itertools import product
from typing import Any

import numpy as np

from deadweight.estimate import estimate
from deadweight.log.trajectories import Trajectories
from deadweight.studies.benchmark.logs import Setting, setting
from deadweight.studies.benchmark.paired import ratio
from deadweight.studies.benchmark.result import Result

SCOPE_RL = {
    "IS": "TrajectoryWiseImportanceSampling",
    "WIS": "SelfNormalizedTIS",
    "PDIS": "PerDecisionImportanceSampling",
    "WPDIS": "SelfNormalizedPDIS",
}


def peers(scale: float) -> list[Result]:
    """IS, WIS, PDIS and WPDIS by SCOPE-RL, over ours from tables and from columns."""
    if util.find_spec("scope_rl") is None:
        return [Result("SCOPE-RL, where it is installed", "not installed")]
    estimators = import_module("scope_rl.ope.discrete")
    version = metadata.version("scope-rl")
    horizon = 100
    made = setting(int(100_000 * scale), horizon)
    inputs, columns = _scope_rl_inputs(made, horizon), made.in_columns
    found = []
    for (name, theirs), form in product(SCOPE_RL.items(), ("tables", "columns")):
        their_call = partial(getattr(estimators, theirs)().estimate_policy_value, **inputs)
        our_call = (
            partial(_of_tables, name, made) if form == "tables" else partial(_of_columns, name, columns)
        )
        what = f"{name}, {made.log.n_episodes:,} x {horizon}, SCOPE-RL {version} over ours from {form}"
        if np.isclose(our_call(), their_call(), rtol=1e-9):
            found.append(Result(what, str(ratio(our_call, their_call, rounds=3, repeats=3).inverse)))
        else:
            found.append(Result(what, f"not timed: {their_call():.6g} and {our_call():.6g} disagree"))
    return found


def _of_tables(name: str, made: Setting) -> float:
    return estimate(name, made.log, made.pi_e, made.pi_b, interval=None).value


def _of_columns(name: str, log: Trajectories) -> float:
    return estimate(name, log, interval=None).value


def _scope_rl_inputs(made: Setting, horizon: int) -> dict[str, Any]:
    log = made.log
    return {
        "step_per_trajectory": horizon,
        "action": log.actions,
        "reward": log.rewards,
        "pscore": made.pi_b[log.states, log.actions],
        "evaluation_policy_action_dist": made.pi_e[log.states],
    }
