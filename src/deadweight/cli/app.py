"""The commands and their options. What they do is in the file of the same name, imported when called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="deadweight",
    help="Off-policy evaluation without the dead weight: how good would a new policy be, judged from logs "
    "of an old one?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

# Options that several commands have, in the same words.
LOG = "A .parquet or .csv file, or a folder of .parquet files."
COLUMNS = "Your column names: episode=stay_id,state=ward,..."
BEHAVIOUR = "Behaviour policy: column (logged), counts (estimated), or a file."
WORKERS = "Processes that read and sum parts of the log."
RAY_ADDRESS = "A Ray cluster that does so instead; local starts one here."
TIME_LIMIT = "Steps after which episodes were cut, where no column says it: a number, none, or infer."
STREAM = "Read Parquet part by part; by default if it is large or there are workers."


def _version(wanted: bool) -> None:
    if wanted:
        from deadweight._version import __version__
        from deadweight.cli.output import tell

        tell(f"deadweight {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options that come before a command."""


@app.command()
def demo(
    size: Annotated[int, typer.Option(help="Size of the lift: odd, 5 or more.")] = 17,
    episodes: Annotated[int, typer.Option(min=2, help="Episodes to simulate.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    logs: Annotated[int, typer.Option(min=1, help="Logs over which errors are averaged.")] = 10,
    report: Annotated[Path, typer.Option(help="Where the HTML report goes.")] = Path("report.html"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Simulate a log whose answer is known and evaluate it, plain and state-based side by side."""
    from deadweight.cli.demo import demo as run

    run(size, episodes, seed, logs, report, json)


@app.command()
def domains() -> None:
    """The domains of the paper with their exact values."""
    from deadweight.cli.domains import domains as run

    run()


@app.command()
def reproduce(
    target: Annotated[str, typer.Argument(help="table-1 to table-7, figure-1 to figure-3, or all.")] = "all",
    protocol: Annotated[
        str, typer.Option(help="published, corrected, or with switches changed: published-D3, corrected+D1.")
    ] = "published",
    runs: Annotated[int | None, typer.Option(min=1, help="Only the first so many runs.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one a core by default.")] = None,
    out: Annotated[
        Path, typer.Option(help="Folder of the results; finished runs in it are not repeated.")
    ] = Path("reproduction"),
    policies: Annotated[
        Path | None, typer.Option(help="Folder with the paper's taxi policies, pi18.npy and pi19.npy.")
    ] = None,
) -> None:
    """Make the paper's tables and figures again, with a ledger of what holds."""
    from deadweight.cli.reproduce import reproduce as run

    run(target, protocol, runs, workers, out, policies)


@app.command()
def doctor(
    log: Annotated[Path, typer.Argument(help=LOG)],
    target: Annotated[
        Path | None,
        typer.Option(help="The policy to be evaluated: .npy, .npz, or a table state, action, prob."),
    ] = None,
    columns: Annotated[str, typer.Option(help=COLUMNS)] = "",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
    time_limit: Annotated[str, typer.Option(help=TIME_LIMIT)] = "infer",
) -> None:
    """Check a log: each finding has a code, the rows, and the fix. Exit code 1 if there are errors."""
    from deadweight.cli.doctor import doctor as run

    raise typer.Exit(run(log, target, columns, json, time_limit))


@app.command()
def evaluate(
    log: Annotated[Path, typer.Argument(help=LOG)],
    target: Annotated[
        Path | None,
        typer.Option(
            help="The policy to evaluate: .npy, .npz, or a table state, action, prob. Without it the log's "
            "target_prob."
        ),
    ] = None,
    behaviour: Annotated[str, typer.Option(help=BEHAVIOUR)] = "column",
    estimators: Annotated[
        str, typer.Option(help="Names, separated by commas; a sensible table by default.")
    ] = "",
    drop: Annotated[
        str, typer.Option(help="auto, none, q-gap:1.0, covariance:0.01 or return-test:0.05.")
    ] = "auto",
    gamma: Annotated[float, typer.Option(help="Discount, above 0 and at most 1.")] = 1.0,
    interval: Annotated[
        str, typer.Option(help="auto, guaranteed, student-t, bootstrap, bca, bernstein or none.")
    ] = "auto",
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    return_range: Annotated[
        str,
        typer.Option(help="Lowest and highest possible return, as in 0,1; guaranteed and bernstein need it."),
    ] = "",
    baseline: Annotated[str, typer.Option(help="What to beat: behaviour, or a number.")] = "behaviour",
    gate: Annotated[
        str | None,
        typer.Option(
            help="Exit with code 1 unless the verdict is this: better, worse, cannot tell, not-worse."
        ),
    ] = None,
    min_effect: Annotated[
        float, typer.Option(help="Smallest difference that counts for --gate, in units of the return.")
    ] = 0.0,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the report.")] = None,
    columns: Annotated[str, typer.Option(help=COLUMNS)] = "",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
    workers: Annotated[int, typer.Option(min=1, help=WORKERS)] = 1,
    ray_address: Annotated[str | None, typer.Option(help=RAY_ADDRESS)] = None,
    stream: Annotated[bool | None, typer.Option(help=STREAM)] = None,
    time_limit: Annotated[str, typer.Option(help=TIME_LIMIT)] = "infer",
) -> None:
    """How good would the target policy be? A table, a verdict with reasons, and a report."""
    from deadweight.cli.evaluate import Request
    from deadweight.cli.evaluate import evaluate as run

    request = Request(
        log,
        target,
        behaviour,
        estimators,
        drop,
        gamma,
        interval,
        level,
        return_range,
        baseline,
        gate,
        report,
        title,
        min_effect,
        columns,
        json,
        workers,
        ray_address,
        stream,
        time_limit,
    )
    raise typer.Exit(run(request))


@app.command()
def states(
    log: Annotated[Path, typer.Argument(help=LOG)],
    target: Annotated[
        Path, typer.Option(help="The evaluation policy: .npy, .npz or a table of state, action, prob.")
    ],
    behaviour: Annotated[str, typer.Option(help=BEHAVIOUR)] = "column",
    drop: Annotated[
        str, typer.Option(help="Rule of the drop that is shown, such as auto or q-gap:1.0; or none.")
    ] = "auto",
    gamma: Annotated[float, typer.Option(help="Discount, above 0 and at most 1.")] = 1.0,
    top: Annotated[int, typer.Option(min=1, help="States to print, dearest in variance first.")] = 25,
    columns: Annotated[str, typer.Option(help=COLUMNS)] = "",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    workers: Annotated[int, typer.Option(min=1, help=WORKERS)] = 1,
    ray_address: Annotated[str | None, typer.Option(help=RAY_ADDRESS)] = None,
    stream: Annotated[bool | None, typer.Option(help=STREAM)] = None,
    time_limit: Annotated[str, typer.Option(help=TIME_LIMIT)] = "infer",
) -> None:
    """The state report (what each state costs in variance and bias) and the epsilon path."""
    from deadweight.cli.states import Request
    from deadweight.cli.states import states as run

    run(
        Request(
            log, target, behaviour, drop, gamma, top, columns, json, workers, ray_address, stream, time_limit
        )
    )


@app.command()
def coverage(
    runs: Annotated[int, typer.Option(min=1, help="Logs for each cell.")] = 300,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    out: Annotated[
        Path, typer.Option(help="Folder of the results; finished runs in it are not repeated.")
    ] = Path("coverage"),
) -> None:
    """Measure how often every kind of interval covers, on problems whose answer is known."""
    from deadweight.cli.coverage import coverage as run

    run(runs, workers, out)


@app.command()
def study(
    name: Annotated[
        str,
        typer.Argument(
            help="automatic: mean squared errors of automatic and hand-set drops; ends: logs that do not say "
            "how their episodes end."
        ),
    ],
    runs: Annotated[int, typer.Option(min=2, help="Logs of each problem.")] = 100,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the results; finished runs are not repeated.")] = Path(
        "studies"
    ),
) -> None:
    """Repeat a measurement of the documentation."""
    from deadweight.cli.study import study as run

    run(name, runs, workers, out)


@app.command()
def benchmark(
    only: Annotated[str, typer.Option(help="Names of cases, separated by commas; all by default.")] = "",
    scale: Annotated[
        float, typer.Option(min=0.001, help="Size of the problems; 1 is the documented one.")
    ] = 1.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Time against plain references, as ratios measured in pairs."""
    from deadweight.cli.benchmark import benchmark as run

    run(only, scale, json)
