"""Drawings put values where they belong, and survive values that do not fit."""

from __future__ import annotations

import math
import re

import pytest
from evaluations import ODD, lift
from hypothesis import given
from hypothesis import strategies as st

from deadweight.report import Content, gather
from deadweight.report.charts import PathChart, distribution, forest
from deadweight.report.svg import Scale, significant, spanning, without_outliers

NUMBERS = st.floats(-1e9, 1e9)


@pytest.fixture(scope="module")
def content() -> Content:
    return gather(lift())


@given(st.lists(st.one_of(NUMBERS, st.sampled_from([math.inf, -math.inf, math.nan])), max_size=8))
def test_a_scale_holds_every_finite_value_and_has_ticks(values: list[float]) -> None:
    scale = spanning(values, 0.0, 100.0)
    assert all(scale.holds(value) for value in values if math.isfinite(value))
    assert all(0.0 <= scale(value) <= 100.0 for value in values)
    assert 2 <= len(scale.ticks()) <= 8
    assert len({scale.text(tick) for tick in scale.ticks()}) == len(scale.ticks())


def test_one_hopeless_interval_does_not_press_the_others_together() -> None:
    assert without_outliers([0.0, 1.0], [-1.0, 2.0, 1e6, -math.inf]) == [0.0, 1.0, -1.0, 2.0]


def test_an_interval_that_leaves_the_drawing_ends_in_arrows() -> None:
    odd = gather(ODD["all weights zero"]())
    drawn = forest(odd.estimates, odd.headline, significant)
    endless = [row for row in odd.estimates if row.upper == math.inf]
    assert len(re.findall('class="arrow', drawn)) == 2 * len(endless) > 0


def test_the_forest_tells_every_number(content: Content) -> None:
    drawn = forest(content.estimates, content.headline, significant)
    for row in content.estimates:
        assert f"{row.name} {significant(row.value)}, interval {significant(row.lower)} to" in drawn


def test_marks_of_the_path_lie_within_it_in_order(content: Content) -> None:
    assert content.path is not None
    chart = PathChart(content.path)
    places = [chart.places(k) for k in range(len(content.path.levels))]
    across = [place["x"] for place in places]
    assert across == sorted(set(across))
    for place in places:
        assert (
            place["lower"]
            >= place["inner_lower"]
            >= place["corrected"]
            >= place["inner_upper"]
            >= place["upper"]
        )


def test_weights_have_round_powers_of_ten(content: Content) -> None:
    ticks = re.findall(r'class="tick" text-anchor="middle">([^<]*)<', distribution(content.weights))
    assert ticks == ["10⁻¹⁰", "10⁻⁵", "1"]


def test_values_outside_a_scale_are_put_on_its_border() -> None:
    scale = Scale(0.0, 1.0, 10.0, 20.0)
    assert [scale(value) for value in (-math.inf, 0.5, math.inf)] == [10.0, 15.0, 20.0]
