"""Conformance: what every estimator must do, as checks that anyone who adds one can run.

`check_estimator` runs them all on an estimator and its variants. Each single check takes an estimator (or its
name), a log and the two policies, and raises AssertionError with the numbers when the behaviour is not there.

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

from deadweight.answers.plans import Plan
from deadweight.estimators.estimator import Estimator, estimator_of
from deadweight.estimators.influence import WithModel, full_influences
from deadweight.estimators.product import Fit, Summed
from deadweight.log.interface import InMemory, in_memory
from deadweight.log.trajectories import Trajectories
from deadweight.question.asked import read_options
from deadweight.question.drops import Drop, given_drop
from deadweight.question.question import Policy, ask_pair
from deadweight.results.estimate import Estimate
from deadweight.sums.pairs import pair_policies
from deadweight.sums.reduction import per_episode, reduce_log
from deadweight.typing import FloatArray
from deadweight.verbs.estimate import estimate

Which = str | Estimator
TOLERANCE = 1e-9
STATES, ACTIONS = 4, 3  # of the examples
# Estimators that neither know a model nor a density: without ratios they are the naive average.
WITHOUT_MODEL = ("IS", "WIS", "PDIS", "WPDIS", "INCRIS", "WINCRIS", "MIS")
DROPPING = ("SIS", "WSIS", "SPDIS", "WSPDIS", "SINCRIS", "WSINCRIS", "SMIS", "STMIS")
COLUMNS = ("states", "actions", "rewards", "offsets", "terminated", "propensities", "target_probs")


def influences(
    name: Which,
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
    """The bare fit of an estimator, and the influence (n,) of each episode on it, up to a constant.

    Args:
      parts: runs of the log's episodes to be summed one after the other; None takes the log whole.
      cells: size of a block.

    The influence is None where the standard error comes with the first pass. The other arguments are those
    of `estimate`.
    """
    pieces = [log] if parts is None else list(parts)
    pair = pair_policies(in_memory(log).labels, pi_e, pi_b)
    question = ask_pair(InMemory(pieces), pair, gamma, read_options(options))
    subject = estimator_of(name)
    chosen = given_drop(drop, pair, log) if subject.is_state_based else Drop()
    plan = Plan(question, subject, chosen)
    family, starts = plan.family, plan.starts
    wanted: list[Summed] = [family] if starts is None else [family, starts]
    sums = reduce_log(pieces, lambda block: [sums.summarise(block) for sums in wanted], cells=cells)
    fit = family.finish(sums[0], subject.is_weighted)
    influence = fit.influence
    if starts is not None:
        own = plan.plain_terms or fit.influence
        assert own is not None
        estimated = WithModel(own, sums[0], subject.is_weighted, (starts, sums[1]), plan.fits)
        (influence,) = full_influences([estimated])
    if influence is None:
        return fit, None
    return fit, per_episode(pieces, influence, cells=cells)


def example_log(cut: bool, n: int = 25, longest: int = 9, seed: int = 3, whole: bool = False) -> Trajectories:
    """A ragged log of 4 states and 3 actions; with `cut` half of the episodes are truncated.

    Some of those have a successor. With `whole` the rewards are whole numbers.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, size=n)
    steps = int(lengths.sum())
    states = rng.integers(STATES, size=steps)
    rewards = rng.integers(-3, 4, size=steps).astype(float) if whole else rng.normal(size=steps)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    following = np.append(states[1:], 0)
    following[offsets[1:] - 1] = np.where(rng.random(n) < 0.4, -1, rng.integers(STATES, size=n))
    return Trajectories(
        states,
        rng.integers(ACTIONS, size=steps),
        rewards,
        offsets,
        terminated=rng.random(n) < 0.5 if cut else None,
        next_states=following if cut else None,
    )


def example_policies(seed: int = 11) -> tuple[FloatArray, FloatArray]:
    """pi_e, which never takes some actions, and pi_b, which takes them all, for the logs of `example_log`."""
    rng = np.random.default_rng(seed)
    pi_b = rng.dirichlet(np.ones(ACTIONS), size=STATES) * 0.8 + 0.2 / ACTIONS
    pi_e = np.where(rng.random((STATES, ACTIONS)) < 0.2, 0.0, rng.random((STATES, ACTIONS)) + 0.01)
    pi_e[:, 0] += 1e-3
    return pi_e / pi_e.sum(axis=1, keepdims=True), pi_b


def example_settings(log: Trajectories, number: int) -> dict[str, Any]:
    """Settings that differ in drop, discount and conventions; number is 0, 1 or 2."""
    flags = Drop(steps=np.random.default_rng(5).random(log.n_steps) < 0.4)
    others = {"unseen": "terminate", "window": None}
    settings: list[dict[str, Any]] = [
        {"drop": [1, 3], "gamma": 1.0},
        {"drop": [0, 1], "gamma": 0.9, "finished": "leave", **others},
        {"drop": flags, "gamma": 0.9, "finished": "survivors", "ended_ratios": "one", "given": "reward"},
    ]
    return settings[number]


def check_estimator(given: Which, **settings: Any) -> None:
    """Every check that the built-in estimators pass, on an estimator and all its variants.

    Args:
      given: an `Estimator`, or a name.
      **settings: arguments of `estimate` that it cannot do without.

    Example:
      >>> from deadweight.estimators.product import PerDecision
      >>> check_estimator(Estimator("MINE", terms=PerDecision()))
    """
    for variant in estimator_of(given).variants:
        check_one(variant, **settings)


def check_one(subject: Estimator, **fixed: Any) -> None:
    """Every check for one variant alone."""
    pi_e, pi_b = example_policies()
    ended, cut = example_log(cut=False), example_log(cut=True)
    for number, log in enumerate((ended, cut, cut)):
        settings = {**example_settings(log, number), **fixed}
        by_step = isinstance(settings["drop"], Drop)
        for check in CHECKS:
            # One flag a step belongs to one order of the steps.
            if not (by_step and check is check_episode_order):
                check(subject, log, pi_e, pi_b, **settings)
        if subject.is_state_based:
            others = {key: value for key, value in settings.items() if key != "drop"}
            check_empty_drop(subject, subject.plain, log, pi_e, pi_b, **others)
    weights_alone = subject.is_product and not (subject.contains_correction or subject.is_corrected)
    for log in (ended, cut) if weights_alone else ():
        check_same_policies(subject, log, pi_b, **{"drop": [], "gamma": 0.9, **fixed})
        if subject.is_state_based:
            check_drop_all(subject, log, pi_e, pi_b, **{"gamma": 0.9, **fixed})
    check_travels(subject, ended, pi_e, pi_b, **fixed)


def check_travels(name: Which, log: Trajectories, pi_e: Policy, pi_b: Policy, **settings: Any) -> None:
    """The estimator can be sent to another process, and its estimate is data."""
    from multiprocessing.reduction import ForkingPickler

    subject = estimator_of(name)
    result = estimate(subject, log, pi_e, pi_b, **{"drop": [0], **settings})
    for what, thing in (("It", subject), ("Its estimate", result)):
        try:
            ForkingPickler.dumps(thing)
        except Exception as error:
            raise AssertionError(
                f"{subject.name}: {what} cannot be sent to another process: {error}"
            ) from error


def check_chunks(name: Which, log: Trajectories, pi_e: Policy, pi_b: Policy, **settings: Any) -> None:
    """The log whole, in blocks of any size, and in any number of parts give one estimate and one error."""
    whole = _spread(*influences(name, log, pi_e, pi_b, **settings))
    for cells in (1, 5, 17):
        result = _spread(*influences(name, log, pi_e, pi_b, cells=cells, **settings))
        _agree(f"{label(name)} in blocks of {cells} cells", result, whole)
    if isinstance(settings.get("drop"), Drop) and settings["drop"].steps is not None:
        return  # one flag for each step belongs to the rows of one log
    for pieces in (2, 3, log.n_episodes):
        parts = log.split(pieces)
        result = _spread(*influences(name, log, pi_e, pi_b, parts=parts, cells=5, **settings))
        _agree(f"{label(name)} in {pieces} parts", result, whole)


def check_episode_order(name: Which, log: Trajectories, pi_e: Policy, pi_b: Policy, **settings: Any) -> None:
    """The order of the episodes does not matter."""
    expected = _numbers(estimate(name, log, pi_e, pi_b, **settings))
    order = np.random.default_rng(0).permutation(log.n_episodes)
    for shuffled in (order, np.arange(log.n_episodes)[::-1]):
        result = estimate(name, log.select(shuffled), pi_e, pi_b, **settings)
        _agree(f"{label(name)} with its episodes in another order", _numbers(result), expected)


def check_empty_drop(
    name: Which, plain: Which, log: Trajectories, pi_e: Policy, pi_b: Policy, **settings: Any
) -> None:
    """A state-based name with nothing to drop is its plain self, to the bit."""
    expected = estimate(plain, log, pi_e, pi_b, **settings)
    nothing: list[Any] = [None, [], np.zeros(log.n_states, dtype=bool)]
    for drop in [*nothing, Drop(steps=np.zeros(log.n_steps, dtype=bool))]:
        found = estimate(name, log, pi_e, pi_b, drop=drop, **settings)
        _same_bits(
            f"{label(name)} with an empty drop against {label(plain)}", _numbers(found), _numbers(expected)
        )
        assert found.bias == 0.0, f"{label(name)} with an empty drop has bias {found.bias}, not 0"


def check_drop_all(name: Which, log: Trajectories, pi_e: Policy, pi_b: Policy, **settings: Any) -> None:
    """Without any ratio the estimate is the mean return; see `DROPPING` for who must do this."""
    expected = estimate("BEHAVIOUR", log, pi_e, pi_b, **settings).value
    for drop in (list(log.state_labels), Drop(steps=np.ones(log.n_steps, dtype=bool))):
        found = estimate(name, log, pi_e, pi_b, drop=drop, **settings)
        _agree(f"{label(name)} with everything dropped", [found.value], [expected])
        assert "all-dropped" in found.flags, f"{label(name)} with everything dropped has flags {found.flags}"


def check_same_policies(name: Which, log: Trajectories, pi_b: npt.ArrayLike, **settings: Any) -> None:
    """With pi_e = pi_b the estimate is the mean return; see `WITHOUT_MODEL` for who must do this."""
    expected = estimate("BEHAVIOUR", log, pi_b, pi_b, **settings).value
    found = estimate(name, log, pi_b, pi_b, **settings).value
    _agree(f"{label(name)} with pi_e = pi_b", [found], [expected])


def check_inputs_unmodified(
    name: Which, log: Trajectories, pi_e: npt.ArrayLike, pi_b: npt.ArrayLike, **settings: Any
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
        assert np.array_equal(array, before[key]), f"{label(name)} has changed {key}"


def check_workers(
    name: Which,
    log: Trajectories,
    pi_e: Policy,
    pi_b: Policy,
    workers: Sequence[int] = (1, 2, 7),
    **settings: Any,
) -> None:
    """The same bits for any number of workers."""
    results = [_numbers(estimate(name, log, pi_e, pi_b, workers=count, **settings)) for count in workers]
    for count, found in zip(workers[1:], results[1:], strict=True):
        _same_bits(f"{label(name)} with {count} workers against {workers[0]}", found, results[0])


CHECKS: tuple[Callable[..., None], ...] = (
    check_chunks,
    check_episode_order,
    check_inputs_unmodified,
    check_workers,
)
"""Checks that hold for every estimator with any drop and options."""


def label(given: Which) -> str:
    """The name of an estimator."""
    return estimator_of(given).name


def _numbers(result: Estimate) -> list[float]:
    """The numbers of an estimate that must not depend on how it was computed."""
    steps = getattr(result, "ess_steps", None)
    optional = [getattr(result, "std_error", None), result.ess, getattr(result, "bias", None)]
    known = [number for number in optional if number is not None]
    return [result.value, *known, *(result.interval or ()), *([] if steps is None else steps)]


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


__all__ = ["check_estimator"]
