"""How a sum is made depends on its family, never on its company: the same bits alone and in any table."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.asked import BY_ROW
from oracle.logs import case_of

import deadweight as dw

# Labels and features, ends and cuts, durations, several old policies, parts; long ones and lopsided ones.
CASES = [
    "labels, plain",
    "labels, text",
    "labels, sparse",
    "labels, long",
    "labels, counts",
    "labels, published",
    "labels, cross-fitted",
    "labels, dropped by name",
    "cut, limit and ends",
    "durations, discounted",
    "several, ids",
    "stream, columns",
    "features, lift",
]
FIGURES = ("value", "std_error", "bias", "ess")


def same(table: Any, alone: Any) -> bool:
    return table == alone or bool(np.isnan(table) and np.isnan(alone))


@pytest.mark.parametrize("name", CASES)
def test_an_estimate_has_the_same_bits_alone_and_in_a_table(name: str, tmp_path: Path) -> None:
    case = case_of(name)
    log = case.folder(tmp_path / "log") if case.streamed else case.log
    options = {key: value for key, value in case.options.items() if key != "interval"}
    policies = case.pi_e, case.pi_b
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            table = dw.evaluate(log, *policies, [*BY_ROW, "BLEND"], background=False, **options)
        except dw.errors.DeadweightError:  # some names need all of pi_e
            table = dw.evaluate(log, *policies, ["BEHAVIOUR", "IS", "WIS", "PDIS", "WPDIS"], **options)
        differing = []
        for estimator in table.estimates:
            alone = dw.estimate(estimator, log, *policies, **options)
            pairs = [(getattr(table[estimator], figure), getattr(alone, figure)) for figure in FIGURES]
            differing += [(estimator, pair) for pair in pairs if not same(*pair)]
    assert differing == []


def test_company_of_other_values_changes_no_bit() -> None:
    """Doubly robust estimates by another model would be walked together, if sums asked who else is there."""
    lift = dw.domains.stochastic_lift(9)
    log, policies = lift.sample(200, seed=3), (lift.pi_e, lift.pi_b)
    whole = dw.estimate("WDRSIS", log, *policies)
    names = ["WSIS", "DRSIS", "C-WSPDIS", "WDRSIS", "DR", "LIN", "BLEND"]
    for k in range(1, len(names)):
        table = dw.evaluate(log, *policies, [*names[k:], *names[:k]], background=bool(k % 2))
        assert (table["WDRSIS"].value, table["WDRSIS"].std_error) == (whole.value, whole.std_error)
