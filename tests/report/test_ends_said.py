"""The page says over how many steps a model was solved, and why."""

from __future__ import annotations

import pytest

import deadweight as dw


@pytest.mark.parametrize(
    ("limit", "options", "said"),
    [
        (None, {}, "none was cut; a model is solved until its values settle"),
        (None, {"solve": "longest"}, "a model is solved over the {longest} steps of the longest episode"),
        (500, {}, "cut by a time limit of 500 steps; values are those of so many steps"),
    ],
)
def test_ends(limit: int | None, options: dict[str, str], said: str) -> None:
    lift = dw.domains.stochastic_lift(7)
    log = lift.sample(50, seed=0)
    log = log if limit is None else log.with_time_limit(limit)
    ev = dw.evaluate(log, lift.pi_e, lift.pi_b, ["BEHAVIOUR", "DM"], **options)
    found = dict(ev.background.conventions)
    assert found["Ends of episodes"] == said.format(longest=log.horizon)
