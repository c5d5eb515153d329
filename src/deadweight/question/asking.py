"""Asking: from a log and policies as the user has them to a `Question`.

The old policies become one, policies are brought into the order of the log, and where a policy or the model
depends on more than a label, the question is one about rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from deadweight.errors import EstimationError
from deadweight.log.interface import Log, LogLike, as_log
from deadweight.mdp.tabular import check_gamma
from deadweight.question.core import Question
from deadweight.question.cut_weights import weigh_cuts
from deadweight.question.facts import Facts
from deadweight.question.one_behaviour import one_behaviour
from deadweight.question.options import Options
from deadweight.question.ratio_check import ratio_flags
from deadweight.question.understanding import paired
from deadweight.sums.pairs import PolicyPair
from deadweight.sums.weighting import refuse_unsupported
from deadweight.values.row_values import RowLearner

Policy = Any
"""What a user may pass as a policy; see `deadweight.question.understanding`."""


def ask(
    log: LogLike,
    pi_e: Policy = None,
    pi_b: Policy = None,
    gamma: float = 1.0,
    options: Options | None = None,
    workers: int = 1,
    known: Facts | None = None,
) -> Question:
    """The question about a log, in memory or stored, with policies in the user's own order.

    What the policies make unnecessary is not read from a stored log. `known` are facts of the same log that
    were found for other policies.
    """
    source = as_log(log)
    parts, pi_b, filled = one_behaviour(source, pi_b)
    unused = [
        column for column, policy in (("target_prob", pi_e), ("behaviour_prob", pi_b)) if policy is not None
    ]
    by_row = options is not None and isinstance(options.model, RowLearner)
    parts, pair = paired(parts, pi_e, pi_b, by_row)
    question = ask_pair(parts, pair, gamma, options, workers, [*unused, "behaviour_id"])
    flags = (*(("behaviour-filled",) if filled else ()), *ratio_flags(question))
    if known is not None and not question.parts.has_states:
        known = None  # they count states by their labels, and here each row is a state
    made_by = source if source.has_behaviour_ids else None
    return replace(question, behaviour_flags=flags, made_by=made_by, known=known)


def ask_pair(
    log: Log,
    pair: PolicyPair,
    gamma: float = 1.0,
    options: Options | None = None,
    workers: int = 1,
    unused: Sequence[str] = (),
) -> Question:
    """The same with policies in the order of the log; no step of it may be one that pi_b never takes."""
    check_gamma(gamma)
    zeros = pair.pi_b is not None and bool((pair.pi_b == 0).any())
    untimed = ["duration"] if gamma == 1.0 else []
    parts = log.viewed(partial(refuse_unsupported, pair) if zeros else None, [*unused, *untimed])
    own = Options() if options is None else options
    by_duration, asked, weighed = gamma < 1.0 and parts.has_durations, gamma, None
    if by_duration:
        parts, gamma = _in_time(parts, gamma), 1.0
    if own.cut_weights is not None:
        parts, weighed = weigh_cuts(parts, own.cut_weights, own.finished)
    if parts.has_states:
        return Question(
            parts,
            pair,
            gamma,
            own,
            workers,
            by_duration=by_duration,
            asked_gamma=asked if by_duration else None,
            cut_weights=weighed,
        )
    from deadweight.question.by_row import RowQuestion  # with its learners, for logs with features only

    return RowQuestion(parts, pair, gamma, own, workers)


def _in_time(log: Log, gamma: float) -> Log:
    """A log by its durations."""
    if not log.has_states:
        raise EstimationError(
            "Durations with gamma below 1 need states with labels; this log has features for states.",
            fix="Use gamma=1.0, with which durations change nothing; or give it a column state with labels "
            "that say all that matters, which bins of the features rarely do.",
        )
    return log.discounted(gamma)
