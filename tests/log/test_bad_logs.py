"""Logs that are refused: one clear error for what their columns, files or offsets lack."""

from __future__ import annotations

import numpy as np
import pytest
from bad_input import EPISODES, PI, Case, assert_one_clear_error, log

import deadweight as dw
from deadweight.errors import DataError, SupportError
from deadweight.io.schema import LogProblem

BAD: dict[str, Case] = {
    "propensity zero": (
        lambda: log(propensities=[0.5, 0.0, 0.5]),
        SupportError,
        ["behaviour_prob", "0", "episode 0, step 1 (row 1)", "estimate_behaviour"],
    ),
    "an empty text for a path": (lambda: dw.read(""), LogProblem, ["DW101", "empty text", "variable"]),
    "an empty text among paths": (lambda: dw.evaluate([""], PI), LogProblem, ["DW101", "empty text"]),
    "complex rewards": (lambda: log(rewards=[1j, 0, 0]), DataError, ["reward", "numbers"]),
    "log-probabilities as propensities": (
        lambda: log(propensities=np.log([0.5, 0.2, 0.5])),
        DataError,
        ["behaviour_prob", "(0, 1]", "-1.60944", "log-probabilities", "numpy.exp"],
    ),
    "propensity above one": (
        lambda: log(propensities=[0.5, 1.5, 0.5]),
        DataError,
        ["behaviour_prob", "(0, 1]", "1.5", "episode 0, step 1 (row 1)", "Log the probability"],
    ),
    "target probability NaN": (
        lambda: log(target_probs=[0.5, 0.5, np.nan]),
        DataError,
        ["target_prob", "[0, 1]", "nan", "episode 1, step 0 (row 2)"],
    ),
    "an empty log": (
        lambda: dw.Trajectories([], [], [], [0]),
        DataError,
        ["at least one episode", "found none", "Check"],
    ),
    "no episodes": (
        lambda: dw.Trajectories.from_episodes([]),
        DataError,
        ["at least one episode", "found none", "list of episodes"],
    ),
    "an empty episode": (
        lambda: dw.Trajectories.from_episodes([EPISODES[0], [], EPISODES[1]]),
        DataError,
        ["at least one step", "found none", "episodes 1", "Leave empty episodes out"],
    ),
    "an empty episode in offsets": (
        lambda: log(offsets=[0, 2, 2, 3]),
        DataError,
        ["at least one step", "found none", "episodes 1", "Leave empty episodes out"],
    ),
    "NaN reward": (
        lambda: log(rewards=[1.0, np.nan, 3.0]),
        DataError,
        ["finite", "nan", "episode 0, step 1 (row 1)", "Replace"],
    ),
    "infinite reward": (
        lambda: dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 0, -np.inf)]]),
        DataError,
        ["finite", "-inf", "episode 1, step 0 (row 1)", "Replace"],
    ),
    "reward of text": (
        lambda: log(rewards=["a", "b", "c"]),
        DataError,
        ["reward", "numbers", "Convert"],
    ),
    "offsets that end early": (
        lambda: log(offsets=[0, 2]),
        DataError,
        ["start at 0", "end at the number of steps (3)", "0 to 2", "cumsum"],
    ),
    "offsets that start late": (
        lambda: log(offsets=[1, 3]),
        DataError,
        ["start at 0", "1 to 3", "cumsum"],
    ),
    "offsets that fall": (
        lambda: log(offsets=[0, 3, 2, 3]),
        DataError,
        ["never fall", "falling", "cumsum"],
    ),
    "offsets that are not whole": (
        lambda: log(offsets=[0.0, 1.5, 3.0]),
        DataError,
        ["whole numbers", "float64", "cumsum"],
    ),
    "columns of different length": (
        lambda: log(actions=[0, 1]),
        DataError,
        ["one entry for each step", "3", "actions", "(2,)", "same rows"],
    ),
    "terminated a step": (
        lambda: log(terminated=[False, True, True]),
        DataError,
        ["one flag for each episode (2)", "(3,)", "one for each step", "last step"],
    ),
    "next states that contradict": (
        lambda: log(next_states=[0, -1, -1]),
        DataError,
        ["agree", "episode 0, step 0 (row 0)", "order of the steps"],
    ),
    "a step that is no triple": (
        lambda: dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 0)]]),  # type: ignore[list-item]
        DataError,
        ["(state, action, reward)", "(0, 0)", "episode 1, step 0"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_one_clear_error(case: str) -> None:
    assert_one_clear_error(BAD[case])


@pytest.mark.parametrize("column", ["states", "actions", "rewards", "propensities", "next_states"])
def test_nothing_half_built(column: str) -> None:
    """A refused log leaves no object behind, and the arrays it was offered as they were."""
    good = {
        "states": np.array([0, 1, 1]),
        "actions": np.array([0, 1, 0]),
        "rewards": np.array([1.0, 2.0, 3.0]),
        "propensities": np.array([0.5, 0.5, 0.5]),
        "next_states": np.array([1, -1, -1]),
    }
    bad = {**good, column: good[column][:2]}
    before = {key: value.copy() for key, value in bad.items()}
    made = None
    with pytest.raises(DataError, match=r"one entry for each step|offsets"):
        made = dw.Trajectories(offsets=[0, 2, 3], **bad)
    assert made is None
    for key, value in bad.items():
        assert np.array_equal(value, before[key])
        assert value.flags.writeable
