"""The claims of the paper as data: where it makes them, in short, and the check of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deadweight.studies.reproduction.claim_checks import (
    LARGE,
    SMALL,
    Finding,
    beats,
    benefit,
    better_than_covariance,
    drops_everything,
    drops_two,
    finds_lift_states,
    is_naive_average,
    large_error,
    near_zero,
    per_run_benefit,
    positive_and_growing,
    ranks,
    size_does_not_matter,
    smaller_spread,
    steadier_than_wdr,
    strong_reduction,
    window_limits,
)
from deadweight.studies.reproduction.results import Results
from deadweight.studies.reproduction.spec import ORDINARY, WEIGHTED


@dataclass(frozen=True)
class Claim:
    """What the paper says, where, and how it is checked."""

    where: str
    text: str
    experiment: str
    check: Callable[[Results], Finding]


_SIS_FIRST: dict[int, tuple[str, ...]] = {
    **dict.fromkeys((7, 9, 11), ("SIS", "IS")),
    **dict.fromkeys(LARGE, ("SIS", "SPDIS")),
}
_DET, _STO, _INV, _TAXI = "deterministic-lift", "stochastic-lift", "inventory", "taxi"

CLAIMS = (
    Claim(
        "VI.A",
        "Deterministic lift: state-based estimators are better nearly everywhere, except SDRE.",
        _DET,
        benefit(ORDINARY[:3]),
    ),
    Claim(
        "VI.A",
        "SIS is best at all sizes, followed by IS at small and SPDIS at large ones.",
        _DET,
        ranks(_SIS_FIRST, ORDINARY),
    ),
    Claim("VI.A", "SPDIS strongly reduces the residual of PDIS at large sizes.", _DET, strong_reduction),
    Claim(
        "VI.A",
        "INCRIS and SINCRIS have large residuals: dropping recent steps does not suit the domain.",
        _DET,
        large_error(("INCRIS", "SINCRIS"), "SIS"),
    ),
    Claim(
        "VI.A",
        "SDRE and SSDRE are poor because there is no stationary distribution.",
        _DET,
        large_error(("SDRE", "SSDRE"), "IS"),
    ),
    Claim(
        "VI.A", "Doubly robust methods have errors close to zero in the deterministic lift.", _DET, near_zero
    ),
    Claim("F, Fig. 1a", "State-based methods reduce the variance.", _DET, smaller_spread(ORDINARY[:3])),
    Claim("VI.A", "WSIS and WSPDIS consistently outperform WIS and WPDIS.", _STO, per_run_benefit),
    Claim(
        "VI.A",
        "At large sizes WDRSIS is best, followed by WDR and WSPDIS.",
        _STO,
        ranks(dict.fromkeys((15, 17), ("WDRSIS", "WDR", "WSPDIS")), WEIGHTED),
    ),
    Claim("VI.A", "State-based methods are not adversely affected by the size.", _STO, size_does_not_matter),
    Claim(
        "VI.A",
        "At small sizes WINCRIS and WSINCRIS are best.",
        _STO,
        ranks(dict.fromkeys(SMALL, ("WINCRIS", "WSINCRIS")), WEIGHTED, ordered=False),
    ),
    Claim(
        "VI.A",
        "WINCRIS and WSINCRIS are worse at large sizes because the window is limited to 10.",
        _STO,
        window_limits,
    ),
    Claim(
        "VI.A",
        "SDRE and SSDRE are poor because there is no stationary distribution.",
        _STO,
        large_error(("SDRE", "SSDRE"), "WDR"),
    ),
    Claim(
        "F, Fig. 1b",
        "State-based methods reduce the variance.",
        _STO,
        smaller_spread(("WIS", "WPDIS", "WINCRIS", "WDR")),
    ),
    Claim(
        "VI.B",
        "Inventory: state-based estimators are better nearly everywhere, two- to eightfold, except DR.",
        _INV,
        benefit(("WIS", "WPDIS", "WINCRIS", "SDRE")),
    ),
    Claim(
        "VI.B",
        "Nearly full stocks are the negligible states (some states are dropped, others not).",
        _INV,
        drops_everything,
    ),
    Claim(
        "VI.B",
        "The gain of WSIS, WSPDIS and WSINCRIS comes from weighing fewer ratios (not from weighing none).",
        _INV,
        is_naive_average,
    ),
    Claim(
        "VI.B",
        "WSPDIS is best for 100 episodes, SSDRE for 250 to 1,000.",
        _INV,
        ranks({100: ("WSPDIS",), **dict.fromkeys((250, 500, 1000), ("SSDRE",))}, WEIGHTED),
    ),
    Claim("VI.B", "SSDRE improves on SDRE.", _INV, benefit(("SDRE",))),
    Claim("F, Fig. 2", "State-based methods reduce the variance.", _INV, smaller_spread(WEIGHTED)),
    Claim("VI.C", "Taxi: state-based estimators are better nearly everywhere.", _TAXI, benefit(WEIGHTED)),
    Claim(
        "VI.C",
        "H = 10: WSIS is best, then WSINCRIS and WINCRIS.",
        _TAXI,
        ranks({10: ("WSIS", "WSINCRIS", "WINCRIS")}, WEIGHTED),
    ),
    Claim(
        "VI.C",
        "H = 50 to 1,000: SSDRE is best, then SDRE and WSPDIS.",
        _TAXI,
        ranks(dict.fromkeys((50, 250, 1000), ("SSDRE", "SDRE", "WSPDIS")), WEIGHTED),
    ),
    Claim("VI.C, Fig. 3", "SDRE has a lower variance than WDR.", _TAXI, steadier_than_wdr),
    Claim(
        "E",
        "The expected return of taxi is positive and grows with the horizon.",
        _TAXI,
        positive_and_growing,
    ),
    Claim(
        "(not in the paper)",
        "Stochastic lift: the best of the paper's estimators beats the naive average of the returns.",
        _STO,
        beats("BEHAVIOUR"),
    ),
    Claim(
        "(not in the paper)",
        "Stochastic lift: the best of the paper's estimators beats the plain direct method.",
        _STO,
        beats("DM"),
    ),
    Claim(
        "(not in the paper)",
        "Inventory: the best of the paper's estimators beats the naive average of the returns.",
        _INV,
        beats("BEHAVIOUR"),
    ),
    Claim(
        "(not in the paper)",
        "Inventory: the best of the paper's estimators beats the plain direct method.",
        _INV,
        beats("DM"),
    ),
    Claim(
        "(not in the paper)",
        "Taxi: the best of the paper's estimators beats the naive average of the returns.",
        _TAXI,
        beats("BEHAVIOUR"),
    ),
    Claim(
        "(not in the paper)",
        "Taxi: the best of the paper's estimators beats the plain direct method.",
        _TAXI,
        beats("DM"),
    ),
    Claim("D", "Deterministic lift: the Q test finds the lift states.", _DET, finds_lift_states("SIS")),
    Claim("D", "Deterministic lift: covariance testing typically drops two states.", _DET, drops_two("SIS")),
    Claim(
        "D",
        "Deterministic lift: SIS (Q) is better than SIS (covariance) and IS.",
        _DET,
        better_than_covariance("IS"),
    ),
    Claim("D", "Stochastic lift: the Q test finds the lift states.", _STO, finds_lift_states("WSIS")),
    Claim("D", "Stochastic lift: covariance testing typically drops two states.", _STO, drops_two("WSIS")),
    Claim(
        "D",
        "Stochastic lift: WSIS (Q) is better than WSIS (covariance) and WIS.",
        _STO,
        better_than_covariance("WIS"),
    ),
    Claim(
        "D",
        "Stochastic lift: dropping states also helps doubly robust methods.",
        _STO,
        better_than_covariance("WDR"),
    ),
)
