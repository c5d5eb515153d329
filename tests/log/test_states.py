"""State sets: membership, set operations, and the evidence they carry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadweight.errors import DropError
from deadweight.log.labels import StateSet

LABELS = np.array(["a", "b", "c", "d"], dtype=object)
masks = st.lists(st.booleans(), min_size=4, max_size=4).map(np.array)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(masks, masks)
def test_set_operations(first: np.ndarray, second: np.ndarray) -> None:
    a, b = StateSet(first, LABELS, "first"), StateSet(second, LABELS, "second")
    assert set((a | b).states) == set(a.states) | set(b.states)
    assert set((a & b).states) == set(a.states) & set(b.states)
    assert set((~a).states) == set(LABELS) - set(a.states)
    assert len(a) == len(a.states) == first.sum()
    assert (a == b) == (first == second).all()
    assert a == ~~a
    assert all((label in a) == bool(flag) for label, flag in zip(LABELS, first, strict=True))
    assert ~(a | b) == ~a & ~b
    assert hash(a) == hash(StateSet(first, LABELS, "elsewhere"))


def test_evidence_and_words() -> None:
    gaps = np.array([0.0, 0.5, 1.0, 2.0])
    found = StateSet(gaps < 1, LABELS, "Q gap below 1", {"gap": gaps})
    np.testing.assert_array_equal(found.gaps, gaps)
    assert StateSet(gaps < 1, LABELS).gaps is None
    assert repr(found) == "StateSet(2 of 4 states: {'a', 'b'}; Q gap below 1)"
    assert "0.5" in str(found)
    assert (found | StateSet(gaps > 1, LABELS, "large")).origin == "(Q gap below 1) or (large)"


def test_the_mask_is_the_sets_own() -> None:
    mask = np.array([True, False, False, False])
    found = StateSet(mask, LABELS)
    mask[:] = True
    assert found.states == ["a"]
    with pytest.raises(ValueError, match="read-only"):
        found.mask[1] = True


def test_sets_of_different_problems() -> None:
    a = StateSet(np.ones(2, dtype=bool), np.arange(2))
    with pytest.raises(DropError, match="different problems"):
        _ = a | StateSet(np.ones(3, dtype=bool), np.arange(3))
    with pytest.raises(DropError, match="one flag for each state"):
        StateSet(np.ones(3, dtype=bool), np.arange(2))
