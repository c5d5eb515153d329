"""Options that the commands on a log have in common, in runs that stand together in `--help`.

A function with these options is given what was typed by name; its signature is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any, TypeVar

from deadweight.cli import command_options as options

Run = TypeVar("Run", bound=Callable[..., None])
Options = Mapping[str, tuple[Any, Any]]
"""By name: what the option is, and its default."""

NEEDED = Parameter.empty
LOG: Options = {"log": (options.Log, NEEDED)}
PAGE: Options = {
    "report": (options.Report, None),
    "title": (options.Title, None),
    "reward": (options.Reward, None),
}
READING: Options = {"columns": (options.Columns, ""), "json": (options.Json, False)}
WORKING: Options = {
    "workers": (options.Workers, 1),
    "ray_address": (options.RayAddress, None),
    "stream": (options.Stream, None),
}
TIMES: Options = {
    "time_limit": (options.TimeLimit, "infer"),
    "time_format": (options.TimeFormat, None),
    "fill_reward": (options.FillReward, None),
    "open_episodes": (options.OpenEpisodes, None),
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
