"""Problems for studies: the paper's domains, and others on which nothing was ever tuned.

Each has an exact truth. In the *hidden* ones the log shows less than the MDP knows (a hidden variable, or
several states under one label), so that every fitted model is wrong however long the log is; policies depend
only on what is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deadweight.domains import Problem, inventory, stochastic_lift, taxi
from deadweight.domains.problem import as_policy, softmax
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP, q_values
from deadweight.policy.policies import TabularPolicy
from deadweight.typing import FloatArray, IntArray

Noise = Callable[[Trajectories, np.random.Generator], FloatArray]
"""From a log to rewards, one a step, whose means in every episode's law are those of the log's own."""


@dataclass(frozen=True, eq=False)
class StudyProblem:
    """A problem, how much of it is logged, and what the log shows of a state.

    Attributes:
      name: how tables call it.
      problem: the exact problem.
      episodes: size of a log.
      shown: (S,) the label under which each state is logged; None when states are logged as they are.
      fresh: nothing in this library, nor in the work before it, was tuned on this problem.
      noise: of rewards; None: they are as the problem pays them.
    """

    name: str
    problem: Problem
    episodes: int
    shown: IntArray | None = None
    fresh: bool = True
    noise: Noise | None = None

    @property
    def pi_e(self) -> TabularPolicy:
        """The evaluation policy as a function of what is shown."""
        return self._shown_policy(self.problem.pi_e)

    @property
    def pi_b(self) -> TabularPolicy:
        """The behaviour policy, likewise."""
        return self._shown_policy(self.problem.pi_b)

    @property
    def values(self) -> tuple[float, float]:
        """The exact values of the evaluation and of the behaviour policy."""
        return self.problem.true_value, self.problem.behaviour_value

    def sample(self, seed: int | np.random.SeedSequence) -> Trajectories:
        """A log, with states under the labels that are shown."""
        if self.noise is None:
            return self.as_shown(self.problem.sample(self.episodes, seed))
        of_log, of_noise = (np.random.SeedSequence(seed) if isinstance(seed, int) else seed).spawn(2)
        log = self.problem.sample(self.episodes, of_log)
        return self.as_shown(log, self.noise(log, np.random.default_rng(of_noise)))

    def as_shown(
        self, log: Trajectories, rewards: FloatArray | None = None, behaviour_ids: IntArray | None = None
    ) -> Trajectories:
        """A log of the problem as it is shown, with other rewards or names of old policies if given."""
        if self.shown is None and rewards is None and behaviour_ids is None:
            return log
        shown = np.arange(self.problem.mdp.n_states) if self.shown is None else self.shown
        following = np.where(log.next_states >= 0, shown[log.next_states], -1)
        return Trajectories(
            shown[log.states],
            log.actions,
            log.rewards if rewards is None else rewards,
            log.offsets,
            propensities=log.propensities,
            terminated=log.terminated,
            next_states=following,
            behaviour_ids=behaviour_ids,
        )._limited_to(log.time_limit)

    def _shown_policy(self, policy: TabularPolicy) -> TabularPolicy:
        if self.shown is None:
            return policy
        _, first = np.unique(self.shown, return_index=True)
        return TabularPolicy(policy.probs[first], states=list(range(len(first))))


def study_problems() -> list[StudyProblem]:
    """All problems of the studies, in a fixed order."""
    return [
        StudyProblem("stochastic lift 7", stochastic_lift(7), 1000, fresh=False),
        StudyProblem("stochastic lift 11", stochastic_lift(11), 1000, fresh=False),
        StudyProblem("stochastic lift 17", stochastic_lift(17), 1000, fresh=False),
        StudyProblem("inventory", inventory(10, horizon=100, pi_e="softened-optimal"), 250, fresh=False),
        StudyProblem("taxi, 10 steps", taxi(5, horizon=10), 250, fresh=False),
        StudyProblem("conveyor belt", conveyor_belt(), 500),
        StudyProblem("river", river(), 300),
        StudyProblem("machine repair", machine_repair(), 300),
        StudyProblem("windy grid", windy_grid(), 400),
        StudyProblem("random 8 x 3", random_problem(8, 3, 12, seed=1), 200),
        StudyProblem("random 30 x 4", random_problem(30, 4, 20, seed=2), 500),
        StudyProblem("random 60 x 5, sparse reward", random_problem(60, 5, 15, seed=3, at_end=True), 500),
        StudyProblem("random 20 x 2, long", random_problem(20, 2, 60, seed=4), 300),
        hidden("hidden 8 x 3", random_problem(16, 3, 12, seed=5), 300),
        hidden("hidden 20 x 2", random_problem(40, 2, 25, seed=6), 300),
        hidden("conveyor belt, hidden load", conveyor_belt(loads=2), 500, groups=2),
    ]


def hidden(name: str, problem: Problem, episodes: int, groups: int = 2) -> StudyProblem:
    """The problem with every `groups` neighbouring states under one label, and policies that cannot tell."""
    shown = np.arange(problem.mdp.n_states) // groups
    mean = np.stack([np.bincount(shown, column) for column in np.eye(len(shown))]).T / groups

    def blind(policy: TabularPolicy) -> TabularPolicy:
        return as_policy((mean @ policy.probs)[shown], problem.mdp)

    blinded = Problem(name, problem.mdp, blind(problem.pi_e), blind(problem.pi_b))
    return StudyProblem(name, blinded, episodes, shown)


def random_problem(
    n_states: int, n_actions: int, horizon: int, seed: int, branching: int = 4, at_end: bool = False
) -> Problem:
    """A random MDP in which some states matter much and others little; pi_e is a softened greedy policy."""
    rng = np.random.default_rng(seed)
    P = np.zeros((n_states, n_actions, n_states + 1))
    for s in range(n_states):
        for a in range(n_actions):
            successors = rng.choice(n_states, size=branching, replace=False)
            P[s, a, successors] = 0.95 * rng.dirichlet(np.ones(branching))
            P[s, a, -1] = 0.05
    weight = rng.beta(0.5, 1.5, size=n_states)  # how much the action matters: mostly little
    P = (1 - weight[:, None, None]) * P.mean(axis=1, keepdims=True) + weight[:, None, None] * P
    common, own = rng.normal(size=(n_states, 1)), rng.normal(size=(n_states, n_actions))
    r = common + weight[:, None] * own
    R: FloatArray = np.zeros_like(P) if at_end else np.repeat(r[:, :, None], n_states + 1, axis=2)
    if at_end:
        R[:, :, -1] = (r > np.median(r)).astype(float)
    mdp = TabularMDP(P, R, rng.dirichlet(np.ones(n_states)), horizon)
    return with_policies(f"random {n_states} x {n_actions}", mdp, horizon, rng)


def conveyor_belt(length: int = 40, every: int = 8, loads: int = 1) -> Problem:
    """A belt that carries on whatever one does, with a switch at every few places.

    At a switch the second action loads the belt well or badly; elsewhere both actions do nothing. One time in
    ten the belt stands still for a step. With `loads` > 1 a hidden load, set at switches, decides what the
    rest of the belt pays.
    """
    n_states = length * loads
    P, R = np.zeros((n_states, 2, n_states + 1)), np.zeros((n_states, 2, n_states + 1))
    for place in range(length):
        for load in range(loads):
            s, switch = place * loads + load, place % every == 0
            for a in range(2):
                pays = 0.1 * (1 + load)
                if switch:
                    pays += 0.5 * a - 0.25
                for next_load in range(loads):
                    chance = 1.0 if loads == 1 else (0.8 if next_load == (a if switch else load) else 0.2)
                    after = (place + 1) * loads + next_load if place + 1 < length else n_states
                    P[s, a, after] += 0.9 * chance
                    R[s, a, after] = pays
                P[s, a, s] += 0.1
    d0 = np.zeros(n_states)
    d0[:loads] = 1 / loads
    mdp = TabularMDP(P, R, d0, 2 * length)
    pi_e, pi_b = np.tile([0.15, 0.85], (n_states, 1)), np.tile([0.55, 0.45], (n_states, 1))
    return Problem("conveyor belt", mdp, as_policy(pi_e, mdp), as_policy(pi_b, mdp))


def river(length: int = 10, horizon: int = 25) -> Problem:
    """Swim against the current to the far bank: a long way for a large reward, or drift for a small one."""
    P, r = np.zeros((length, 2, length + 1)), np.zeros((length, 2))
    for s in range(length):
        P[s, 0, max(s - 1, 0)] = 1.0
        P[s, 1, min(s + 1, length - 1)] += 0.6
        P[s, 1, s] += 0.3
        P[s, 1, max(s - 1, 0)] += 0.1
    r[0, 0], r[-1, 1] = 0.05, 1.0
    mdp = TabularMDP(P, r, np.eye(length)[1], horizon)
    pi_e, pi_b = np.tile([0.1, 0.9], (length, 1)), np.tile([0.4, 0.6], (length, 1))
    return Problem("river", mdp, as_policy(pi_e, mdp), as_policy(pi_b, mdp))


def machine_repair(levels: int = 10, horizon: int = 40) -> Problem:
    """Wear grows by chance; running pays less the worse it is, repair costs and starts anew."""
    P, r = np.zeros((levels, 2, levels + 1)), np.zeros((levels, 2))
    for wear in range(levels):
        P[wear, 0, min(wear + 1, levels - 1)] += 0.5
        P[wear, 0, wear] += 0.5
        P[wear, 1, 0] = 1.0
        r[wear] = 1 - (wear / levels) ** 2, -0.8
    mdp = TabularMDP(P, r, np.eye(levels)[0], horizon)
    rng = np.random.default_rng(7)
    return with_policies("machine repair", mdp, horizon, rng, temperature=0.3)


def windy_grid(side: int = 6, horizon: int = 30) -> Problem:
    """Walk to a corner of a grid while the wind pushes; each step costs one, reaching the corner ends it."""
    n_states = side * side
    moves = ((0, 1), (1, 0), (0, -1), (-1, 0))
    P = np.zeros((n_states, 4, n_states + 1))

    def cell(x: int, y: int) -> int:
        x, y = min(max(x, 0), side - 1), min(max(y, 0), side - 1)
        return n_states if (x, y) == (side - 1, side - 1) else x * side + y

    for x in range(side):
        for y in range(side):
            for a, (dx, dy) in enumerate(moves):
                P[x * side + y, a, cell(x + dx, y + dy)] += 0.7
                P[x * side + y, a, cell(x + 1, y)] += 0.3
    mdp = TabularMDP(P, np.full((n_states, 4), -1.0), np.eye(n_states)[0], horizon)
    return with_policies("windy grid", mdp, horizon, np.random.default_rng(8), temperature=1.0)


def with_policies(
    name: str, mdp: TabularMDP, horizon: int, rng: np.random.Generator, temperature: float = 0.5
) -> Problem:
    """pi_e softens the greedy policy with respect to a random one; pi_b is that random one, flattened."""
    random = rng.dirichlet(np.full(mdp.n_actions, 2.0), mdp.n_states)
    pi_b = 0.5 * random + 0.5 / mdp.n_actions
    pi_e = 0.9 * softmax(q_values(mdp, random, horizon)[0] / temperature) + 0.1 / mdp.n_actions
    return Problem(name, mdp, as_policy(pi_e, mdp), as_policy(pi_b, mdp))
