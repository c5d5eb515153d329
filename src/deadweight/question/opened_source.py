"""How a verb opens what it is given: a log at hand as it is, one on disk through the front door, `io.open`.

Reading files is a fifth of the package, so it is imported only where there is something to read.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from deadweight.log.interface import LogLike
from deadweight.log.sources import Source, check_workers, paths_of


def opened(source: Source, **settings: Any) -> AbstractContextManager[LogLike]:
    """The log, to be used within a `with` statement; `settings` are those of `deadweight.io.open.open_log`.

    >>> from deadweight import Trajectories
    >>> with opened(Trajectories.from_episodes([[(0, 0, 1.0)]]), workers=2) as log:
    ...     log.n_steps
    1
    """
    if paths_of(source) is None:
        check_workers(settings.get("workers", 1))
        return nullcontext(source)  # type: ignore[arg-type]  # whoever asks a question of it says if it is no log
    from deadweight.io.open import open_log

    return open_log(source, **settings)
