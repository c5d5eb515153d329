"""The table of estimators: names as a convenience over objects.

A name that is not in the table is looked for in the entry-point group `deadweight.estimators`, so that an
installed package can add names for the library and the command line. Nothing is looked up before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from deadweight.errors import UnknownEstimator, did_you_mean
from deadweight.estimators import builders
from deadweight.estimators.estimator import Estimator, Letters, Scheme

GROUP = "deadweight.estimators"
W, S, WS = (True, False, False), (False, True, False), (True, True, False)
CS, CWS = (False, True, True), (True, True, True)
PLAIN = (False, False, False)

# Which estimate the verdict rests on: corrected and state-based ones first, the naive average never.
HEADLINES = (
    *(("PDIS", CWS), ("IS", CWS), ("DR", WS), ("DR", W), ("PDIS", CS), ("IS", CS), ("DR", S), ("DR", PLAIN)),
    *(("PDIS", WS), ("PDIS", W), ("IS", W)),
)


def _ranks(name: str) -> dict[Letters, int]:
    return {letters: rank for rank, (own, letters) in enumerate(HEADLINES) if own == name}


WHOLE_EPISODE = Scheme(
    "IS",
    builders.trajectory,
    "whole-episode weights",
    product=True,
    whole_episode=True,
    letters=(True, True, True),
    rank=_ranks("IS"),
    rank_alone={W: 1, PLAIN: 3},
)
PER_DECISION = Scheme(
    "PDIS",
    builders.per_decision,
    "per-decision weights",
    product=True,
    letters=(True, True, True),
    rank=_ranks("PDIS"),
    rank_alone={W: 0, PLAIN: 2},
)
INCREMENTAL = Scheme(
    "INCRIS", builders.incremental, "incremental weights", product=True, letters=(True, True, False)
)
DOUBLY_ROBUST = Scheme(
    "DR",
    builders.doubly_robust,
    "doubly robust",
    product=True,
    contains_correction=True,
    letters=(True, True, False),
    names={S: "DRSIS", WS: "WDRSIS"},
    rank=_ranks("DR"),
)
DENSITY_RATIO = Scheme("SDRE", builders.density_ratio, "state density ratio", letters=(False, True, False))
MARGINALISED = Scheme("MIS", builders.marginalised, "marginalised weights", letters=(False, True, False))
TABULAR_MARGINALISED = Scheme(
    "TMIS", builders.tabular_marginalised, "marginalised, by table", letters=(False, True, False)
)
LINEAR = Scheme("LIN", builders.linear, "doubly robust, weights to first order", contains_correction=True)
MODEL = Scheme("DM", builders.direct, "fitted model alone", baseline=True, model=True)
CONDITIONAL = Scheme("CIS", builders.conditional, "conditional weights")
# Before all others, with a model or without: it leaves out what does not fit.
BLEND = Scheme(
    "BLEND", builders.of_others, "mix of several estimates", mix=True, rank=-1, rank_alone={PLAIN: -1}
)
# Parts of a blend that are in no table; windows are to be added to DM.
CROSS_FITTED = Scheme(
    "WDR cross-fitted",
    builders.doubly_robust_of_others,
    "doubly robust, models of other episodes",
    product=True,
    contains_correction=True,
    values=builders.of_other_episodes,
    names={W: "WDR cross-fitted"},
).variant(W)
WINDOWS = tuple(
    Scheme(
        f"WIN{length}",
        partial(builders.window, length),
        f"doubly robust, the latest {length} ratios",
        contains_correction=True,
        values=builders.of_the_log,
        names={W: f"WIN{length}"},
    ).variant(W)
    for length in (3, 2)
)
NAIVE = Scheme("BEHAVIOUR", builders.behaviour, "average return of the log", baseline=True, naive=True)


def _table() -> Iterator[Estimator]:
    for scheme in (WHOLE_EPISODE, PER_DECISION, INCREMENTAL, DOUBLY_ROBUST):
        yield from (scheme.variant(letters) for letters in (PLAIN, W, S, WS))
    for scheme in (DENSITY_RATIO, MARGINALISED, TABULAR_MARGINALISED):
        yield from (scheme.variant(letters) for letters in (PLAIN, S))
    for scheme in (WHOLE_EPISODE, PER_DECISION):
        yield from (scheme.variant(letters) for letters in (CS, CWS))
    yield from (scheme.variant() for scheme in (LINEAR, MODEL, CONDITIONAL, NAIVE))


BUILT_IN: Mapping[str, Estimator] = MappingProxyType({one.name: one for one in _table()})
ESTIMATORS: tuple[str, ...] = tuple(BUILT_IN)
# With those that are made of others, and have no sums and no variants.
NAMED: Mapping[str, Estimator] = MappingProxyType({**BUILT_IN, BLEND.name: BLEND.variant()})


def estimator_of(given: str | Estimator) -> Estimator:
    """The estimator of a name, an object as it is, or an error that says which name may have been meant."""
    if isinstance(given, Estimator):
        return given
    if isinstance(given, str):
        found = NAMED[given] if given in NAMED else _installed(given)
        if found is not None:
            return found
    else:
        raise UnknownEstimator(
            f"Expected the name of an estimator; found {type(given).__name__}.",
            fix='Names are text. In estimate the name comes first: estimate("WPDIS", log, pi_e).',
        )
    known = [*NAMED, *(name for name, _ in _entry_points())]
    raise UnknownEstimator(
        f"There is no estimator {given!r}.{did_you_mean(str(given), known)}",
        fix=f"Estimators are: {', '.join(known)}.",
    )


def _entry_points() -> Iterable[tuple[str, Any]]:
    from importlib.metadata import entry_points

    return [(point.name, point) for point in entry_points(group=GROUP)]


def _installed(name: str) -> Estimator | None:
    """The estimator of an installed package by this name, or the variant of one."""
    points = _entry_points()
    # The name itself first: another package is loaded only if it may have a variant of this name.
    for own, point in sorted(points, key=lambda pair: pair[0] != name):
        if own != name and not name.endswith(own):
            continue
        for variant in _loaded(own, point).variants:
            if name in (variant.name, own):
                return variant
    return None


def _loaded(name: str, point: Any) -> Estimator:
    try:
        found = point.load()
    except Exception as error:
        raise UnknownEstimator(
            f"The estimator {name} of the entry point {point.value!r} cannot be loaded: {error}.",
            fix="Mend or remove the package that it comes from.",
        ) from error
    if not isinstance(found, Estimator):
        raise UnknownEstimator(
            f"The entry point {name} = {point.value!r} must be an Estimator; found {type(found).__name__}.",
            fix="Point it at an object made by deadweight.Estimator.",
        )
    return found
