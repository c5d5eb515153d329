"""Made-up results of every experiment under both protocols: quick to make, and the same in every test."""

from __future__ import annotations

import numpy as np
import pytest
from deadweight_studies.reproduction.run import (
    BEHAVIOUR_VALUE,
    BOUNDS,
    EXACT,
    REFERENCE,
    SAMPLED_RETURN,
    Row,
    Work,
    open_store,
)
from deadweight_studies.reproduction.spec import EXPERIMENTS
from deadweight_studies.reproduction.worlds import CORRECTED, PUBLISHED

RUNS = 3


@pytest.fixture
def made_up(tmp_path):
    """A folder with three made-up runs of everything; the work that would have made them."""
    works = []
    for protocol in (PUBLISHED, CORRECTED):
        work = Work(tuple(EXPERIMENTS), protocol, tmp_path, runs=RUNS)
        for name in work.experiments:
            _fill(open_store(work, name), protocol)
        works.append(work)
    return works


def _fill(store, protocol):
    rng = np.random.default_rng(5)
    experiment = store.experiment
    columns = (*experiment.columns, *(experiment.extras if protocol.with_extras else ()))
    for setting in experiment.settings:
        known = {REFERENCE: -2.0, BEHAVIOUR_VALUE: -5.0, **dict.fromkeys(BOUNDS, 0.01)}
        store.add(setting, EXACT, [Row(setting, EXACT, name, value) for name, value in known.items()])
        for run in range(RUNS):
            noise = rng.normal(size=len(columns))
            rows = [
                Row(setting, run, column.label, -2.0 + e, 2 * bool(column.rule), 0.5 * bool(column.rule))
                for column, e in zip(columns, noise.tolist(), strict=True)
            ]
            if experiment.name == "taxi" and protocol.has("E2"):
                rows.append(Row(setting, run, SAMPLED_RETURN, -2.0))
            store.add(setting, run, rows)
    store.gather()
