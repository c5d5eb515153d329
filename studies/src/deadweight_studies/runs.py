"""Runs of a study: a store for each cell, filled side by side, and never repeated.

A run is a function of its cell's name and its number only, so that a study can be stopped, resumed, extended
and repeated in part. A cell's store carries the fingerprint of the package's version, of the study's settings
and of the cell's problem: another problem under an old name starts anew, and a new cell leaves the others as
they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from deadweight._version import __version__
from deadweight.tools.files import check_folder
from deadweight_studies.problems import StudyProblem
from deadweight_studies.records import Job, Record, Store, digest, fill, remarks

Run = Callable[[str, int], Record]
Stores = Mapping[str, Store]


def open_stores(folder: Path, study: str, cells: Mapping[str, StudyProblem], *settings: object) -> Stores:
    """The store of every cell.

    Args:
      folder: where they are.
      study: its name.
      cells: the cells in the order that their seeds depend on.
      settings: whatever else the numbers depend on.
    """
    return {
        name: store_of(folder, study, name, digest(place, *settings, *_parts(cell)))
        for place, (name, cell) in enumerate(cells.items())
    }


def store_of(folder: Path, study: str, cell: str, settings: str) -> Store:
    """The store of one cell; `settings` is a digest of all that its numbers depend on."""
    path = folder / f"{''.join(c if c.isalnum() else '-' for c in cell)}.jsonl"
    return Store(path, {"version": __version__, "study": study, "cell": cell, "settings": settings})


def _parts(cell: StudyProblem) -> Iterator[object]:
    """Everything that the logs of a cell, and what is estimated from them, depend on."""
    mdp = cell.problem.mdp
    yield from (
        cell.episodes,
        cell.shown,
        repr(cell.noise),
        mdp.horizon,
        mdp.r,
        mdp.d0,
        mdp.transition_rewards,
    )
    yield from (mdp.P.data, mdp.P.indices, mdp.P.indptr)
    yield from (cell.problem.pi_e.probs, cell.problem.pi_b.probs)


def make_runs(
    stores: Stores,
    run: Run,
    runs: int,
    workers: int = 1,
    tell: Callable[[str], None] = lambda line: None,
    only: Iterable[str] | None = None,
) -> Iterator[str]:
    """Make the first `runs` runs of every cell where they are missing; yields each finished cell, in order.

    `tell` gets a line on what was found damaged, or made by another version; `only` names some of the cells.
    """
    if only is not None:
        stores = {name: stores[name] for name in only}
    for folder in {store.path.parent for store in stores.values()}:
        check_folder(folder)
    for line in remarks(list(stores.values())):
        tell(line)
    wanted = [Job(store, (k,), (name, k)) for name, store in stores.items() for k in range(runs)]
    missing = Counter(job.arguments[0] for job in wanted if not job.done)
    filling = fill(wanted, run, workers)
    for name, store in stores.items():
        while missing[name] > 0:
            missing[next(filling).arguments[0]] -= 1
        store.tidy()
        yield name


def first_runs(store: Store, runs: int | None) -> list[Record]:
    """The records of the first `runs` runs of a cell, or of all, in order."""
    return [record for (number,), record in store.items() if runs is None or int(number) < runs]
