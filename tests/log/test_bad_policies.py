"""Policies that are refused: one clear error for what their probabilities or labels lack."""

from __future__ import annotations

import numpy as np
import pytest
from bad_input import PI, Case, assert_one_clear_error, log, run

import deadweight as dw
from deadweight.errors import DataError, EstimationError, PolicyError, SupportError
from deadweight.io.schema import LogProblem

BAD: dict[str, Case] = {
    "pi_b is zero at a logged step": (
        lambda: run(pi_b=[[0.5, 0.5], [1.0, 0.0]]),
        SupportError,
        ["probability 0", "action 1", "state 1", "episode 0, step 1 (row 1)", "estimate_behaviour"],
    ),
    "an empty text for a policy's path": (lambda: dw.read_policy(""), LogProblem, ["DW101", "empty text"]),
    "complex probabilities": (
        lambda: dw.TabularPolicy([[0.5 + 0j, 0.5]]),
        PolicyError,
        ["table of numbers", "[[0.5, 0.5]"],
    ),
    "rows that do not sum to one": (
        lambda: run(pi_e=[[0.5, 0.5], [0.5, 0.6]]),
        PolicyError,
        ["sum to 1", "state 1", "1.1", "Make the probabilities"],
    ),
    "negative probability": (
        lambda: dw.TabularPolicy([[1.2, -0.2]]),
        PolicyError,
        ["at least 0", "-0.2", "state 0, action 1", "Correct the table"],
    ),
    "NaN probability": (
        lambda: dw.TabularPolicy([[0.5, 0.5], [np.nan, 1.0]]),
        PolicyError,
        ["at least 0", "nan", "state 1, action 0", "Correct the table"],
    ),
    "negative probability in a state with a label": (
        lambda: dw.TabularPolicy([[1.2, -0.2]], states=["icu"], actions=["wait", "treat"]),
        PolicyError,
        ["icu", "treat"],
    ),
    "log-probabilities as a policy": (
        lambda: dw.TabularPolicy(np.log([[0.5, 0.5], [0.1, 0.9]])),
        PolicyError,
        ["probabilities", "-2.30259", "log-probabilities", "numpy.exp"],
    ),
    "an action outside the policy": (
        lambda: run(pi_e=[[1.0], [1.0]], pi_b=PI),
        PolicyError,
        ["pi_e", "1 action", "action 1", "log", "actions=[...]"],
    ),
    "a state outside the policy": (
        lambda: run(pi_b=[[0.5, 0.5]]),
        PolicyError,
        ["pi_b", "1 state", "state 1", "log", "states=[...]"],
    ),
    "bare tables of different widths": (
        lambda: run(pi_e=np.full((2, 3), 1 / 3), pi_b=PI),
        PolicyError,
        ["same actions", "(2, 3)", "(2, 2)", "actions=[...]"],
    ),
    "a policy without any action of the log": (
        lambda: run(pi_e=dw.TabularPolicy(PI, actions=["treat", "wait"])),
        PolicyError,
        [
            "pi_e",
            "never seen: treat, wait",
            "Those of the log are 0, 1",
            "text is not a number",
            "as in the log",
        ],
    ),
    "no evaluation policy": (
        lambda: dw.estimate("WIS", log(), None, PI),
        DataError,
        ["pi_e", "target_prob", "TabularPolicy"],
    ),
    "no behaviour policy": (
        lambda: dw.estimate("WIS", log(), PI),
        DataError,
        ["pi_b", "behaviour_prob", "estimate_behaviour"],
    ),
    "a model without pi_e of all actions": (
        lambda: dw.estimate("DM", log(target_probs=[0.5, 0.5, 0.5]), None, PI),
        EstimationError,
        ["all actions", "target_prob", "TabularPolicy"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_one_clear_error(case: str) -> None:
    assert_one_clear_error(BAD[case])
