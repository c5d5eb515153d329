"""The full influence of an episode: on the sums of an estimate, and on the model whose values it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.estimators.direct import Together
from deadweight.estimators.family import Family
from deadweight.estimators.product import ProductFamily, ProductSums
from deadweight.estimators.starts import StartFamily, Starts, uses_q
from deadweight.question.solved_values import Values
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Field
from deadweight.typing import FloatArray

Influence = Callable[[Block], FloatArray]


def no_influence(block: Block) -> FloatArray:
    """(m,) zeros: of what no episode moves."""
    return np.zeros(block.n)


def starts_of(family: Family, values: Values[Field], shape: tuple[int, int]) -> StartFamily | None:
    """What is to be summed for the influence of the model, of (S, A) pairs; None where none is fitted."""
    if not values.fits or not isinstance(family, ProductFamily):
        return None
    if not any(uses_q(maker) for maker in family.makers):
        return None
    return StartFamily(family, shape, values.folds, values.times)


@dataclass(frozen=True, eq=False)
class WithModel:
    """What the influence of one estimate is made of.

    Attributes:
      own: the influence on the estimate with the model as it is.
      sums: behind the estimate.
      weighted: whether it is self-normalised.
      starts: the family of its starts, with their sums.
      fits: the models, `FittedModel` or `RowValues`.
    """

    own: Influence
    sums: ProductSums
    weighted: bool
    starts: tuple[StartFamily, Starts]
    fits: Sequence[Any]


def full_influences(estimates: Sequence[WithModel]) -> list[Influence]:
    """The influences on some estimates and on their models; each model is gone through once."""
    parts: list[list[Influence]] = [[one.own] for one in estimates]
    by_model: dict[Any, list[tuple[int, Any]]] = {}
    for number, one in enumerate(estimates):
        family, found = one.starts
        for fitted, start in zip(one.fits, family.finish(found, one.sums, one.weighted), strict=True):
            by_model.setdefault(fitted, []).append((number, start))
    for fitted, some in by_model.items():
        n, starts = estimates[some[0][0]].sums.plain.n, [start for _, start in some]
        for (number, _), influence in zip(some, fitted.influences(starts, n), strict=True):
            parts[number].append(influence)
    return [Together(tuple(some)) for some in parts]


def full_influence(
    own: Influence,
    sums: ProductSums,
    weighted: bool,
    starts: tuple[StartFamily, Starts],
    fits: Sequence[Any],
) -> Influence:
    """The same on one estimate; see `WithModel`."""
    return full_influences([WithModel(own, sums, weighted, starts, fits)])[0]
