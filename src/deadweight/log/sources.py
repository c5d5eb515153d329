"""What the verbs take for a log: one that is at hand, or the path or paths of one on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.errors import OptionError
from deadweight.log.interface import LogLike

Source = LogLike | str | Path | Sequence[str | Path]


def paths_of(source: Any) -> list[str | Path] | None:
    """The paths of a log on disk; None of anything else.

    >>> paths_of("log.parquet"), paths_of(["a.csv", "b.csv"]), paths_of([])
    (['log.parquet'], ['a.csv', 'b.csv'], None)
    """
    if isinstance(source, str | Path):
        return [source]
    if isinstance(source, list | tuple) and source and all(isinstance(one, str | Path) for one in source):
        return list(source)
    return None


def check_workers(workers: Any) -> None:
    """Refuse a number of workers that is none."""
    if not (isinstance(workers, int | np.integer) and workers >= 1):
        raise OptionError(
            f"workers must be a whole number of at least 1; found {workers!r}.",
            fix="For example workers=4; the result does not depend on it.",
        )
