"""The command line as it is declared: the commands, and each option once.

An option is one field of `Options`, with its type, its default, and what `--help` says of it in each command
that has it. The signature that typer reads, the request that a command is given, and the commands that
messages offer for pasting follow from it. So **to add an option, add a field here**, and use it in the file
of its verb; nothing else has a list of options. A command is a line of `COMMANDS`, and a function of the same
name in a file of the same name. That file is imported when the command is called: `--help` loads no numpy.
"""

# ruff: noqa: RUF009 - what `option` returns is a field of a dataclass

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from deadweight.errors import OptionError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS = {
    "demo": "Simulate a log whose answers are known, evaluate it, and see whether the verdicts are right.",
    "domains": "The domains with states and their exact values, and those with features and simulated ones.",
    "doctor": "Check a log: each finding has its code, rows, fix and a command. Exit code 1 if there are "
    "errors.",
    "evaluate": "How good would the target policy be? A table, a verdict with reasons, and a report.",
    "compare": "Which of several policies? Differences that hold all at once, who may be best, and what to "
    "ship.",
    "improve": "Is there a better policy in this log? A list of changes, and the policy. Exit code 1 on no "
    "change.",
    "states": "The state report (what each state costs in variance and bias) and the epsilon path.",
}
# Commands that have many options in common: those that read a log, that estimate, that write a report.
READ = "doctor evaluate compare improve states"
ESTIMATE = "evaluate compare improve states"
REPORT = "evaluate compare improve"
# Commands of the distribution deadweight-studies, which are known to exist whether it is installed or not.
STUDIES = ("reproduce", "coverage", "study", "benchmark")


@dataclass(frozen=True)
class Needed:
    """A mark in place of a default: the option must be given, for example like this."""

    example: str


@dataclass(frozen=True)
class Declared:
    """The metadata of a field of `Options`: what it says of its option beside name and type; see `option`."""

    said: Mapping[str, tuple[str, Any]]
    flag: str
    pasted: int
    settings: Mapping[str, Any]


def option(
    commands: str,
    words: str,
    default: Any = None,
    flag: str = "",
    pasted: int = 0,
    least: int | None = None,
    path: str = "",
    **elsewhere: str | tuple[str, Any],
) -> Any:
    """A field of `Options`.

    Args:
      commands: those that have the option, separated by blanks.
      words: what their `--help` says.
      default: their default, or `Needed`.
      flag: how it is typed, where that is not the name of the field; without dashes, it is an argument.
      pasted: its place in the commands that messages offer; 0 if they do not repeat it.
      least: the least number that is taken.
      path: what `--help` calls it if it is a path that is read.
      elsewhere: further commands, with words of their own, or with words and a default.
    """
    texts: dict[str, Any] = dict.fromkeys(commands.split(), words) | elsewhere
    said = {name: text if isinstance(text, tuple) else (text, default) for name, text in texts.items()}
    settings = {"parser": _given_path, "metavar": path} if path else {"min": least}
    unset = None if isinstance(default, Needed) else default
    return field(default=unset, metadata={"declared": Declared(said, flag, pasted, settings)})


def _given_path(text: str) -> Path:
    """A path that is read; not an empty text, which would mean the folder that one happens to be in."""
    if not text.strip():
        raise typer.BadParameter(
            "expected a path; found an empty text. Check the variable that it comes from."
        )
    return Path(text)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of all commands, in the order of `--help`. Those that a command lacks have defaults."""

    log: Path = option(
        READ,
        "A .parquet or .csv file (also .csv.gz), a folder of either, or - for standard input.",
        Needed("log.csv"),
        flag="LOG",
        path="LOG",
    )
    domain: str = option(
        "demo", "ward: a story of patients and three new rules; lift: the paper's lift.", "ward"
    )
    size: int = option("demo", "Size of the lift: odd, 5 or more.", 17)
    episodes: int | None = option("demo", "Episodes of a log; 600 patients, or 1,000 rides.", least=2)
    target: Path | None = option(
        "doctor",
        "The policy to be evaluated: .npy, .npz, or a table state, action, prob.",
        evaluate="The policy to evaluate: .npy, .npz, or a table state, action, prob. Without it the log's "
        "target_prob, or its columns target_prob_<action>.",
        states=(
            "The new policy: .npy, .npz or a table of state, action, prob.",
            Needed("--target policy.csv"),
        ),
        pasted=1,
        path="PATH",
    )
    targets: list[str] = option(
        "compare",
        "A policy: name=FILE, or FILE, whose name it gets; once for each, two or more.",
        Needed("--target a=a.csv --target b=b.csv"),
        flag="--target",
    )
    out: Path = option("improve", "Where the policy goes: .csv or .parquet.", Needed("--out policy.csv"))
    caution: float = option("improve", "Standard errors by which a change must pay in its state.", 2.0)
    min_visits: int = option("improve", "How often an action must have been tried in a state.", 10)
    strict: bool = option("improve", "Learn on one half of the episodes, certify on the other.", False)
    behaviour: str = option(
        "doctor evaluate compare states",
        "The old policy, which made the log: column (its probabilities are in the log), counts (from how "
        "often each action was taken), learned (the best of several learners), a file, or id=FILE,... for "
        "several.",
        "column",
        improve=("Behaviour policy: counts (what was done), a file, or id=FILE,... for several.", "counts"),
        pasted=4,
    )
    estimators: str = option(
        "evaluate", "Which estimates, by name, separated by commas; a sensible table by default.", ""
    )
    rival: str = option(
        "compare",
        "What they have to beat: behaviour, the name of one of them, or a number.",
        "behaviour",
        flag="--baseline",
    )
    winner: str | None = option(
        "compare", "Exit code 0 only if this policy, or any, is shown to beat the baseline.", flag="--gate"
    )
    drop: str = option(
        "evaluate compare",
        "In which states weights are left out: auto, none, or a rule such as q-gap:1.0, covariance:0.01, "
        "return-test:0.05.",
        "auto",
        states="Rule of the drop that is shown, such as auto or q-gap:1.0; or none.",
    )
    gamma: float = option(ESTIMATE, "Discount of later rewards, above 0 and at most 1; 1 is none.", 1.0)
    top: int = option("states", "States to print, those that cost most variance first.", 25, least=1)
    interval: str = option(
        "evaluate",
        "Kind of interval: auto, guaranteed, student-t, bootstrap, bca, bernstein or none.",
        "auto",
    )
    level: float = option(
        "evaluate improve",
        "How sure intervals are meant to be: 0.95 is right 95 times in 100.",
        0.95,
        compare="Confidence level of all statements together.",
    )
    resamples: int = option("compare", "Draws of the simulation behind it.", 1000, least=100)
    seed: int = option(
        "demo",
        "Seed of the simulation.",
        0,
        compare="Seed of that simulation.",
        improve="Seed of the resamples and of the halves.",
        least=0,
    )
    logs: int | None = option("demo", "Logs of this size; 20 for the ward, 10 for the lift.", least=1)
    return_range: str = option(
        "evaluate", "Lowest and highest possible return, as in 0,1; guaranteed and bernstein need it.", ""
    )
    cut_range: str = option(
        "evaluate", "Least and most that a cut episode could still have earned: bounds, as in 0,1.", ""
    )
    cut_weights: str | None = option(
        "evaluate compare",
        "Let rows that were seen stand for what was cut off, by the chance of being cut: auto, all, step, "
        "state, pair or state-step.",
    )
    baseline: str = option("evaluate", "What to beat: behaviour, or a number.", "behaviour")
    gate: str | None = option(
        "evaluate", "Exit with code 1 unless the verdict is this: better, worse, cannot tell, not-worse."
    )
    min_effect: float = option(
        "evaluate", "Smallest difference that counts for --gate, in units of the return.", 0.0
    )
    report: Path | None = option(
        REPORT,
        "Write an HTML report to this file.",
        demo=("Where the HTML report goes.", Path("report.html")),
    )
    title: str | None = option(REPORT, "Heading of the report.")
    reward: str | None = option(REPORT, "What the reward is, for the report: 'euros a customer'.")
    columns: str = option(READ, "Your column names, ours=yours: episode=stay_id,...", "", pasted=2)
    json: bool = option(f"demo {READ}", "Print one JSON document and nothing else.", False)
    files: Path | None = option(
        "demo", "Only write the ward's log and the new rules as CSV into this folder, to try on."
    )
    workers: int = option(ESTIMATE, "Processes that read and sum parts of the log.", 1, least=1)
    ray_address: str | None = option(ESTIMATE, "A Ray cluster that does so instead; local starts one here.")
    stream: bool | None = option(
        ESTIMATE,
        "Read Parquet part by part; by default if it is large or there are workers.",
        flag="--stream/--no-stream",
    )
    time_limit: str = option(
        READ,
        "Steps after which episodes were cut, where no column says it: a number, none, or infer.",
        "infer",
        pasted=2,
    )
    time_format: str | None = option(
        READ,
        "How the step column writes dates, such as '%d.%m.%Y %H:%M'; 2025-12-31 08:00 needs none.",
        pasted=2,
    )
    fill_reward: float | None = option(
        READ, "The reward of rows whose reward is blank, such as 0; without it they are an error.", pasted=3
    )
    open_episodes: str | None = option(
        READ,
        "What episodes are whose reward is blank in every row: cut (at their last row), drop (left out) or "
        "zero (they ended, and earned nothing); without it they are an error.",
        flag="--open",
        pasted=3,
    )
    features: str = option(
        "doctor evaluate",
        "Columns of numbers that describe the state, such as lactate,map,x_*; no state needed.",
        "",
        pasted=2,
    )
    fix: Path | None = option(
        "doctor", "Write the log, mended as far as that needs no guess, to this .parquet file."
    )
    rows: str | None = option("doctor", "Print the rows of one finding, by its code, as CSV: --rows DW305.")

    def pasted(self, command: str) -> list[str]:
        """The words by which a command reads the log as it was asked for here: what is not its default.

        >>> Options(columns="episode=stay_id", fill_reward=0.0, gamma=0.9).pasted("doctor")
        ['--columns', 'episode=stay_id', '--fill-reward', '0']
        """
        words = []
        for name, declared in sorted(declarations(command).items(), key=lambda item: item[1].pasted):
            value = getattr(self, name)
            if declared.pasted and value != declared.said[command][1]:
                words += [declared.flag, f"{value:g}" if isinstance(value, float) else str(value)]
        return words


def declarations(command: str) -> dict[str, Declared]:
    """The options of a command by the names of their fields, in the order of `--help`."""
    every = {each.name: each.metadata["declared"] for each in fields(Options)}
    return {
        name: replace(declared, flag=declared.flag or "--" + name.replace("_", "-"))
        for name, declared in every.items()
        if command in declared.said
    }


def _signature(command: str) -> Signature:
    """The options of a command as parameters, from which typer makes its parser and its `--help`."""
    types, parameters = get_type_hints(Options), []
    for name, declared in declarations(command).items():
        words, default = declared.said[command]
        if declared.flag.startswith("--"):
            typed = typer.Option(declared.flag, help=words, **declared.settings)
        else:
            typed = typer.Argument(help=words, **declared.settings)
        unset = Parameter.empty if isinstance(default, Needed) else default
        kind = Annotated[types[name], typed]  # type: ignore[valid-type]
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=unset, annotation=kind))
    return Signature(parameters)


def _runner(command: str) -> Callable[..., None]:
    """The function that typer calls: it makes the request of what was typed, and runs the command."""

    def run(**typed: Any) -> None:
        for name, declared in declarations(command).items():
            needed = declared.said[command][1]
            if isinstance(needed, Needed) and typed[name] in (None, []):  # not every click sees to that
                raise OptionError(f"Missing option {declared.flag}.", fix=f"For example: {needed.example}.")
        from deadweight.cli.request import Request

        function = getattr(import_module(f"deadweight.cli.{command}"), command)
        raise typer.Exit(function(Request(**typed)))

    run.__doc__ = COMMANDS[command]
    run.__signature__ = _signature(command)  # type: ignore[attr-defined]
    return run


class Commands(TyperGroup):
    """Our commands, and those that other distributions add as entry points `deadweight.commands`.

    Entry points are looked for only where they matter: in `--help`, and for a name that is none of ours.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, ours first."""
        return [*super().list_commands(ctx), *_added()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; a command of a distribution that is not installed says which one."""
        ours = super().get_command(ctx, cmd_name)
        if ours is not None:
            return ours
        added = _added()
        if cmd_name in added:
            alone = typer.Typer(add_completion=False)
            alone.command(cmd_name)(added[cmd_name].load())
            return typer.main.get_command(alone)
        if cmd_name in STUDIES:
            raise OptionError(
                f"`deadweight {cmd_name}` is a command of deadweight-studies, which is not installed.",
                fix="Install it: pip install deadweight-studies.",
            )
        return None


def _added() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in sorted(entry_points(group="deadweight.commands"))}


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
        from deadweight.cli.process import tell

        tell(f"deadweight {__version__}")
        raise typer.Exit()


@app.callback()
def before_a_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options that come before a command."""


for _command in COMMANDS:
    app.command(_command)(_runner(_command))
