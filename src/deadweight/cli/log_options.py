"""What the commands that ask something of a log share: options, their check, and the log that they open."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from deadweight.cli.output import program, say
from deadweight.errors import DataError, OptionError, OutputError, did_you_mean
from deadweight.io.doctor import MENDED, Diagnosis, examine, examine_part
from deadweight.io.doctor_labels import NO_BEHAVIOUR
from deadweight.io.files import from_stdin
from deadweight.io.folders import files_of, unreadable
from deadweight.io.open import LARGE, Look, open_log
from deadweight.io.parquet import are_parquet, count_rows
from deadweight.io.policy_files import read_policy, require_file
from deadweight.io.schema import OPEN_EPISODES, Finding, LogProblem, Mending, OpenEpisodes, fitting_formats
from deadweight.io.table import LogTable
from deadweight.log.interface import LogLike, in_memory
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import check_gamma
from deadweight.negligible.rules import read_rule
from deadweight.question.learned_behaviour import fit_behaviour
from deadweight.question.question import Policy
from deadweight.sums.ends import TimeLimit
from deadweight.tools.files import is_printed, probe
from deadweight.tools.progress import progress

# --------------------------------------------------------------------------------------------------------
# What is checked before any work: names, options, and whether results can be written where they go.
#
# Reading a log and fitting a model take minutes on large data; a misspelt estimator or a folder that does not
# exist must not come to light afterwards.

BEHAVIOURS = ("column", "counts", "learned")


def check_file(path: Path, option: str = "--report", read: Sequence[Path] = (), json: bool = False) -> None:
    """Refuse a file that could not be written, by trying, or that is one of those `read`.

    `json` says whether standard output is taken by a document.
    """
    fix = "Name a file in a folder that exists and may be written to."
    try:
        probe(path)
        wrong = json and is_printed(path) and "it is standard output, where --json prints its document"
    except (OSError, ValueError) as error:
        wrong = getattr(error, "strerror", None) or str(error)
    if wrong:
        raise OutputError(f"{option} {str(path)!r} could not be written: {wrong}.", fix=fix)
    if path.exists() and any(path.samefile(file) for source in read for file in files_of(source)):
        raise OutputError(f"{option} {str(path)!r} would replace the input.", fix="Name another file.")


def check_behaviour(choice: str) -> None:
    """Refuse a behaviour policy that is not there."""
    if choice in (*BEHAVIOURS, "observed"):
        return
    meant = did_you_mean(choice, BEHAVIOURS) if choice.isalpha() else ""
    if meant and unreadable(Path(choice).expanduser()):
        raise OptionError(
            f"--behaviour takes {', '.join(BEHAVIOURS)} or a file; there is no file {choice!r}.{meant}",
            fix="For example --behaviour counts.",
        )
    named = old_policy_files(choice)
    for path in [choice] if named is None else named.values():
        require_file(Path(path).expanduser())


def old_policy_files(choice: str) -> dict[str, str] | None:
    """The files of several old policies by their ids, `v1=a.csv,v2=b.csv`; None where one file is meant."""
    if "=" not in choice or Path(choice).expanduser().exists():
        return None
    found: dict[str, str] = {}
    for part in choice.split(","):
        label, equals, path = (word.strip() for word in part.partition("="))
        if not (label and equals and path) or label in found:
            told = f"{label!r} is there twice" if label in found else f"found {part!r}"
            raise OptionError(
                f"--behaviour takes a file, or several as id=FILE,id=FILE with each id once; {told}.",
                fix="For example --behaviour v1=first.csv,v2=second.csv.",
            )
        found[label] = path
    return found


def check_number(value: float, option: str) -> None:
    """Refuse what is not a finite number."""
    if not math.isfinite(value):
        raise OptionError(
            f"{option} must be a finite number; found {value}.", fix=f"For example {option} 0.5."
        )


# --------------------------------------------------------------------------------------------------------
# The option `--time-limit`, and the line on stderr that says what was taken for granted without it.


def parse_time_limit(text: str) -> TimeLimit:
    """What `--time-limit` says.

    >>> parse_time_limit("200"), parse_time_limit("none"), parse_time_limit("infer")
    (200, None, 'infer')
    """
    word = text.strip().lower()
    if word == "infer":
        return "infer"
    if word == "none":
        return None
    if not (word.isdecimal() and word.isascii() and int(word) >= 1):
        raise OptionError(
            f"--time-limit takes a number of steps, none or infer; found {text!r}.",
            fix="For example --time-limit 200 if episodes of 200 steps were cut, or --time-limit none.",
        )
    return int(word)


def assume(assumption: str) -> None:
    """Say what was taken for granted."""
    say(f"Assumption: {assumption}")


# --------------------------------------------------------------------------------------------------------
# Invocation: how a log was named on the command line, and commands about it that can be pasted.
#
# A message that says "use --fill-reward 0" leaves the rest of the command to be put together by the reader,
# who has given four other options. Here the whole command is written, with everything that was given.

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


# --------------------------------------------------------------------------------------------------------
# What the commands do with logs that are too large to be read whole: parts and workers.

# Rules that need all episodes of a state together; see docs/streaming.md.
IN_MEMORY = ("covariance", "return-test")


def is_streamed(
    log: Path,
    wanted: bool | None,
    workers: int,
    ray_address: str | None,
    behaviour: str = "column",
    drop: str = "none",
) -> bool:
    """Whether a log is read in parts: as it is asked for, or when several workers wait or it is large.

    A large log is read whole if a choice that was made needs it in memory.
    """
    if not are_parquet([log]):
        if wanted:
            raise OptionError(
                f"--stream needs Parquet; found {log}.", fix="Convert the log, or leave --stream out."
            )
        return False
    if wanted is not None:
        return wanted
    if workers > 1 or ray_address is not None:
        return True
    several = old_policy_files(behaviour) is not None
    if several or behaviour == "learned" or drop.startswith(IN_MEMORY):
        return False
    try:
        return count_rows([log]) > LARGE
    except LogProblem:  # whoever reads the table says what is wrong with it
        return False


def streamed_behaviour(choice: str) -> TabularPolicy | None:
    """pi_b of a log that is read in parts: a file, or None for the column and for counts."""
    if choice == "learned":
        raise DataError(
            "A behaviour policy that is learned needs the log in memory: each episode's comes from others.",
            fix="Use --no-stream, log behaviour_prob, or use --behaviour counts.",
        )
    if old_policy_files(choice) is not None:
        raise DataError(
            "Several old policies need the log in memory: each step's probability depends on those before "
            "it, and on all episodes' ids.",
            fix="Use --no-stream, or log behaviour_prob.",
        )
    return None if choice in ("column", "counts") else read_policy(choice)


# --------------------------------------------------------------------------------------------------------

ASSUMED = {"DW248", "DW252"}
"""Findings that were said as assumptions when the log was opened."""
OBSERVED = "observed"
"""In place of a behaviour policy: nothing but what was done."""


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Options as they were typed; `given` says how the log is read."""

    given: Invocation
    behaviour: str
    drop: str
    gamma: float
    json: bool
    workers: int = 1
    ray_address: str | None = None
    stream: bool | None = None

    @property
    def drop_rule(self) -> str | None:
        """The rule of the drop, or None."""
        return None if self.drop == "none" else self.drop

    @property
    def inputs(self) -> list[Path]:
        """The files that are read: nothing is written in their place."""
        files = old_policy_files(self.behaviour) or {"": self.behaviour}
        given = (self.given.log, self.given.target)
        return [path for path in given if path is not None] + [
            Path(one).expanduser() for one in files.values()
        ]

    def target(self) -> TabularPolicy | None:
        """The policy to be evaluated, read; None is the log's column."""
        return None if self.given.target is None else self.given.policy(self.given.target)

    def check(self) -> None:
        """Refuse, before any work, what would be refused after it."""
        _ = self.given.renames, self.given.limit, self.given.mending
        if self.drop_rule is not None:
            read_rule(self.drop_rule)
        check_gamma(self.gamma)
        check_behaviour(self.behaviour)
        if self.given.patterns is not None and self.stream:
            raise OptionError(
                "--features needs the log in memory, and --stream reads it in parts.",
                fix="Leave --stream out, or take fewer rows.",
            )
        if self.given.open_episodes == "drop" and self.stream:
            raise OptionError(
                "--open drop needs the log in memory, and --stream reads it in parts.",
                fix="Leave --stream out, or say --open cut or --open zero.",
            )

    def look_into(self, findings: list[Finding], target: TabularPolicy | None = None) -> Look:
        """What shows the rows of a log to the doctor, whose findings go into the list; an error ends it."""

        def look(table: LogTable, whole: bool) -> None:
            if whole:
                found = self._sound(examine(table, target, self.given.limit))
            else:
                found = examine_part(table)
            # Whether probabilities are needed is for --behaviour to say.
            findings.extend(one for one in found if one.code != NO_BEHAVIOUR)

        return look

    def _sound(self, found: Diagnosis) -> tuple[Finding, ...]:
        """What the doctor says about a log without errors."""
        if not found.ok:
            raise DataError(
                f"{self.given.log} cannot be evaluated: {found.errors[0].problem}"
                + (f" ({len(found.errors) - 1} more errors.)" if len(found.errors) > 1 else ""),
                fix="See all of them, with what to do, by: " + self.given.command("doctor"),
            )
        return found.findings

    @contextmanager
    def opened(self, look: Look | None = None) -> Iterator[tuple[LogLike, Policy]]:
        """The log and pi_b; `look` is shown the rows first, as by `open_log`."""
        with progress(), from_stdin(self.given.log) as source:
            whole = self.given.patterns is not None or self.given.open_episodes == "drop"
            streamed = not whole and is_streamed(
                Path(source), self.stream, self.workers, self.ray_address, self.behaviour, self.drop
            )
            unasked = self.behaviour == OBSERVED
            pi_b = streamed_behaviour(self.behaviour) if streamed and not unasked else None
            with open_log(
                source,
                columns=self.given.renames,
                features=self.given.patterns,
                mending=self.given.mending,
                workers=self.workers,
                ray_address=self.ray_address,
                stream=streamed,
                time_limit=self.given.limit,
                tell=assume,
                look=look,
                counts=self.behaviour == "counts",
            ) as log:
                if streamed or self.behaviour == "counts":
                    yield log, pi_b
                else:
                    yield _with_behaviour(in_memory(log)[0], self.behaviour)


def say_findings(findings: Iterable[Finding]) -> None:
    """What the doctor found in a log that is evaluated all the same."""
    for finding in findings:
        if finding.code in ASSUMED:
            continue
        say(f"{finding.severity.capitalize()} {finding.code}: {finding.problem}")


def say_unused_cut_weights(asked: str | None, conventions: Mapping[str, Any], flags: Iterable[str]) -> None:
    """Say that --cut-weights was asked for and changed nothing, and why."""
    if asked is None or conventions["cut_weights"] is not None:
        return
    why = (
        "no episode was cut."
        if conventions["time_limit"] is None
        else f"no episode was cut before the time limit of {conventions['time_limit']:,} steps."
    )
    if "truncated" in flags:
        why = (
            "the only cut is at the last step of the longest episode, and no row shows what comes later. To "
            "see what that may do: evaluate with --cut-range."
        )
    say(f"--cut-weights {asked} changes nothing here: {why}")


def _learned(log: Trajectories) -> tuple[Trajectories, Policy]:
    """The log and the behaviour policy that was learned from it; without features, as a column of the log."""
    found = fit_behaviour(log)
    losses = ", ".join(f"{name} {loss:.4f}" for name, loss in found.scores.items())
    say(f"Behaviour policy learned by {found.chosen} (log-loss on episodes it had not seen: {losses}).")
    return (log, found) if log.features is not None else (log.with_propensities(found.propensities), None)


def _with_behaviour(log: Trajectories, choice: str) -> tuple[Trajectories, Policy]:
    """The log and pi_b by "column" (logged), "learned", a file, or one file an id.

    For what needs no propensities there is `OBSERVED`: the log as it is.
    """
    if choice == OBSERVED:
        return log, None
    if choice == "column":
        if log.propensities is None:
            raise DataError(
                "The log has no column behaviour_prob, which --behaviour column, the default, takes.",
                fix="Add the column, or use --behaviour counts to estimate it, or --behaviour FILE."
                if log.has_states
                else "Add the column, or use --behaviour learned to learn it from the features.",
            )
        return log, None
    if choice == "learned":
        return _learned(log)
    files = old_policy_files(choice)
    if files is None:
        return log, read_policy(choice)
    return log, {label: read_policy(path) for label, path in files.items()}
