"""Protocols: two ends, and every switch between them."""

from __future__ import annotations

import pytest
from deadweight_studies.reproduction.run import Task, measure
from deadweight_studies.reproduction.spec import EXPERIMENTS
from deadweight_studies.reproduction.worlds import CORRECTED, DISCREPANCIES, PUBLISHED, protocol, touching

import deadweight as dw
from deadweight.errors import OptionError


@pytest.mark.parametrize("name", ["published", "corrected", "published-D3-D4", "corrected+D1+D2"])
def test_a_name_says_what_a_protocol_is(name):
    assert protocol(name).name == name


def test_switches_go_one_by_one():
    assert (
        protocol("published" + "".join(f"-{name}" for name in DISCREPANCIES)).switches == CORRECTED.switches
    )
    assert (
        protocol("corrected" + "".join(f"+{name}" for name in DISCREPANCIES)).switches == PUBLISHED.switches
    )


@pytest.mark.parametrize(("name", "message"), [("publishd", "published"), ("published-D12", "D11")])
def test_what_does_not_exist_is_refused(name, message):
    with pytest.raises(OptionError, match=message):
        protocol(name)


def test_options_are_those_of_the_authors_code_and_the_defaults():
    experiment = EXPERIMENTS["taxi"]
    published = PUBLISHED.options(experiment)
    assert all(dw.PUBLISHED[name] == value for name, value in published.items() if name in dw.PUBLISHED)
    assert PUBLISHED.options(EXPERIMENTS["stochastic-lift"])["window"] is None
    assert CORRECTED.options(experiment)["window"] == 10


def test_every_discrepancy_bears_on_some_column():
    found = {
        switch
        for experiment in EXPERIMENTS.values()
        for column in experiment.columns
        for switch in touching(experiment, column)
    }
    assert found == set(DISCREPANCIES) - {"D11"}  # which changes the way, not the number


def estimates_of(experiment: str, setting: int, name: str) -> dict[str, float]:
    return {row.column: row.value for row in measure(Task(experiment, setting, 0, protocol(name)))}


@pytest.mark.parametrize(
    ("experiment", "setting", "switch", "changed"),
    [
        ("stochastic-lift", 9, "D3", {"WINCRIS", "WSINCRIS"}),
        ("stochastic-lift", 9, "D7", {"SDRE", "SSDRE"}),
        ("inventory", 100, "D6", {"WSIS", "WSPDIS", "WSINCRIS", "SSDRE", "WDR", "WDRSIS"}),
        ("taxi", 10, "D9", {"WDRSIS"}),
    ],
)
def test_a_switch_changes_what_it_says(experiment, setting, switch, changed):
    before = estimates_of(experiment, setting, "published")
    after = estimates_of(experiment, setting, f"published-{switch}")
    different = {column for column in before if before[column] != pytest.approx(after[column], rel=1e-12)}
    assert {column for column in different if "(" not in column} <= changed
    assert different


@pytest.mark.parametrize("episodes", [1000])
def test_fifty_drops_every_state_of_inventory(episodes):
    rows = {row.column: row for row in measure(Task("inventory", episodes, 0, PUBLISHED))}
    assert rows["WSIS"].n_dropped == 10
    assert rows["WSIS"].dropped_share == 1.0
    assert rows["WSIS"].value == pytest.approx(rows["BEHAVIOUR"].value)
