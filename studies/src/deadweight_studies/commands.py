"""The commands that `deadweight` has where this distribution is installed, with their options.

What a command does is in `deadweight_studies.work`, imported when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ReproduceTarget = Annotated[str, typer.Argument(help="table-1 to table-7, figure-1 to figure-3, or all.")]
ReproduceProtocol = Annotated[
    str, typer.Option(help="published, corrected, or with switches changed: published-D3, corrected+D1.")
]
ReproduceRuns = Annotated[int | None, typer.Option(min=1, help="Only the first so many runs.")]
ReproduceWorkers = Annotated[int | None, typer.Option(min=1, help="Processes; one a core by default.")]
ReproducePolicies = Annotated[
    Path | None, typer.Option(help="Folder with the paper's taxi policies, pi18.npy and pi19.npy.")
]
CoverageRuns = Annotated[int, typer.Option(min=1, help="Logs for each cell.")]
StudyName = Annotated[
    str,
    typer.Argument(
        help="automatic: mean squared errors of automatic and hand-set drops; ends: logs that do not say "
        "how their episodes end; headline: BLEND beside other rows; improve: what shipped policies gain; "
        "compare: many policies together; mixtures: several old policies; cuts: cut episodes; "
        "doubts: flags of wrong probabilities; features: states as features; sepsis: BLEND on a real table."
    ),
]
StudyRuns = Annotated[int, typer.Option(min=2, help="Logs of each problem.")]
StudyOnly = Annotated[
    list[str] | None,
    typer.Option(help="A cell of headline, compare or improve by its name; again for another."),
]
BenchmarkOnly = Annotated[str, typer.Option(help="Cases, separated by commas; all but the longest if none.")]
BenchmarkScale = Annotated[
    float, typer.Option(min=0.001, help="Size of the problems; 1 is the documented one.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Processes = Annotated[int, typer.Option(min=1, help="Processes that work side by side.")]
Results = Annotated[Path, typer.Option(help="Folder of the results; finished runs in it are not repeated.")]


def reproduce(
    target: ReproduceTarget = "all",
    protocol: ReproduceProtocol = "published",
    runs: ReproduceRuns = None,
    workers: ReproduceWorkers = None,
    out: Results = Path("reproduction"),
    policies: ReproducePolicies = None,
) -> None:
    """Make the paper's tables and figures again, with a ledger of what holds."""
    from deadweight_studies.work import reproduce as run

    run(target, protocol, runs, workers, out, policies)


def coverage(
    runs: CoverageRuns = 300,
    workers: Processes = 1,
    out: Results = Path("coverage"),
) -> None:
    """Measure how often every kind of interval covers, on problems whose answer is known."""
    from deadweight_studies.work import coverage as run

    run(runs, workers, out)


def study(
    name: StudyName,
    runs: StudyRuns = 100,
    workers: Processes = 1,
    out: Results = Path("studies"),
    only: StudyOnly = None,
) -> None:
    """Repeat a measurement of the documentation."""
    from deadweight_studies.work import study as run

    run(name, runs, workers, out, only or ())


def benchmark(
    only: BenchmarkOnly = "",
    scale: BenchmarkScale = 1.0,
    json: Json = False,
) -> None:
    """Time against plain references, as ratios measured in pairs."""
    from deadweight_studies.work import benchmark as run

    run(only, scale, json)
