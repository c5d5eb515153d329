"""The commands, with their options from `command_options`.

What a command does is in the file of the same name, imported when called, and given what was typed, by name.
Commands that read a log have many options in common; `shared_options` says which, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from deadweight.cli import command_options as options
from deadweight.cli.command_options import LOG, NEEDED, PAGE, READING, TIMES, WORKING, has_options
from deadweight.errors import OptionError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Commands of the distribution deadweight-studies, which are known to exist whether it is installed or not.
STUDIES = ("reproduce", "coverage", "study", "benchmark")


class Commands(TyperGroup):
    """The commands below, and those that other distributions add as entry points `deadweight.commands`.

    Entry points are looked for only where they matter: in `--help`, and for a name that is none of ours.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """All names: ours first."""
        return [*super().list_commands(ctx), *(entry.name for entry in _added())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; a command of a distribution that is not installed says which one."""
        ours = super().get_command(ctx, cmd_name)
        if ours is not None:
            return ours
        for entry in _added():
            if entry.name == cmd_name:
                alone = typer.Typer(add_completion=False)
                alone.command(cmd_name)(entry.load())
                return typer.main.get_command(alone)
        if cmd_name in STUDIES:
            raise OptionError(
                f"`deadweight {cmd_name}` is a command of deadweight-studies, which is not installed.",
                fix="Install it: pip install deadweight-studies.",
            )
        return None


def _added() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points

    return sorted(entry_points(group="deadweight.commands"))


app = typer.Typer(
    cls=Commands,
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
    from deadweight.cli.states import domains as run

    run()


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
    from deadweight.cli.log_options import requested

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
    from deadweight.cli.log_options import requested

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
    from deadweight.cli.compare import Request
    from deadweight.cli.compare import compare as run
    from deadweight.cli.log_options import requested

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
    from deadweight.cli.improve import Request
    from deadweight.cli.improve import improve as run
    from deadweight.cli.log_options import requested

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
    from deadweight.cli.log_options import requested
    from deadweight.cli.states import Request
    from deadweight.cli.states import states as run

    run(requested(Request, typed))
