"""Against what one would write by hand in numpy: ratios looked up, padded to a matrix, multiplied, summed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deadweight.estimate import estimate
from deadweight.studies.benchmark.logs import Setting, setting
from deadweight.studies.benchmark.paired import ratio
from deadweight.studies.benchmark.result import Result
from deadweight.typing import FloatArray

HORIZON = 100


def one_liners(scale: float) -> list[Result]:
    """IS, PDIS and WPDIS, each by itself."""
    made = setting(int(100_000 * scale), HORIZON)
    what = f"{made.log.n_episodes:,} x {HORIZON}, against a line of numpy"
    found = []
    for name, by_hand in BY_HAND.items():

        def ours(name: str = name) -> float:
            return estimate(name, made.log, made.pi_e, made.pi_b, interval=None).value

        def theirs(by_hand: Callable[[Setting], float] = by_hand) -> float:
            return by_hand(made)

        np.testing.assert_allclose(ours(), theirs(), rtol=1e-9)
        found.append(Result(f"{name}, {what}", str(ratio(ours, theirs, rounds=5)), "at most 1x"))
    return found


def _ratios(made: Setting) -> FloatArray:
    found: FloatArray = (made.pi_e / made.pi_b)[made.log.states, made.log.actions].reshape(-1, HORIZON)
    return found


def _rewards(made: Setting) -> FloatArray:
    rewards: FloatArray = made.log.rewards.reshape(-1, HORIZON)
    return rewards


def _is(made: Setting) -> float:
    return float((np.prod(_ratios(made), axis=1) * _rewards(made).sum(axis=1)).mean())


def _pdis(made: Setting) -> float:
    return float((np.cumprod(_ratios(made), axis=1) * _rewards(made)).sum(axis=1).mean())


def _wpdis(made: Setting) -> float:
    w = np.cumprod(_ratios(made), axis=1)
    return float(((w * _rewards(made)).sum(axis=0) / w.sum(axis=0)).sum())


BY_HAND: dict[str, Callable[[Setting], float]] = {"IS": _is, "PDIS": _pdis, "WPDIS": _wpdis}
