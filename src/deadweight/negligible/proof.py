"""Whether action values, given or learned, may be used for more than taking noise away.

A model of features or labels that mean nothing sees no advantage of any action, and its value is about that
of the behaviour policy: wrong, at a small standard error, and often too close to what weights say to be told
from it. That it predicts nothing of what unseen episodes earn tells it from others, and of labels that
transitions and rewards have nothing to do with them.
"""

from __future__ import annotations

from deadweight.answers.given_model import given_model_fits, has_given_model
from deadweight.answers.known_values import known_values
from deadweight.negligible.guard import guard_of
from deadweight.negligible.label_memory import labels_are_noise
from deadweight.negligible.witnesses import LEAST_Z
from deadweight.question.core import Question


def is_proven(question: Question) -> bool:
    """Whether the log bears out the values: what was earned does not contradict them, and goes with them.

    Values that were learned from the log in closed form have a standard error, and need less of a proof.
    """
    if has_given_model(question):
        return given_model_fits(question)
    if question.row_values is None:
        return not labels_are_noise(question)
    known, guard = known_values(question), guard_of(question)
    return guard.z >= LEAST_Z if known is None else known.fits and guard.is_sure
