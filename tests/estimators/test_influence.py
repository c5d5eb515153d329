"""Influence functions against numerical derivatives, for every name and option: the standard errors' base.

A log in which every episode stands many times over is changed by one copy: a copy of episode i comes in for
one of episode 0, and the other way round. Half the difference of the two estimates, times the number of
episodes, is the influence of i less that of 0, up to terms of second order in the size of the change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from strategies import random_policy

import deadweight as dw
from deadweight.question.drops import Drop
from deadweight.testing import influences

COPIES = 300
STATES, ACTIONS, N = 4, 3, 7


def make_log(kind: str) -> dw.Trajectories:
    """Seven ragged episodes.

    Action 2 is never taken in states 0 and 1, state 3 is reached by a cut episode and never visited, and one
    pair is logged only where the log is cut without a successor.
    """
    rng = np.random.default_rng(4)
    lengths = [1, 2, 2, 3, 3, 4, 4]
    steps = sum(lengths)
    states = rng.integers(STATES - 1, size=steps)
    actions = rng.integers(np.where(states == 2, ACTIONS, ACTIONS - 1))
    following = np.append(states[1:], 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    following[offsets[1:] - 1] = [-1, 0, 2, -1, 1, 3, -1]
    cut = offsets[4] - 1
    alone = states * ACTIONS + actions == states[cut] * ACTIONS + actions[cut]
    actions[alone] = (actions[alone] + 1) % (ACTIONS - 1)
    actions[cut] = (actions[cut] + 1) % (ACTIONS - 1)
    terminated = {
        "ended": [True] * N,
        "cut": [False] * N,
        "mixed": [True, False, True, False, True, False, True],
    }
    return dw.Trajectories(
        states,
        actions,
        rng.normal(size=steps),
        offsets,
        terminated=terminated[kind],
        next_states=following,
    )


RNG = np.random.default_rng(8)
PI_B = random_policy(RNG, STATES, ACTIONS) * 0.7 + 0.3 / ACTIONS
PI_E = random_policy(RNG, STATES, ACTIONS) * 0.7 + 0.3 / ACTIONS
MODEL = dw.fit_mdp(make_log("ended"), STATES, ACTIONS)
STEPS = np.random.default_rng(1).random(make_log("ended").n_steps) < 0.4

FINISHED = ("absorb", "leave", "survivors")
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("WIS", "WSIS", "MIS", "SMIS")),
    *((name, {"unseen_actions": how}) for name in ("TMIS", "STMIS") for how in ("renormalise", "zero")),
    *(("CIS", {"given": given}) for given in ("state", "reward", "return")),
    *(("DM", {"unseen": unseen}) for unseen in ("pool", "terminate", "mean")),
    *((name, {"finished": finished}) for name in ("WPDIS", "WSPDIS") for finished in FINISHED),
    *(("WSINCRIS", {"finished": finished, "window": 2}) for finished in FINISHED),
    ("WINCRIS", {"window": None, "ended_ratios": "one"}),
    ("INCRIS", {"window": 2, "ended_ratios": "one", "variance": "sample"}),
    ("SINCRIS", {"window": None}),
    # The model is taken as given in these standard errors, and so it is here.
    *(
        (name, {"model": MODEL, "finished": finished})
        for name in ("WDR", "WDRSIS", "C-WSPDIS")
        for finished in FINISHED
    ),
    ("WDRSIS", {"model": MODEL, "drop_first": False}),
    ("C-WSIS", {"model": MODEL}),
]
DENSITY = [
    (name, kind, mode)
    for name in ("SDRE", "SSDRE")
    for kind, modes in (
        ("ended", ("policy", "episodic", "published", "corrected", "literal")),
        ("cut", ("policy", "published")),
        ("mixed", ("corrected", "literal")),
    )
    for mode in modes
]
# Their standard error is that of a mean and comes with the first pass.
MEANS = ("IS", "SIS", "PDIS", "SPDIS", "DR", "DRSIS", "LIN", "C-SIS", "C-SPDIS", "BEHAVIOUR")


def test_every_name_is_tried() -> None:
    assert {name for name, _ in CASES} | {name for name, _, _ in DENSITY} | set(MEANS) == set(dw.ESTIMATORS)


def replicated(
    log: dw.Trajectories, swap: tuple[int, int] | None = None
) -> tuple[dw.Trajectories, np.ndarray]:
    """The log many times over, a copy of the first of the pair replaced by one of the second."""
    which = np.tile(np.arange(log.n_episodes), COPIES)
    if swap is not None:
        out, in_ = swap
        which[np.flatnonzero(which == out)[0]] = in_
    return log.select(which), which


def steps_of(log: dw.Trajectories, which: np.ndarray, flags: np.ndarray) -> Drop:
    """A drop by steps that goes with its episodes."""
    return Drop(steps=np.concatenate([flags[log.offsets[i] : log.offsets[i + 1]] for i in which]))


def check_influence(
    name: str, log: dw.Trajectories, tolerance: float, by_step: bool = False, **settings: Any
) -> None:
    def fit(swap: tuple[int, int] | None = None) -> Any:
        copies, which = replicated(log, swap)
        drop = steps_of(log, which, STEPS) if by_step else [1]
        return influences(name, copies, PI_E, PI_B, drop=drop, **settings)

    middle, values = fit()
    assert values is not None
    # Copies of an episode have one and the same influence.
    assert np.allclose(values.reshape(COPIES, -1), values[: log.n_episodes], rtol=1e-9, atol=1e-9)
    size = np.abs(values - values.mean()).max()
    for i in range(1, log.n_episodes):
        up, down = fit((0, i))[0], fit((i, 0))[0]
        if "windows" in middle.details:  # a derivative exists where the choice of windows stays
            assert np.array_equal(up.details["windows"], middle.details["windows"])
            assert np.array_equal(down.details["windows"], middle.details["windows"])
        slope = (up.value - down.value) / 2 * COPIES * log.n_episodes
        assert values[i] - values[0] == pytest.approx(slope, rel=tolerance, abs=tolerance * size), i


@pytest.mark.parametrize("kind", ["ended", "mixed"])
@pytest.mark.parametrize(
    ("name", "options"), CASES, ids=lambda x: x if isinstance(x, str) else "-".join(map(str, x.values()))
)
def test_influence_is_the_derivative(name: str, options: dict[str, Any], kind: str) -> None:
    gamma = 0.9 if kind == "mixed" else 1.0
    check_influence(name, make_log(kind), 2e-4, gamma=gamma, **options)


@pytest.mark.parametrize(
    "name", ["WSIS", "WSPDIS", "WSINCRIS", "SMIS", "STMIS", "WDRSIS", "C-WSPDIS", "SSDRE"]
)
def test_influence_with_a_drop_by_steps(name: str) -> None:
    options = {"model": MODEL} if "DR" in name or "C-" in name else {}
    check_influence(name, make_log("ended"), 5e-3 if name == "SSDRE" else 2e-4, by_step=True, **options)


@pytest.mark.parametrize(("name", "kind", "mode"), DENSITY)
def test_influence_of_density_ratios(name: str, kind: str, mode: str) -> None:
    check_influence(name, make_log(kind), 5e-3, mode=mode)


@pytest.mark.parametrize("name", MEANS)
def test_means_have_the_spread_of_their_episodes(name: str) -> None:
    """One episode alone gives its own term; the standard error is the deviation of the terms."""
    log = make_log("ended")
    settings: dict[str, Any] = {"drop": [1], "model": MODEL, "interval": None, "also": ["std_error"]}
    # A given model is solved over the log's longest episode, which must therefore be in every part.
    longest = log.n_episodes - 1
    last = dw.estimate(name, log.select([longest]), PI_E, PI_B, **settings).value
    terms = [
        2 * dw.estimate(name, log.select([i, longest]), PI_E, PI_B, **settings).value - last
        for i in range(log.n_episodes)
    ]
    found = dw.estimate(name, log, PI_E, PI_B, **settings)
    assert found.value == pytest.approx(np.mean(terms))
    assert found.std_error == pytest.approx(np.std(terms, ddof=1) / np.sqrt(log.n_episodes))


def test_standard_error_is_the_root_mean_square_influence() -> None:
    """That of DM has what was hardly seen besides: `test_hardly_seen`."""
    log = make_log("mixed")
    for name in ("WPDIS", "MIS", "CIS", "WINCRIS"):
        _, values = influences(name, log, PI_E, PI_B)
        assert values is not None
        expected = values.std(ddof=1) / np.sqrt(log.n_episodes)
        assert dw.estimate(name, log, PI_E, PI_B).std_error == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["WPDIS", "DM"])
def test_standard_error_is_the_spread_over_logs(name: str) -> None:
    """400 simulated logs of 200 episodes: mean standard error against the deviation of the estimates."""
    rng = np.random.default_rng(21)
    P = rng.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
    R = rng.normal(size=(STATES, ACTIONS))
    runs, n, horizon = 400, 200, 3
    estimates, errors = np.empty(runs), np.empty(runs)
    for run in range(runs):
        states, actions = np.empty((n, horizon), dtype=int), np.empty((n, horizon), dtype=int)
        s = rng.integers(STATES, size=n)
        for t in range(horizon):
            a = (PI_B[s].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
            states[:, t], actions[:, t] = s, a
            s = (P[s, a].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        rewards = R[states, actions] + rng.normal(size=states.shape)
        log = dw.Trajectories(
            states.ravel(), actions.ravel(), rewards.ravel(), np.arange(0, n * horizon + 1, horizon)
        )
        found = dw.estimate(name, log, PI_E, PI_B, interval=None, also=["std_error"])
        estimates[run], errors[run] = found.value, found.std_error
    # A deviation from 400 runs has a relative standard error of about 1 / sqrt(800), 3.5 %; four of them.
    assert errors.mean() == pytest.approx(estimates.std(ddof=1), rel=4 / np.sqrt(2 * runs))
