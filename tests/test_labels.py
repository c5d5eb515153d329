"""Labels: which become indices, which are numbered, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deadweight as dw
from deadweight.errors import DataError
from deadweight.log.labels import as_column, encode, positions

FEW = settings(max_examples=60, deadline=None, derandomize=True)


@FEW
@given(
    st.one_of(
        st.lists(st.integers(-50, 20_000), min_size=1),
        st.lists(st.text(max_size=3), min_size=1),
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1),
    )
)
def test_labels_of_codes_are_the_values(values: list[Any]) -> None:
    codes, labels = encode(as_column(values, "state"), "state")
    assert [labels[code] for code in codes] == values
    assert len(labels) == len(set(map(repr, labels)))
    assert list(labels) == sorted(labels)
    assert positions(labels, values).tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([2, 0], [0, 1, 2]),  # an unvisited state keeps its place
        ([2.0, 0.0], [0, 1, 2]),
        ([0, 1_020], list(range(1_021))),  # 10 * 2 + 1,000
        ([0, 1_021], [0, 1_021]),  # one more is sparse
        ([-1, 3], [-1, 3]),
        (["b", "a", "b"], ["a", "b"]),
        (["a\0", "a"], ["a", "a\0"]),
        ([(1, 0), (0, 1)], [(0, 1), (1, 0)]),
        ([True, False], [False, True]),
        ([0.5, 0.25], [0.25, 0.5]),
    ],
)
def test_what_is_kept_and_what_is_numbered(values: list[Any], labels: list[Any]) -> None:
    assert encode(as_column(values, "state"), "state")[1].tolist() == labels


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "a"], "one type; found int, str"),
        (["a", None], "rows 1 have none"),
        ([0.5, float("nan")], "rows 1 have none"),
    ],
)
def test_labels_that_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        encode(as_column(values, "state"), "state")


def test_a_table_of_features_is_no_column() -> None:
    with pytest.raises(DataError, match="one entry for each step"):
        dw.Trajectories(np.zeros((3, 2)), [0, 0, 0], [1.0, 1.0, 1.0], [0, 3])
