"""What the commands do with logs that are too large to be read whole: parts, workers, and progress."""

from __future__ import annotations

import time
from pathlib import Path

from deadweight.cli.output import say
from deadweight.errors import DataError, OptionError
from deadweight.io import read_policy
from deadweight.io.findings import LogProblem
from deadweight.io.open import LARGE
from deadweight.io.parquet import are_parquet, count_rows
from deadweight.io.stream import Progress
from deadweight.policy.policies import TabularPolicy

SECONDS_BETWEEN = 2.0


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
    if behaviour == "counts" or drop.startswith(IN_MEMORY):
        return False
    try:
        return count_rows([log]) > LARGE
    except LogProblem:  # whoever reads the table says what is wrong with it
        return False


def streamed_behaviour(choice: str) -> TabularPolicy | None:
    """pi_b of a log that is read in parts: a file, or None for the column."""
    if choice == "counts":
        raise DataError(
            "Propensities from counts need the log in memory: each episode's are estimated from the others.",
            fix="Use --no-stream, log behaviour_prob, or give a policy with --behaviour FILE.",
        )
    return None if choice == "column" else read_policy(choice)


class Ticker:
    """Progress in lines, every few seconds; short work says nothing."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def tell(self, progress: Progress) -> None:
        """Say how far it is, if the last word was long enough ago."""
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN or progress.rows == 0:
            return
        self._last = now
        say(
            f"{progress.what}: {progress.rows:,} of {progress.of:,} rows, "
            f"{progress.rows_per_second / 1e6:.1f} million a second"
        )
