"""What an estimator is here: a family that sums blocks, and a fit made from the sums.

A family knows how to summarise a block; the plain, the weighted (W) and the state-based (S) variants differ
only in the normaliser and in the ratios, so several names share one family and one pass over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

from deadweight.sums.blocks import Block
from deadweight.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Fit:
    """What a family makes of its sums, before labels and an interval are added.

    Attributes:
      value: the estimate.
      influence: per-episode influence of a block's episodes, up to a constant; its standard error is that of
        the estimate. None where nobody needs it, since `std_error` is known.
      std_error: the standard error, where the first pass gives it.
      flags: codes of what a reader must know.
      details: by-products worth showing, such as the windows that INCRIS chose.
    """

    value: float
    influence: Callable[[Block], FloatArray] | None = None
    std_error: float | None = None
    flags: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


class Summed(Protocol):
    """Something to sum over a log."""

    @property
    def key(self) -> Hashable:
        """Equal keys: the same sums."""
        ...

    def summarise(self, block: Block) -> Any:
        """The mergeable sums of a block."""
        ...


class Family(Summed, Protocol):
    """One way to sum a log, and to finish an estimate."""

    def finish(self, summary: Any, weighted: bool) -> Fit:
        """The estimate from the sums of the whole log, self-normalised if `weighted`."""
        ...
