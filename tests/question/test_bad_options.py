"""Options and names that are refused: one clear error for what is no estimator, level, drop or baseline."""

from __future__ import annotations

import numpy as np
import pytest
from bad_input import PI, Case, assert_one_clear_error, log, run

import deadweight as dw
from deadweight.errors import DropError, EstimationError, OptionError, UnknownEstimator

BAD: dict[str, Case] = {
    "a level in words": (lambda: run(level="0.9"), OptionError, ["level", "between 0 and 1", "'0.9'"]),
    "no discount at all": (lambda: run(gamma=None), OptionError, ["gamma", "at most 1", "None", "1.0"]),
    "workers below one": (lambda: run(workers=-1), OptionError, ["workers", "at least 1", "-1"]),
    "half a worker": (lambda: run(workers=1.5), OptionError, ["workers", "whole number", "1.5"]),
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
}


@pytest.mark.parametrize("case", BAD)
def test_one_clear_error(case: str) -> None:
    assert_one_clear_error(BAD[case])
