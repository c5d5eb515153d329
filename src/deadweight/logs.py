"""What counts as a log: the one check behind every verb that takes one."""

from __future__ import annotations

from deadweight.errors import DataError
from deadweight.trajectories import Trajectories


def require_log(log: object) -> None:
    """Refuse whatever is not a log in memory: lists, tables, arrays, and logs that are read part by part.

    >>> require_log(Trajectories.from_episodes([[(0, 0, 1.0)]]))
    """
    if isinstance(log, Trajectories):
        return
    kind = type(log)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    raise DataError(
        f"Expected a log (deadweight.Trajectories) in memory; found {name}.",
        fix="Make one with deadweight.read(table or path), or with "
        "deadweight.Trajectories.from_episodes([[(state, action, reward), ...], ...]).",
    )
