"""The shape of a study: cells, a run of a cell, the line that its runs make, and the table of all lines.

A run is a function of its cell's name and its number only, so that a study can be stopped, resumed, extended
and repeated in part. Every cell has a store (`deadweight_studies.records`) with the fingerprint of the
package's version, of the study's settings and of the cell's problem: another problem under an old name starts
anew, and a new cell leaves the others as they are. A new study is a file with a `STUDY`, and a line in
`deadweight_studies.work`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from deadweight._version import __version__
from deadweight.tools.files import check_folder
from deadweight.typing import FloatArray
from deadweight_studies.problems import StudyProblem
from deadweight_studies.records import Job, Record, Store, digest, fill, remarks

Line = TypeVar("Line")
Run = Callable[[str, int], Record]
Stores = Mapping[str, Store]
Tell = Callable[[str], None]


def _silent(line: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Cells and what a run of one is.

    Attributes:
      name: of the study, as the command has it.
      cells: the cells by name, in the order that their seeds depend on.
      run: a named function, which can travel to a worker, of a cell's name and a number.
      fingerprint: of a cell's place and the cell, all that its records depend on.
      folder: where in the study's folder records are.
    """

    name: str
    cells: Callable[[], Mapping[str, Any]]
    run: Run
    fingerprint: Callable[[int, Any], Iterable[object]]
    folder: str = "runs"

    def stores(self, out: Path) -> Stores:
        """The store of every cell."""
        return {
            name: store_of(out / self.folder, self.name, name, digest(*self.fingerprint(place, cell)))
            for place, (name, cell) in enumerate(self.cells().items())
        }

    def make(
        self,
        out: Path,
        runs: int,
        workers: int = 1,
        tell: Tell = _silent,
        only: Iterable[str] | None = None,
    ) -> Iterator[tuple[str, list[Record]]]:
        """Every cell, or those of `only`, with its first `runs` records, as soon as it is finished."""
        stores = self.stores(out)
        for name in make_runs(stores, self.run, runs, workers, tell, only):
            yield name, first_runs(stores[name], runs)


@dataclass(frozen=True, kw_only=True)
class Study(Runs, Generic[Line]):
    """Runs with the table that they make.

    Attributes:
      line: what the records of a cell say.
      table: all lines in Markdown.
      words: what is said of a line as soon as it is finished; nothing if empty.
    """

    line: Callable[[str, list[Record]], Line]
    table: Callable[[list[Line]], str]
    words: Callable[[Line], str] = str

    def lines(
        self,
        out: Path,
        runs: int,
        workers: int = 1,
        tell: Tell = _silent,
        only: Iterable[str] | None = None,
    ) -> Iterator[Line]:
        """The line of every cell, or of those of `only`, as soon as it is finished."""
        for name, records in self.make(out, runs, workers, tell, only):
            yield self.line(name, records)


def of_problems(*settings: object) -> Callable[[int, StudyProblem], Iterator[object]]:
    """The fingerprint of cells that are problems: place, settings, and all that logs and estimates use."""

    def fingerprint(place: int, cell: StudyProblem) -> Iterator[object]:
        mdp = cell.problem.mdp
        yield from (place, *settings, cell.episodes, cell.shown, repr(cell.noise))
        yield from (mdp.horizon, mdp.r, mdp.d0, mdp.transition_rewards)
        yield from (mdp.P.data, mdp.P.indices, mdp.P.indptr)
        yield from (cell.problem.pi_e.probs, cell.problem.pi_b.probs)

    return fingerprint


def store_of(folder: Path, study: str, cell: str, settings: str) -> Store:
    """The store of one cell; `settings` is a digest of all that its numbers depend on."""
    path = folder / f"{''.join(c if c.isalnum() else '-' for c in cell)}.jsonl"
    return Store(path, {"version": __version__, "study": study, "cell": cell, "settings": settings})


def make_runs(
    stores: Stores,
    run: Run,
    runs: int,
    workers: int = 1,
    tell: Tell = _silent,
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
    jobs = [Job(store, (k,), (name, k)) for name, store in stores.items() for k in range(runs)]
    missing = Counter(job.arguments[0] for job in jobs if not job.done)
    filling = fill(jobs, run, workers)
    for name, store in stores.items():
        while missing[name] > 0:
            missing[next(filling).arguments[0]] -= 1
        store.tidy()
        yield name


def first_runs(store: Store, runs: int | None) -> list[Record]:
    """The records of the first `runs` runs of a cell, or of all, in order."""
    return [record for (number,), record in store.items() if runs is None or int(number) < runs]


# --- What lines and tables are made of


@dataclass(frozen=True)
class MSERatio:
    """MSE of one variant over that of another, on the same runs."""

    value: float
    std_error: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.std_error:.3f}"


def mse_ratio(errors: FloatArray, base: FloatArray) -> MSERatio:
    """Ratio of mean squares, with the delta-method error of paired runs."""
    top, bottom = np.square(errors), np.square(base)
    ratio = float(top.mean() / bottom.mean())
    influence = (top - ratio * bottom) / bottom.mean()
    return MSERatio(ratio, float(influence.std(ddof=1) / np.sqrt(len(errors))))


def geometric_mean(ratios: list[MSERatio]) -> MSERatio:
    """Geometric mean over problems, with the error that their own errors imply."""
    logs = np.log([ratio.value for ratio in ratios])
    errors = np.array([ratio.std_error / ratio.value for ratio in ratios])
    mean = float(np.exp(logs.mean()))
    return MSERatio(mean, mean * float(np.sqrt(np.square(errors).sum())) / len(ratios))


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """A Markdown table, columns to the right but for those whose numbers are in `left`.

    >>> print(markdown(["cell", "runs"], [["river", "3"]]))
    | cell | runs |
    | --- | ---: |
    | river | 3 |
    """
    marks = ["---" if k in left else "---:" for k in range(len(heads))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (heads, marks, *rows))


def of_columns(records: list[Record], key: str) -> dict[str, FloatArray]:
    """(runs,) numbers by the names that every record has under a key."""
    return {name: np.array([record[key][name] for record in records]) for name in records[0][key]}
