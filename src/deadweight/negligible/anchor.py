r"""The anchor of the automatic drop: levels that stray from the undropped estimate are taken to be wrong.

Along a path bias and standard error are what a model says of itself, and a model that is wrong says little
of either. The doubly robust estimate with all its ratios does not depend on the drop, and hardly on the
model; how far a level lies from it, beyond what noise explains, is added to the level's error:

.. math:: (f \, m_k)^2 + \mathrm{se}_k^2 + A_k, \qquad
   A_k = \max(0, (C_k - \mathrm{WDR}_0)^2 - \mathrm{se}_0^2)

and for doubly robust names, whose level 0 is that estimate,
max(0, (D_k - D_0)^2 - abs(se_0^2 - se_k^2)). With few effective episodes the anchor does not hold, and there
is none.
"""

from __future__ import annotations

import numpy as np

from deadweight.answers.plans import FEW_EPISODES, Answers, Plan
from deadweight.estimators.estimator import Estimator
from deadweight.estimators.names import BUILT_IN
from deadweight.negligible.columns import Columns
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.typing import FloatArray

ANCHOR = "WDR"


def strays(question: Question, made: Estimator, columns: Columns) -> FloatArray:
    """(K + 1,) A_k: how far each level lies from the undropped estimate, squared, beyond noise."""
    if made.contains_correction:
        if columns.ess[0] < FEW_EPISODES:
            return np.zeros_like(columns.estimate)
        shared = np.abs(columns.std_error[0] ** 2 - columns.std_error**2)
        return _positive(np.square(columns.estimate - columns.estimate[0]) - shared)
    plan = Plan(question, BUILT_IN[ANCHOR], NOTHING_DROPPED)
    answers = Answers(question, [plan], model_known=True)
    ess = answers.ess(plan)
    if ess is None or ess < FEW_EPISODES:
        return np.zeros_like(columns.estimate)
    corrected = columns.estimate - columns.bias
    distance = np.square(corrected - answers.fit(plan).value)
    return _positive(distance - answers.std_error(plan) ** 2)


def _positive(values: FloatArray) -> FloatArray:
    found: FloatArray = np.maximum(0.0, values)
    return found
