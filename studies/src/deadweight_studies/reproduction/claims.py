"""The claims of the paper as data: where it makes them, in short, and the check of each.

The same check runs under `published` and under `corrected`: where the answers differ, the claim was an
artefact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from deadweight_studies.reproduction.run import BEHAVIOUR_VALUE, REFERENCE
from deadweight_studies.reproduction.spec import ORDINARY, STATE_BASED, WEIGHTED
from deadweight_studies.reproduction.tables import Mean, Results

# --- Checks: functions from the results of one experiment to a verdict and its numbers

HOLDS, PARTLY, FAILS = "holds", "partly", "fails"
SMALL, LARGE = (7, 9), (13, 15, 17)


@dataclass(frozen=True)
class Finding:
    """A verdict and its numbers."""

    verdict: str
    numbers: str


def _judge(tests: Iterable[bool]) -> str:
    outcomes = list(tests)
    return HOLDS if all(outcomes) else PARTLY if any(outcomes) else FAILS


def _labels(plain: Sequence[str]) -> tuple[str, ...]:
    return tuple(label for name in plain for label in (name, STATE_BASED[name]))


def _mse(results: Results, setting: int, label: str) -> float:
    return results.mse(setting, label, normalised=results.experiment.name == "inventory").value


def _list(results: Results, numbers: Callable[[int], str]) -> str:
    return ", ".join(f"{setting}: {numbers(setting)}" for setting in results.experiment.settings)


# --- state-based against plain


def benefit(plain: Sequence[str]) -> Callable[[Results], Finding]:
    """State-based estimators have the smaller error, setting by setting."""

    def check(results: Results) -> Finding:
        wins, counts = [], []
        for name in plain:
            ratios = [
                _mse(results, setting, name) / max(_mse(results, setting, STATE_BASED[name]), 1e-300)
                for setting in results.experiment.settings
            ]
            better = [ratio > 1 for ratio in ratios]
            wins += better
            counts.append(
                f"{STATE_BASED[name]} {sum(better)} of {len(better)} (plain / state-based "
                f"{min(ratios):.3g} to {max(ratios):.3g})"
            )
        return Finding(_judge(wins), "; ".join(counts))

    return check


def per_run_benefit(results: Results) -> Finding:
    """WSIS and WSPDIS against WIS and WPDIS: mean, median and win rate."""
    tests, parts = [], []
    for plain in ("WIS", "WPDIS"):
        name = STATE_BASED[plain]
        settings = results.experiment.settings
        smaller = [_mse(results, s, name) < _mse(results, s, plain) for s in settings]
        medians = [
            np.median(results.squares(s, name)) < np.median(results.squares(s, plain)) for s in settings
        ]
        rates = [results.win_rate(s, name, plain) for s in settings]
        tests += smaller
        parts.append(
            f"{name}: smaller MSE at {sum(smaller)} and smaller median at {sum(medians)} of {len(settings)} "
            f"sizes, closer in {min(rates):.0%} to {max(rates):.0%} of the runs"
        )
    return Finding(_judge(tests), "; ".join(parts))


def smaller_spread(plain: Sequence[str]) -> Callable[[Results], Finding]:
    """State-based residuals vary less over the runs."""

    def check(results: Results) -> Finding:
        tests, parts = [], []
        for name in plain:
            ratios = [
                results.values(s, STATE_BASED[name]).std() / max(results.values(s, name).std(), 1e-300)
                for s in results.experiment.settings
            ]
            tests += [ratio < 1 for ratio in ratios]
            parts.append(f"{STATE_BASED[name]} / {name} {min(ratios):.3g} to {max(ratios):.3g}")
        return Finding(_judge(tests), "ratio of standard deviations: " + "; ".join(parts))

    return check


# --- rankings


def ranks(
    expected: dict[int, tuple[str, ...]], plain: Sequence[str], ordered: bool = True
) -> Callable[[Results], Finding]:
    """The best estimators of the named settings are the expected ones."""

    def check(results: Results) -> Finding:
        tests, parts = [], []
        for setting, names in expected.items():
            best = results.ranking(setting, _labels(plain))[: len(names)]
            tests.append(tuple(best) == names if ordered else set(best) == set(names))
            parts.append(
                f"{setting}: {' < '.join(f'{name} {_mse(results, setting, name):.4g}' for name in best)}"
            )
        return Finding(_judge(tests), "; ".join(parts))

    return check


def large_error(names: Sequence[str], other: str) -> Callable[[Results], Finding]:
    """The named estimators are far worse (tenfold or more) than another one."""

    def check(results: Results) -> Finding:
        settings = results.experiment.settings
        tests = [_mse(results, s, name) > 10 * _mse(results, s, other) for s in settings for name in names]
        numbers = _list(
            results, lambda s: " / ".join(f"{_mse(results, s, name):.4g}" for name in (*names, other))
        )
        return Finding(_judge(tests), f"{' / '.join((*names, other))} at {numbers}")

    return check


def near_zero(results: Results) -> Finding:
    """Doubly robust errors vanish in the deterministic lift."""
    if not results.has("DR"):
        return Finding("", "DR is made under corrected only")
    worst = max(
        _mse(results, s, name) for s in results.experiment.settings for name in ("DR", "DRSIS (auto)")
    )
    return Finding(HOLDS if worst < 1e-6 else FAILS, f"largest MSE of DR and DRSIS: {worst:.2g}")


def strong_reduction(results: Results) -> Finding:
    """SPDIS against PDIS at large sizes: absolute mean residual and spread."""
    parts, tests = [], []
    for size in LARGE:
        plain, kept = (Mean.of(np.abs(results.residuals(size, name))).value for name in ("PDIS", "SPDIS"))
        tests.append(kept < plain / 2)
        parts.append(f"{size}: {plain:.3g} to {kept:.3g}")
    return Finding(_judge(tests), "mean absolute residual, PDIS to SPDIS, at " + "; ".join(parts))


def size_does_not_matter(results: Results) -> Finding:
    """State-based errors at the largest size are not above those at the smallest."""
    first, last = results.experiment.settings[0], results.experiment.settings[-1]
    names = ("WSIS", "WSPDIS", "WSINCRIS", "WDRSIS")
    ratios = {name: _mse(results, last, name) / _mse(results, first, name) for name in names}
    text = ", ".join(f"{name} {ratio:.3g}" for name, ratio in ratios.items())
    return Finding(
        _judge(ratio < 2 for ratio in ratios.values()), f"MSE at size {last} / at size {first}: {text}"
    )


def window_limits(results: Results) -> Finding:
    """WINCRIS grows with size; whether a limited window can be the reason depends on there being one."""
    limited = not results.protocol.has("D4")
    numbers = _list(
        results, lambda s: f"{_mse(results, s, 'WINCRIS'):.3g} / {_mse(results, s, 'WSINCRIS'):.3g}"
    )
    window = "at most 10 steps" if limited else "unlimited (D4)"
    return Finding(
        PARTLY if limited else FAILS,
        f"window {window}; WINCRIS / WSINCRIS at {numbers}; see protocol published-D4",
    )


# --- inventory and taxi


def drops_everything(results: Results) -> Finding:
    """How many states the Q test drops."""
    shares = [results.dropped_share(s, "WSIS") for s in results.experiment.settings]
    text = _list(
        results,
        lambda s: f"{results.n_dropped(s, 'WSIS'):.1f} of 10 states, {results.dropped_share(s, 'WSIS'):.0%}",
    )
    verdict = FAILS if shares[-1] >= 0.99 else _judge(share > 0.01 for share in shares)
    return Finding(verdict, f"states and share of steps dropped at n = {text}")


def is_naive_average(results: Results) -> Finding:
    """WSIS, WSPDIS and WSINCRIS against the naive average, which uses no ratio at all."""
    last = results.experiment.settings[-1]
    names = ("WSIS", "WSPDIS", "WSINCRIS")
    naive = results.values(last, "BEHAVIOUR")
    equal = [float(np.isclose(results.values(last, name), naive).mean()) for name in names]
    text = ", ".join(
        f"{name} {_mse(results, last, name):.4f} (the same estimate in {rate:.0%} of the runs)"
        for name, rate in zip(names, equal, strict=True)
    )
    limit = (results.exact(last, BEHAVIOUR_VALUE) / results.reference(last) - 1.0) ** 2
    verdict = FAILS if min(equal) > 0.5 else HOLDS
    average = f"naive average {_mse(results, last, 'BEHAVIOUR'):.4f} (its limit {limit:.5f})"
    return Finding(verdict, f"normalised MSE at n = {last}: {average}, {text}")


def positive_and_growing(results: Results) -> Finding:
    """The value of the evaluation policy in taxi."""
    values = [results.exact(s, REFERENCE) for s in results.experiment.settings]
    growing = all(a < b for a, b in pairwise(values))
    text = _list(results, lambda s: f"{results.exact(s, REFERENCE):.2f}")
    return Finding(_judge([values[0] > 0, growing]), f"exact value at H = {text}")


def steadier_than_wdr(results: Results) -> Finding:
    """SDRE has the smaller spread and bias."""
    tests = [
        results.values(s, "SDRE").std() < results.values(s, "WDR").std() for s in results.experiment.settings
    ]
    text = _list(
        results, lambda s: f"{results.values(s, 'SDRE').std():.3g} / {results.values(s, 'WDR').std():.3g}"
    )
    return Finding(_judge(tests), f"standard deviation of SDRE / WDR at H = {text}")


def beats(rival: str) -> Callable[[Results], Finding]:
    """The best of the paper's columns has a smaller error than an estimator that the paper left out."""

    def check(results: Results) -> Finding:
        if not results.has(rival):
            return Finding("", f"{rival} is made under corrected only")
        settings = results.experiment.settings
        best = {s: results.ranking(s, _labels(WEIGHTED))[0] for s in settings}
        tests = [_mse(results, s, best[s]) < _mse(results, s, rival) for s in settings]
        text = _list(
            results, lambda s: f"{best[s]} {_mse(results, s, best[s]):.4g} / {_mse(results, s, rival):.4g}"
        )
        return Finding(_judge(tests), f"best column / {rival} at {text}")

    return check


# --- identification


def finds_lift_states(estimator: str) -> Callable[[Results], Finding]:
    """The Q test gives the estimate of the true lift states."""

    def check(results: Results) -> Finding:
        rates = {
            s: float(
                np.isclose(results.values(s, estimator), results.values(s, f"{estimator} (lift)")).mean()
            )
            for s in results.experiment.settings
        }
        text = _list(results, lambda s: f"{rates[s]:.0%}")
        return Finding(
            _judge(rate >= 0.95 for rate in rates.values()), f"same estimate in, at size {text} of the runs"
        )

    return check


def drops_two(estimator: str) -> Callable[[Results], Finding]:
    """Mean size of the set of the covariance test."""

    def check(results: Results) -> Finding:
        label = f"{estimator} (covariance)"
        tests = [results.n_dropped(s, label) >= 1.5 for s in results.experiment.settings]
        return Finding(
            _judge(tests),
            "mean number of states at size " + _list(results, lambda s: f"{results.n_dropped(s, label):.2f}"),
        )

    return check


def better_than_covariance(plain: str) -> Callable[[Results], Finding]:
    """The Q test has a smaller error than the covariance test and than dropping nothing."""

    def check(results: Results) -> Finding:
        name = STATE_BASED[plain]
        others = (f"{name} (covariance)", plain)
        settings = results.experiment.settings
        tests = [_mse(results, s, name) < _mse(results, s, other) for s in settings for other in others]
        text = _list(
            results, lambda s: " / ".join(f"{_mse(results, s, label):.4g}" for label in (name, *others))
        )
        return Finding(_judge(tests), f"Q / covariance / none at size {text}")

    return check


# --- The claims


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
