"""Evaluations that the tests of the report share: an ordinary one, one with hostile labels, and odd ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import deadweight as dw
from deadweight.results.evaluation import Evaluation

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "' onmouseover='window.hacked = 1",
    "<!-- not a comment",
    "&lt;b&gt; &amp; friends",
    "two\nlines\tand a tab",
    "=HYPERLINK(1)",
    "\u202eright to left",
    "nul \x00 and bell \x07",
    "lone \ud800 surrogate",
    "long " * 2_000,
)


def lift() -> Evaluation:
    """A log of which some states are dropped; the new policy is better."""
    problem = dw.domains.stochastic_lift(11)
    return dw.evaluate(problem.sample(1_000, 0), problem.pi_e, problem.pi_b)


def hostile() -> Evaluation:
    """States and actions whose names try to break out of the page."""
    rng = np.random.default_rng(0)
    actions = ["wait", "<b>treat</b>"]
    steps = rng.integers(2, 6, size=300)
    episodes = [
        [
            (HOSTILE[rng.integers(len(HOSTILE))], actions[rng.integers(2)], float(rng.normal()))
            for _ in range(length)
        ]
        for length in steps
    ]
    policy = rng.dirichlet([2.0, 2.0], size=len(HOSTILE))
    pi_e = dw.TabularPolicy(policy, states=HOSTILE, actions=actions)
    pi_b = dw.TabularPolicy(np.full_like(policy, 0.5), states=HOSTILE, actions=actions)
    return dw.evaluate(dw.Trajectories.from_episodes(episodes), pi_e, pi_b)


def many_states(states: int = 300, episodes: int = 1_000, steps: int = 50) -> Evaluation:
    """More states than a report lists, with the sizes of an ordinary log."""
    rng = np.random.default_rng(1)
    n = episodes * steps
    log = dw.Trajectories(
        rng.integers(states, size=n),
        rng.integers(3, size=n),
        rng.normal(size=n),
        np.arange(0, n + 1, steps),
        terminated=np.zeros(episodes, dtype=bool),
    )
    pi_e = rng.dirichlet(np.full(3, 20.0), size=states)
    return dw.evaluate(log, pi_e, np.full((states, 3), 1 / 3), ["BEHAVIOUR", "WPDIS", "C-WSPDIS"])


def _one_step(**columns: object) -> dw.Trajectories:
    return dw.Trajectories([0, 0, 0], [0, 1, 1], [1.0, 0.0, 2.0], [0, 1, 2, 3], **columns)  # type: ignore[arg-type]


HALF = [[0.5, 0.5]]

ODD: dict[str, Callable[[], Evaluation]] = {
    "one episode": lambda: dw.evaluate(dw.Trajectories([0], [0], [1.0], [0, 1]), [[1.0, 0.0]], HALF),
    "equal policies": lambda: dw.evaluate(_one_step(), HALF, HALF),
    "all weights zero": lambda: dw.evaluate(
        dw.Trajectories([0, 0], [1, 1], [1.0, 2.0], [0, 1, 2]), [[1.0, 0.0]], HALF
    ),
    "logged probabilities only": lambda: dw.evaluate(
        _one_step(propensities=[0.5, 0.5, 0.5], target_probs=[0.2, 0.8, 0.8])
    ),
    "single steps dropped": lambda: dw.evaluate(
        _one_step(), [[0.2, 0.8]], HALF, ["WSPDIS"], drop=np.array([True, False, True])
    ),
    "no interval": lambda: dw.evaluate(_one_step(), [[0.2, 0.8]], HALF, interval=None, background=True),
    "behaviour alone": lambda: dw.evaluate(_one_step(), [[0.2, 0.8]], HALF, ["BEHAVIOUR"]),
    "guaranteed": lambda: dw.evaluate(
        _one_step(), [[0.2, 0.8]], HALF, ["WIS", "WSIS"], interval="guaranteed", return_range=(0, 2)
    ),
    "bootstrap": lambda: dw.evaluate(_one_step(), [[0.2, 0.8]], HALF, ["WIS"], interval="bootstrap"),
    "a number to beat": lambda: dw.evaluate(_one_step(), [[0.2, 0.8]], HALF, ["WIS"], baseline=1.0),
    "constant rewards": lambda: dw.evaluate(
        dw.Trajectories([0, 0], [0, 1], [3.0, 3.0], [0, 1, 2]), [[0.2, 0.8]], HALF
    ),
    "huge weights": lambda: dw.evaluate(
        dw.Trajectories(np.zeros(4_000), np.tile([0, 1], 2_000), np.ones(4_000), [0, 2_000, 4_000]),
        [[0.9, 0.1]],
        [[0.1, 0.9]],
    ),
    "a drop by rule": lambda: dw.evaluate(_one_step(), [[0.2, 0.8]], HALF, drop="q-gap:0.5"),
}
