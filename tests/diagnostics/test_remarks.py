"""Every flag's sentence is true of the estimator that carries it."""

from __future__ import annotations

import numpy as np
import pytest

import deadweight as dw
from deadweight.estimators.estimator import BUILT_IN
from deadweight.results import FLAGS, remark, remarks

PROBLEM = dw.domains.stochastic_lift(9)
LOG = PROBLEM.sample(200, seed=1)
EVERYTHING = sorted(set(LOG.states.tolist()))


@pytest.mark.parametrize("name", [name for name in dw.ESTIMATORS if BUILT_IN[name].is_state_based])
def test_all_dropped(name: str) -> None:
    found = dw.estimate(name, LOG, PROBLEM.pi_e, PROBLEM.pi_b, drop=EVERYTHING, interval=None)
    naive = dw.estimate("BEHAVIOUR", LOG, PROBLEM.pi_e, PROBLEM.pi_b, interval=None).value
    assert "all-dropped" in found.flags
    says_naive, says_model = "naive average" in found.explain(), "told by the model" in found.explain()
    made = BUILT_IN[name]
    assert says_model == (made.is_corrected or made.contains_correction)
    if says_naive:
        assert found.value == pytest.approx(naive)
    if says_model:
        assert abs(found.value - naive) > 1e-3


def test_a_doubly_robust_estimate_is_corrected_by_few() -> None:
    assert "decide the estimate" in remark("low-ess", BUILT_IN["WIS"].about)
    assert "model's value is corrected" in remark("low-ess", BUILT_IN["WDR"].about)


def test_one_entry_for_each_sentence() -> None:
    flags = ("all-dropped", "low-ess")
    found = remarks([(BUILT_IN[name].about, flags) for name in ("SIS", "WSIS", "C-SIS", "DRSIS", "SMIS")])
    assert [(flag, names) for flag, names, _ in found] == [
        ("low-ess", ["SIS", "WSIS", "C-SIS", "SMIS"]),
        ("low-ess", ["DRSIS"]),
        ("all-dropped", ["SIS", "WSIS"]),
        ("all-dropped", ["C-SIS", "DRSIS"]),
        ("all-dropped", ["SMIS"]),
    ]


def test_the_report_says_the_same(tmp_path) -> None:
    ev = dw.evaluate(LOG, PROBLEM.pi_e, PROBLEM.pi_b, ["WSIS", "C-WSPDIS", "WDRSIS"], drop=EVERYTHING)
    page = ev.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "(WSIS): " + remark("all-dropped", BUILT_IN["WSIS"].about) in page
    assert "(C-WSPDIS, WDRSIS): " + remark("all-dropped", BUILT_IN["WDRSIS"].about) in page
    assert set(FLAGS) >= {flag for name in ev for flag in ev[name].flags}
    assert np.isfinite(ev.headline.value)
