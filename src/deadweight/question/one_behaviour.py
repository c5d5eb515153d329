"""Whatever was given as pi_b as one behaviour policy: several old ones become the column of their mixture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deadweight.log.interface import Log, in_memory
from deadweight.question.mixtures import mixture_of
from deadweight.question.stored_mixtures import makers_of, mixed
from deadweight.sums.old_policies import have_mixed_worlds


def is_mixture(pi_b: object, log: Log) -> bool:
    """Whether a behaviour policy is a mapping of ids to policies, and not one policy written as a mapping.

    One policy as a mapping gives each state an action, or the probabilities of actions. Where that leaves a
    doubt, the ids of the log decide; on a stored log they take a pass.
    """
    if not isinstance(pi_b, Mapping) or not pi_b:
        return False
    if all(_is_policy(one) for one in pi_b.values()):
        return True
    return log.has_behaviour_ids and any(key in _ids(log) for key in pi_b)


def _ids(log: Log) -> set[Any]:
    ids = log[0].behaviour_ids if log.has_rows else makers_of(log).ids
    return set() if ids is None else set(ids)


def _is_policy(value: Any) -> bool:
    """Whether this is no label of an action, and no probabilities of actions either."""
    return not (value is None or np.isscalar(value) or isinstance(value, Mapping | tuple))


def one_behaviour(log: Log, pi_b: Any) -> tuple[Log, Any, bool]:
    """Several old policies as one: the log with their mixture's propensities; whether any was counted.

    Where they worked under different conditions each episode has the propensities of its own.
    """
    if not is_mixture(pi_b, log):
        return log, pi_b, False
    apart = have_mixed_worlds(log)
    if not log.has_rows:
        given, counted = mixed(log, pi_b, apart)
        return given, None, counted
    mixture = mixture_of(log[0], pi_b, apart)
    return in_memory(log[0].with_propensities(mixture.propensities)), None, bool(mixture.counted)
