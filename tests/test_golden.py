"""Every value of the golden files, through the public API."""

import json
from pathlib import Path

import numpy as np
import pytest

import deadweight as dw

FOLDER = Path(__file__).parent / "golden"
CASES = {name: json.loads((FOLDER / f"{name}.json").read_text()) for name in ("lift7", "random4x3")}
DROPS = ("drop_none", "drop_q", "drop_cov", "drop_state0")
STATE_BASED = {"IS": "SIS", "PDIS": "SPDIS", "DR": "DRSIS", "INCRIS": "SINCRIS"}
VARIANCE = {"var-published": "sample", "var-estimator": "estimator"}
FINISHED = {"finished-published": "one", "finished-absorbing": "absorb"}


def log_of(case):
    episodes = [list(zip(e["s"], e["a"], e["r"], strict=True)) for e in case["episodes"]]
    return dw.Trajectories.from_episodes(episodes)


def request(key):
    """Estimator name and options behind a key of the golden files."""
    options = {"unseen": "terminate", "unseen_actions": "zero", "solve": "longest"}
    name, *rest = key.split("_")
    if name == "SDRE":
        options["mode"] = rest[0]
    elif rest == ["published", "keep", "first"]:
        options["drop_first"] = False
    elif rest:
        window, finished, variance = rest
        options.update(window=int(window[1:]), ended_ratios=FINISHED[finished], variance=VARIANCE[variance])
    weighted = name.startswith("W")
    base = name[1:] if weighted else name
    return ("W" if weighted else "") + STATE_BASED.get(base, "S" + base), options


def values():
    for case in CASES:
        for drop in DROPS:
            for key in CASES[case]["expected"][drop]:
                if key != "states" and not key.startswith("m_"):
                    yield case, drop, key


@pytest.mark.parametrize(("case", "drop", "key"), list(values()))
def test_estimate(case, drop, key):
    data = CASES[case]
    expected = data["expected"][drop]
    name, options = request(key)
    found = dw.estimate(
        name, log_of(data), data["pi_e"], data["pi_b"], drop=expected["states"], interval=None, **options
    )
    assert found.value == pytest.approx(expected[key], rel=1e-8 if "SDRE" in key else 1e-10)
    if "INCRIS" in key and not key.startswith("W"):
        assert found.details["windows"].tolist() == expected["m_" + key.split("_", 1)[1]]


@pytest.mark.parametrize("case", CASES)
def test_model(case):
    data = CASES[case]
    expected = data["expected"]
    log = log_of(data)
    model = dw.fit_mdp(log, data["n_states"], data["n_actions"], unseen="terminate")
    q = dw.q_values(model, np.array(data["pi_e"]), log.horizon)
    np.testing.assert_allclose(q[0], expected["Q_t0"], rtol=1e-10)
    np.testing.assert_allclose((q[0] * data["pi_e"]).sum(axis=1), expected["V_t0"], rtol=1e-10)
    found = dw.estimate("DM", log, data["pi_e"], data["pi_b"], unseen="terminate", solve="longest")
    assert found.value == pytest.approx(expected["DM"], rel=1e-10)
