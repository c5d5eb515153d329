"""The standard error of DM: the spread of its influence, and what pairs that were hardly seen could do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference as ref
from reference import blend as plain
from reference.log import ENDS, UNKNOWN
from strategies import random_policy

import deadweight as dw
from deadweight.answers.blend import Mixture
from deadweight.answers.candidates import gather
from deadweight.answers.intervals import t_error
from deadweight.question.question import ask
from deadweight.sums import kernel
from deadweight.tools.thresholds import WIDTH

STATES, ACTIONS, N = 4, 3, 17
# One state; the second action was tried once.
ONCE = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 0, 3.0)], [(0, 1, 5.0)]])
EVEN = np.array([[0.5, 0.5]])


def make_case(cut: bool) -> tuple[dw.Trajectories, ref.Log, np.ndarray, np.ndarray]:
    """Ragged episodes with unseen pairs; `cut`: some of them are, with and without a successor."""
    rng = np.random.default_rng(8)
    pi_b, pi_e = (0.7 * random_policy(rng, STATES, ACTIONS) + 0.3 / ACTIONS for _ in range(2))
    episodes, following = [], []
    for i in range(N):
        states = rng.integers(STATES, size=1 + i % 4)
        actions = np.where(states == 2, 0, rng.integers(ACTIONS, size=states.size))
        episodes.append([(int(s), int(a), float(rng.normal())) for s, a in zip(states, actions, strict=True)])
        following.append([*states[1:].tolist(), int(rng.integers(STATES)) if cut and i % 3 == 0 else -1])
    terminated = [not cut or i % 4 != 0 for i in range(N)]
    log = dw.Trajectories.from_episodes(episodes, terminated, following)
    return log, ref.Log(episodes, terminated, following), pi_e, pi_b


def spread(found: dw.Estimate) -> float:
    """The standard error of the influence alone."""
    return float(found.influence.std(ddof=1) / np.sqrt(found.n_episodes))


def test_by_hand() -> None:
    """V = 3.5; influences -.75, .75 and 0, for what was seen once is fitted exactly.

    Errors of V are -2.5, -.5 and 1.5, of mean square 8.75 / 3; pi_e / (n + 1) is .5 / 3 and .5 / 2.
    """
    found = dw.estimate("DM", ONCE, EVEN, EVEN, also=["influence"])
    assert found.value == pytest.approx(3.5)
    assert found.influence == pytest.approx([-0.75, 0.75, 0.0])
    unseen = (1 / 36 + 1 / 16) * 8.75 / 3
    assert found.std_error == pytest.approx(np.sqrt(1.125 / 2 / 3 + unseen), rel=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("by_kernel", [True, False])
def test_against_plain_loops(monkeypatch: pytest.MonkeyPatch, gamma: float, by_kernel: bool) -> None:
    if not by_kernel:
        monkeypatch.setattr(kernel, "KERNEL", None)
    log, loops, pi_e, pi_b = make_case(cut=True)
    model = plain.Model(loops, range(N), pi_e, gamma)
    psi = plain.direct(loops, model)[1]
    expected = np.sqrt(psi.var(ddof=1) / N + plain.unseen_variance(loops, model))
    alone = dw.estimate("DM", log, pi_e, pi_b, gamma=gamma)
    assert alone.std_error == pytest.approx(expected, rel=1e-10)
    only = dw.estimate("DM", log, pi_e, pi_b, gamma=gamma, interval=None, also=["std_error"])
    table = dw.evaluate(log, pi_e, pi_b, ["DM", "BLEND"], gamma=gamma)
    for same in (only, table["DM"]):
        assert same.std_error == pytest.approx(alone.std_error, rel=1e-12)


def unseen_by_loops(loops: ref.Log, pi_e: np.ndarray, V: np.ndarray, settled: bool) -> float:
    """v_u with V (H + 1, S + 1), the end included; `settled`: the same values at every step."""
    P, _, d = ref.fit_model(loops, STATES, ACTIONS)
    squares, visits, tried = np.zeros(STATES), np.zeros(STATES), np.zeros((STATES, ACTIONS))
    for i, episode in enumerate(loops.episodes):
        for t, (s, a, reward) in enumerate(episode):
            tried[s, a] += 1
            after, time = loops.successor(i, t), 0 if settled else t
            if after != UNKNOWN or time + 2 == len(V):
                ahead = 0.0 if after in (UNKNOWN, ENDS) else V[time + 1, after]
                squares[s] += (reward + ahead - V[time, s]) ** 2
                visits[s] += 1
    occupancy = np.zeros(STATES)
    for _ in range(len(V) - 1):
        occupancy += d
        d = np.einsum("s,sa,saz->z", d, pi_e, P[:, :, :-1])
    overall, found = squares.sum() / visits.sum(), 0.0
    for s, a in np.ndindex(STATES, ACTIONS):
        g = (squares[s] + overall) / (visits[s] + 1)
        found += (occupancy[s] * pi_e[s, a] / (tried[s, a] + 1)) ** 2 * g
    return found


def values_by_loops(loops: ref.Log, pi_e: np.ndarray, steps: int) -> np.ndarray:
    """(H + 1, S + 1) state values, with what follows the last step and with the end."""
    P, r, _ = ref.fit_model(loops, STATES, ACTIONS)
    return np.pad(ref.q_values(P, r, pi_e, steps, 1.0)[1], ((0, 1), (0, 1)))


@pytest.mark.parametrize("solve", ["settled", "longest"])
def test_until_values_settle_and_over_the_longest_episode(solve: str) -> None:
    log, loops, pi_e, pi_b = make_case(cut=False)
    steps = 600 if solve == "settled" else log.horizon  # enough for values to be there
    V = values_by_loops(loops, pi_e, steps)
    found = dw.estimate("DM", log, pi_e, pi_b, solve=solve, also=["influence"])
    unseen = unseen_by_loops(loops, pi_e, V, solve == "settled")
    assert found.std_error == pytest.approx(np.sqrt(spread(found) ** 2 + unseen), rel=1e-9)


def test_a_time_limit_that_no_episode_has_reached() -> None:
    """The model goes on after the last logged step, and so do its visits."""
    _, loops, pi_e, pi_b = make_case(cut=False)
    log = dw.Trajectories.from_episodes(loops.episodes, time_limit=6)
    assert log.horizon < 6
    V = values_by_loops(loops, pi_e, 6)
    found = dw.estimate("DM", log, pi_e, pi_b, also=["influence"])
    unseen = unseen_by_loops(loops, pi_e, V, settled=False)
    assert found.std_error == pytest.approx(np.sqrt(spread(found) ** 2 + unseen), rel=1e-9)


def test_a_blend_counts_it_once() -> None:
    """BLEND adds it to the influences of its estimates; the row of DM has brought none of it into them."""
    log, _, pi_e, pi_b = make_case(cut=True)
    table = dw.evaluate(log, pi_e, pi_b, ["DM", "BLEND"], drop=None)
    evidence = gather(ask(log, pi_e, pi_b))
    place = evidence.names.index("DM")
    own = evidence.covariance[place, place]
    assert evidence.unseen_variance > 0.1 * own
    assert table["DM"].std_error == pytest.approx(np.sqrt(own + evidence.unseen_variance), rel=1e-10)
    (part,) = (one for one in table["BLEND"].blend.parts if one.name == "DM")
    assert part.std_error == pytest.approx(np.sqrt(own), rel=1e-10)
    # With nothing that contradicts the half-width is 2.5 s, s^2 = Var + v_u.
    calm = replace(evidence, values=np.ones(len(evidence.names)), shared_bias=0.0)
    with_it, without = (Mixture(one).at(0.95) for one in (calm, replace(calm, unseen_variance=0.0)))
    difference = (with_it.half_width / WIDTH) ** 2 - (without.half_width / WIDTH) ** 2
    assert difference == pytest.approx(evidence.unseen_variance, rel=1e-9)


@pytest.mark.parametrize("kind", ["auto", "student-t"])
def test_intervals_rest_on_it(kind: str) -> None:
    log, _, pi_e, pi_b = make_case(cut=True)
    found = dw.estimate("DM", log, pi_e, pi_b, interval=kind, also=["influence"])
    assert found.std_error > spread(found)
    assert found.bounds.std_error == found.std_error
    assert found.sampling_error == pytest.approx(t_error(found.std_error, N, 0.95))


def test_a_given_model_has_nothing_of_it() -> None:
    given = dw.fit_mdp(ONCE)
    assert dw.estimate("DM", ONCE, EVEN, EVEN, model=given).std_error == 0.0


def test_other_rows_have_nothing_of_it() -> None:
    log, _, pi_e, pi_b = make_case(cut=True)
    for name in ("WDR", "C-WSPDIS"):
        found = dw.estimate(name, log, pi_e, pi_b, drop=[1], also=["influence"])
        assert found.std_error == pytest.approx(spread(found), rel=1e-10)


def test_it_falls_with_the_square_of_the_visits() -> None:
    for times in (1, 10, 100):
        log = ONCE.select(np.tile(np.arange(3), times))
        found = dw.estimate("DM", log, EVEN, EVEN, also=["influence"])
        unseen = ((0.5 / (2 * times + 1)) ** 2 + (0.5 / (times + 1)) ** 2) * 8.75 / 3
        assert found.std_error**2 - spread(found) ** 2 == pytest.approx(unseen, rel=1e-9)
