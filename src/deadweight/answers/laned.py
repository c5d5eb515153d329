"""Which families can be summed in lanes.

A family of product terms with a drop of states is a lane of `deadweight.sums.lanes`; all lanes are walked
together, however many names and levels they belong to. Per-step drops, conventions for ended episodes other
than the default, and terms of the user's own are summed by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.basics.once import once
from deadweight.estimators.corrected import MissingAdvantage
from deadweight.estimators.doubly_robust import DoublyRobust
from deadweight.estimators.product import ProductFamily
from deadweight.sums.fields import Table, stacked
from deadweight.sums.lanes import LaneValues, Wanted
from deadweight.sums.weighting import Weighting
from deadweight.typing import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Laned:
    """A family whose terms can be summed in a lane.

    Attributes:
      kinds: of its makers: "whole", "steps", "lost" or "robust".
      dropped: (S,) the states that it drops.
      delta: the maker of its correction, if it has one.
      robust: the maker of its doubly robust terms, if it has any.
    """

    family: ProductFamily
    kinds: tuple[str, ...]
    dropped: BoolArray
    delta: MissingAdvantage | None
    robust: DoublyRobust | None

    @classmethod
    def of(cls, family: Any) -> Laned | None:
        """None where it must be summed by itself; found out once."""
        if not isinstance(family, ProductFamily):
            return None
        if "_laned" not in vars(family):
            vars(family)["_laned"] = cls._found(family)
        found: Laned | None = vars(family)["_laned"]
        return found

    @classmethod
    def _found(cls, family: ProductFamily) -> Laned | None:
        if family.finished != "absorb":
            return None
        kinds = tuple(getattr(maker, "lane", "") for maker in family.makers)
        dropped = dropped_states(family.weighting)
        if not all(kinds) or dropped is None:
            return None
        delta = next((maker for maker in family.makers if isinstance(maker, MissingAdvantage)), None)
        robust = next((maker for maker in family.makers if isinstance(maker, DoublyRobust)), None)
        if delta is not None and not (isinstance(delta.delta, Table) and delta.delta.by_time):
            return None
        if robust is not None and not robust.has_tables:
            return None
        return cls(family, kinds, dropped, delta, robust)

    @property
    def advantages(self) -> FloatArray | None:
        """(T, S) what a dropped step loses."""
        field = None if self.delta is None else self.delta.delta
        if not isinstance(field, Table):
            return None
        return field.values if field.by_time else field.values[None]  # the same at all steps

    @once
    def wanted(self) -> Wanted:
        """The sums of its terms."""
        return Wanted(*(kind in self.kinds for kind in ("steps", "robust", "lost")))


def dropped_states(weighting: Weighting) -> BoolArray | None:
    """(S,) the states that a weighting drops; None where it drops something else."""
    drop = weighting.drop
    if drop is None:
        return np.zeros(weighting.pair.n_states, dtype=bool)
    return drop.values if isinstance(drop, Table) and drop.values.ndim == 1 else None


def lane_values(delta: FloatArray | None, robust: DoublyRobust) -> LaneValues:
    """The values of doubly robust terms as tables of folds and steps."""
    (q, folds), (v, _) = stacked(robust.q), stacked(robust.v)
    if not robust.by_time:  # the same at all steps
        q, v = q[:, None], v[:, None]
    return LaneValues(delta, q, v, folds)
