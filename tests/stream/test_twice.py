"""The same log on disk, evaluated again, gives the same bits: what is known of it already orders no sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stream.folders import policies, table_of, write

import deadweight as dw
from deadweight.io.stream import open_stream

NAMES = ["BEHAVIOUR", "DM", "WIS", "WPDIS", "WDR", "C-WSPDIS", "WDRSIS"]


def settings() -> list[dict[str, Any]]:
    return [
        {"estimators": NAMES, "drop": ["s1"]},
        {"estimators": ["DM"], "interval": "student-t"},
        {"estimators": NAMES, "drop": ["s1"], "cross_fit": 3},
        {},
    ]


@pytest.mark.parametrize("how", settings(), ids=["names", "model", "three-folds", "default"])
def test_a_second_evaluation_has_the_same_bits(tmp_path: Path, how: dict[str, Any]) -> None:
    pi_e, pi_b = policies()
    folder = write(tmp_path / "log", table_of(text=True, truncated=True))
    log = open_stream(folder, part_rows=40)
    first = dw.evaluate(log, pi_e, pi_b, **how).to_dict()
    assert dw.evaluate(log, pi_e, pi_b, **how).to_dict() == first


def test_a_model_does_not_depend_on_what_was_asked_before(tmp_path: Path) -> None:
    pi_e, pi_b = policies()
    folder = write(tmp_path / "log", table_of(text=True, truncated=True))
    fresh = open_stream(folder, part_rows=40)
    alone = dw.estimate("DM", fresh, pi_e, pi_b, interval=None).value
    known = open_stream(folder, part_rows=40)
    table = dw.evaluate(known, pi_e, pi_b)
    assert table["DM"].value == alone
    assert dw.estimate("DM", known, pi_e, pi_b, interval=None).value == alone


def test_fewer_episodes_than_folds(tmp_path: Path) -> None:
    pi_e, pi_b = policies()
    log = open_stream(write(tmp_path / "log", table_of(3, text=True)), part_rows=4)
    found = [dw.estimate("DM", log, pi_e, pi_b, interval=None).value for _ in range(2)]
    assert found[0] == found[1]
