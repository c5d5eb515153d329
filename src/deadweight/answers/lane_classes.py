"""In how few walks lanes are walked: those that want the same together, others where that costs less."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import lru_cache

import numpy as np

from deadweight.sums.lanes import Wanted

# What a walk costs besides its lanes, in units of one number of one lane.
READING = 16
# Plain weights under so few drops are quicker summed one after the other (`deadweight.sums.walks`).
FEW_LANES = 2
NOTHING = Wanted()


def is_simple(masks: Set[bytes], kinds: Set[str]) -> bool:
    """Whether there are a drop or two without any values: along one lane another walk is quicker."""
    return len(masks) <= FEW_LANES and kinds <= {"whole", "steps"}


@lru_cache(maxsize=1024)
def both(one: Wanted, other: Wanted) -> Wanted:
    """What either wants; there are few kinds, and hundreds of lanes."""
    return one | other


def lane_classes(lanes: dict[bytes, Wanted]) -> list[tuple[Wanted, list[bytes]]]:
    """Lanes that want the same, in walks; two walks are one where that costs less."""
    classes: list[tuple[Wanted, list[bytes]]] = []
    for mask, wanted in lanes.items():
        same = next((some for which, some in classes if which == wanted), None)
        if same is None:
            classes.append((wanted, [mask]))
        else:
            same.append(mask)
    while len(classes) > 1:
        pairs = [(i, j) for i in range(len(classes)) for j in range(i)]
        saved = [
            _cost([classes[i]]) + _cost([classes[j]]) - _cost([classes[i], classes[j]]) for i, j in pairs
        ]
        best = int(np.argmax(saved))
        if saved[best] <= 0:
            break
        i, j = pairs[best]
        merged = (classes[i][0] | classes[j][0], classes[j][1] + classes[i][1])
        classes = [one for k, one in enumerate(classes) if k not in (i, j)] + [merged]
    return classes


def _cost(classes: Sequence[tuple[Wanted, list[bytes]]]) -> int:
    """Of one walk for the lanes of some classes."""
    wanted, lanes = NOTHING, 0
    for which, some in classes:
        wanted, lanes = both(wanted, which), lanes + len(some)
    each = 2 + wanted.steps + 2 * wanted.robust + wanted.lost + wanted.by_state + 2 * wanted.by_pair
    return READING + each * (-(-lanes // 4) * 4)
