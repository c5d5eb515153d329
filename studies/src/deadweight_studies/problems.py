"""Problems for studies: the paper's domains, and others on which nothing was ever tuned.

Each has an exact truth. In the *hidden* ones the log shows less than the MDP knows (a hidden variable, or
several states under one label), so that every fitted model is wrong however long the log is; policies depend
only on what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Literal

import numpy as np

from deadweight.domains import inventory, stochastic_lift, taxi
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.problem import Problem, as_policy
from deadweight.mdp.tabular import TabularMDP, q_values
from deadweight.tools.arithmetic import softmax
from deadweight.tools.bumps import Bumps
from deadweight.typing import FloatArray, IntArray
from deadweight.values.linear import LinearQ
from deadweight.values.rows import GivenQ, RowLearner, Rows, RowValues

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
        """The behaviour policy as a function of what is shown."""
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


def problems_named(names: Sequence[str]) -> dict[str, StudyProblem]:
    """Some of the problems of the studies, in their order."""
    return {problem.name: problem for problem in study_problems() if problem.name in names}


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
    common, by_action = rng.normal(size=(n_states, 1)), rng.normal(size=(n_states, n_actions))
    r = common + weight[:, None] * by_action
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


# --- Problems that broke earlier rules


def hard_problems() -> list[StudyProblem]:
    """A hidden past that pays, hidden frailty, sparse logs, late rewards: no rule may be tuned on these."""
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
    common, by_action = rng.normal(size=n_states), rng.normal(size=(n_states, n_actions))
    for s in range(n_states):
        for before in range(n_actions):
            r[s * n_actions + before] = common[s] + by_action[s, before]
            for a in range(n_actions):
                P[s * n_actions + before, a, a:size:n_actions] = 0.97 * moves[s]
                P[s * n_actions + before, a, -1] = 0.03
    d0 = np.zeros(size)
    d0[::n_actions] = 1.0 / n_states
    mdp = TabularMDP(P, r, d0, horizon)
    shown = np.arange(size) // n_actions
    pi_b = 0.5 * rng.dirichlet(np.full(n_actions, 2.0), n_states) + 0.5 / n_actions
    # What the action of now pays in the next state, on average.
    later = moves @ by_action
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


# --- A pole on a cart, seen through fifty cells

CELLS, STEPS = 50, 60
TRUTH_EPISODES = 40_000
# What a direction costs or earns when a policy leans towards it: position, speed, angle, angular speed.
LEANING = np.array([0.1, 0.3, 6.0, 1.5])


@dataclass(frozen=True)
class BinnedCartpole:
    """A task whose labels hide what matters; it offers what a `StudyProblem` does.

    Positions, speeds and angles are continuous; the log shows only which of fifty cells they lie in, and both
    policies act on that cell. Weights are right, and every model of the cells is wrong: what follows depends
    on where in its cell the cart stands. The truth comes from simulating the new policy, not from a model.

    Attributes:
      name: how tables call it.
      episodes: size of a log.
      seed: of cells and policies.
    """

    name: str = "cartpole in 50 cells"
    episodes: int = 400
    seed: int = 21

    @cached_property
    def centres(self) -> FloatArray:
        """(cells, 4) by k-means on what a coin-tossing policy meets."""
        rng = np.random.default_rng(self.seed)
        met = _simulate(200, np.full((1, 2), 0.5), np.zeros((1, 4)), rng)[4]
        centres = met[rng.choice(len(met), CELLS, replace=False)]
        for _ in range(15):
            nearest = _nearest(met, centres)
            for cell in range(CELLS):
                if (nearest == cell).any():
                    centres[cell] = met[nearest == cell].mean(axis=0)
        return centres

    @property
    def pi_e(self) -> TabularPolicy:
        """Leans the way that holds the pole up."""
        return self._policy(1.0)

    @property
    def pi_b(self) -> TabularPolicy:
        """Leans that way less."""
        return self._policy(0.35)

    def _policy(self, strength: float) -> TabularPolicy:
        right = 1.0 / (1.0 + np.exp(-strength * (self.centres @ LEANING)))
        right = 0.05 + 0.9 * right
        return TabularPolicy(np.column_stack([1.0 - right, right]))

    @cached_property
    def values(self) -> tuple[float, float]:
        """Mean return of the new and of the old policy, by simulation."""
        means = []
        for k, policy in enumerate((self.pi_e, self.pi_b)):
            rng = np.random.default_rng([self.seed, k])
            lengths = _simulate(TRUTH_EPISODES, policy.probs, self.centres, rng)[3]
            means.append(float(lengths.mean()))
        return means[0], means[1]

    def sample(self, seed: int | np.random.SeedSequence) -> Trajectories:
        """A log of the old policy: one for every step that the pole stands, sixty at most."""
        rng = np.random.default_rng(seed)
        states, actions, propensities, lengths, _ = _simulate(
            self.episodes, self.pi_b.probs, self.centres, rng
        )
        alive = np.arange(STEPS) < lengths[:, None]
        return Trajectories(
            states[alive],
            actions[alive],
            np.ones(int(lengths.sum())),
            np.concatenate([[0], np.cumsum(lengths)]),
            propensities=propensities[alive],
            time_limit=STEPS,
        )


def _simulate(
    episodes: int, probs: FloatArray, centres: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray, FloatArray, IntArray, FloatArray]:
    """Cells, actions and propensities (episodes, steps), lengths, and all positions that were met."""
    x = rng.uniform(-0.05, 0.05, size=(episodes, 4))
    states, actions = (np.zeros((episodes, STEPS), dtype=np.int64) for _ in range(2))
    propensities, alive = np.ones((episodes, STEPS)), np.ones(episodes, dtype=bool)
    lengths, met = np.zeros(episodes, dtype=np.int64), []
    for t in range(STEPS):
        met.append(x[alive])
        states[:, t] = _nearest(x, centres)
        actions[:, t] = rng.random(episodes) < probs[states[:, t], 1]
        propensities[:, t] = probs[states[:, t], actions[:, t]]
        lengths += alive
        x = _step(x, actions[:, t])
        alive &= (np.abs(x[:, 0]) < 2.4) & (np.abs(x[:, 2]) < 0.2095)
    return states, actions, propensities, lengths, np.concatenate(met)


def _nearest(x: FloatArray, centres: FloatArray) -> IntArray:
    """(m,) the nearest centre."""
    distance = np.square(centres).sum(axis=1) - 2.0 * x @ centres.T
    nearest: IntArray = distance.argmin(axis=1)
    return nearest


def _step(x: FloatArray, actions: IntArray) -> FloatArray:
    """One fiftieth of a second: a cart of 1 kg, a pole of 0.1 kg and half a metre, a push of 10 N."""
    position, speed, angle, turning = x.T
    force = np.where(actions == 1, 10.0, -10.0)
    sine, cosine = np.sin(angle), np.cos(angle)
    pushed = (force + 0.05 * np.square(turning) * sine) / 1.1
    spin = (9.8 * sine - cosine * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * np.square(cosine) / 1.1))
    drive = pushed - 0.05 * spin * cosine / 1.1
    return np.column_stack(
        [position + 0.02 * speed, speed + 0.02 * drive, angle + 0.02 * turning, turning + 0.02 * spin]
    )


# --- Action values that are bad on purpose

MODEL_CELLS = 50
ROUNDS = 15


@dataclass(frozen=True, eq=False, kw_only=True)
class Redescribed(Rows):
    """Rows with other features than those of the log."""

    other: FloatArray

    @cached_property
    def x(self) -> FloatArray:
        """(n + episodes, d) the other features."""
        return self.other


@dataclass(frozen=True)
class OtherFeatures(RowLearner):
    """Linear action values in other columns than those of the log.

    Attributes:
      describe: from the features of all rows to other columns.
      basis: as in `LinearQ`.
    """

    describe: Callable[[FloatArray], FloatArray]
    basis: Literal["bumps", "linear"]

    def fit(self, rows: Rows) -> RowValues:
        """Action values of every row."""
        known = {field.name: getattr(rows, field.name) for field in fields(rows)}
        return LinearQ(basis=self.basis).fit(Redescribed(**known, other=self.describe(rows.x)))


def in_cells(log: Trajectories, seed: int) -> OtherFeatures:
    """Values that are constant in each of fifty cells, found by k-means."""

    def cells(x: FloatArray) -> FloatArray:
        z = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
        centres = z[np.random.default_rng(seed).choice(len(z), MODEL_CELLS, replace=False)]
        for _ in range(ROUNDS):
            nearest = _nearest(z, centres)
            for cell in np.unique(nearest):
                centres[cell] = z[nearest == cell].mean(axis=0)
        indicators: FloatArray = np.eye(MODEL_CELLS)[_nearest(z, centres)][:, 1:]
        return indicators

    return OtherFeatures(cells, "linear")


def irrelevant(log: Trajectories, seed: int) -> OtherFeatures:
    """Values learned from one feature that means nothing."""
    return OtherFeatures(lambda x: np.random.default_rng(seed).standard_normal((len(x), 1)), "bumps")


def noise_q(log: Trajectories, seed: int, size: float = 1.0) -> GivenQ:
    """Pure noise, `size` times as large as returns are."""
    q = size * _spread(log) * np.random.default_rng(seed).standard_normal((log.n_steps, log.n_actions))
    return GivenQ(q, last=np.zeros((log.n_episodes, log.n_actions)))


def little_noise(log: Trajectories, seed: int) -> GivenQ:
    """Noise of a tenth of the spread of returns."""
    return noise_q(log, seed, 0.1)


def much_noise(log: Trajectories, seed: int) -> GivenQ:
    """Noise of twice the spread of returns."""
    return noise_q(log, seed, 2.0)


def smooth_q(log: Trajectories, seed: int) -> GivenQ:
    """A smooth random function of the features, as large as returns are."""
    assert log.features is not None, "cells have features"
    assert log.last_features is not None, "they come with features"
    basis = Bumps.fitted(log.features, 30, seed)
    weights = np.random.default_rng(seed).standard_normal((basis.size, log.n_actions))
    weights[0] = 0.0
    scale = _spread(log) / (basis.of(log.features) @ weights).std()
    last = basis.of(np.nan_to_num(log.last_features)) @ weights
    return GivenQ(scale * (basis.of(log.features) @ weights), last=scale * last)


def _spread(log: Trajectories) -> float:
    return float(np.add.reduceat(log.rewards, log.offsets[:-1]).std())


BAD_MODELS: dict[str, Callable[[Trajectories, int], RowLearner]] = {
    "50 cells": in_cells,
    "irrelevant feature": irrelevant,
    "little noise": little_noise,
    "much noise": much_noise,
    "smooth": smooth_q,
}
