"""What the commands do with logs that are too large to be read whole: parts and workers."""

from __future__ import annotations

from pathlib import Path

from deadweight.cli.before import old_policy_files
from deadweight.errors import DataError, OptionError
from deadweight.io import read_policy
from deadweight.io.findings import LogProblem
from deadweight.io.open import LARGE
from deadweight.io.parquet import are_parquet, count_rows
from deadweight.policy.policies import TabularPolicy

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
