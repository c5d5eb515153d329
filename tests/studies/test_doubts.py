"""The study of doubts about the old policy: one log of one problem, and the table."""

from __future__ import annotations

from deadweight_studies.doubts import DOUBTS, FORMS, STATED, line, run, table

CELL = "random 8 x 3, 3 steps, n = 1000"


def test_exact_probabilities_are_believed_and_wrong_ones_are_not() -> None:
    record = run(CELL, 0)
    assert set(record) == {f"{kind} {form}" for kind in STATED for form in FORMS}
    shares = line(CELL, [record, record])
    assert shares.shares["exact"] == dict.fromkeys(DOUBTS, 0.0)
    assert all(shares.shares[kind]["either"] == 1.0 for kind in STATED[1:])
    assert table([shares]).splitlines()[-1].startswith(f"| {CELL} | 2 | 1.00 | 0.000 |")


def test_of_table_and_column_the_worse_one_is_told() -> None:
    record = {f"{kind} {form}": [True, False, form == "table"] for kind in STATED for form in FORMS}
    shares = line("any", [record])
    assert shares.shares["exact"]["either"] == 1.0
    assert shares.shares["doubled"]["either"] == 0.0
