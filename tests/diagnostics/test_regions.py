"""Regions in words: the right thresholds, ranges, how well the words fit, and when there are none."""

from __future__ import annotations

import numpy as np
import pytest

from deadweight.diagnostics.dropping import in_words, round_between


@pytest.fixture
def x():
    return np.random.default_rng(0).uniform(0, 10, (2000, 3))


NAMES = ("lactate", "map", "age")


def test_one_threshold(x):
    found = in_words(x, NAMES, x[:, 0] < 4)
    assert found.words == ("lactate below 4",)
    assert found.accuracy == 1.0
    assert found.share == pytest.approx((x[:, 0] < 4).mean())


def test_a_corner_and_a_range(x):
    corner = in_words(x, NAMES, (x[:, 0] < 4) & (x[:, 1] >= 6))
    assert corner.accuracy > 0.99
    assert corner.words == ("lactate below 3.99, map at least 6",), "nothing lies between 3.99 and 4 there"
    between = in_words(x, NAMES, (x[:, 2] >= 3) & (x[:, 2] < 7))
    assert between.words == ("age from 3 to below 7",)


def test_what_two_questions_cannot_say_is_said_to_be_rough(x):
    ring = np.abs(np.hypot(x[:, 0] - 5, x[:, 1] - 5) - 3) < 1
    found = in_words(x, NAMES, ring)
    assert found.accuracy < 0.9
    assert found.accuracy >= max(ring.mean(), 1 - ring.mean()) - 1e-12, "never worse than all or none"


def test_all_and_none(x):
    assert in_words(x, NAMES, np.ones(len(x), dtype=bool)) == in_words(x, NAMES, x[:, 0] >= 0)
    everything = in_words(x, NAMES, np.ones(len(x), dtype=bool))
    assert (everything.words, everything.share, everything.accuracy) == ((), 1.0, 1.0)
    nothing = in_words(x, NAMES, np.zeros(len(x), dtype=bool))
    assert (nothing.words, nothing.share) == ((), 0.0)


def test_a_feature_of_two_values(x):
    flags = np.random.default_rng(1).random(2000) < 0.5
    columns = np.column_stack([flags.astype(float), x[:, 0]])
    assert in_words(columns, ["ward", "age"], flags).words == ("ward at least 1",)


@pytest.mark.parametrize(("low", "high"), [(1.999, 2.001), (-3.2, -3.1), (0.0, 1e-9), (12345.0, 12346.0)])
def test_round_numbers_stay_between(low, high):
    assert low < round_between(low, high) <= high
