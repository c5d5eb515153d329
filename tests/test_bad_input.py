"""Bad input gets one clear error: its class, and a message with expected, found, where and the fix."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deadweight as dw
from deadweight.errors import (
    DataError,
    DeadweightError,
    DropError,
    EstimationError,
    OptionError,
    PolicyError,
    SupportError,
    UnknownEstimator,
)
from deadweight.io.findings import LogProblem

PI = [[0.5, 0.5], [0.5, 0.5]]
EPISODES = [[(0, 0, 1.0), (1, 1, 2.0)], [(1, 0, 3.0)]]


def log(**columns: Any) -> dw.Trajectories:
    flat: dict[str, Any] = {
        "states": [0, 1, 1],
        "actions": [0, 1, 0],
        "rewards": [1.0, 2.0, 3.0],
        "offsets": [0, 2, 3],
    }
    return dw.Trajectories(**{**flat, **columns})


def run(name: str = "WIS", pi_e: Any = PI, pi_b: Any = PI, **settings: Any) -> dw.Estimate:
    return dw.estimate(name, log(), pi_e, pi_b, **settings)


# What is done, the class of the error, and words of its message: expected, found, where, fix.
BAD: dict[str, tuple[Callable[[], Any], type[DeadweightError], list[str]]] = {
    "pi_b is zero at a logged step": (
        lambda: run(pi_b=[[0.5, 0.5], [1.0, 0.0]]),
        SupportError,
        ["probability 0", "action 1", "state 1", "episode 0, step 1 (row 1)", "estimate_behaviour"],
    ),
    "propensity zero": (
        lambda: log(propensities=[0.5, 0.0, 0.5]),
        SupportError,
        ["behaviour_prob", "0", "episode 0, step 1 (row 1)", "estimate_behaviour"],
    ),
    "an empty text for a path": (lambda: dw.read(""), LogProblem, ["DW101", "empty text", "variable"]),
    "an empty text among paths": (lambda: dw.evaluate([""], PI), LogProblem, ["DW101", "empty text"]),
    "an empty text for a policy's path": (lambda: dw.read_policy(""), LogProblem, ["DW101", "empty text"]),
    "a level in words": (lambda: run(level="0.9"), OptionError, ["level", "between 0 and 1", "'0.9'"]),
    "no discount at all": (lambda: run(gamma=None), OptionError, ["gamma", "at most 1", "None", "1.0"]),
    "workers below one": (lambda: run(workers=-1), OptionError, ["workers", "at least 1", "-1"]),
    "half a worker": (lambda: run(workers=1.5), OptionError, ["workers", "whole number", "1.5"]),
    "complex rewards": (lambda: log(rewards=[1j, 0, 0]), DataError, ["reward", "numbers"]),
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
    "an unknown estimator": (
        lambda: run("WPDSI"),
        UnknownEstimator,
        ["'WPDSI'", "Did you mean 'WPDIS'?", "Estimators are", "BEHAVIOUR"],
    ),
    "an estimator in small letters": (
        lambda: run("wpdis"),
        UnknownEstimator,
        ["'wpdis'", "Did you mean 'WPDIS'?"],
    ),
    "an unknown option": (
        lambda: run(finnished="leave"),
        OptionError,
        ["'finnished'", "Did you mean 'finished'?", "Options are", "window"],
    ),
    "an option's value": (
        lambda: run(finished="stay"),
        OptionError,
        ["finished", "absorb, leave, survivors", "'stay'"],
    ),
    "a window of zero": (lambda: run("INCRIS", window=0), OptionError, ["window", "at least 1", "0"]),
    "gamma above one": (lambda: run(gamma=1.5), OptionError, ["gamma", "at most 1", "1.5"]),
    "an unknown interval": (
        lambda: run(interval="students"),
        OptionError,
        ["interval", "student-t", "'students'"],
    ),
    "a drop of unknown states": (
        lambda: run("WSIS", drop=["icu"]),
        DropError,
        ["icu", "States are labelled 0, 1"],
    ),
    "a drop of the wrong length": (
        lambda: run("WSIS", drop=np.ones(7, dtype=bool)),
        DropError,
        ["one flag for each state (2)", "or step (3)", "(7,)"],
    ),
    "INCRIS of one episode": (
        lambda: dw.estimate("INCRIS", log().select([0]), PI, PI),
        EstimationError,
        ["two episodes", "found 1", "PDIS"],
    ),
    "SDRE with a discount": (
        lambda: run("SDRE", gamma=0.9),
        EstimationError,
        ["gamma = 1", "0.9", "MIS"],
    ),
    "SDRE of a mixed log": (
        lambda: dw.estimate("SDRE", log(terminated=[True, False]), PI, PI),
        EstimationError,
        ["1 of the first", "1 of the second", "mode="],
    ),
    "episodic SDRE of a cut log": (
        lambda: dw.estimate("SDRE", log(terminated=[True, False]), PI, PI, mode="episodic"),
        EstimationError,
        ["terminate", "1 of 2", "policy"],
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
    "a policy as baseline": (
        lambda: dw.evaluate(log(), PI, PI, baseline=dw.TabularPolicy(PI)),  # type: ignore[arg-type]
        OptionError,
        ["baseline", "a number", "TabularPolicy", "use deadweight.compare"],
    ),
    "a table as baseline": (
        lambda: dw.evaluate(log(), PI, PI, baseline=np.array(PI)),  # type: ignore[arg-type]
        OptionError,
        ["baseline", "a number", "ndarray"],
    ),
    "a baseline of NaN": (
        lambda: dw.evaluate(log(), PI, PI, baseline=np.nan),
        OptionError,
        ["baseline", "a number", "found nan"],
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
    action, kind, words = BAD[case]
    with pytest.raises(DeadweightError) as caught:
        action()
    assert type(caught.value) is kind
    message = str(caught.value)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    # The problem and its remedy, each on one line; no trace of how it was found out.
    assert len(message.splitlines()) <= 2
    assert caught.value.__cause__ is None


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


def test_every_message_is_for_people() -> None:
    """No message shows numpy's wrappers of numbers or labels."""
    for action, _, _ in BAD.values():
        with pytest.raises(DeadweightError) as caught:
            action()
        assert "np." not in str(caught.value).replace("numpy.exp", "")


# Every public verb that takes a log.
VERBS: dict[str, Callable[[Any], Any]] = {
    "estimate": lambda x: dw.estimate("WIS", x, PI, PI),
    "evaluate": lambda x: dw.evaluate(x, PI, PI),
    "epsilon_path": lambda x: dw.epsilon_path("WSIS", x, PI, PI),
    "improve": lambda x: dw.improve(x, PI),
    "confidence_sequence": lambda x: dw.confidence_sequence(x, PI, PI, return_range=(0.0, 1.0)),
    "cross_fitted_propensities": dw.cross_fitted_propensities,
    "estimate_behaviour": dw.estimate_behaviour,
    "fit_behaviour": dw.fit_behaviour,
    "fit_mdp": dw.fit_mdp,
    "mixture_propensities": lambda x: dw.mixture_propensities(x, {"v1": PI}),
    "compare": lambda x: dw.compare(x, {"a": PI, "b": PI}, PI),
    "cut_bounds": lambda x: dw.cut_bounds(x, PI, PI, remaining=(0.0, 1.0)),
    "doctor": dw.doctor,
    "policy": lambda x: dw.policy(PI, x),
    "read": dw.read,
    "diagnostics.state_report": lambda x: dw.diagnostics.state_report(x, PI, PI),
    "diagnostics.support": lambda x: dw.diagnostics.support(x, PI, PI),
    "diagnostics.weights": lambda x: dw.diagnostics.weights(x, PI, PI),
    "negligible.covariance": lambda x: dw.negligible.covariance(x, PI, PI),
    "negligible.q_gap": lambda x: dw.negligible.q_gap(x, PI, 1.0),
    "negligible.return_test": dw.negligible.return_test,
}


@pytest.mark.parametrize("wrong", [EPISODES, [], None, np.zeros((2, 3)), 3], ids=repr)
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_log_is_refused_in_one_message(verb: str, wrong: object) -> None:
    with pytest.raises(DataError) as caught:
        VERBS[verb](wrong)
    assert caught.value.fix
    message = str(caught.value)
    if verb not in ("doctor", "read"):  # which take tables as well
        assert f"deadweight.Trajectories) in memory; found {type(wrong).__qualname__}" in message.replace(
            "numpy.", ""
        )
        assert "from_episodes" in message


def test_every_verb_that_takes_a_log_is_tried() -> None:
    public = [("", dw), ("diagnostics.", dw.diagnostics), ("negligible.", dw.negligible)]
    found = {
        prefix + name
        for prefix, module in public
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
        and {"log", "source"} & set(inspect.signature(getattr(module, name)).parameters)
    }
    assert found - {"read_policy"} <= set(VERBS) | {"negligible.epsilon_path"}


def test_every_error_says_what_to_do() -> None:
    """No error of ours is raised without a remedy, which is an example of right input where there is one."""
    source, ours = Path(dw.__file__).parent, {one.__name__ for one in _subclasses(DeadweightError)}
    silent = [
        f"{path.relative_to(source)}:{node.lineno}"
        for path in sorted(source.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id in ours
        and not any(keyword.arg == "fix" for keyword in node.exc.keywords)
    ]
    assert silent == []


def _subclasses(of: type[DeadweightError]) -> list[type[DeadweightError]]:
    # Those whose constructors take something else make the remedy themselves.
    own = [one for one in of.__subclasses__() if "__init__" not in vars(one)]
    return [of, *own]


def test_an_option_of_reading_is_sent_where_it_belongs(tmp_path):
    """Before the path is looked at: columns=... would be the first thing to be missed there."""
    with pytest.raises(DeadweightError, match=r"deadweight\.read\(path, columns=\.\.\.\)"):
        dw.evaluate(tmp_path / "nowhere.csv", {}, columns={"episode": "stay"})
    with pytest.raises(DeadweightError, match="Did you mean 'gamma'"):
        dw.evaluate(tmp_path / "nowhere.csv", {}, gama=0.9)


def test_columns_the_wrong_way_round():
    table = {"stay": [1], "step": [0], "state": [0], "action": [0], "reward": [1]}
    with pytest.raises(DeadweightError, match="The other way round: episode=stay"):
        dw.read(table, {"stay": "episode"})
