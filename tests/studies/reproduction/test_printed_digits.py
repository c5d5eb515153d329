"""One row of each table that has seeds: the paper's digits, all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from deadweight_studies.reproduction.run import SAMPLED_RETURN, Task, measure
from deadweight_studies.reproduction.spec import EXPERIMENTS, TABLES, printed
from deadweight_studies.reproduction.tables import EXACT_MATCH, Mean, verdict
from deadweight_studies.reproduction.worlds import PUBLISHED

POLICIES = Path(__file__).parents[4] / "shared" / "data" / "taxi"


def estimates(experiment: str, setting: int, policies: str | None = None) -> dict[str, np.ndarray]:
    """(runs,) of each column."""
    found: dict[str, list[float]] = {}
    for run in range(EXPERIMENTS[experiment].runs):
        for row in measure(Task(experiment, setting, run, PUBLISHED, policies)):
            found.setdefault(row.column, []).append(row.value)
    return {column: np.array(values) for column, values in found.items()}


@pytest.fixture(scope="module")
def smallest_lift():
    return estimates("deterministic-lift", 7)


@pytest.mark.parametrize("table", ["table-1", "table-5"])
def test_the_smallest_deterministic_lift(smallest_lift, table):
    for position, (_, column) in enumerate(TABLES[table].columns):
        mse = np.mean((smallest_lift[column] - 1.0) ** 2)
        assert round(mse, 4) == printed(table, 7, position), column


@pytest.mark.skipif(
    not POLICIES.exists(),
    reason="the paper's taxi policies (pi18.npy, pi19.npy) are not beside this repository",
)
def test_the_shortest_taxi():
    found = estimates("taxi", 10, str(POLICIES))
    reference = found[SAMPLED_RETURN].mean()
    for position, (_, column) in enumerate(TABLES["table-4"].columns):
        mse = Mean(float(np.mean((found[column] - reference) ** 2)), 0.0)
        assert verdict(mse, printed("table-4", 10, position), 20, 20) == EXACT_MATCH, column
