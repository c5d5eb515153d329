r"""The anchor of the automatic drop: levels that stray from what other estimates say are taken to be wrong.

Along a path bias and standard error are what a model says of itself, and a model that is wrong says little
of either. Estimates that drop nothing (`witnesses`) do not depend on the drop, and less on the model; how far
a level lies from them is added to its error:

.. math:: (f \, m_k)^2 + \mathrm{se}_k^2 + \max_j A_{kj}

The estimate with all ratios is right but noisy, and counts beyond its noise only,

.. math:: A_{k0} = \max(0, (C_k - \mathrm{WDR}_0)^2 - \mathrm{se}_0^2)

and for doubly robust names, whose level 0 is that estimate, max(0, (D_k - D_0)^2 - abs(se_0^2 - se_k^2)).
With few effective episodes it does not hold, and there is none. Windowed estimates have little noise and
count in full, :math:`A_{kj} = (C_k - \mathrm{Win}_j)^2`, unless the first contradicts them. Noise excuses
nothing, and without an anchor nothing is dropped, where the model says nothing of unseen episodes
(`unseen_fit`). Where states are rows windowed estimates are none of the value, and count only where a level
lies farther from them than no drop:
:math:`A_{kj} = \max(0, (C_k - \mathrm{Win}_j)^2 - (C_0 - \mathrm{Win}_j)^2)`.
"""

from __future__ import annotations

import numpy as np

from deadweight.answers.plans import FEW_EPISODES
from deadweight.estimators.estimator import Estimator
from deadweight.negligible.path_columns import Columns
from deadweight.negligible.witnesses import Witnesses
from deadweight.typing import FloatArray


def strays(made: Estimator, columns: Columns, witnesses: Witnesses) -> FloatArray:
    """(K + 1,) how far each level lies from the witnesses, squared.

    Levels that drop anything are infinitely far by a model that is of no use.
    """
    inside = made.contains_correction
    values = columns.estimate if inside else columns.estimate - columns.bias
    found: FloatArray = np.zeros_like(values)
    counts = 1.0 if witnesses.proven else 0.0  # an unproven model gets no allowance for noise
    if inside and columns.ess[0] >= FEW_EPISODES:
        shared = np.abs(columns.std_error[0] ** 2 - columns.std_error**2)
        found = np.square(values - values[0]) - counts * shared
    elif not inside and witnesses.anchored:
        found = np.square(values - witnesses.undropped) - counts * witnesses.std_error**2
    for value in witnesses.windowed if witnesses.one_sided else witnesses.believed:
        distance = np.square(values - value)
        found = np.maximum(found, distance - distance[0] if witnesses.one_sided else distance)
    found = np.maximum(found, 0.0)
    if not witnesses.allows:
        found[1:] = np.inf
    return found
