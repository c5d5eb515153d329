"""Drawings put values where they belong, and survive values that do not fit."""

from __future__ import annotations

import math
import re

import pytest
from evaluations import ODD, lift
from hypothesis import given
from hypothesis import strategies as st

from deadweight.report.charts import PathChart, distribution, forest
from deadweight.report.markup import Scale, significant, spanning, without_outliers
from deadweight.report.sections import in_families
from deadweight.results import Evaluation

NUMBERS = st.floats(-1e9, 1e9)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return lift()


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
    odd = ODD["all weights zero"]()
    drawn = forest(in_families(odd), odd.headline, significant)
    endless = [name for name in odd if odd[name].interval[1] == math.inf]
    assert len(re.findall('class="arrow', drawn)) == 2 * len(endless) > 0


def test_the_forest_tells_every_number(evaluation: Evaluation) -> None:
    drawn = forest(in_families(evaluation), evaluation.headline, significant)
    for name in evaluation:
        lower = significant(evaluation[name].interval[0])
        assert f"{name} {significant(evaluation[name].value)}, interval {lower} to" in drawn


def test_marks_of_the_path_lie_within_it_in_order(evaluation: Evaluation) -> None:
    path = evaluation.background.path
    assert path is not None
    chart = PathChart(path)
    places = [chart.places(k) for k in range(len(path.levels))]
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


def test_weights_have_round_powers_of_ten(evaluation: Evaluation) -> None:
    drawn = distribution(evaluation.background.weights)
    ticks = re.findall(r'class="tick" text-anchor="middle">([^<]*)<', drawn)
    assert ticks == ["10⁻¹⁰", "10⁻⁵", "1"]


def test_values_outside_a_scale_are_put_on_its_border() -> None:
    scale = Scale(0.0, 1.0, 10.0, 20.0)
    assert [scale(value) for value in (-math.inf, 0.5, math.inf)] == [10.0, 15.0, 20.0]
