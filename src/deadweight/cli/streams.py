"""What the commands do with logs that are too large to be read whole: parts, workers, and progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from deadweight.cli.ends import assume
from deadweight.cli.output import say
from deadweight.ends import TimeLimit
from deadweight.errors import DataError, OptionError
from deadweight.io import read_policy
from deadweight.io.findings import LogProblem
from deadweight.io.open import with_log
from deadweight.io.parquet import are_parquet, count_rows
from deadweight.io.stream import Progress
from deadweight.logs import LogLike
from deadweight.policies import TabularPolicy

# Parquet with more rows than this is read part by part unless it is said otherwise.
LARGE = 10_000_000
SECONDS_BETWEEN = 2.0

T = TypeVar("T")


def is_streamed(log: Path, wanted: bool | None, workers: int, ray_address: str | None) -> bool:
    """Whether a log is read in parts: as it is asked for, or when it is large or several workers wait."""
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


def with_stream(
    log: Path,
    columns: dict[str, str],
    workers: int,
    ray_address: str | None,
    time_limit: TimeLimit,
    use: Callable[[LogLike], T],
) -> T:
    """What `use` makes of a log on disk, with progress and assumptions on stderr."""
    return with_log(
        log,
        use,
        columns=columns,
        workers=workers,
        ray_address=ray_address,
        watch=Ticker().tell,
        time_limit=time_limit,
        tell=assume,
    )


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
