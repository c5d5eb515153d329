"""The full influence of an episode: on the sums of an estimate, and on the model whose values it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deadweight.estimators.base import Family
from deadweight.estimators.product import ProductFamily, ProductSums
from deadweight.estimators.starts import StartFamily, Starts, UsesQ
from deadweight.question.core import Values
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Field
from deadweight.typing import FloatArray
from deadweight.values.model_influence import FittedModel

Influence = Callable[[Block], FloatArray]


@dataclass(frozen=True, eq=False)
class Together:
    """The sum of several influences."""

    influences: tuple[Influence, ...]

    def __call__(self, block: Block) -> FloatArray:
        """(m,) of a block's episodes, up to a constant."""
        return sum((one(block) for one in self.influences), start=np.zeros(block.n))


def starts_of(family: Family, values: Values[Field], shape: tuple[int, int]) -> StartFamily | None:
    """What is to be summed for the influence of the model, of (S, A) pairs; None where none is fitted."""
    if not values.fits or not isinstance(family, ProductFamily):
        return None
    if not any(isinstance(maker, UsesQ) for maker in family.makers):
        return None
    return StartFamily(family, shape, values.folds)


def full_influence(
    own: Influence,
    sums: ProductSums,
    weighted: bool,
    starts: tuple[StartFamily, Starts],
    fits: Sequence[FittedModel],
) -> Influence:
    """The influence on an estimate and on its model, or models.

    Args:
      own: the influence on the estimate with the model as it is.
      sums: behind the estimate.
      weighted: whether it is self-normalised.
      starts: the family of its starts, with their sums.
      fits: the models.
    """
    family, found = starts
    n = sums.plain.n
    pushed = [
        fitted.influence(start, n)
        for fitted, start in zip(fits, family.finish(found, sums, weighted), strict=True)
    ]
    return Together((own, *pushed))
