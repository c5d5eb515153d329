"""Conformance: what every estimator must do, as checks that anyone who adds one can run.

Each check takes the name of an estimator, a log and the two policies, and raises AssertionError with the
numbers when the behaviour is not there. A new estimator inherits all of them by its line in the table:

>>> import numpy as np
>>> from deadweight import Trajectories
>>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0), (0, 0, 1.0)]])
>>> check_chunks("WPDIS", log, np.array([[0.25, 0.75]]), np.array([[0.5, 0.5]]))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.answers import Plan
from deadweight.drops import Drop, given_drop
from deadweight.estimate import Policy, estimate
from deadweight.estimators.base import Fit
from deadweight.estimators.names import recipe
from deadweight.options import read_options
from deadweight.pairs import pair_policies
from deadweight.question import Question
from deadweight.reduction import per_episode, reduce_log
from deadweight.results import Estimate
from deadweight.trajectories import Trajectories
from deadweight.typing import FloatArray

TOLERANCE = 1e-9
# Estimators that neither know a model nor a density: without ratios they are the naive average.
WITHOUT_MODEL = ("IS", "WIS", "PDIS", "WPDIS", "INCRIS", "WINCRIS", "MIS")
DROPPING = ("SIS", "WSIS", "SPDIS", "WSPDIS", "SINCRIS", "WSINCRIS", "SMIS", "STMIS")
COLUMNS = ("states", "actions", "rewards", "offsets", "terminated", "propensities", "target_probs")


def influences(
    name: str,
    log: Trajectories,
    pi_e: Policy,
    pi_b: Policy,
    *,
    drop: Any = None,
    gamma: float = 1.0,
    parts: Sequence[Trajectories] | None = None,
    cells: int = 1 << 15,
    **options: Any,
) -> tuple[Fit, FloatArray | None]:
    """An estimate before it is dressed, and the influence (n,) of each episode on it, up to a constant.

    Args:
      parts: runs of the log's episodes to be summed one after the other; None takes the log whole.
      cells: size of a block.

    The influence is None where the standard error comes with the first pass. The other arguments are those
    of `estimate`.
    """
    pieces = [log] if parts is None else list(parts)
    pair = pair_policies(log, pi_e, pi_b)
    question = Question(pieces, pair, gamma, read_options(options))
    made = recipe(name)
    chosen = given_drop(drop, pair, log) if made.state_based else Drop()
    family = Plan(question, name, made, chosen).family
    fit = family.finish(
        reduce_log(pieces, lambda block: [family.summarise(block)], cells=cells)[0], made.weighted
    )
    influence = fit.influence
    if influence is None:
        return fit, None
    return fit, per_episode(pieces, influence, cells=cells)


def check_chunks(name: str, log: Trajectories, pi_e: Policy, pi_b: Policy, **settings: Any) -> None:
    """The log whole, in blocks of any size, and in any number of parts give one estimate and one error."""
    whole = _spread(*influences(name, log, pi_e, pi_b, **settings))
    for cells in (1, 5, 17):
        found = _spread(*influences(name, log, pi_e, pi_b, cells=cells, **settings))
        _agree(f"{name} in blocks of {cells} cells", found, whole)
    if isinstance(settings.get("drop"), Drop) and settings["drop"].steps is not None:
        return  # one flag a step belongs to the rows of one log
    for pieces in (2, 3, log.n_episodes):
        parts = log.split(pieces)
        found = _spread(*influences(name, log, pi_e, pi_b, parts=parts, cells=5, **settings))
        _agree(f"{name} in {pieces} parts", found, whole)


def check_episode_order(name: str, log: Trajectories, pi_e: Policy, pi_b: Policy, **settings: Any) -> None:
    """The order of the episodes does not matter."""
    expected = _numbers(estimate(name, log, pi_e, pi_b, **settings))
    order = np.random.default_rng(0).permutation(log.n_episodes)
    for shuffled in (order, np.arange(log.n_episodes)[::-1]):
        found = estimate(name, log.select(shuffled), pi_e, pi_b, **settings)
        _agree(f"{name} with its episodes in another order", _numbers(found), expected)


def check_empty_drop(
    name: str, plain: str, log: Trajectories, pi_e: Policy, pi_b: Policy, **settings: Any
) -> None:
    """A state-based name with nothing to drop is its plain self, to the bit."""
    expected = estimate(plain, log, pi_e, pi_b, **settings)
    nothing: list[Any] = [None, [], np.zeros(log.n_states, dtype=bool)]
    for drop in [*nothing, Drop(steps=np.zeros(log.n_steps, dtype=bool))]:
        found = estimate(name, log, pi_e, pi_b, drop=drop, **settings)
        _same_bits(f"{name} with an empty drop against {plain}", _numbers(found), _numbers(expected))
        assert found.bias == 0.0, f"{name} with an empty drop has bias {found.bias}, not 0"


def check_drop_all(name: str, log: Trajectories, pi_e: Policy, pi_b: Policy, **settings: Any) -> None:
    """Without any ratio the estimate is the mean return; see `DROPPING` for who must do this."""
    expected = estimate("BEHAVIOUR", log, pi_e, pi_b, **settings).value
    for drop in (list(log.state_labels), Drop(steps=np.ones(log.n_steps, dtype=bool))):
        found = estimate(name, log, pi_e, pi_b, drop=drop, **settings)
        _agree(f"{name} with everything dropped", [found.value], [expected])
        assert "all-dropped" in found.flags, f"{name} with everything dropped has flags {found.flags}"


def check_same_policies(name: str, log: Trajectories, pi_b: npt.ArrayLike, **settings: Any) -> None:
    """With pi_e = pi_b the estimate is the mean return; see `WITHOUT_MODEL` for who must do this."""
    expected = estimate("BEHAVIOUR", log, pi_b, pi_b, **settings).value
    found = estimate(name, log, pi_b, pi_b, **settings).value
    _agree(f"{name} with pi_e = pi_b", [found], [expected])


def check_inputs_unmodified(
    name: str, log: Trajectories, pi_e: npt.ArrayLike, pi_b: npt.ArrayLike, **settings: Any
) -> None:
    """Neither the log nor the policies nor the drop change."""
    policies = [np.array(pi_e, dtype=np.float64), np.array(pi_b, dtype=np.float64)]
    drop = settings.get("drop")
    arrays = {column: getattr(log, column) for column in COLUMNS if getattr(log, column) is not None}
    arrays |= {"pi_e": policies[0], "pi_b": policies[1], "next_states": log.next_states}
    if isinstance(drop, np.ndarray):
        arrays["drop"] = drop
    before = {key: array.copy() for key, array in arrays.items()}
    estimate(name, log, *policies, **settings)
    for key, array in arrays.items():
        assert np.array_equal(array, before[key]), f"{name} has changed {key}"


def check_workers(
    name: str,
    log: Trajectories,
    pi_e: Policy,
    pi_b: Policy,
    workers: Sequence[int] = (1, 2, 7),
    **settings: Any,
) -> None:
    """The same bits for any number of workers."""
    results = [_numbers(estimate(name, log, pi_e, pi_b, workers=count, **settings)) for count in workers]
    for count, found in zip(workers[1:], results[1:], strict=True):
        _same_bits(f"{name} with {count} workers against {workers[0]}", found, results[0])


CHECKS: tuple[Callable[..., None], ...] = (
    check_chunks,
    check_episode_order,
    check_inputs_unmodified,
    check_workers,
)
"""Checks that hold for every estimator with any drop and options."""


def _numbers(found: Estimate) -> list[float]:
    """What must not depend on how an estimate was computed."""
    numbers = [found.value, found.std_error, *(found.interval or ())]
    numbers += (
        [] if found.ess is None else [found.ess, *(found.ess_steps if found.ess_steps is not None else [])]
    )
    return numbers if found.bias is None else [*numbers, found.bias]


def _spread(fit: Fit, influence: FloatArray | None) -> list[float]:
    if influence is None:
        return [fit.value, float("nan") if fit.std_error is None else fit.std_error]
    return [fit.value, *(influence - influence.mean())]


def _agree(what: str, found: Sequence[float], expected: Sequence[float]) -> None:
    if not np.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
        raise AssertionError(f"{what}: found {found}, expected {expected}")


def _same_bits(what: str, found: Sequence[float], expected: Sequence[float]) -> None:
    if not np.array_equal(found, expected, equal_nan=True):
        raise AssertionError(f"{what}: found {found}, expected {expected} to the bit")
