"""Summaries merge: any grouping gives the sums of the whole, weights of any size included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadweight.sums.summaries import ColumnSums, KeyedSums, Kish, Moments, RowMoments, Running
from deadweight.sums.weighting import running_product

FEW = settings(max_examples=40, deadline=None, derandomize=True)
numbers = st.floats(-1e6, 1e6, allow_nan=False)


@FEW
@given(st.lists(numbers, min_size=2, max_size=20), st.integers(1, 19))
def test_moments(values: list[float], cut: int) -> None:
    array = np.array(values)
    cut = min(cut, len(array) - 1)
    merged = Moments.of(array[:cut]).merge(Moments.of(array[cut:]))
    assert merged.n == len(array)
    assert merged.mean == pytest.approx(array.mean(), rel=1e-12, abs=1e-9)
    assert merged.std_error == pytest.approx(array.std(ddof=1) / np.sqrt(len(array)), rel=1e-9, abs=1e-9)


def test_moments_of_one_value() -> None:
    assert np.isnan(Moments.of(np.array([3.0])).std_error)


@pytest.mark.parametrize("episodes", [1, 9, 1000, 70_000])
def test_rows_have_the_bits_that_they_have_alone(episodes: int) -> None:
    values = np.random.default_rng(episodes).normal(size=(episodes, 70)).T
    returns, rows = values[0].copy(), [3, 69, 3, 11]
    found, apart = RowMoments.of(values, rows), RowMoments.of(values, rows, returns)
    for place, row in enumerate(rows):
        for moments, expected in ((found, values[row]), (apart, values[row] - returns)):
            assert moments.row(place) == Moments.of(np.ascontiguousarray(expected))
    assert RowMoments.of(values).row(69) == Moments.of(np.ascontiguousarray(values[69]))


@FEW
@given(st.integers(2, 8), st.integers(1, 6), st.integers(0, 10_000), st.sampled_from([0.0, 10.0, 1000.0]))
def test_column_sums_and_kish(m: int, columns: int, seed: int, size: float) -> None:
    """Weights exp(N(0, size)), far outside the range of doubles for the largest size."""
    rng = np.random.default_rng(seed)
    mantissas, exponents = (
        rng.uniform(0.5, 1, (m, columns)),
        rng.normal(0, size, (m, columns)).astype(np.int64),
    )
    mantissas[rng.random((m, columns)) < 0.2] = 0.0
    values = rng.normal(size=(m, columns))
    counted = rng.random((m, columns)) < 0.7
    values[~counted] = 0.0
    for members in (None, counted):
        whole_sums, whole_kish = _of(mantissas, exponents, values, members, slice(None))
        parts = [_of(mantissas, exponents, values, members, at) for at in (slice(0, 1), slice(1, None))]
        sums, kish = parts[0][0].merge(parts[1][0]), parts[0][1].merge(parts[1][1])
        np.testing.assert_allclose(sums.ratio, whole_sums.ratio, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(kish.ess, whole_kish.ess, rtol=1e-9)
        np.testing.assert_array_equal(sums.counted, whole_sums.counted)
        for c in range(columns):
            inside = np.flatnonzero(mantissas[:, c] * (1 if members is None else members[:, c]))
            if inside.size == 0:
                assert sums.ratio[c] == kish.ess[c] == 0
                continue
            top = exponents[inside, c].max()
            w = mantissas[inside, c] * np.exp2(exponents[inside, c] - float(top))
            assert sums.ratio[c] == pytest.approx(w @ values[inside, c] / w.sum(), rel=1e-9, abs=1e-12)
            assert kish.ess[c] == pytest.approx(w.sum() ** 2 / (w @ w), rel=1e-9)


def _of(mantissas, exponents, values, counted, at) -> tuple[ColumnSums, Kish]:  # type: ignore[no-untyped-def]
    weights = Running(mantissas[at], exponents[at])
    members = None if counted is None else counted[at]
    return ColumnSums.of(weights, values[at], members), Kish.of(weights, members)


def test_an_episode_that_left_does_not_set_the_unit() -> None:
    """A huge weight outside the normaliser must not make those inside it vanish."""
    weights = Running(np.array([[0.5], [0.5]]), np.array([[5_000], [0]]))
    sums = ColumnSums.of(weights, np.array([[0.0], [3.0]]), np.array([[False], [True]]))
    assert sums.ratio.tolist() == [3.0]
    assert Kish.of(weights, np.array([[False], [True]])).ess.tolist() == [1.0]


def test_shorter_blocks_keep_their_last_weight() -> None:
    short = ColumnSums.of(Running(np.array([[2.0]])), np.array([[1.0]]))
    long = ColumnSums.of(Running(np.array([[1.0, 3.0]])), np.array([[1.0, 1.0]]))
    for merged in (short.merge(long), long.merge(short)):
        assert merged.weight.tolist() == [3.0, 5.0]
        assert merged.weighted.tolist() == [3.0, 3.0]
        assert merged.counted.tolist() == [2.0, 2.0]


@FEW
@given(st.lists(st.tuples(st.integers(0, 5), numbers), min_size=1, max_size=20), st.integers(0, 20))
def test_keyed_sums(pairs: list[tuple[int, float]], cut: int) -> None:
    keys, values = np.array([k for k, _ in pairs]), np.array([v for _, v in pairs])
    merged = KeyedSums.of(keys[:cut], 1.0, values[:cut]).merge(KeyedSums.of(keys[cut:], 1.0, values[cut:]))
    assert merged.keys.tolist() == sorted(set(keys.tolist()))
    for key, number, total in zip(merged.keys, *merged.sums, strict=True):
        assert number == (keys == key).sum()
        assert total == pytest.approx(values[keys == key].sum(), rel=1e-12, abs=1e-6)


@FEW
@given(st.integers(1, 4), st.integers(1, 200), st.sampled_from([0.1, 5.0, 100.0, 600.0]), st.integers(0, 999))
def test_running_products(m: int, columns: int, size: float, seed: int) -> None:
    """log2 of the products against sums of log2 of the ratios; zeros stay zero."""
    rng = np.random.default_rng(seed)
    exponents = rng.uniform(-size, size, (m, columns))
    ratios = np.exp2(exponents)
    ratios[:, columns // 2] = rng.choice([0.0, 1.0], size=m)
    found = running_product(ratios)
    whole = 0 if found.exponents is None else found.exponents
    with np.errstate(divide="ignore"):
        logs = np.log2(found.values) + whole
        expected = np.cumsum(np.log2(ratios), axis=1)
    np.testing.assert_allclose(logs, expected, rtol=1e-10, atol=1e-8)
    assert np.isfinite(found.values).all()
