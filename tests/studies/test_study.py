"""What the stores of a study are made for: each cell its own fingerprint, and no run of another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from deadweight_studies import study
from deadweight_studies.problems import StudyProblem, river
from deadweight_studies.study import Runs, first_runs, make_runs, of_problems

CELLS = {
    "river": StudyProblem("river", river(), 50),
    "hidden river": StudyProblem("hidden river", river(), 50, shown=np.arange(10) // 2),
}


def stores_of(folder: Path, cells: dict[str, StudyProblem], *settings: object) -> study.Stores:
    runs = Runs(name="s", cells=lambda: cells, run=made_up, fingerprint=of_problems(*settings), folder="")
    return runs.stores(folder)


def settings(cells: dict[str, StudyProblem], *others: object) -> list[str]:
    return [store.made_with["settings"] for store in stores_of(Path(), cells, *others).values()]


def test_a_cell_knows_its_problem() -> None:
    cell = CELLS["river"]
    changed = [
        replace(cell, episodes=51),
        replace(cell, problem=river(horizon=26)),
        replace(cell, problem=replace(cell.problem, pi_e=cell.problem.pi_b)),
        replace(cell, problem=replace(cell.problem, pi_b=cell.problem.pi_e)),
        CELLS["hidden river"],
    ]
    different = {settings({"river": one})[0] for one in (cell, *changed)}
    assert len(different) == len(changed) + 1
    assert settings({"river": replace(cell, problem=river())}) == settings({"river": cell})


def test_settings_and_places_count_but_cells_that_follow_do_not() -> None:
    alone, turned = {"river": CELLS["river"]}, dict(reversed(CELLS.items()))
    assert settings(CELLS, 1)[0] == settings(alone, 1)[0]
    assert settings(CELLS, 1)[0] != settings(alone, 2)[0]
    assert settings(turned, 1)[1] != settings(alone, 1)[0]  # its place is part of its seeds


def made_up(name: str, number: int) -> dict[str, Any]:
    return {"value": f"{name} {number}"}


def test_runs_of_another_version_are_not_used(tmp_path: Path, monkeypatch: Any) -> None:
    told: list[str] = []
    assert list(make_runs(stores_of(tmp_path, CELLS), made_up, 3, 1, told.append)) == list(CELLS)
    assert told == []
    monkeypatch.setattr(study, "__version__", "another")
    stores = stores_of(tmp_path, CELLS)
    assert [len(store) for store in stores.values()] == [0, 0]
    assert list(make_runs(stores, made_up, 2, 1, told.append)) == list(CELLS)
    assert told == [
        f"6 records in '{tmp_path}' were made by another version or with other settings: kept, but not used."
    ]
    assert first_runs(stores["river"], None) == [made_up("river", 0), made_up("river", 1)]
    assert first_runs(stores["river"], 1) == [made_up("river", 0)]


def test_workers_change_nothing(tmp_path: Path) -> None:
    content = []
    for workers in (1, 2):
        stores = stores_of(tmp_path / str(workers), CELLS)
        assert list(make_runs(stores, made_up, 4, workers)) == list(CELLS)
        content.append([store.path.read_bytes() for store in stores.values()])
    assert content[0] == content[1]
