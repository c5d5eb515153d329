"""Invocation: how a log was named on the command line, and commands about it that can be pasted.

A message that says "use --fill-reward 0" leaves the rest of the command to be put together by the reader, who
has given four other options. Here the whole command is written, with everything that was given.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from deadweight.cli.output import program
from deadweight.cli.time_limit import parse_time_limit
from deadweight.doctor.label_spelling import NO_BEHAVIOUR
from deadweight.doctor.mend import MENDED
from deadweight.errors import OptionError, did_you_mean
from deadweight.io.findings import Finding
from deadweight.io.mending import OPEN_EPISODES, Mending, OpenEpisodes, fitting_formats
from deadweight.io.policy_files import read_policy
from deadweight.io.table import LogTable
from deadweight.policy.policies import TabularPolicy
from deadweight.sums.ends import TimeLimit

Asked = TypeVar("Asked")

FIXED = "mended.parquet"
# Findings that --behaviour counts answers: the logged probabilities are suspect, not the log.
BY_COUNTS = ("DW421", "DW422", "DW423", "DW424", "DW426")


@dataclass(frozen=True)
class Invocation:
    """A log and the options that say how it is read, as they were typed.

    `behaviour` is for the commands themselves to read. Here it is part of a command that is pasted, and says
    whether the log's own probabilities are wanted at all. Of an `anonymous` log no episode is named.
    """

    log: Path
    target: Path | None = None
    columns: str = ""
    time_limit: str = "infer"
    time_format: str | None = None
    fill_reward: float | None = None
    open_episodes: OpenEpisodes | None = None
    features: str = ""
    behaviour: str = "column"
    anonymous: bool = True

    @property
    def patterns(self) -> list[str] | None:
        """The names and wildcards of `--features`."""
        return [one.strip() for one in self.features.split(",") if one.strip()] or None

    @property
    def renames(self) -> dict[str, str]:
        """The renames of `--columns`."""
        return parse_columns(self.columns)

    def policy(self, path: Path) -> TabularPolicy:
        """A policy, whose file may call state and action as the log does."""
        return read_policy(str(path), log_columns=self.renames)

    @property
    def limit(self) -> TimeLimit:
        """What `--time-limit` says."""
        return parse_time_limit(self.time_limit)

    @property
    def mending(self) -> Mending:
        """What is mended while the log is read."""
        if self.open_episodes is not None and self.open_episodes not in OPEN_EPISODES:
            raise OptionError(
                f"--open takes cut, drop or zero; found {self.open_episodes!r}."
                f"{did_you_mean(self.open_episodes, OPEN_EPISODES)}",
                fix="For example --open cut: such episodes were cut at their last row.",
            )
        without = self.behaviour != "column"
        return Mending(self.time_format, self.fill_reward, self.open_episodes, without, self.anonymous)

    @property
    def options(self) -> list[str]:
        """All that was given, as words of a command."""
        given: list[tuple[str, Any]] = [
            ("--target", self.target),
            ("--columns", self.columns or None),
            ("--time-limit", None if self.time_limit == "infer" else self.time_limit),
            ("--time-format", self.time_format),
            ("--features", self.features or None),
            ("--fill-reward", None if self.fill_reward is None else f"{self.fill_reward:g}"),
            ("--open", self.open_episodes),
            ("--behaviour", None if self.behaviour == "column" else self.behaviour),
        ]
        return [word for option, value in given if value is not None for word in (option, str(value))]

    def command(self, verb: str, *more: str) -> str:
        """A command about this log, ready to be pasted.

        >>> Invocation(Path("my log.csv"), columns="episode=stay_id").command("doctor")
        "deadweight doctor 'my log.csv' --columns episode=stay_id"
        """
        return shlex.join([program(), verb, str(self.log), *self.options, *more])

    def command_for(self, finding: Finding, table: LogTable | None = None) -> str:
        """The command that mends a finding, or that shows what it is about."""
        if finding.code == "DW317":
            return replace(self, open_episodes="cut").command("doctor")
        if finding.code == "DW305":
            if "--fill-reward" not in finding.fix:  # no row has one: there is nothing to fill
                return self.command("doctor", "--rows", finding.code)
            return replace(self, fill_reward=0.0).command("doctor")
        if finding.code == "DW306" and table is not None:
            formats = fitting_formats(table.arrow("step"))
            if formats:
                return replace(self, time_format=formats[0]).command("doctor")
        if finding.code == "DW248":
            limit = re.search(r"--time-limit (\d+)", finding.fix)
            return replace(self, time_limit=limit[1] if limit else "none").command("doctor")
        if finding.code in BY_COUNTS and self.target is not None:
            return replace(self, behaviour="counts").command("evaluate")
        if finding.code == NO_BEHAVIOUR:
            way = re.search(r"--behaviour (counts|learned)", finding.fix)
            verb = "doctor" if self.target is None else "evaluate"
            return replace(self, behaviour=way[1] if way else "counts").command(verb)
        if finding.code in MENDED:
            return self.command("doctor", "--fix", FIXED)
        return self.command("doctor", "--rows", finding.code)


def requested(kind: Callable[..., Asked], typed: Mapping[str, Any]) -> Asked:
    """The request of a command, from its options by name; those that say how the log is read are `given`."""
    reading = {field.name for field in fields(Invocation)}
    given = Invocation(**{name: value for name, value in typed.items() if name in reading})
    left = {name: value for name, value in typed.items() if name not in reading or name == "behaviour"}
    return kind(given=given, **left)


def parse_columns(text: str) -> dict[str, str]:
    """The renames of `--columns`.

    >>> parse_columns("episode=stay_id, state=ward")
    {'episode': 'stay_id', 'state': 'ward'}
    """
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    wrong = [ours for ours, equals, theirs in pairs if not equals or not theirs.strip()]
    if wrong:
        raise OptionError(
            f"--columns takes our=yours, separated by commas; found {wrong[0].strip()!r} without a name.",
            fix="For example --columns episode=stay_id,state=ward.",
        )
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
