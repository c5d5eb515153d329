"""Whatever form a policy has, every verb reads the same policy in it; rows and tables go side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import deadweight as dw
from deadweight.errors import EstimationError

pytestmark = pytest.mark.filterwarnings("ignore::deadweight.negligible.DropWarning")

TABLE = np.array([[0.3, 0.7], [0.45, 0.55], [0.9, 0.1]])
OLD = np.full((3, 2), 0.5)
ACTIONS = ("left", "right")


def made_log() -> dw.Trajectories:
    rng = np.random.default_rng(4)
    episodes = [
        [(f"s{rng.integers(3)}", ACTIONS[rng.integers(2)], float(rng.normal())) for _ in range(length)]
        for length in rng.integers(1, 4, 40)
    ]
    return dw.Trajectories.from_episodes(episodes)


LOG = made_log()
MAPPED = {f"s{s}": dict(zip(ACTIONS, row.tolist(), strict=True)) for s, row in enumerate(TABLE)}
FORMS: dict[str, Any] = {
    "array": TABLE,
    "dict": MAPPED,
    "function": MAPPED.__getitem__,
    "table": pd.DataFrame(
        [(state, action, prob) for state, row in MAPPED.items() for action, prob in row.items()],
        columns=["state", "action", "prob"],
    ),
    "rows": dw.RowPolicy(TABLE[LOG.states], actions=ACTIONS),
}
VERBS: dict[str, Callable[[Any, Any], Any]] = {
    "estimate": lambda pi_e, pi_b: dw.estimate("C-WSPDIS", LOG, pi_e, pi_b).to_dict(),
    "path": lambda pi_e, pi_b: dw.epsilon_path("WSPDIS", LOG, pi_e, pi_b).to_dict(),
    "q_gap": lambda pi_e, pi_b: dw.negligible.q_gap(LOG, pi_e, 0.5, pi_b, min_visits=1).states,
    "covariance": lambda pi_e, pi_b: dw.negligible.covariance(LOG, pi_e, pi_b).states,
    "weights": lambda pi_e, pi_b: dw.diagnostics.weights(LOG, pi_e, pi_b).to_dict(),
    "state report": lambda pi_e, pi_b: dw.diagnostics.state_report(LOG, pi_e, pi_b).chi2.tolist(),
    "sequence": lambda pi_e, pi_b: dw.confidence_sequence(
        LOG, pi_e, pi_b, return_range=(-20, 20)
    ).lower.tolist(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_form_is_the_same_policy(verb: str) -> None:
    known = dw.TabularPolicy(TABLE, states=list(MAPPED), actions=ACTIONS)
    expected = VERBS[verb](known, OLD)
    backwards = VERBS[verb](OLD, known)
    for form, policy in FORMS.items():
        assert VERBS[verb](policy, OLD) == expected, form
        assert VERBS[verb](OLD, policy) == backwards, form


def test_a_table_is_the_policy_of_its_array_to_the_last_bit() -> None:
    """Rows whose sum misses 1 by the last digit of a double only are not normalised."""
    probs = np.random.default_rng(3).dirichlet([1, 1, 1], 200)
    assert (probs.sum(axis=1) != 1).any()
    table = {
        "state": np.repeat(np.arange(200), 3),
        "action": np.tile(np.arange(3), 200),
        "prob": probs.ravel(),
    }
    assert np.array_equal(dw.read_policy(table).probs, probs)


def test_what_needs_states_says_so_of_rows() -> None:
    rows = dw.RowPolicy(np.random.default_rng(0).dirichlet([1, 1], LOG.n_steps), actions=ACTIONS)
    with pytest.raises(EstimationError, match="The covariance test needs a label for each state"):
        dw.negligible.covariance(LOG, rows, OLD)


def test_rows_and_tables_in_one_comparison() -> None:
    """What is known of a log by its labels is not mixed up with a log each of whose rows is a state."""
    rows = dw.RowPolicy(np.random.default_rng(0).dirichlet([1, 1], LOG.n_steps), actions=ACTIONS)
    first = dw.compare(LOG, {"rows": rows, "table": TABLE}, OLD, resamples=100)
    second = dw.compare(LOG, {"table": TABLE, "rows": rows}, OLD, resamples=100)
    alone = dw.evaluate(LOG, TABLE, OLD)
    for name in ("rows", "table"):
        assert first[name].to_dict() == second[name].to_dict()
    assert first["table"]["DM"].value == alone["DM"].value
    assert first["table"]["BLEND"].value == alone["BLEND"].value
