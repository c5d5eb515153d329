"""The drop of an estimator, from what was asked for: a rule in words, a function, or states themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deadweight.answers.plans import Plan
from deadweight.estimators.estimator import Estimator
from deadweight.negligible.by_name import states_by_rule
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED, Drop, chosen_drop, drop_of


def resolved(question: Question, made: Estimator, drop: Any) -> Drop:
    """The drop of a state-based estimator."""
    if isinstance(drop, str):
        return chosen_drop(question, states_by_rule(question, made, drop))
    if callable(drop):
        return drop_of(question, drop(question), made_of_log=True)
    return drop_of(question, drop)


def planned(question: Question, made: Estimator, drop: Any) -> Plan:
    """An estimator with its drop."""
    return Plan(question, made, resolved(question, made, drop) if made.is_state_based else NOTHING_DROPPED)


def chooser_of(plan: Plan, drop: Any) -> Callable[[Question], Drop] | None:
    """The rule that chooses the plan's drop from a log; None where the user gave the drop itself."""
    if not (plan.estimator.is_state_based and (isinstance(drop, str) or callable(drop))):
        return None
    return lambda question: resolved(question, plan.estimator, drop)
