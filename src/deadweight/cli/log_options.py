"""What the commands that ask something of a log share: options, their check, and the log that they open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadweight.basics.progress import progress
from deadweight.cli.before import check_behaviour, old_policy_files
from deadweight.cli.invocation import Invocation
from deadweight.cli.output import say
from deadweight.cli.streams import is_streamed, streamed_behaviour
from deadweight.cli.time_limit import assume
from deadweight.doctor import Diagnosis, examine, examine_part
from deadweight.doctor.label_spelling import NO_BEHAVIOUR
from deadweight.errors import DataError, OptionError
from deadweight.io import read_policy
from deadweight.io.findings import Finding
from deadweight.io.open import Look, open_log
from deadweight.io.stdin import from_stdin
from deadweight.io.table import LogTable
from deadweight.log.interface import LogLike, in_memory
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import check_gamma
from deadweight.negligible.by_name import read_rule
from deadweight.policy.policies import TabularPolicy
from deadweight.question.asking import Policy
from deadweight.question.learned_behaviour import fit_behaviour

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
