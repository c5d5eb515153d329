"""Tables of very small and very large rewards show digits that mean something."""

import re

import pytest

import deadweight as dw
from deadweight.report.markup import values_like


def _log(unit: float) -> dw.Trajectories:
    log = dw.domains.deterministic_lift(5).sample(40, seed=0)
    episodes = []
    for first, end in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        steps = zip(log.states[first:end], log.actions[first:end], unit * log.rewards[first:end], strict=True)
        episodes.append([(int(s), int(a), float(r)) for s, a, r in steps])
    return dw.Trajectories.from_episodes(episodes)


@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1e12])
def test_a_table_shows_as_many_digits_of_any_reward(unit: float) -> None:
    log, lift = _log(unit), dw.domains.deterministic_lift(5)
    found = dw.evaluate(log, lift.pi_e, lift.pi_b, ["BEHAVIOUR", "WPDIS"])
    compared = dw.compare(log, {"new": lift.pi_e, "old": lift.pi_b}, lift.pi_b)
    shown = [row[1] for row in [*found.rows(), *compared.rows()]]
    values = [one.value for one in found.estimates.values()]
    values += [compared[name].headline.value for name in compared.ranking]
    for text, value in zip(shown, values, strict=True):
        assert float(text) == pytest.approx(value, rel=2e-3)
        assert len(re.sub(r"e.*|[^0-9]", "", text).lstrip("0")) <= 11


def test_the_path_and_the_states_do_as_well() -> None:
    log, lift = _log(1e-7), dw.domains.deterministic_lift(5)
    report = dw.diagnostics.state_report(log, lift.pi_e, lift.pi_b)
    assert any(float(row[4]) != 0.0 for row in report.cells())


def test_a_report_writes_small_values_as_powers_and_rounding_as_zero() -> None:
    form = values_like(3e-9)
    assert form(4.508e-07) == "4.508e−07"
    assert form(1e-17) == "0.000000"
    assert form(0.25) == "0.250000"
