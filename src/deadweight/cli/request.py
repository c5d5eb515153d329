"""A request: the options of a command as they were typed, what they mean, and the log that they open.

The options are declared in `app`. Here is what the commands on a log share: what is checked before any work,
since reading a log and fitting a model take minutes, and a misspelt rule or a folder that does not exist must
not come to light afterwards; how the log is read, whole or in parts; and commands about it that can be
pasted. A message that says "use --fill-reward 0" would leave the rest of the command to be put together by
the reader, who has given four other options; here the whole command is written, with all that was given.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from deadweight.cli.app import Options
from deadweight.cli.process import File, program, say
from deadweight.errors import DataError, OptionError, OutputError, did_you_mean
from deadweight.io.doctor import MENDED, Diagnosis, examine, examine_part
from deadweight.io.doctor_labels import NO_BEHAVIOUR
from deadweight.io.files import are_parquet, from_stdin
from deadweight.io.folders import files_of, unreadable
from deadweight.io.open import LARGE, Look, open_log
from deadweight.io.parquet import count_rows
from deadweight.io.policy_files import read_policy, require_file
from deadweight.io.schema import OPEN_EPISODES, Finding, LogProblem, Mending, OpenEpisodes, fitting_formats
from deadweight.io.table import LogTable
from deadweight.log.interface import LogLike, check_gamma, in_memory
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.negligible.rules import read_rule
from deadweight.question.learned_behaviour import fit_behaviour
from deadweight.question.question import Policy
from deadweight.sums.ends import TimeLimit
from deadweight.tools.files import is_printed, probe
from deadweight.tools.progress import progress

BEHAVIOURS = ("column", "counts", "learned")
OBSERVED = "observed"
"""The choice that no policy is wanted: nothing but what was done."""
# Drop rules that need all episodes of a state together; see docs/streaming.md.
IN_MEMORY = ("covariance", "return-test")
FIXED = "mended.parquet"
# Findings that --behaviour counts answers: the logged probabilities are suspect, not the log.
BY_COUNTS = ("DW421", "DW422", "DW423", "DW424", "DW426")
# Findings that were said as assumptions when the log was opened.
ASSUMED = ("DW248", "DW252")


class Request(Options):
    """Options as they were typed, with what they mean."""

    @property
    def patterns(self) -> list[str] | None:
        """The names and wildcards of `--features`."""
        return words_of(self.features) or None

    @property
    def renames(self) -> dict[str, str]:
        """The renames of `--columns`."""
        return parse_columns(self.columns)

    @property
    def limit(self) -> TimeLimit:
        """The number of steps of `--time-limit`, None without a limit, or "infer"."""
        word = self.time_limit.strip().lower()
        if word in ("infer", "none"):
            return "infer" if word == "infer" else None
        if not (word.isdecimal() and word.isascii() and int(word) >= 1):
            raise OptionError(
                f"--time-limit takes a number of steps, none or infer; found {self.time_limit!r}.",
                fix="For example --time-limit 200 if episodes of 200 steps were cut, or --time-limit none.",
            )
        return int(word)

    @property
    def drop_rule(self) -> str | None:
        """The rule of `--drop`, or None."""
        return None if self.drop == "none" else self.drop

    @property
    def inputs(self) -> list[Path]:
        """The files that are read: nothing is written in their place."""
        old = old_policy_files(self.behaviour) or {"": self.behaviour}
        target = [] if self.target is None else [self.target]
        return [self.log, *target, *(Path(path).expanduser() for path in old.values())]

    def mending(self, anonymous: bool = True) -> Mending:
        """The changes to the log as it is read; messages about an `anonymous` log name no episode."""
        if self.open_episodes is not None and self.open_episodes not in OPEN_EPISODES:
            raise OptionError(
                f"--open takes cut, drop or zero; found {self.open_episodes!r}."
                f"{did_you_mean(self.open_episodes, OPEN_EPISODES)}",
                fix="For example --open cut: such episodes were cut at their last row.",
            )
        open_episodes = cast("OpenEpisodes | None", self.open_episodes)
        without = self.behaviour != "column"  # the log's own probabilities are not wanted
        return Mending(self.time_format, self.fill_reward, open_episodes, without, anonymous)

    def policy(self, path: Path) -> TabularPolicy:
        """A policy, whose file may call state and action as the log does."""
        return read_policy(str(path), log_columns=self.renames)

    def target_policy(self) -> TabularPolicy | None:
        """The policy of `--target`, read; None is the log's column."""
        return None if self.target is None else self.policy(self.target)

    def check(self) -> None:
        """Refuse, before any work, what would be refused after it."""
        _ = self.renames, self.limit, self.mending()
        if self.drop_rule is not None:
            read_rule(self.drop_rule)
        check_gamma(self.gamma)
        check_behaviour(self.behaviour)
        if self.patterns is not None and self.stream:
            raise OptionError(
                "--features needs the log in memory, and --stream reads it in parts.",
                fix="Leave --stream out, or take fewer rows.",
            )
        if self.open_episodes == "drop" and self.stream:
            raise OptionError(
                "--open drop needs the log in memory, and --stream reads it in parts.",
                fix="Leave --stream out, or say --open cut or --open zero.",
            )

    def check_report(self, read: Iterable[Path] = ()) -> None:
        """Refuse a report that could not be written; `read` are files that are read beside `inputs`."""
        if self.report is not None:
            check_file(self.report, read=(*self.inputs, *read), json=self.json)

    def report_of(self, result: Any, said: str = "Report: {}", **options: Any) -> list[File]:
        """The report of a result, where one is asked for; `options` replace those of the command."""
        path, options = self.report, {"title": self.title, "reward": self.reward} | options
        if path is None:
            return []
        return [File("report", path, lambda: result.report(path, **options), said.format(path))]

    def command(self, verb: str, *more: str) -> str:
        """A command about this log, ready to be pasted."""
        return shlex.join([program(), verb, str(self.log), *self.pasted(verb), *more])

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

    def is_streamed(self, log: Path) -> bool:
        """Whether a log is read in parts: as it is asked for, or when several workers wait or it is large.

        A large log is read whole if a choice that was made needs it in memory.
        """
        if not are_parquet([log]):
            if self.stream:
                raise OptionError(
                    f"--stream needs Parquet; found {log}.", fix="Convert the log, or leave --stream out."
                )
            return False
        if self.stream is not None:
            return self.stream
        if self.workers > 1 or self.ray_address is not None:
            return True
        several = old_policy_files(self.behaviour) is not None
        if several or self.behaviour == "learned" or self.drop.startswith(IN_MEMORY):
            return False
        try:
            return count_rows([log]) > LARGE
        except LogProblem:  # whoever reads the table says what is wrong with it
            return False

    def look_into(self, findings: list[Finding], target: TabularPolicy | None = None) -> Look:
        """A function by which the doctor looks at rows; findings go into the list, an error is raised."""

        def look(table: LogTable, whole: bool) -> None:
            seen = examine(table, target, self.limit) if whole else examine_part(table)
            if isinstance(seen, Diagnosis) and not seen.ok:
                errors = seen.errors
                raise DataError(
                    f"{self.log} cannot be evaluated: {errors[0].problem}"
                    + (f" ({len(errors) - 1} more errors.)" if len(errors) > 1 else ""),
                    fix="See all of them, with what to do, by: " + self.command("doctor"),
                )
            # Whether probabilities are needed is for --behaviour to say.
            findings.extend(finding for finding in seen if finding.code != NO_BEHAVIOUR)

        return look

    @contextmanager
    def opened(self, look: Look | None = None) -> Iterator[tuple[LogLike, Policy]]:
        """The log and pi_b; `look` is shown the rows first, as by `open_log`."""
        with progress(), from_stdin(self.log) as source:
            whole = self.patterns is not None or self.open_episodes == "drop"
            streamed = not whole and self.is_streamed(Path(source))
            pi_b = _streamed_behaviour(self.behaviour) if streamed else None
            with open_log(
                source,
                columns=self.renames,
                features=self.patterns,
                mending=self.mending(),
                workers=self.workers,
                ray_address=self.ray_address,
                stream=streamed,
                time_limit=self.limit,
                tell=assume,
                look=look,
                counts=self.behaviour == "counts",
            ) as log:
                if streamed or self.behaviour == "counts":
                    yield log, pi_b
                else:
                    yield _with_behaviour(in_memory(log)[0], self.behaviour)


def parse_columns(text: str) -> dict[str, str]:
    """The renames of `--columns`, `ours=theirs` separated by commas."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    wrong = [ours for ours, equals, theirs in pairs if not equals or not theirs.strip()]
    if wrong:
        raise OptionError(
            f"--columns takes our=yours, separated by commas; found {wrong[0].strip()!r} without a name.",
            fix="For example --columns episode=stay_id,state=ward.",
        )
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}


def words_of(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def read_baseline(text: str, policies: Sequence[str] = ()) -> float | str | None:
    """The baseline: None for the behaviour policy, one of the `policies`, or a number."""
    if text == "behaviour":
        return None
    if text in policies:
        return text
    try:
        value = float(text)
    except ValueError:
        if not policies:
            raise OptionError(
                f"--baseline must be 'behaviour' or a number; found {text!r}.",
                fix="For example --baseline 0.75, or --baseline behaviour.",
            ) from None
        raise OptionError(
            f"--baseline must be behaviour, the name of a policy, or a number; found {text!r}."
            f"{did_you_mean(text, ['behaviour', *policies])}",
            fix="For example --baseline behaviour, or --baseline 0.75.",
        ) from None
    if not math.isfinite(value):
        raise OptionError(
            f"--baseline must be a finite number; found {value}.", fix="For example --baseline 0.5."
        )
    return value


def check_file(path: Path, option: str = "--report", read: Sequence[Path] = (), json: bool = False) -> None:
    """Refuse a file that could not be written, by trying, or that is one of those `read`.

    `json` says whether standard output is taken by a document.
    """
    try:
        probe(path)
        wrong = json and is_printed(path) and "it is standard output, where --json prints its document"
    except (OSError, ValueError) as error:
        wrong = getattr(error, "strerror", None) or str(error)
    if wrong:
        raise OutputError(
            f"{option} {str(path)!r} could not be written: {wrong}.",
            fix="Name a file in a folder that exists and may be written to.",
        )
    if path.exists() and any(path.samefile(file) for source in read for file in files_of(source)):
        raise OutputError(f"{option} {str(path)!r} would replace the input.", fix="Name another file.")


def check_behaviour(choice: str) -> None:
    """Refuse a behaviour policy that is not there."""
    if choice in (*BEHAVIOURS, OBSERVED):
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
    files: dict[str, str] = {}
    for part in choice.split(","):
        label, equals, path = (word.strip() for word in part.partition("="))
        if not (label and equals and path) or label in files:
            told = f"{label!r} is there twice" if label in files else f"found {part!r}"
            raise OptionError(
                f"--behaviour takes a file, or several as id=FILE,id=FILE with each id once; {told}.",
                fix="For example --behaviour v1=first.csv,v2=second.csv.",
            )
        files[label] = path
    return files


def _streamed_behaviour(choice: str) -> TabularPolicy | None:
    """pi_b of a log that is read in parts: a file, or None for the column, for counts, and for `OBSERVED`."""
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
    return None if choice in ("column", "counts", OBSERVED) else read_policy(choice)


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
        learned = fit_behaviour(log)
        losses = ", ".join(f"{name} {loss:.4f}" for name, loss in learned.scores.items())
        say(f"Behaviour policy learned by {learned.chosen} (log-loss on episodes it had not seen: {losses}).")
        if log.features is not None:
            return log, learned
        return log.with_propensities(learned.propensities), None  # without features: a column of the log
    files = old_policy_files(choice)
    if files is None:
        return log, read_policy(choice)
    return log, {label: read_policy(path) for label, path in files.items()}


def assume(assumption: str) -> None:
    """Say what was taken for granted."""
    say(f"Assumption: {assumption}")


def document(result: Any, findings: Iterable[Finding], log: dict[str, int], *files: str) -> dict[str, Any]:
    """The JSON document of a result; `files` are the names under which paths are put once files are there."""
    warnings = [finding.to_dict() for finding in findings]
    return {**result.to_dict(), "log": log, "warnings": warnings, **dict.fromkeys(files)}


def say_findings(findings: Iterable[Finding]) -> None:
    """Say what the doctor found in a log that is evaluated all the same."""
    for finding in findings:
        if finding.code not in ASSUMED:
            say(f"{finding.severity.capitalize()} {finding.code}: {finding.problem}")


def say_unused_cut_weights(asked: str | None, conventions: Mapping[str, Any], flags: Iterable[str]) -> None:
    """Say that --cut-weights was asked for and changed nothing, and why."""
    if asked is None or conventions["cut_weights"] is not None:
        return
    limit = conventions["time_limit"]
    if "truncated" in flags:
        why = (
            "the only cut is at the last step of the longest episode, and no row shows what comes later. To "
            "see what that may do: evaluate with --cut-range."
        )
    elif limit is None:
        why = "no episode was cut."
    else:
        why = f"no episode was cut before the time limit of {limit:,} steps."
    say(f"--cut-weights {asked} changes nothing here: {why}")
