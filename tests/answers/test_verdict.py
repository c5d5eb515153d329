"""The verdict: clear cases, the null, and everything that forbids one."""

from __future__ import annotations

import numpy as np

import deadweight as dw
from deadweight.verbs.verdict import verdict

RNG = np.random.default_rng(0)
PI_B = [[0.5, 0.5]]


def bandit(n: int = 400) -> dw.Trajectories:
    """Action 1 pays one more than action 0, with noise."""
    actions = RNG.integers(2, size=n)
    return dw.Trajectories(np.zeros(n, int), actions, actions + RNG.normal(size=n), np.arange(n + 1))


def answer(
    pi_e: list[list[float]], name: str = "WIS", log: dw.Trajectories | None = None, **settings: object
) -> str:
    table = dw.evaluate(
        bandit() if log is None else log, pi_e, PI_B, ["BEHAVIOUR", name], drop=[], **settings
    )
    return verdict(table[name], table["BEHAVIOUR"]).answer


def test_clear_cases() -> None:
    assert answer([[0.1, 0.9]]) == "better"
    assert answer([[0.9, 0.1]]) == "worse"
    assert answer([[0.1, 0.9]], "WDR", bandit(2000)) == "better"
    assert answer([[0.1, 0.9]], log=bandit(4000), interval="guaranteed", return_range=(-5.0, 6.0)) == "better"


def test_the_same_policy_is_neither() -> None:
    for name in ("IS", "WIS", "WPDIS", "C-WSPDIS", "WDR"):
        assert answer(PI_B, name) == "cannot tell"


def test_against_a_number() -> None:
    found = dw.estimate("WIS", bandit(), [[0.1, 0.9]], PI_B)
    assert [verdict(found, number).answer for number in (0.0, 0.9, 2.0)] == ["better", "cannot tell", "worse"]


def test_few_effective_episodes_forbid_one() -> None:
    log = dw.Trajectories.from_episodes([[(0, 1, 5.0 + i / 100)] for i in range(5)] + [[(0, 0, 0.0)]] * 500)
    table = dw.evaluate(log, [[0.0, 1.0]], [[0.99, 0.01]], ["BEHAVIOUR", "WIS"])
    found = verdict(table["WIS"], table["BEHAVIOUR"])
    assert found.answer == "cannot tell"
    assert "effectively" in found.reasons[-1]


def test_wrong_propensities_forbid_one() -> None:
    table = dw.evaluate(bandit(2000), [[0.1, 0.9]], [[0.2, 0.8]], ["BEHAVIOUR", "WIS"])
    found = verdict(table["WIS"], table["BEHAVIOUR"])
    assert found.answer == "cannot tell"
    assert "average 1" in found.reasons[-1]


def test_no_interval_no_verdict() -> None:
    found = dw.estimate("WIS", bandit(), [[0.1, 0.9]], PI_B, interval=None)
    assert verdict(found, 0.0).answer == "cannot tell"


def test_undecided_is_said_plainly() -> None:
    table = dw.evaluate(bandit(), PI_B, PI_B, ["BEHAVIOUR", "WIS"])
    lower, upper = table.verdict.interval
    assert lower <= 0 <= upper
    assert table.verdict.reasons[-1] == "The range includes zero."
