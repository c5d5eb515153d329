"""Random small problems shared by the tests: a log, two policies, a discount and a drop.

Sizes are drawn by hypothesis, so that a failure shrinks to few episodes; the numbers within come from a
seeded generator, so that rewards are generic (no accidental ties) unless whole numbers are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import reference as ref
from hypothesis import strategies as st

import deadweight as dw
from deadweight.question.drops import Drop

Step = tuple[int, int, float]


@dataclass(frozen=True, eq=False)
class Case:
    """One problem, for the library (`log`, `drop`) and for the plain loops (`plain`, `plain_drop`)."""

    episodes: list[list[Step]]
    terminated: list[bool]
    next_states: list[list[int]] | None
    pi_e: np.ndarray
    pi_b: np.ndarray
    gamma: float
    plain_drop: Any  # a set of states, or one flag for each step in lists

    @property
    def per_step(self) -> bool:
        return isinstance(self.plain_drop, list)

    @cached_property
    def log(self) -> dw.Trajectories:
        return dw.Trajectories.from_episodes(self.episodes, self.terminated, self.next_states)

    @cached_property
    def plain(self) -> ref.Log:
        return ref.Log(self.episodes, self.terminated, self.next_states)

    @cached_property
    def drop(self) -> Any:
        if not self.per_step:
            return sorted(self.plain_drop)
        return Drop(steps=np.array([flag for row in self.plain_drop for flag in row]))

    @property
    def n(self) -> int:
        return len(self.episodes)

    def estimate(self, name: str, **options: Any) -> dw.Estimate:
        """The library's estimate of this problem, with all its numbers; no interval by default."""
        also = ("std_error", "bias", "ess_steps")
        fixed = {"drop": self.drop, "gamma": self.gamma, "interval": None, "also": also, "solve": "longest"}
        options = {**fixed, **options}
        return dw.estimate(name, self.log, self.pi_e, self.pi_b, **options)

    def __repr__(self) -> str:
        return (
            f"Case(episodes={self.episodes}, terminated={self.terminated}, next_states={self.next_states}, "
            f"pi_e={self.pi_e.tolist()}, pi_b={self.pi_b.tolist()}, gamma={self.gamma}, "
            f"plain_drop={self.plain_drop})"
        )


@st.composite
def cases(
    draw: st.DrawFn,
    min_episodes: int = 1,
    max_episodes: int = 8,
    max_steps: int = 6,
    whole_rewards: bool | None = False,
    truncation: bool = True,
    per_step: bool = True,
    support: bool = True,
) -> Case:
    """Ragged logs with zeros in pi_e, deterministic rows, cut episodes, and drops from none to all.

    Args:
      whole_rewards: rewards from {-1, 0, 1, 2}, so that ties happen; None draws which.
      truncation: some episodes may be cut, with or without a logged successor.
      per_step: the drop may be one flag for each step.
      support: pi_b may be zero where nothing was logged.
    """
    n = draw(st.integers(min_episodes, max_episodes))
    lengths = draw(st.lists(st.integers(1, max_steps), min_size=n, max_size=n))
    n_states, n_actions = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["all end", "mixed", "all cut"])) if truncation else "all end"
    gamma = draw(st.sampled_from([1.0, 0.9, 0.5]))
    drop_kind = draw(st.sampled_from(["some", "none", "all"] + (["steps"] if per_step else [])))
    whole = draw(st.booleans()) if whole_rewards is None else whole_rewards
    zero_share = draw(st.sampled_from([0.0, 0.3]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def reward() -> float:
        return float(rng.integers(-1, 3)) if whole else float(rng.normal())

    episodes = [
        [(int(rng.integers(n_states)), int(rng.integers(n_actions)), reward()) for _ in range(length)]
        for length in lengths
    ]
    if kind == "mixed":
        terminated = (rng.random(n) < 0.5).tolist()
    else:
        terminated = [kind == "all end"] * n
    next_states = None
    if kind != "all end" and draw(st.booleans()):
        next_states = [
            [*(s for s, _, _ in episode[1:]), -1 if rng.random() < 0.3 else int(rng.integers(n_states))]
            for episode in episodes
        ]
    pi_b = random_policy(rng, n_states, n_actions) * 0.9 + 0.1 / n_actions
    if support and rng.random() < 0.3:
        pi_b = without_unlogged(pi_b, episodes, rng)
    pi_e = random_policy(rng, n_states, n_actions, zero_share)
    drops = {
        "none": set(),
        "all": set(range(n_states)),
        "some": {s for s in range(n_states) if rng.random() < 0.5},
        "steps": [[bool(rng.random() < 0.5) for _ in episode] for episode in episodes],
    }
    return Case(episodes, terminated, next_states, pi_e, pi_b, gamma, drops[drop_kind])


def random_policy(
    rng: np.random.Generator, n_states: int, n_actions: int, zero_share: float = 0.0
) -> np.ndarray:
    """Rows from a Dirichlet; some probabilities zero and some rows deterministic if asked for."""
    probs = rng.dirichlet(np.ones(n_actions), size=n_states)
    if zero_share and n_actions > 1:
        probs[rng.random(probs.shape) < zero_share] = 0.0
        lost = np.flatnonzero(probs.sum(axis=1) == 0)
        probs[lost, rng.integers(n_actions, size=len(lost))] = 1.0
    table: np.ndarray = probs / probs.sum(axis=1, keepdims=True)
    return table


def without_unlogged(
    pi_b: np.ndarray, episodes: Sequence[Sequence[Step]], rng: np.random.Generator
) -> np.ndarray:
    """pi_b with zero probability for some pairs that were never logged."""
    logged = np.zeros(pi_b.shape, dtype=bool)
    for episode in episodes:
        for s, a, _ in episode:
            logged[s, a] = True
    never = ~logged & logged.any(axis=1, keepdims=True) & (rng.random(pi_b.shape) < 0.5)
    probs = np.where(never, 0.0, pi_b)
    table: np.ndarray = probs / probs.sum(axis=1, keepdims=True)
    return table
