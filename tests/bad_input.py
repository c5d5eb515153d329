"""A small log and estimates on it, and what an error has to be that refuses one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import deadweight as dw
from deadweight.errors import DeadweightError

PI = [[0.5, 0.5], [0.5, 0.5]]
EPISODES = [[(0, 0, 1.0), (1, 1, 2.0)], [(1, 0, 3.0)]]


def log(**columns: Any) -> dw.Trajectories:
    flat: dict[str, Any] = {
        "states": [0, 1, 1],
        "actions": [0, 1, 0],
        "rewards": [1.0, 2.0, 3.0],
        "offsets": [0, 2, 3],
    }
    return dw.Trajectories(**{**flat, **columns})


def run(name: str = "WIS", pi_e: Any = PI, pi_b: Any = PI, **settings: Any) -> dw.Estimate:
    return dw.estimate(name, log(), pi_e, pi_b, **settings)


Case = tuple[Callable[[], Any], type[DeadweightError], list[str]]
"""What is done, the class of the error, and words of its message: expected, found, where, fix."""


def assert_one_clear_error(case: Case) -> None:
    """Of this very class, and with a message for people."""
    action, kind, words = case
    with pytest.raises(DeadweightError) as caught:
        action()
    assert type(caught.value) is kind
    message = str(caught.value)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    # The problem and its remedy, each on one line; no trace of how it was found out.
    assert len(message.splitlines()) <= 2
    assert caught.value.__cause__ is None
    assert "np." not in message.replace("numpy.exp", ""), f"numpy's wrappers are in: {message}"
