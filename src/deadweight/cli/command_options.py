"""The options of the commands: one definition for each, in the words that `--help` prints.

What several commands have is `Log`, `Gamma` and so on; what one command has carries its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer


def given_path(text: str) -> Path:
    """A path that is read; not an empty text, which would mean the folder that one happens to be in."""
    if not text.strip():
        raise typer.BadParameter(
            "expected a path; found an empty text. Check the variable that it comes from."
        )
    return Path(text)


def policy_file(words: str) -> Any:
    """The option that takes the path of a policy."""
    return typer.Option(parser=given_path, metavar="PATH", help=words)


# Options that several commands have, in the same words.
Log = Annotated[
    Path,
    typer.Argument(
        parser=given_path,
        metavar="LOG",
        help="A .parquet or .csv file (also .csv.gz), a folder of either, or - for standard input.",
    ),
]
Columns = Annotated[str, typer.Option(help="Your column names, ours=yours: episode=stay_id,...")]
Behaviour = Annotated[
    str,
    typer.Option(
        help="The old policy, which made the log: column (its probabilities are in the log), counts (from "
        "how often each action was taken), learned (the best of several learners), a file, or id=FILE,... "
        "for several."
    ),
]
Features = Annotated[
    str,
    typer.Option(
        help="Columns of numbers that describe the state, such as lactate,map,x_*; no state needed."
    ),
]
Gamma = Annotated[float, typer.Option(help="Discount of later rewards, above 0 and at most 1; 1 is none.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes that read and sum parts of the log.")]
RayAddress = Annotated[
    str | None, typer.Option(help="A Ray cluster that does so instead; local starts one here.")
]
Stream = Annotated[
    bool | None,
    typer.Option(help="Read Parquet part by part; by default if it is large or there are workers."),
]
TimeLimit = Annotated[
    str,
    typer.Option(
        help="Steps after which episodes were cut, where no column says it: a number, none, or infer."
    ),
]
TimeFormat = Annotated[
    str | None,
    typer.Option(
        help="How the step column writes dates, such as '%d.%m.%Y %H:%M'; 2025-12-31 08:00 needs none."
    ),
]
FillReward = Annotated[
    float | None,
    typer.Option(help="The reward of rows whose reward is blank, such as 0; without it they are an error."),
]
OpenEpisodes = Annotated[
    str | None,
    typer.Option(
        "--open",
        help="What episodes are whose reward is blank in every row: cut (at their last row), drop (left out) "
        "or zero (they ended, and earned nothing); without it they are an error.",
    ),
]
CutWeights = Annotated[
    str | None,
    typer.Option(
        help="Let rows that were seen stand for what was cut off, by the chance of being cut: auto, all, "
        "step, state, pair or state-step."
    ),
]
Level = Annotated[
    float, typer.Option(help="How sure intervals are meant to be: 0.95 is right 95 times in 100.")
]
Drop = Annotated[
    str,
    typer.Option(
        help="In which states weights are left out: auto, none, or a rule such as q-gap:1.0, "
        "covariance:0.01, return-test:0.05."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Report = Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")]
Title = Annotated[str | None, typer.Option(help="Heading of the report.")]
Reward = Annotated[str | None, typer.Option(help="What the reward is, for the report: 'euros a customer'.")]

# Of `demo`.
DemoDomain = Annotated[
    str, typer.Option(help="ward: a story of patients and three new rules; lift: the paper's lift.")
]
DemoSize = Annotated[int, typer.Option(help="Size of the lift: odd, 5 or more.")]
DemoEpisodes = Annotated[
    int | None, typer.Option(min=2, help="Episodes of a log; 600 patients, or 1,000 rides.")
]
DemoSeed = Annotated[int, typer.Option(min=0, help="Seed of the simulation.")]
DemoLogs = Annotated[
    int | None, typer.Option(min=1, help="Logs of this size; 20 for the ward, 10 for the lift.")
]
DemoReport = Annotated[Path, typer.Option(help="Where the HTML report goes.")]
DemoFiles = Annotated[
    Path | None,
    typer.Option(help="Only write the ward's log and the new rules as CSV into this folder, to try on."),
]

# Of `doctor`.
DoctorTarget = Annotated[
    Path | None,
    policy_file("The policy to be evaluated: .npy, .npz, or a table state, action, prob."),
]
DoctorFix = Annotated[
    Path | None,
    typer.Option(help="Write the log, mended as far as that needs no guess, to this .parquet file."),
]
DoctorRows = Annotated[
    str | None, typer.Option(help="Print the rows of one finding, by its code, as CSV: --rows DW305.")
]

# Of `evaluate`.
EvaluateTarget = Annotated[
    Path | None,
    policy_file(
        "The policy to evaluate: .npy, .npz, or a table state, action, prob. Without it the log's "
        "target_prob, or its columns target_prob_<action>."
    ),
]
EvaluateEstimators = Annotated[
    str, typer.Option(help="Which estimates, by name, separated by commas; a sensible table by default.")
]
EvaluateInterval = Annotated[
    str,
    typer.Option(help="Kind of interval: auto, guaranteed, student-t, bootstrap, bca, bernstein or none."),
]
EvaluateReturnRange = Annotated[
    str,
    typer.Option(help="Lowest and highest possible return, as in 0,1; guaranteed and bernstein need it."),
]
EvaluateCutRange = Annotated[
    str,
    typer.Option(help="Least and most that a cut episode could still have earned: bounds, as in 0,1."),
]
EvaluateBaseline = Annotated[str, typer.Option(help="What to beat: behaviour, or a number.")]
EvaluateGate = Annotated[
    str | None,
    typer.Option(help="Exit with code 1 unless the verdict is this: better, worse, cannot tell, not-worse."),
]
EvaluateMinEffect = Annotated[
    float, typer.Option(help="Smallest difference that counts for --gate, in units of the return.")
]

# Of `compare`.
CompareTarget = Annotated[
    list[str],
    typer.Option(help="A policy: name=FILE, or FILE, whose name it gets; once for each, two or more."),
]
CompareBaseline = Annotated[
    str, typer.Option(help="What they have to beat: behaviour, the name of one of them, or a number.")
]
CompareGate = Annotated[
    str | None, typer.Option(help="Exit code 0 only if this policy, or any, is shown to beat the baseline.")
]
CompareLevel = Annotated[float, typer.Option(help="Confidence level of all statements together.")]
CompareResamples = Annotated[int, typer.Option(min=100, help="Draws of the simulation behind it.")]
CompareSeed = Annotated[int, typer.Option(min=0, help="Seed of that simulation.")]

# Of `improve`.
ImproveOut = Annotated[Path, typer.Option(help="Where the policy goes: .csv or .parquet.")]
ImproveCaution = Annotated[
    float, typer.Option(help="Standard errors by which a change must pay in its state.")
]
ImproveMinVisits = Annotated[int, typer.Option(help="How often an action must have been tried in a state.")]
ImproveStrict = Annotated[
    bool, typer.Option("--strict", help="Learn on one half of the episodes, certify on the other.")
]
ImproveBehaviour = Annotated[
    str,
    typer.Option(help="Behaviour policy: counts (what was done), a file, or id=FILE,... for several."),
]
ImproveSeed = Annotated[int, typer.Option(min=0, help="Seed of the resamples and of the halves.")]

# Of `states`.
StatesTarget = Annotated[
    Path,
    policy_file("The new policy: .npy, .npz or a table of state, action, prob."),
]
StatesDrop = Annotated[
    str, typer.Option(help="Rule of the drop that is shown, such as auto or q-gap:1.0; or none.")
]
StatesTop = Annotated[int, typer.Option(min=1, help="States to print, those that cost most variance first.")]


# --------------------------------------------------------------------------------------------------------
# Options that the commands on a log have in common, in runs that stand together in `--help`.
#
# A function with these options is given what was typed by name; its signature is made of them.

Run = TypeVar("Run", bound=Callable[..., None])
Options = Mapping[str, tuple[Any, Any]]
"""By name: what the option is, and its default."""

NEEDED = Parameter.empty
LOG: Options = {"log": (Log, NEEDED)}
PAGE: Options = {
    "report": (Report, None),
    "title": (Title, None),
    "reward": (Reward, None),
}
READING: Options = {"columns": (Columns, ""), "json": (Json, False)}
WORKING: Options = {
    "workers": (Workers, 1),
    "ray_address": (RayAddress, None),
    "stream": (Stream, None),
}
TIMES: Options = {
    "time_limit": (TimeLimit, "infer"),
    "time_format": (TimeFormat, None),
    "fill_reward": (FillReward, None),
    "open_episodes": (OpenEpisodes, None),
}


def has_options(*runs: Options) -> Callable[[Run], Run]:
    """Give a function these options, in this order.

    >>> @has_options(LOG, READING)
    ... def look(**typed):
    ...     pass
    >>> import inspect
    >>> list(inspect.signature(look).parameters)
    ['log', 'columns', 'json']
    """

    def given(function: Run) -> Run:
        parameters = [
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
            for run in runs
            for name, (kind, default) in run.items()
        ]
        function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return function

    return given
