r"""Has the old policy looked at something that the state lacks, and that matters?

Logged probabilities that differ within a state and action say that the old policy looked at more than the
state: a week, a version, how ill somebody was. That is harmless unless what it looked at also tells what
follows. Where it does, the model's error of a step goes along with the logged probability,

.. math:: \delta_{it} = r_{it} + \gamma V(s_{i,t+1}) - Q(s_{it}, a_{it}) \quad \text{on} \quad
   x_{it} = \log b_{it} - \overline{\log b}_{s_{it} a_{it}},

a regression within states and actions, pooled over states, with standard errors clustered by episode and as
many degrees of freedom as there are episodes that effectively carry the slope. Each action has a slope of
its own: whatever makes one of them more likely makes another less likely, and over all of them the slopes
cancel. Weights are not harmed by this, if the logged probabilities are right; whatever rests on the model is.
A check that finds nothing is no proof.

Probabilities that were counted from the same log are no ground: they are left alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.influences import Job, one_pass
from deadweight.basics.arithmetic import divide
from deadweight.basics.progress import unforeseen_passes
from deadweight.estimators.windowed import ModelSteps, model_steps
from deadweight.question.core import Question
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Field, Logged
from deadweight.sums.logged_slopes import SAME, Confounding, slope_sums
from deadweight.sums.summaries import KeyedSums, Total
from deadweight.typing import FloatArray

# Counted from the log itself, as this flag of the behaviour policy says.
COUNTED = "behaviour-filled"


class LoggedByPair:
    """Number, sum and sum of squares of the logarithms of logged probabilities, by state and action."""

    key: Hashable = "logged-by-pair"

    def __init__(self, question: Question) -> None:
        self.behaviour, self.n_actions = question.pair.behaviour, question.pair.n_actions

    def summarise(self, block: Block) -> KeyedSums:
        """Of a block."""
        logs = np.log(block.flat(self.behaviour.on(block)))
        return KeyedSums.of(block.flat(block.pairs(self.n_actions)), 1.0, logs, np.square(logs))


def can_check(question: Question) -> bool:
    """Whether there are logged probabilities, and a table of states that is solved."""
    return (
        isinstance(question.pair.behaviour, Logged)
        and "propensities" in question.parts.labels.logged
        and question.row_values is None
        and COUNTED not in question.behaviour_flags
        and question.can_solve_model
    )


def sums_for(question: Question) -> list[LoggedByPair]:
    """What is to be summed in a first pass; nothing where there is nothing to check."""
    return [LoggedByPair(question)] if can_check(question) else []


def job_for(answers: Answers) -> Job | None:
    """What is to be done in a second pass, by whoever makes one; None where nothing is left to do."""
    question = answers.question
    if Confounding in question.sums or not can_check(question):
        return None
    wanted = LoggedByPair(question)
    answers.sum([wanted])
    scores = _Scores.of(question, answers.found(wanted))
    if scores is None:
        question.sums[Confounding] = None
        return None

    def keep(found: Total) -> None:
        question.sums[Confounding] = Confounding.of(np.asarray(found.value))

    return Job([], scores, keep)


def confounding_of(answers: Answers) -> Confounding | None:
    """What the check finds, by passes of its own where none were shared; None where it cannot be made."""
    with unforeseen_passes():
        one_pass(answers.question, [job_for(answers)])
    found: Confounding | None = answers.question.sums.get(Confounding)
    return found


def is_confounded(answers: Answers) -> bool:
    """Whether the check has been made, and has found something."""
    found = answers.question.sums.get(Confounding)
    return found is not None and found.found


@dataclass(frozen=True, eq=False)
class _Scores:
    """Sums over episodes by action, for `Confounding.of`; travels to workers.

    Attributes:
      steps: the model at the steps of the log.
      behaviour: the logged probabilities.
      means: (S * A,) of their logarithms.
      larger: (S * A,) by how much an error is larger than the one seen, from a mean that it is part of; 0
        where the probabilities do not differ.
    """

    steps: ModelSteps
    behaviour: Field
    means: FloatArray
    larger: FloatArray

    @classmethod
    def of(cls, question: Question, logged: KeyedSums) -> _Scores | None:
        """None where no probabilities differ."""
        number, total, squares = logged.sums
        mean = total / number
        differ = squares / number - np.square(mean) > SAME**2
        if not differ.any():
            return None
        means, larger = np.zeros((2, question.pair.n_states * question.pair.n_actions))
        means[logged.keys] = mean
        larger[logged.keys] = np.where(differ, divide(number, number - 1), 0.0)
        return cls(model_steps(question), question.pair.behaviour, means, larger)

    def __call__(self, values: FloatArray, block: Block) -> Total:
        """(5, A) of a block's episodes."""
        n_actions = self.steps.pi_e.shape[1]
        errors, pairs = self.steps.errors(block), block.pairs(n_actions)
        some = errors.known & (self.larger[pairs] > 0)
        at = pairs[some]
        x = np.log(self.behaviour.on(block)[some]) - self.means[at]
        keys = np.nonzero(some)[0] * n_actions + at % n_actions
        return Total(slope_sums(keys, x, errors.delta[some], self.larger[at], n_actions))
