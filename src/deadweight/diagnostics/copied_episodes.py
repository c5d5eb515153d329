"""Copies of episodes in the log of a question; see `deadweight.values.equal_episodes`."""

from __future__ import annotations

from deadweight.answers.answering import Answers
from deadweight.question.core import Question
from deadweight.sums.logged_slopes import Confounding
from deadweight.values.equal_episodes import Copies, EpisodeContents


def contents_of(question: Question) -> list[EpisodeContents]:
    """What is to be summed in a first pass; nothing where states have no labels."""
    if not question.can_solve_model or question.row_values is not None or question.n < 2:
        return []
    return [EpisodeContents(question.parts, question.pair.n_actions)]


def copies_of(answers: Answers) -> Copies | None:
    """What is found in the sums of `contents_of`; None where they were not made."""
    question = answers.question
    made = [one for one in contents_of(question) if one.key in question.sums]
    if not made:
        return None
    habits = question.made_by is not None or question.sums.get(Confounding) is not None
    return question.made_once(Copies, lambda: made[0].finish(answers.found(made[0]), question.counts, habits))
