"""Problems that broke earlier rules: a hidden past that pays, hidden frailty, sparse logs, late rewards.

They stand apart from `problems.py`, on which rules may be tuned. Each has an exact truth; where something is
hidden, the log shows labels under which no model can be right.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from deadweight.domains import Problem
from deadweight.domains.problem import as_policy
from deadweight.mdp.tabular import TabularMDP
from deadweight.studies.problems import StudyProblem, random_problem, with_policies
from deadweight.typing import FloatArray


def hard_problems() -> list[StudyProblem]:
    """All of them, in a fixed order."""
    sparse = random_problem(30, 4, 20, seed=2)
    return [
        previous_action("previous action pays, 6 x 2", 6, 2, horizon=8, seed=11, episodes=300),
        previous_action("previous action pays, 10 x 3", 10, 3, horizon=12, seed=12, episodes=500),
        frailty("hidden frailty, 8 x 3", 8, 3, horizon=10, seed=13, episodes=300),
        frailty("hidden frailty, 5 x 2", 5, 2, horizon=20, seed=14, episodes=400),
        StudyProblem("random 30 x 4, n = 60", sparse, 60),
        StudyProblem("random 30 x 4, n = 150", sparse, 150),
        StudyProblem("random 60 x 5, n = 100", random_problem(60, 5, 15, seed=15), 100),
        StudyProblem("late reward, 20 x 3", late_reward(20, 3, seed=16), 400),
        StudyProblem("late reward, 40 x 4", late_reward(40, 4, seed=17), 200),
        StudyProblem("fixed horizon, 12 x 3", endless(12, 3, horizon=10, seed=18), 300),
        StudyProblem("fixed horizon, 30 x 2", endless(30, 2, horizon=30, seed=19), 200),
    ]


def previous_action(
    name: str, n_states: int, n_actions: int, horizon: int, seed: int, episodes: int
) -> StudyProblem:
    """What is paid depends on the action before, which the log's states do not show.

    Neither reward nor successor depends on the action taken now: a model of the shown states sees no gap.
    """
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(n_states, 0.5), n_states)
    size = n_states * n_actions
    P, r = np.zeros((size, n_actions, size + 1)), np.zeros((size, n_actions))
    common, own = rng.normal(size=n_states), rng.normal(size=(n_states, n_actions))
    for s in range(n_states):
        for before in range(n_actions):
            r[s * n_actions + before] = common[s] + own[s, before]
            for a in range(n_actions):
                P[s * n_actions + before, a, a:size:n_actions] = 0.97 * moves[s]
                P[s * n_actions + before, a, -1] = 0.03
    d0 = np.zeros(size)
    d0[::n_actions] = 1.0 / n_states
    mdp = TabularMDP(P, r, d0, horizon)
    shown = np.arange(size) // n_actions
    pi_b = 0.5 * rng.dirichlet(np.full(n_actions, 2.0), n_states) + 0.5 / n_actions
    # What the action of now pays in the next state, on average.
    later = moves @ own
    best = np.eye(n_actions)[later.argmax(axis=1)]
    pi_e = 0.6 * best + 0.4 * pi_b
    problem = Problem(name, mdp, as_policy(pi_e[shown], mdp), as_policy(pi_b[shown], mdp))
    return StudyProblem(name, problem, episodes, shown)


def frailty(name: str, n_states: int, n_actions: int, horizon: int, seed: int, episodes: int) -> StudyProblem:
    """Half of the episodes are frail from first to last: they earn less, end sooner, need other actions."""
    robust, frail = (random_problem(n_states, n_actions, horizon, seed + 100 * k).mdp for k in (1, 2))
    size = 2 * n_states
    P, r = np.zeros((size, n_actions, size + 1)), np.zeros((size, n_actions))
    for kind, mdp in enumerate((robust, frail)):
        dense = mdp.P.toarray().reshape(n_states, n_actions, n_states + 1)
        end = 0.1 * kind
        P[kind::2, :, kind:size:2] = (1 - end) * dense[:, :, :-1]
        P[kind::2, :, -1] = (1 - end) * dense[:, :, -1] + end
        r[kind::2] = mdp.r - kind
    d0 = np.repeat(robust.d0, 2) / 2
    mdp = TabularMDP(P, r, d0, horizon)
    rng = np.random.default_rng(seed)
    shown = np.arange(size) // 2
    pi_b = 0.5 * rng.dirichlet(np.full(n_actions, 2.0), n_states) + 0.5 / n_actions
    best = np.eye(n_actions)[(robust.r + frail.r).argmax(axis=1)]
    pi_e = 0.5 * best + 0.5 * pi_b
    problem = Problem(name, mdp, as_policy(pi_e[shown], mdp), as_policy(pi_b[shown], mdp))
    return StudyProblem(name, problem, episodes, shown)


def late_reward(n_states: int, n_actions: int, seed: int, ending: float = 0.15) -> Problem:
    """Episodes of many lengths, all of whose reward comes with their end; none is cut."""
    problem = random_problem(n_states, n_actions, 200, seed, at_end=True)
    mdp = problem.mdp
    dense = mdp.P.toarray().reshape(n_states, n_actions, n_states + 1)
    goes_on = dense[:, :, :-1] / dense[:, :, :-1].sum(axis=2, keepdims=True)
    P: FloatArray = np.concatenate(
        [(1 - ending) * goes_on, np.full((n_states, n_actions, 1), ending)], axis=2
    )
    rng = np.random.default_rng(seed)
    R = np.zeros_like(P)
    R[:, :, -1] = rng.random((n_states, n_actions)) < rng.random((n_states, 1))
    return with_policies(problem.name, TabularMDP(P, R, mdp.d0), 100, rng, temperature=0.1)


def endless(n_states: int, n_actions: int, horizon: int, seed: int) -> Problem:
    """A task without an end, of which every episode shows so many steps."""
    problem = random_problem(n_states, n_actions, horizon, seed)
    mdp = problem.mdp
    dense = mdp.P.toarray().reshape(n_states, n_actions, n_states + 1)[:, :, :-1]
    P = dense / dense.sum(axis=2, keepdims=True)
    return replace(problem, mdp=TabularMDP(P, mdp.r, mdp.d0, horizon))
