"""One thread for the products of a small log, and all of them again afterwards."""

from __future__ import annotations

import pytest

from deadweight.tools.limits import FEW_STEPS, few_threads, one_blas_thread, switches

BOTH = ("numpy", "scipy.linalg")


def counts() -> list[int]:
    return [ask() for ask, _ in switches(*BOTH)]


@pytest.fixture
def several():
    """As many threads as a machine with several cores has."""
    if not switches(*BOTH):
        pytest.skip("another library than OpenBLAS")
    before = counts()
    for _, turn in switches(*BOTH):
        turn(2)
    yield counts()
    for (_, turn), count in zip(switches(*BOTH), before, strict=True):
        turn(count)


def test_one_meanwhile_and_as_before_afterwards(several):
    with few_threads(100):
        assert set(counts()) == {1}
        with few_threads(FEW_STEPS + 1):
            assert set(counts()) == {1}
    assert counts() == several
    with few_threads(FEW_STEPS + 1):
        assert counts() == several


def test_one_for_numpy_alone(several):
    with one_blas_thread():
        assert counts()[0] == 1
    assert counts() == several


def test_an_error_leaves_them_as_they_were(several):
    with pytest.raises(ZeroDivisionError), few_threads(100):
        raise ZeroDivisionError
    assert counts() == several
