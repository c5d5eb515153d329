"""Sixty small logs of every kind the library takes, for the oracle; made by numpy and public names only.

A log is drawn from the name of its case, so that adding one changes no other. Sizes are as small as they can
be while every verb still has something to say.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import deadweight as dw


@dataclass(frozen=True, eq=False)
class Case:
    """A log and what is asked of it.

    Attributes:
      log: in memory; the folder of a stream is made of its `table`.
      pi_e, pi_b: the policies; None where the log has its own columns.
      options: of every question.
      streamed: asked as Parquet, part by part.
      third: a policy to compare with, where it is no table.
    """

    log: dw.Trajectories
    pi_e: Any
    pi_b: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    streamed: bool = False
    third: Any = None

    @property
    def other(self) -> Any:
        """A policy to compare with: where pi_e is a table, halfway from it to acting at random."""
        if self.third is not None:
            return self.third
        probs = getattr(self.pi_e, "probs", self.pi_e)
        if not isinstance(probs, np.ndarray):
            return None
        mixed = 0.5 * probs + 0.5 / probs.shape[1]
        if not isinstance(self.pi_e, dw.TabularPolicy):
            return mixed
        return dw.TabularPolicy(mixed, self.pi_e.state_labels, self.pi_e.action_labels)

    @property
    def table(self) -> pa.Table:
        """The log as a table, a row a step."""
        log = self.log
        last = log.offsets[1:] - 1
        columns: dict[str, Any] = {
            "episode": np.repeat(np.arange(log.n_episodes), log.lengths),
            "step": np.concatenate([np.arange(length) for length in log.lengths]),
            "action": np.asarray(log.action_labels)[log.actions],
            "reward": log.rewards,
        }
        if log.features is None:
            columns["state"] = np.asarray(log.state_labels)[log.states]
        else:
            columns |= {name: log.features[:, j].copy() for j, name in enumerate(log.feature_names)}
        if log.propensities is not None:
            columns["behaviour_prob"] = log.propensities
        if log.target_probs is not None:
            columns["target_prob"] = log.target_probs
        if log.durations is not None:
            columns["duration"] = log.durations
        if log.behaviour_ids is not None:
            columns["behaviour_id"] = np.repeat(np.asarray(log.behaviour_ids), log.lengths)
        flags = np.zeros(log.n_steps, dtype=bool)
        flags[last] = log.terminated
        columns["terminated"] = flags
        return pa.table({name: pa.array(column) for name, column in columns.items()})

    def folder(self, where: Path) -> Path:
        """The table as three files with small row groups; episodes are cut wherever it falls."""
        where.mkdir(exist_ok=True)
        table = self.table
        for i, (lo, hi) in enumerate(pairwise(np.linspace(0, table.num_rows, 4).astype(int))):
            pq.write_table(table.slice(lo, hi - lo), where / f"part-{i}.parquet", row_group_size=40)
        return where


@dataclass(frozen=True, eq=False)
class World:
    """A small random MDP and two policies on it; `log` draws episodes step by step."""

    rng: np.random.Generator
    states: int = 5
    actions: int = 3
    steps: int = 6
    ending: float = 0.1
    spread: float = 1.0

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """P (S, A, S), r (S, A), pi_e and pi_b (S, A)."""
        rng, shape = self.rng, (self.states, self.actions)
        moves = rng.dirichlet(np.full(self.states, 0.7), shape)
        pi_b = rng.dirichlet(np.full(self.actions, 3.0), self.states)
        pi_e = (1 - self.spread) * pi_b + self.spread * rng.dirichlet(np.ones(self.actions), self.states)
        return moves, rng.normal(size=shape), pi_e, pi_b

    def draw(
        self,
        moves: np.ndarray,
        pay: Callable[[int, int, int, np.random.Generator], float],
        pi: Callable[[int, int], np.ndarray],
        episodes: int,
    ) -> tuple[list[list[tuple[int, int, float]]], list[int]]:
        """Episodes of (state, action, reward), and what follows each: -1 where it ended by itself."""
        rng, log, after = self.rng, [], []
        for i in range(episodes):
            s, episode, following = int(rng.integers(self.states)), [], -1
            for t in range(self.steps):
                p = pi(i, s)
                a = int(rng.choice(len(p), p=p))
                episode.append((s, a, pay(s, a, t, rng)))
                s = following = int(rng.choice(self.states, p=moves[s, a]))
                if rng.random() < self.ending:
                    following = -1
                    break
            log.append(episode)
            after.append(following)
        return log, after


def of_labels(
    rng: np.random.Generator,
    episodes: int = 60,
    *,
    labels: str = "dense",
    logged: str = "table",
    ends: str = "ended",
    reward: str = "noisy",
    durations: bool = False,
    known: bool = True,
    streamed: bool = False,
    deterministic: bool = False,
    options: Mapping[str, Any] | None = None,
    **size: Any,
) -> Case:
    """A log with labelled states.

    Args:
      logged: "table" (both policies), "column" (propensities), "columns" (those and target_prob), "counts".
      ends: "ended", "flags" (cut, successors known), "unknown" (cut, nobody knows), "limit".
      reward: "noisy", "whole", "late", "heavy", "constant", "large" or "exact".
    """
    world = World(rng, **size)
    moves, r, pi_e, pi_b = world.tables
    if deterministic:
        pi_e = np.eye(world.actions)[pi_e.argmax(axis=1)]
    pays: dict[str, Callable[..., float]] = {
        "noisy": lambda s, a, t, g: float(r[s, a] + 0.3 * g.normal()),
        "whole": lambda s, a, t, g: float(np.round(2 * r[s, a]) + g.integers(2)),
        "late": lambda s, a, t, g: float(t + 1 == world.steps) * float(r[s, a]),
        "heavy": lambda s, a, t, g: float(np.exp(r[s, a] + 1.5 * g.normal())),
        "constant": lambda s, a, t, g: 1.0,
        "large": lambda s, a, t, g: 1e150 * float(r[s, a] + 0.3 * g.normal()),
        "exact": lambda s, a, t, g: float(r[s, a]),
    }
    drawn, after = world.draw(moves, pays[reward], lambda i, s: pi_b[s], episodes)
    flat = [step for episode in drawn for step in episode]
    states, actions = np.array([s for s, _, _ in flat]), np.array([a for _, a, _ in flat])
    offsets = np.concatenate([[0], np.cumsum([len(episode) for episode in drawn])])
    named = {
        "dense": (np.arange(world.states), np.arange(world.actions)),
        "text": (
            np.array([f"ward {i}" for i in range(world.states)], dtype=object),
            np.array(["wait", "treat", "<b>stop</b>", "x,y"][: world.actions], dtype=object),
        ),
        "sparse": (10_000 * (1 + np.arange(world.states)), 7_000 * (1 + np.arange(world.actions))),
        "flags": (np.array([False, True]), np.array([False, True])),
    }
    state_labels, action_labels = named[labels]
    given: dict[str, Any] = {}
    if ends in ("flags", "unknown"):
        given["terminated"] = np.array([code < 0 for code in after])
    if ends == "flags":
        codes = np.append(states[1:], 0)
        codes[offsets[1:] - 1] = np.where(np.array(after) < 0, 0, after)
        given["next_states"] = state_labels[codes]
    if ends == "limit":
        given["time_limit"] = world.steps
    if logged in ("column", "columns"):
        given["propensities"] = pi_b[states, actions]
    if logged == "columns":
        given["target_probs"] = pi_e[states, actions]
    if durations:
        given["durations"] = rng.choice([0.5, 1.0, 2.0], len(flat))
    log = dw.Trajectories(
        state_labels[states], action_labels[actions], [reward for _, _, reward in flat], offsets, **given
    )
    by_index = labels == "dense"

    def policy(probs: np.ndarray) -> Any:
        return probs if by_index else dw.TabularPolicy(probs, list(state_labels), list(action_labels))

    old = {"table": policy(pi_b), "counts": dw.estimate_behaviour(log)}.get(logged)
    return Case(log, None if logged == "columns" else policy(pi_e), old, options or {}, streamed)


def of_several(
    rng: np.random.Generator,
    episodes: int = 90,
    *,
    ids: bool = True,
    drift: float = 0.0,
    streamed: bool = False,
) -> Case:
    """A log of three old policies, given by id or by the probabilities of what was done."""
    world = World(rng)
    moves, r, pi_e, pi_b = world.tables
    others = [0.7 * pi_b + 0.3 * rng.dirichlet(np.ones(3), 5) for _ in range(3)]
    made_by = np.sort(rng.integers(3, size=episodes))
    paid: list[int] = []

    def policy(i: int, s: int) -> np.ndarray:
        paid.append(i)
        return others[made_by[i]][s]

    drawn, _ = world.draw(
        moves,
        lambda s, a, t, g: float(r[s, a] + drift * made_by[paid[-1]] + 0.3 * g.normal()),
        policy,
        episodes,
    )
    flat = [(i, *step) for i, episode in enumerate(drawn) for step in episode]
    log = dw.Trajectories(
        [s for _, s, _, _ in flat],
        [a for _, _, a, _ in flat],
        [x for _, _, _, x in flat],
        np.concatenate([[0], np.cumsum([len(episode) for episode in drawn])]),
        behaviour_ids=[f"v{j}" for j in made_by] if ids else None,
        propensities=None if ids else [others[made_by[i]][s, a] for i, s, a, _ in flat],
    )
    return Case(log, pi_e, {f"v{j}": one for j, one in enumerate(others)} if ids else None, {}, streamed)


def of_domain(rng: np.random.Generator, problem: Any, episodes: int, **options: Any) -> Case:
    """A log of a domain with exact values."""
    return Case(problem.sample(episodes, seed=int(rng.integers(2**31))), problem.pi_e, problem.pi_b, options)


def of_features(
    rng: np.random.Generator, problem: Any, episodes: int, *, old: str = "known", **options: Any
) -> Case:
    """A log whose states are numbers."""
    log = problem.sample(episodes, seed=int(rng.integers(2**31)))
    behaviour = {"known": problem.pi_b, "column": None}.get(old)
    if old == "learned":
        behaviour = dw.fit_behaviour(log, candidates=["logit"], seed=0)
    actions = problem.world.action_names
    other = dw.FeaturePolicy(lambda x: 0.5 * problem.evaluation(x) + 0.5 / len(actions), actions=actions)
    return Case(log, problem.pi_e, behaviour, options, third=other)


def given_values(rng: np.random.Generator, problem: Any, episodes: int, noise: float) -> Case:
    """Features with action values that somebody gives: noise around a constant."""
    case = of_features(rng, problem, episodes)
    q = 1.0 + noise * rng.normal(size=(case.log.n_steps, case.log.n_actions))
    return Case(case.log, case.pi_e, case.pi_b, {"model": dw.GivenQ(q)})


def confounded(rng: np.random.Generator, episodes: int = 150) -> Case:
    """Two weeks: in the second everything pays more and one action is taken nearly always."""
    week = np.arange(episodes) >= episodes // 2
    chance = np.where(week, 0.9, 0.1)
    actions = (rng.random(episodes) < chance).astype(int)
    rewards = 1.0 * week - 0.05 * actions + 0.1 * rng.normal(size=episodes)
    log = dw.Trajectories(
        np.zeros(episodes, dtype=int),
        actions,
        rewards,
        np.arange(episodes + 1),
        propensities=np.where(actions == 1, chance, 1 - chance),
    )
    return Case(log, np.array([[0.1, 0.9]]), None)


def copied(rng: np.random.Generator, times: int = 5) -> Case:
    """The same episodes again and again."""
    case = of_labels(rng, 15)
    log = case.log.select(np.tile(np.arange(15), times))
    return Case(log, case.pi_e, case.pi_b)


def unfit(rng: np.random.Generator, episodes: int = 120) -> Case:
    """A hidden kind of episode: the labelled model does not give back what the log earned."""
    kind = rng.random(episodes) < 0.5
    states = np.tile([0, 0, 0, 0], episodes)
    actions = rng.integers(2, size=4 * episodes)
    rewards = np.repeat(np.where(kind, 1.0, -1.0), 4) * np.tile([1.0, 0.0, 0.0, 2.0], episodes)
    log = dw.Trajectories(states, actions, rewards, 4 * np.arange(episodes + 1))
    return Case(log, np.array([[0.2, 0.8]]), np.array([[0.5, 0.5]]))


def _cases() -> Iterator[tuple[str, Callable[[np.random.Generator], Case]]]:
    labels = partial(partial, of_labels)
    yield "labels, plain", labels()
    yield "labels, discounted", labels(options={"gamma": 0.9, "level": 0.8})
    yield "labels, text", labels(labels="text")
    yield "labels, sparse", labels(labels="sparse")
    yield "labels, flags", labels(labels="flags", states=2, actions=2)
    yield "labels, one step", labels(steps=1, episodes=120)
    yield "labels, one state", labels(states=1, actions=2)
    yield "labels, one action", labels(actions=1)
    yield "labels, many states", labels(states=40, episodes=80)
    yield "labels, long", labels(steps=25, ending=0.02, episodes=30)
    yield "labels, equal policies", labels(spread=0.0)
    yield "labels, close policies", labels(spread=0.2, episodes=150)
    yield "labels, deterministic", labels(deterministic=True, actions=2)
    yield "labels, column", labels(logged="column")
    yield "labels, columns", labels(logged="columns")
    yield "labels, counts", labels(logged="counts")
    yield "labels, whole rewards", labels(reward="whole")
    yield "labels, late reward", labels(reward="late")
    yield "labels, heavy tails", labels(reward="heavy", episodes=150)
    yield "labels, constant reward", labels(reward="constant")
    yield "labels, rewards of 1e150", labels(reward="large", episodes=30)
    yield "labels, exact rewards", labels(reward="exact")
    yield "labels, one episode", labels(episodes=1, ending=0.0)
    yield "labels, two episodes", labels(episodes=2)
    yield "labels, four episodes", labels(episodes=4)
    yield "labels, ten episodes", labels(episodes=10)
    yield "labels, published", labels(options=dict(dw.PUBLISHED), episodes=40)
    yield "labels, cross-fitted", labels(options={"cross_fit": 3})
    yield "labels, return range", labels(options={"return_range": (-20.0, 20.0), "interval": "guaranteed"})
    yield "labels, bootstrap", labels(options={"interval": "bootstrap"}, episodes=30)
    yield "labels, dropped by gap", labels(options={"drop": "q-gap:0.5"})
    yield "labels, dropped by name", labels(options={"drop": [0, 2]}, episodes=40)
    yield "labels, dropped by covariance", labels(options={"drop": "covariance:0.05"}, episodes=40, states=4)
    yield "cut, flags", labels(ends="flags", ending=0.05)
    yield "cut, unknown", labels(ends="unknown", ending=0.05)
    yield "cut, limit", labels(ends="limit", ending=0.0)
    yield "cut, limit and ends", labels(ends="limit", ending=0.15)
    yield "cut, weighted", labels(ends="unknown", ending=0.05, options={"cut_weights": "auto"})
    yield "durations", labels(durations=True)
    yield "durations, discounted", labels(durations=True, options={"gamma": 0.9})
    yield "durations, column", labels(durations=True, logged="column", options={"gamma": 0.8})
    yield "several, ids", of_several
    yield "several, other conditions", partial(of_several, drift=2.0)
    yield "several, own probabilities", partial(of_several, ids=False)
    yield "several, other conditions, own probabilities", partial(of_several, ids=False, drift=2.0)
    yield "stream, plain", labels(streamed=True)
    yield "stream, text and limit", labels(streamed=True, labels="text", ends="limit", ending=0.1)
    yield "stream, columns", labels(streamed=True, logged="columns")
    yield "stream, several", partial(of_several, streamed=True)
    yield "stream, durations", labels(streamed=True, durations=True, options={"gamma": 0.9})
    yield "domain, lift", lambda rng: of_domain(rng, dw.domains.stochastic_lift(7), 60)
    yield "domain, inventory", lambda rng: of_domain(rng, dw.domains.inventory(5, horizon=10), 30)
    yield "features, lift", lambda rng: of_features(rng, dw.domains.continuous_lift(), 25)
    yield "features, navigation", lambda rng: of_features(rng, dw.domains.navigation(), 25, old="column")
    yield (
        "features, straight lines",
        lambda rng: of_features(rng, dw.domains.cart_pole(40), 20, model=dw.LinearQ(basis="linear")),
    )
    yield "features, learned", lambda rng: of_features(rng, dw.domains.sepsis_like(), 40, old="learned")
    yield "features, given", lambda rng: given_values(rng, dw.domains.cart_pole(40), 20, 1.0)
    yield "conditions, two weeks", confounded
    yield "conditions, copies", copied
    yield "conditions, hidden kinds", unfit


CASES: dict[str, Callable[[np.random.Generator], Case]] = dict(_cases())


def case_of(name: str) -> Case:
    """The case of a name."""
    return CASES[name](np.random.default_rng([2026, zlib.crc32(name.encode())]))
