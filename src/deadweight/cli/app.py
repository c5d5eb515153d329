"""The commands, with their options from `command_options`.

What a command does is in the file of the same name, imported when called, and given what was typed, by name.
Commands that read a log have many options in common; `shared_options` says which, once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deadweight.cli import command_options as options
from deadweight.cli.shared_options import LOG, NEEDED, PAGE, READING, TIMES, WORKING, has_options
from deadweight.errors import OptionError

app = typer.Typer(
    name="deadweight",
    help="Off-policy evaluation without the dead weight: how good would a new policy be, judged from logs "
    "of an old one?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from deadweight._version import __version__
        from deadweight.cli.output import tell

        tell(f"deadweight {__version__}")
        raise typer.Exit()


@app.callback()
def before_a_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options that come before a command."""


def _need(given: object, option: str, example: str) -> None:
    """Refuse a command without an option that it needs; not every typer with every click sees that."""
    if given is None or given == []:
        raise OptionError(f"Missing option {option}.", fix=f"For example: {example}.")


@app.command()
def demo(
    domain: options.DemoDomain = "ward",
    size: options.DemoSize = 17,
    episodes: options.DemoEpisodes = None,
    seed: options.DemoSeed = 0,
    logs: options.DemoLogs = None,
    report: options.DemoReport = Path("report.html"),
    json: options.Json = False,
    files: options.DemoFiles = None,
) -> None:
    """Simulate a log whose answers are known, evaluate it, and see whether the verdicts are right."""
    typed = dict(locals())
    from deadweight.cli.demo import Request
    from deadweight.cli.demo import demo as run

    raise typer.Exit(run(Request(**typed)))


@app.command()
def domains() -> None:
    """The domains with states and their exact values, and those with features and simulated ones."""
    from deadweight.cli.domains import domains as run

    run()


@app.command()
def reproduce(
    target: options.ReproduceTarget = "all",
    protocol: options.ReproduceProtocol = "published",
    runs: options.ReproduceRuns = None,
    workers: options.ReproduceWorkers = None,
    out: options.Results = Path("reproduction"),
    policies: options.ReproducePolicies = None,
) -> None:
    """Make the paper's tables and figures again, with a ledger of what holds."""
    from deadweight.cli.reproduce import reproduce as run

    run(target, protocol, runs, workers, out, policies)


@app.command()
@has_options(
    LOG,
    {"target": (options.DoctorTarget, None), "behaviour": (options.Behaviour, "column")},
    READING,
    TIMES,
    {
        "features": (options.Features, ""),
        "fix": (options.DoctorFix, None),
        "rows": (options.DoctorRows, None),
    },
)
def doctor(**typed: Any) -> None:
    """Check a log: each finding has its code, rows, fix and a command. Exit code 1 if there are errors."""
    from deadweight.cli.doctor import Request
    from deadweight.cli.doctor import doctor as run
    from deadweight.cli.invocation import requested

    raise typer.Exit(run(requested(Request, typed)))


@app.command()
@has_options(
    LOG,
    {
        "target": (options.EvaluateTarget, None),
        "behaviour": (options.Behaviour, "column"),
        "estimators": (options.EvaluateEstimators, ""),
        "drop": (options.Drop, "auto"),
        "gamma": (options.Gamma, 1.0),
        "interval": (options.EvaluateInterval, "auto"),
        "level": (options.Level, 0.95),
        "return_range": (options.EvaluateReturnRange, ""),
        "cut_range": (options.EvaluateCutRange, ""),
        "cut_weights": (options.CutWeights, None),
        "baseline": (options.EvaluateBaseline, "behaviour"),
        "gate": (options.EvaluateGate, None),
        "min_effect": (options.EvaluateMinEffect, 0.0),
    },
    PAGE,
    READING,
    WORKING,
    TIMES,
    {"features": (options.Features, "")},
)
def evaluate(**typed: Any) -> None:
    """How good would the target policy be? A table, a verdict with reasons, and a report."""
    from deadweight.cli.evaluate import Request
    from deadweight.cli.evaluate import evaluate as run
    from deadweight.cli.invocation import requested

    raise typer.Exit(run(requested(Request, typed)))


@app.command()
@has_options(
    LOG,
    {
        "target": (options.CompareTarget, NEEDED),
        "behaviour": (options.Behaviour, "column"),
        "baseline": (options.CompareBaseline, "behaviour"),
        "gate": (options.CompareGate, None),
        "drop": (options.Drop, "auto"),
        "gamma": (options.Gamma, 1.0),
        "level": (options.CompareLevel, 0.95),
        "resamples": (options.CompareResamples, 1000),
        "seed": (options.CompareSeed, 0),
        "cut_weights": (options.CutWeights, None),
    },
    PAGE,
    READING,
    WORKING,
    TIMES,
)
def compare(**typed: Any) -> None:
    """Which of several policies? Differences that hold all at once, who may be best, and what to ship."""
    _need(typed["target"], "--target", "--target a=a.csv --target b=b.csv")
    from deadweight.cli.compare_command import Request
    from deadweight.cli.compare_command import compare as run
    from deadweight.cli.invocation import requested

    raise typer.Exit(run(requested(Request, {**typed, "target": None, "targets": typed["target"]})))


@app.command()
@has_options(
    LOG,
    {
        "out": (options.ImproveOut, NEEDED),
        "caution": (options.ImproveCaution, 2.0),
        "min_visits": (options.ImproveMinVisits, 10),
        "strict": (options.ImproveStrict, False),
        "behaviour": (options.ImproveBehaviour, "counts"),
        "gamma": (options.Gamma, 1.0),
        "level": (options.Level, 0.95),
        "seed": (options.ImproveSeed, 0),
    },
    PAGE,
    READING,
    WORKING,
    TIMES,
)
def improve(**typed: Any) -> None:
    """Is there a better policy in this log? A list of changes, and the policy. Exit code 1 on no change."""
    _need(typed["out"], "--out", "--out policy.csv")
    from deadweight.cli.improve_command import Request
    from deadweight.cli.improve_command import improve as run
    from deadweight.cli.invocation import requested

    raise typer.Exit(run(requested(Request, {**typed, "drop": "none"})))


@app.command()
@has_options(
    LOG,
    {
        "target": (options.StatesTarget, NEEDED),
        "behaviour": (options.Behaviour, "column"),
        "drop": (options.StatesDrop, "auto"),
        "gamma": (options.Gamma, 1.0),
        "top": (options.StatesTop, 25),
    },
    READING,
    WORKING,
    TIMES,
)
def states(**typed: Any) -> None:
    """The state report (what each state costs in variance and bias) and the epsilon path."""
    _need(typed["target"], "--target", "--target policy.csv")
    from deadweight.cli.invocation import requested
    from deadweight.cli.states import Request
    from deadweight.cli.states import states as run

    run(requested(Request, typed))


@app.command()
def coverage(
    runs: options.CoverageRuns = 300,
    workers: options.Processes = 1,
    out: options.Results = Path("coverage"),
) -> None:
    """Measure how often every kind of interval covers, on problems whose answer is known."""
    from deadweight.cli.coverage import coverage as run

    run(runs, workers, out)


@app.command()
def study(
    name: options.StudyName,
    runs: options.StudyRuns = 100,
    workers: options.Processes = 1,
    out: options.Results = Path("studies"),
    only: options.StudyOnly = None,
) -> None:
    """Repeat a measurement of the documentation."""
    from deadweight.cli.study import study as run

    run(name, runs, workers, out, only or ())


@app.command()
def benchmark(
    only: options.BenchmarkOnly = "",
    scale: options.BenchmarkScale = 1.0,
    json: options.Json = False,
) -> None:
    """Time against plain references, as ratios measured in pairs."""
    from deadweight.cli.benchmark import benchmark as run

    run(only, scale, json)
