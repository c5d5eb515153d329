"""The path says what is true of its levels: what is dropped, what is left, and nothing that is impossible."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from evaluations import lift

from deadweight.diagnostics.dropping import Level, PathContent
from deadweight.report.markup import significant
from deadweight.report.sections import path_section


def level(n_dropped: int, ess: float, **more: object) -> Level:
    return replace(Level(0.5, n_dropped, 0.8, 0.9, 0.05, 0.15, -0.1, ess), **more)


def shown(*levels: Level, of_steps: bool = False) -> str:
    path = PathContent("C-WSPDIS", list(levels), len(levels) - 1, [("a", 1)], 100, 0.95, of_steps)
    table = lift()
    table = table.with_changes(background=replace(table.background, path=path))
    return re.sub(r"<[^>]+>", " ", path_section(table, significant))


def test_no_weights_are_not_said_to_be_all_episodes():
    found = shown(level(0, 10.0), level(4, 100.0))
    assert "none: model only" in found
    assert "100 of 100" not in found
    assert "At the far right no weight is left" in found


def test_equal_policies_keep_all_their_episodes():
    found = shown(level(0, 100.0), level(4, 100.0))
    assert "100 of 100" in found
    assert "none: model only" not in found


def test_steps_are_not_called_states():
    found = shown(level(0, 10.0), level(400, 50.0), of_steps=True)
    assert "400 steps dropped" in found
    assert "states" not in found.lower().replace("state-based", "")


@pytest.mark.parametrize(
    ("limits", "ends"), [((-math.inf, math.inf), (0.7, 1.1)), ((0, 1), (0.7, 1)), ((0, 0.5), (0.5, 0.5))]
)
def test_intervals_stay_within_what_is_possible(limits, ends):
    assert level(1, 10.0, limits=limits).interval == pytest.approx(ends)
