"""That no episode is in two parts, and that footers tell the truth: looked at whenever a part is read.

Where row groups are in the order of their episodes, each part has a range of episodes and the ranges do not
overlap; where episodes were dealt out by a hash, each part has its share of the hashes. Either way a look at
one part's own rows shows that they are where no other part looks for them, and nothing has to be kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deadweight.errors import DataError
from deadweight.io.footers import check_read
from deadweight.io.label_columns import hashes
from deadweight.io.parts import Part
from deadweight.typing import IntArray


class OutOfOrder(DataError):
    """Rows of an episode that are not together, which only a look at the rows could show."""


def scattered(where: str) -> OutOfOrder:
    """The error that says so, with the remedy."""
    return OutOfOrder(
        f"Rows of an episode must stand together to be read in parts; in {where} they are scattered.",
        fix="Write the log sorted by episode, or let it be sorted into a temporary folder: sort=True.",
    )


def wrong_footer(where: str, claim: str) -> OutOfOrder:
    """The error of statistics that the rows contradict; sorting reads rows only, and needs no footers."""
    return OutOfOrder(
        f"The footer of a Parquet file must say what its rows say; in {where} {claim}.",
        fix="Write the file again; or have its rows sorted into a temporary folder, which does without the "
        "statistics: sort=True.",
    )


def share_of(episodes: Any, count: int) -> IntArray:
    """(rows,) which of so many parts each row goes to: the same for all rows of an episode, everywhere."""
    return (hashes(episodes) % np.uint64(count)).astype(np.int64)


def check_ids(table: Any, part: Part, where: str) -> None:
    """Refuse a part with fewer or more rows, or other episodes, than the plan has for it.

    Args:
      table: the rows of its own row groups.
      part: the plan.
      where: its place, for messages.
    """
    check_read(where, part.rows, table.num_rows)
    episodes = table["episode"]
    if part.share is not None:
        number, count = part.share
        if not bool((share_of(episodes, count) == number).all()):
            raise DataError(
                f"Every episode must be in one part of the sorted copy; {where} has one of another part.",
                fix="The copy is damaged: try again, with another temporary folder (TMPDIR=...).",
            )
        return
    if part.low is None:
        return
    low, high = ends(episodes)
    if low is not None and not (part.low <= low and high <= part.high):
        raise wrong_footer(
            where,
            "it says which episodes come first and last, and there are others before or after them",
        )


def ends(episodes: Any) -> tuple[Any, Any]:
    """Smallest and largest label of whole numbers or text; None where there is none."""
    import pyarrow.compute as pc

    ends = pc.min_max(episodes).as_py()
    return ends["min"], ends["max"]
