"""Whatever the verb: what is no log is refused, every error has a remedy, and options are sent on."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_input import EPISODES, PI

import deadweight as dw
from deadweight.errors import DataError, DeadweightError

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


def test_the_name_of_an_estimator_comes_first() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)]])
    with pytest.raises(dw.errors.UnknownEstimator, match="In estimate the name comes first"):
        dw.estimate(log, "WPDIS", [[1.0]])  # type: ignore[arg-type]
    with pytest.raises(dw.errors.UnknownEstimator, match="Did you mean 'WPDIS'"):
        dw.estimate("WPDISS", "no such file.csv", [[1.0]])
