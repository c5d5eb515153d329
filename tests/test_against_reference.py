"""Every estimator with every option against plain loops, on small random logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, cases

import deadweight as dw

FEW = settings(max_examples=40, deadline=None, derandomize=True)
CLOSE = {"rel": 1e-9, "abs": 1e-9}
FINISHED = ("absorb", "leave", "survivors")
UNSEEN = ("pool", "terminate", "mean")
Options = dict[str, Any]
Plain = Callable[[Case, Any, Options], float]


def every(**choices: Any) -> list[Options]:
    """All combinations of the given options."""
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def product_form(estimate: Callable[..., float], weighted: bool) -> Plain:
    def compute(case: Case, drop: Any, options: Options) -> float:
        return estimate(
            case.plain, case.pi_e, case.pi_b, drop, gamma=case.gamma, weighted=weighted, **options
        )

    return compute


def incremental(weighted: bool) -> Plain:
    def compute(case: Case, drop: Any, options: Options) -> float:
        return ref.incremental(case.plain, case.pi_e, case.pi_b, drop, case.gamma, weighted, **options)[0]

    return compute


def marginal(case: Case, drop: Any, options: Options) -> float:
    return ref.mis(case.plain, case.pi_e, case.pi_b, drop, case.gamma)


def tabular_marginal(case: Case, drop: Any, options: Options) -> float:
    return ref.tmis(case.plain, case.pi_e, drop, case.gamma, **options)


def conditional(case: Case, drop: Any, options: Options) -> float:
    return ref.cis(case.plain, case.pi_e, case.pi_b, drop, case.gamma, **options)


def direct(case: Case, drop: Any, options: Options) -> float:
    return ref.direct(case.plain, case.pi_e, case.gamma, **options)


def linear(case: Case, drop: Any, options: Options) -> float:
    return ref.linear(case.plain, case.pi_e, case.pi_b, case.gamma, **options)


def behaviour(case: Case, drop: Any, options: Options) -> float:
    return ref.behaviour(case.plain, case.gamma)


def table() -> Iterator[tuple[str, Plain, list[Options]]]:
    """Name, loop, options for all names but SDRE, which has a tolerance of its own."""
    windows = every(window=(1, 3, 10, None), variance=("estimator", "sample"), ended_ratios=("absorb", "one"))
    for w, weighted in (("", False), ("W", True)):
        finished = every(finished=FINISHED)
        robust = every(
            unseen=UNSEEN, drop_first=(True, False), finished=FINISHED if weighted else ("absorb",)
        )
        corrected = every(unseen=UNSEEN, finished=FINISHED)
        incris = [{**o, **f} for o in windows for f in (finished if weighted else [{}])]
        for plain, state_based, estimate, options in (
            ("IS", "SIS", product_form(ref.is_, weighted), [{}]),
            ("PDIS", "SPDIS", product_form(ref.per_decision, weighted), finished),
            ("INCRIS", "SINCRIS", incremental(weighted), incris),
            ("DR", "DRSIS", product_form(ref.doubly_robust, weighted), robust),
        ):
            yield w + plain, estimate, options
            yield w + state_based, estimate, options
        yield f"C-{w}SIS", product_form(ref.corrected_is, weighted), every(unseen=UNSEEN)
        yield f"C-{w}SPDIS", product_form(ref.corrected_per_decision, weighted), corrected
    yield "MIS", marginal, [{}]
    yield "SMIS", marginal, [{}]
    yield "TMIS", tabular_marginal, every(unseen_actions=("renormalise", "zero"))
    yield "CIS", conditional, every(given=("state", "reward", "return"))
    yield "LIN", linear, every(unseen=UNSEEN)
    yield "DM", direct, every(unseen=UNSEEN)
    yield "BEHAVIOUR", behaviour, [{}]


def drop_of(case: Case, name: str) -> Any:
    """What the loops are to drop: a plain name ignores the drop."""
    state_based = name.startswith(("C-", "S", "WS", "DRS", "WDRS")) and name != "SDRE"
    return case.plain_drop if state_based else None


TABLE = list(table())


def test_every_name_is_compared() -> None:
    compared = {name for name, _, _ in TABLE} | {"SDRE", "SSDRE", "STMIS"}
    assert compared == set(dw.ESTIMATORS)


@pytest.mark.parametrize(("name", "estimate", "options"), TABLE, ids=[name for name, _, _ in TABLE])
def test_value(name: str, estimate: Plain, options: list[Options]) -> None:
    needs_two = "INCRIS" in name
    # Whole rewards make ties of INCRIS's criterion that only rounding decides; they have their own test.
    draws = cases(min_episodes=2 if needs_two else 1, whole_rewards=False if needs_two else None)

    @FEW
    @given(draws, st.integers(0, len(options) - 1))
    def check(case: Case, first: int) -> None:
        # A few combinations an example, from any start: all of them come up many times in all.
        for chosen in options[first :: max(1, len(options) // 4)]:
            expected = estimate(case, drop_of(case, name), chosen)
            found = case.estimate(name, **chosen)
            assert found.value == pytest.approx(expected, **CLOSE), chosen

    check()


@FEW
@given(cases(per_step=False, whole_rewards=None))
def test_tabular_mis_with_a_drop(case: Case) -> None:
    for unseen_actions in ("renormalise", "zero"):
        expected = ref.tmis(case.plain, case.pi_e, case.plain_drop, case.gamma, unseen_actions)
        found = case.estimate("STMIS", unseen_actions=unseen_actions)
        assert found.value == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("name", ["SDRE", "SSDRE"])
@FEW
@given(case=cases(whole_rewards=None))
def test_density_ratio(name: str, case: Case) -> None:
    ended = sum(case.terminated)
    modes = ["published", "corrected", "literal"]
    if ended in (0, case.n):
        modes.append("policy")
    if ended == case.n:
        modes.append("episodic")
    for mode in modes:
        expected = ref.sdre(case.plain, case.pi_e, case.pi_b, drop_of(case, name), mode)
        found = case.estimate(name, gamma=1.0, mode=mode)
        assert found.value == pytest.approx(expected, rel=1e-7, abs=1e-7), mode
    if ended in (0, case.n):
        default = case.estimate(name, gamma=1.0)
        assert default.value == case.estimate(name, gamma=1.0, mode="policy").value


@FEW
@given(case=cases(min_episodes=2, whole_rewards=True))
def test_incremental_windows_with_ties(case: Case) -> None:
    """Whole rewards: equal criteria happen, and go to the smallest window."""
    for chosen in every(window=(2, None), variance=("estimator", "sample"), ended_ratios=("absorb", "one")):
        _, windows = ref.incremental(case.plain, case.pi_e, case.pi_b, case.plain_drop, case.gamma, **chosen)
        found = case.estimate("SINCRIS", **chosen)
        assert found.details["windows"].tolist() == windows, chosen


@pytest.mark.parametrize("weighted", [False, True])
@FEW
@given(case=cases(min_episodes=2, whole_rewards=None))
def test_standard_errors_with_a_known_model(weighted: bool, case: Case) -> None:
    """Given as if it were known, the fitted model has no influence; see `test_model_influence.py`."""
    w = "W" if weighted else ""
    arguments = (case.plain, case.pi_e, case.pi_b, case.plain_drop, case.gamma)
    whole, steps = ref.is_slots(*arguments), ref.per_decision_slots(*arguments)
    correction = ref.correction_slots(*arguments)
    expected = {
        f"{w}SIS": whole,
        f"{w}SPDIS": steps,
        f"{w}DRSIS": ref.doubly_robust_slots(*arguments),
        f"C-{w}SIS": whole + correction,
        f"C-{w}SPDIS": steps + correction,
    }
    model = dw.fit_mdp(case.log, *case.pi_e.shape)
    for name, slots in expected.items():
        found = case.estimate(name, model=model)
        assert found.std_error == pytest.approx(ref.std_error(slots, weighted), **CLOSE), name
        assert case.estimate(name, model=model, interval="student-t").std_error == found.std_error


@FEW
@given(case=cases(min_episodes=1))
def test_effective_sample_sizes(case: Case) -> None:
    for name in ("IS", "WPDIS", "DR"):
        plain = ref.ess(case.plain, case.pi_e, case.pi_b)
        assert case.estimate(name).ess == pytest.approx(plain, **CLOSE)
    for finished in FINISHED:
        found = case.estimate("WSPDIS", finished=finished)
        kept = ref.ess(case.plain, case.pi_e, case.pi_b, case.plain_drop)
        steps = ref.ess_steps(case.plain, case.pi_e, case.pi_b, case.plain_drop, finished)
        assert found.ess == pytest.approx(kept, **CLOSE)
        assert found.ess_steps == pytest.approx(np.array(steps), **CLOSE)
    for name in ("MIS", "DM", "CIS", "BEHAVIOUR"):
        assert case.estimate(name).ess is None
        assert case.estimate(name).ess_steps is None


@FEW
@given(case=cases(whole_rewards=None))
def test_bias_is_minus_the_missing_advantage(case: Case) -> None:
    arguments = (case.plain, case.pi_e, case.pi_b, case.plain_drop, case.gamma)
    for unseen, finished in zip(UNSEEN, FINISHED, strict=True):
        for name, weighted in (("SPDIS", False), ("WSPDIS", True), ("WSIS", True), ("SMIS", True)):
            convention: Any = "absorb" if name == "WSIS" else finished
            m = ref.missing_advantage(*arguments, weighted, unseen, None, convention)
            found = case.estimate(name, unseen=unseen, finished=finished)
            assert found.bias == pytest.approx(-m, **CLOSE), name
    for name in ("SIS", "WSIS", "SPDIS", "WSPDIS"):
        corrected, base = case.estimate("C-" + name), case.estimate(name)
        assert corrected.bias == pytest.approx(base.bias, **CLOSE)
        assert corrected.value == pytest.approx(base.value - base.bias, **CLOSE)


@FEW
@given(case=cases(min_episodes=2, support=False))
def test_logged_probabilities_are_as_good_as_tables(case: Case) -> None:
    """Without tables the log's own columns stand for the policies, wherever tables are not needed."""
    log = case.log
    logged = dw.Trajectories(
        log.states,
        log.actions,
        log.rewards,
        log.offsets,
        propensities=case.pi_b[log.states, log.actions],
        target_probs=case.pi_e[log.states, log.actions],
        terminated=log.terminated,
    )
    for name in ("IS", "WIS", "PDIS", "WPDIS", "INCRIS", "WINCRIS", "MIS", "CIS", "BEHAVIOUR"):
        expected = dw.estimate(
            name,
            dw.Trajectories(log.states, log.actions, log.rewards, log.offsets, terminated=log.terminated),
            case.pi_e,
            case.pi_b,
            gamma=case.gamma,
            interval=None,
        )
        for pi_e, pi_b in ((None, None), (case.pi_e, None), (None, case.pi_b)):
            found = dw.estimate(name, logged, pi_e, pi_b, gamma=case.gamma, interval=None)
            assert found.value == pytest.approx(expected.value, **CLOSE), name
            assert found.ess == (None if expected.ess is None else pytest.approx(expected.ess, **CLOSE))
