"""Problems of the kinds that real logs have, and simulated ones seldom.

Doses add up, actions pay later or tire, hardly a pair of state and action is seen twice, features interact,
rewards have heavy tails, the decisive episodes are rare, and the old policy saw what the log does not show.
What is hidden is a part of the exact problem's state, so that every truth is exact. Most cells may be looked
at while a rule is chosen; the others are of the same kinds, with other parameters, and confirm it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from deadweight.domains import stochastic_lift
from deadweight.log.policies import FeaturePolicy, TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.problem import FeatureProblem, Logistic, Problem, as_policy
from deadweight.mdp.tabular import TabularMDP
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight_studies.problems import (
    StudyProblem,
    endless,
    frailty,
    late_reward,
    previous_action,
    random_problem,
    with_policies,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Kind = Literal[
    "well specified", "not Markov", "confounded", "features", "heavy tails", "few episodes", "exception"
]
# A slip of a graph's step goes to the other state.
SLIP = 0.25
# Levels of a feature on either side of zero.
SIDES = (-1.75, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 1.75)


@dataclass(frozen=True)
class Cell:
    """A task of a study.

    Attributes:
      task: what a `StudyProblem` offers.
      tuned: whether a rule was chosen on it.
      kind: what is hard about it; of an *exception* it is known that no rule here can be right.
    """

    task: Any
    tuned: bool
    kind: Kind


Tasks = dict[Kind, list[Any]]
# Of a graph's policies: probabilities of the upper and the lower action.
GRAPH_E, GRAPH_B = (0.8, 0.2), (0.6, 0.4)


def real_cells() -> list[Cell]:
    """All cells of these kinds, those that may be looked at first.

    New ones are put last: a cell's seeds depend on its place.
    """
    sets = ((True, _seen()), (True, _also_seen()), (False, _fresh()))
    return [
        Cell(task, tuned, kind) for tuned, kinds in sets for kind, tasks in kinds.items() for task in tasks
    ]


def _seen() -> Tasks:
    """Tasks that rules may be chosen on."""
    return {
        "not Markov": [
            toxic_dose("toxic dose", 4, horizon=25, seed=51, episodes=400),
            pays_later("pays 5 later", 4, 5, horizon=20, seed=52, episodes=300),
            pays_later("pays 12 later", 3, 12, horizon=25, seed=53, episodes=300),
            fatigue("fatigue", 4, 0.8, horizon=20, seed=54, episodes=400),
            graph("graph, labels in groups", 8, GRAPH_E, GRAPH_B, 256, labels=4, slips=True, at_end=True),
        ],
        "well specified": [
            seen_once("seen once, 200 x 10", 200, 10, 1, seed=55, episodes=400),
            seen_once("seen once, 2 x 100 x 8", 100, 8, 2, seed=56, episodes=350),
        ],
        "features": [
            InFeatures("xor of features", 2, SIDES, steps=5, episodes=300, signs=True),
            InFeatures("interaction of features", 2, (-1.5, -0.5, 0.5, 1.5), steps=3, episodes=300),
        ],
        "heavy tails": [
            heavy_tails("lognormal rewards", 6, 3, 1, LogNormal(1.5), seed=57, episodes=300),
            heavy_tails("lognormal rewards, 5 steps", 8, 2, 5, LogNormal(1.3), seed=58, episodes=300),
        ],
        "few episodes": [model_fail(32), model_fail(128)],
        "confounded": [
            Confounded(severity("severity seen by the old policy", 3, horizon=5, seed=59, episodes=500))
        ],
        "exception": [parity("parity of past actions", 3, horizon=12, seed=60, episodes=400)],
    }


def _also_seen() -> Tasks:
    """Further ones of these, with other parameters."""
    return {
        "not Markov": [
            toxic_dose("toxic dose, other ward", 6, horizon=25, seed=61, episodes=300, dose=(0.3, 0.55)),
            toxic_dose("toxic dose, square", 5, horizon=25, seed=62, episodes=500, square=True),
            pays_later("pays 5 later, other", 6, 5, horizon=15, seed=63, episodes=400),
            pays_later("pays 12 later, other", 4, 12, horizon=30, seed=64, episodes=250),
            fatigue("fatigue, slow", 5, 0.9, horizon=25, seed=65, episodes=350),
            graph("long graph, labels in groups", 16, GRAPH_E, GRAPH_B, 512, labels=6, slips=True),
        ],
        "well specified": [
            seen_once("seen once, 300 x 6", 300, 6, 1, seed=66, episodes=350),
            seen_once("seen once, 2 x 60 x 10", 60, 10, 2, seed=67, episodes=300),
            graph("graph", 4, GRAPH_E, GRAPH_B, 128, noisy=True),
            graph("long graph", 16, GRAPH_E, GRAPH_B, 256, slips=True, at_end=True, noisy=True),
            model_win(256),
        ],
        "features": [
            InFeatures("xor of features, 6 steps", 2, SIDES, steps=6, episodes=250, signs=True),
            InFeatures("interaction of three features", 3, (-1.0, 0.0, 1.0), steps=1, episodes=500),
        ],
        "heavy tails": [
            heavy_tails("Pareto rewards", 5, 3, 1, Pareto(2.3), seed=68, episodes=400),
            heavy_tails("lognormal rewards, 5 other steps", 5, 3, 5, LogNormal(1.6), seed=69, episodes=250),
        ],
        "few episodes": [model_fail(64), model_fail(256), model_fail(512)],
        "confounded": [Confounded(two_weeks(2000), said=True)],
        "exception": [unsaid_clusters("unsaid clusters of 20", seed=70, episodes=400)],
    }


def _fresh() -> Tasks:
    """Tasks on which no rule was chosen."""
    return {
        "not Markov": [
            toxic_dose("toxic dose, short", 3, horizon=12, seed=81, episodes=350),
            toxic_dose("toxic dose, few more", 4, horizon=20, seed=82, episodes=400, dose=(0.4, 0.5)),
            pays_later("pays 8 later", 5, 8, horizon=22, seed=83, episodes=350),
            pays_later("pays 4 later, few episodes", 4, 4, horizon=16, seed=84, episodes=120),
            fatigue("fatigue, short", 6, 0.7, horizon=12, seed=85, episodes=300),
            fatigue("fatigue, long", 3, 0.85, horizon=30, seed=86, episodes=500),
            graph("graph, six labels", 10, (0.75, 0.25), (0.5, 0.5), 300, labels=6, slips=True),
            frailty("hidden frailty, 10 x 2", 10, 2, horizon=15, seed=87, episodes=350),
            previous_action("previous action pays, 7 x 3", 7, 3, horizon=8, seed=88, episodes=350),
        ],
        "well specified": [
            seen_once("seen once, 150 x 12", 150, 12, 1, seed=89, episodes=450),
            seen_once("seen once, 3 x 60 x 6", 60, 6, 3, seed=90, episodes=300),
            StudyProblem("random 12 x 4", random_problem(12, 4, 12, seed=91), 300),
            StudyProblem("random 50 x 3", random_problem(50, 3, 20, seed=92), 400),
            StudyProblem("late reward, 25 x 2", late_reward(25, 2, seed=93), 300),
            StudyProblem("fixed horizon, 8 x 5", endless(8, 5, horizon=10, seed=94), 200),
            StudyProblem("stochastic lift 13, uncut", stochastic_lift(13), 1000),
        ],
        "features": [
            InFeatures("xor of features, 4 steps", 2, SIDES, steps=4, episodes=400, signs=True),
            InFeatures("interaction, 6 steps", 2, (-1.5, -0.5, 0.5, 1.5), steps=6, episodes=200),
        ],
        "heavy tails": [
            heavy_tails("lognormal rewards, 3 steps", 7, 3, 3, LogNormal(1.4), seed=95, episodes=350),
            heavy_tails("Pareto rewards, 4 steps", 6, 2, 4, Pareto(2.5), seed=96, episodes=300),
        ],
        "few episodes": [model_fail(48), model_fail(192)],
        "confounded": [
            Confounded(severity("severity, 4 states", 4, horizon=8, seed=97, episodes=400)),
        ],
    }


def real_problems(names: Sequence[str]) -> list[StudyProblem]:
    """Problems by name, which have nothing but what is hidden to set them apart from other problems."""
    known = {cell.task.name: cell.task for cell in real_cells() if isinstance(cell.task, StudyProblem)}
    return [known[name] for name in names]


def with_memory(
    name: str,
    moves: FloatArray,
    memory: Callable[[int, int], csr_array],
    r: FloatArray,
    policies: tuple[FloatArray, FloatArray],
    horizon: int,
    episodes: int,
) -> StudyProblem:
    """A problem whose state has a shown part v and a hidden one h, which never touches what is shown.

    Args:
      name, horizon, episodes: as they say.
      moves: (V, A, V) of the shown part.
      memory: of v and a, (H, H) moves of the hidden part, which begins in 0.
      r: (V, H, A) rewards.
      policies: (V, A) pi_e and pi_b.
    """
    from scipy import sparse

    n_shown, n_hidden, n_actions = r.shape
    pairs = product(range(n_shown), range(n_actions))
    blocks = [sparse.kron(moves[v, a][None], memory(v, a), format="csr") for v, a in pairs]
    # Rows come as (v, a, h); they are wanted as (v, h, a).
    order = np.arange(r.size).reshape(n_shown, n_actions, n_hidden).transpose(0, 2, 1).ravel()
    goes_on = sparse.csr_array(sparse.vstack(blocks, format="csr")[order])
    P = sparse.csr_array(sparse.hstack([goes_on, sparse.csr_array((r.size, 1))], format="csr"))
    d0 = np.zeros((n_shown, n_hidden))
    d0[:, 0] = 1.0 / n_shown
    mdp = TabularMDP(P, r.reshape(-1, n_actions), d0.ravel(), horizon)
    shown = np.repeat(np.arange(n_shown), n_hidden)
    pi_e, pi_b = (as_policy(policy[shown], mdp) for policy in policies)
    return StudyProblem(name, Problem(name, mdp, pi_e, pi_b), episodes, shown)


def toxic_dose(
    name: str,
    n_states: int,
    horizon: int,
    seed: int,
    episodes: int,
    dose: tuple[float, float] = (0.4, 0.65),
    square: bool = False,
) -> StudyProblem:
    """Every dose does good at once, and all doses so far, which no state shows, do harm at every step.

    The harm is in proportion to their number, or to its `square`; `dose` is how often pi_b and pi_e give one.
    A model, and a short window, see the good alone: pi_e doses more, and is worse.
    """
    from scipy import sparse

    moves, base, leaning = _ward(n_states, seed)
    given = np.arange(horizon + 1.0)
    harm = 0.05 * (given**2 / 15.0 if square else given)
    r = base[:, None, None] - harm[:, None] + 0.3 * np.arange(2)

    def memory(v: int, a: int) -> csr_array:
        after = np.minimum(np.arange(horizon + 1) + a, horizon)
        return sparse.csr_array(np.eye(horizon + 1)[after])

    old, new = (_shares(np.full(n_states, share) + 0.1 * leaning) for share in dose)
    return with_memory(name, moves, memory, r, (new, old), horizon, episodes)


def pays_later(name: str, n_states: int, later: int, horizon: int, seed: int, episodes: int) -> StudyProblem:
    """What an action earns comes `later` steps after it; what it costs comes at once, and is less.

    In each state one action earns with a chance of .9, the other with .1. What is to come is hidden: a row of
    bits, one a step, of which the last is paid.
    """
    from scipy import sparse

    moves, base, _ = _ward(n_states, seed)
    good = np.random.default_rng([seed, 1]).integers(2, size=n_states)
    size = 2**later
    bits = np.arange(size)
    r = np.zeros((n_states, size, 2)) + base[:, None, None] + (bits >> (later - 1))[:, None]
    r[np.arange(n_states), :, good] -= 0.3

    def memory(v: int, a: int) -> csr_array:
        chance = 0.9 if a == good[v] else 0.1
        after = (2 * bits) % size
        weights = np.repeat([1.0 - chance, chance], size)
        where = (np.tile(bits, 2), np.concatenate([after, after + 1]))
        return sparse.csr_array((weights, where), shape=(size, size))

    towards = 2.0 * good - 1.0
    policies = _shares(0.5 + 0.2 * towards), _shares(0.5 - 0.1 * towards)
    return with_memory(name, moves, memory, r, policies, horizon, episodes)


def fatigue(name: str, n_states: int, stays: float, horizon: int, seed: int, episodes: int) -> StudyProblem:
    """Effort earns at once and leaves a unit of fatigue, which goes with a chance of 1 - `stays` a step.

    Every unit costs at every step, so that the mean harm of an effort decays geometrically.
    """
    from scipy import sparse

    moves, base, leaning = _ward(n_states, seed)
    units = np.arange(horizon + 1)
    cost = 0.6 * (1.0 - stays)  # a step; twice what the effort earns, in all
    r = base[:, None, None] - cost * units[:, None] + 0.3 * np.arange(2)
    left = np.eye(1, horizon + 1)  # of so many units: binomial, a row for each number
    for _ in range(horizon):
        one_more = (1.0 - stays) * left[-1] + stays * np.append(0.0, left[-1, :-1])
        left = np.vstack([left, one_more])

    def memory(v: int, a: int) -> csr_array:
        after = np.zeros_like(left)
        after[:, a:] = left[:, : horizon + 1 - a]
        after[:, -1] += 1.0 - after.sum(axis=1)
        return sparse.csr_array(np.maximum(after, 0.0))

    policies = _shares(0.65 + 0.1 * leaning), _shares(0.4 + 0.1 * leaning)
    return with_memory(name, moves, memory, r, policies, horizon, episodes)


def parity(name: str, n_states: int, horizon: int, seed: int, episodes: int) -> StudyProblem:
    """One is earned if of the actions three and five steps ago just one was the second: nothing adds up.

    Under pi_b, which tosses a coin, neither of the two says anything by itself.
    """
    from scipy import sparse

    moves, base, _ = _ward(n_states, seed)
    bits = np.arange(32)
    earned = (bits >> 2 ^ bits >> 4) & 1
    r = np.zeros((n_states, 32, 2)) + base[:, None, None] + earned[:, None]

    def memory(v: int, a: int) -> csr_array:
        return sparse.csr_array(np.eye(32)[(2 * bits + a) % 32])

    policies = _shares(np.full(n_states, 0.85)), _shares(np.full(n_states, 0.5))
    return with_memory(name, moves, memory, r, policies, horizon, episodes)


def severity(name: str, n_states: int, horizon: int, seed: int, episodes: int) -> StudyProblem:
    """Half of the episodes are severe from first to last, which costs, and was seen by those who treated.

    Treatment does a little harm, and was given to the mild.
    """
    from scipy import sparse

    moves, base, leaning = _ward(n_states, seed)
    r = base[:, None, None] - 1.0 * np.arange(2)[:, None] - 0.1 * np.arange(2)
    policies = (_shares(0.8 + 0.1 * leaning),) * 2
    stays = sparse.csr_array(np.eye(2))
    cell = with_memory(name, moves, lambda v, a: stays, r, policies, horizon, episodes)
    return _started(cell, np.full((n_states, 2), 0.5 / n_states), _shares([0.7, 0.2] * n_states))


def two_weeks(episodes: int) -> StudyProblem:
    """One choice, whose second option is worse by .05; in the better week it was taken far more often."""
    r = np.array([[0.2, 0.15], [0.8, 0.75]])
    P = np.zeros((2, 2, 3))
    P[:, :, -1] = 1.0
    mdp = TabularMDP(P, r, [0.5, 0.5])
    pi_e, pi_b = (as_policy(_shares(share), mdp) for share in ((0.9, 0.9), (0.1, 0.9)))
    problem = Problem("two weeks", mdp, pi_e, pi_b)
    return StudyProblem(problem.name, problem, episodes, np.zeros(2, dtype=np.int64), noise=Normal(0.3))


@dataclass(frozen=True)
class Confounded:
    """A problem with a hidden part of two values, 0 and 1, that the old policy saw.

    Attributes:
      cell: the problem; its pi_b depends on all of the state.
      said: whether the log says which value an episode has, as which of two old policies acted. Otherwise
        propensities are all that is known of pi_b.
    """

    cell: StudyProblem
    said: bool = False

    @property
    def name(self) -> str:
        """That of the problem."""
        return self.cell.name

    @property
    def episodes(self) -> int:
        """The size of a log."""
        return self.cell.episodes

    @property
    def pi_e(self) -> TabularPolicy:
        """The new policy, which sees what is shown."""
        return self.cell.pi_e

    @property
    def pi_b(self) -> Mapping[int, TabularPolicy] | None:
        """The old policy of either value by what is shown; None where the log has propensities only."""
        if not self.said:
            return None
        probs = self.cell.problem.pi_b.probs
        return {k: TabularPolicy(probs[k::2], states=range(len(probs) // 2)) for k in range(2)}

    @property
    def values(self) -> tuple[float, float]:
        """The exact values of the new policy, and of how the log was made."""
        return self.cell.values

    def sample(self, seed: int | np.random.SeedSequence) -> Trajectories:
        """A log of the old policy, which saw everything."""
        if not self.said:
            return self.cell.sample(seed)
        of_log, of_noise = (np.random.SeedSequence(seed) if isinstance(seed, int) else seed).spawn(2)
        log = self.cell.problem.sample(self.episodes, of_log)
        noise = self.cell.noise
        rewards = log.rewards if noise is None else noise(log, np.random.default_rng(of_noise))
        return self.cell.as_shown(log, rewards, log.states[log.offsets[:-1]] % 2)


@dataclass(frozen=True)
class Normal:
    """Rewards with normal noise of this standard deviation."""

    deviation: float

    def __call__(self, log: Trajectories, rng: np.random.Generator) -> FloatArray:
        """(steps,) rewards."""
        return log.rewards + self.deviation * rng.standard_normal(log.n_steps)


@dataclass(frozen=True)
class LogNormal:
    """Rewards times a lognormal number with mean 1 and this standard deviation of the logarithm."""

    spread: float

    def __call__(self, log: Trajectories, rng: np.random.Generator) -> FloatArray:
        """(steps,) rewards."""
        drawn = rng.standard_normal(log.n_steps)
        rewards: FloatArray = log.rewards * np.exp(self.spread * drawn - self.spread**2 / 2)
        return rewards


@dataclass(frozen=True)
class Pareto:
    """Rewards times a number with mean 1 and tails that fall like this power, which is above 2."""

    power: float

    def __call__(self, log: Trajectories, rng: np.random.Generator) -> FloatArray:
        """(steps,) rewards."""
        drawn = 1.0 + rng.pareto(self.power, log.n_steps)
        return log.rewards * drawn * (self.power - 1.0) / self.power


@dataclass(frozen=True)
class Together:
    """So many neighbouring episodes share one normal shift of their last reward, and nobody says so."""

    size: int
    deviation: float

    def __call__(self, log: Trajectories, rng: np.random.Generator) -> FloatArray:
        """(steps,) rewards."""
        shifts = self.deviation * rng.standard_normal(-(-log.n_episodes // self.size))
        rewards = log.rewards.copy()
        rewards[log.offsets[1:] - 1] += np.repeat(shifts, self.size)[: log.n_episodes]
        return rewards


def seen_once(name: str, n_states: int, n_actions: int, steps: int, seed: int, episodes: int) -> StudyProblem:
    """So many states at each of so few steps that hardly a pair of state and action comes twice."""
    rng = np.random.default_rng(seed)
    size = steps * n_states
    P = np.zeros((size, n_actions, size + 1))
    for s in range(size):
        for a in range(n_actions):
            if s < size - n_states:
                onwards = (s // n_states + 1) * n_states + rng.choice(n_states, size=5, replace=False)
                P[s, a, onwards] = rng.dirichlet(np.ones(5))
            else:
                P[s, a, -1] = 1.0
    d0 = np.zeros(size)
    d0[:n_states] = 1.0 / n_states
    r = rng.normal(size=(size, 1)) + 0.5 * rng.normal(size=(size, n_actions))
    problem = with_policies(name, TabularMDP(P, r, d0), steps, rng)
    return StudyProblem(name, problem, episodes, noise=Normal(1.0))


def heavy_tails(
    name: str, n_states: int, n_actions: int, steps: int, noise: LogNormal | Pareto, seed: int, episodes: int
) -> StudyProblem:
    """Positive rewards over a few steps, times noise with heavy tails."""
    mdp = endless(n_states, n_actions, steps, seed).mdp
    positive = TabularMDP(mdp.P, 0.2 + np.abs(mdp.r), mdp.d0, steps)
    problem = with_policies(name, positive, steps, np.random.default_rng([seed, 1]))
    return StudyProblem(name, problem, episodes, noise=noise)


def unsaid_clusters(name: str, seed: int, episodes: int) -> StudyProblem:
    """A plain problem in which twenty neighbouring episodes are of one person, and nobody says so."""
    return StudyProblem(name, endless(8, 3, 8, seed), episodes, noise=Together(20, 3.0))


def graph(
    name: str,
    length: int,
    pi_e: tuple[float, float],
    pi_b: tuple[float, float],
    episodes: int,
    labels: int | None = None,
    slips: bool = False,
    at_end: bool = False,
    noisy: bool = False,
) -> StudyProblem:
    """Two states a step, an upper and a lower one, to which the two actions lead; `length` steps in all.

    Arriving above earns 1, below -1, and so does the end of the last step, whatever is done there; with
    `at_end` nothing else is paid. With `slips` every fourth step goes to the other state, and with `noisy`
    rewards have a standard deviation of 1. With `labels` neighbouring states share one of so many labels.

    Reference: Voloshin, Le, Jiang & Yue (2021), Graph and Graph-POMDP.
    """
    size = 2 * length - 1  # the start, and two states for each step after it
    P, R = np.zeros((size, 2, size + 1)), np.zeros((size, 2, size + 1))
    sign = np.where(np.arange(size) % 2 == 1, 1.0, -1.0)
    slip = SLIP if slips else 0.0
    for s in range(size - 2):
        upper = s + 1 + s % 2
        for a in range(2):
            P[s, a, upper + a], P[s, a, upper + 1 - a] = 1.0 - slip, slip
    if not at_end:
        R[:, :, :-1] = sign
    P[-2:, :, -1] = 1.0
    R[-2:, :, -1] = sign[-2:, None]
    mdp = TabularMDP(P, R, np.eye(size)[0])
    new, old = (as_policy(np.tile(policy, (size, 1)), mdp) for policy in (pi_e, pi_b))
    shown = None if labels is None else (np.arange(size) * labels) // size
    noise = Normal(1.0) if noisy else None
    return StudyProblem(name, Problem(name, mdp, new, old), episodes, shown, noise=noise)


def model_fail(episodes: int) -> StudyProblem:
    """Two steps in one visible state; the first action decides what the second step pays, 1 or -1.

    Reference: Thomas & Brunskill (2016), ModelFail.
    """
    return graph("ModelFail", 2, (0.12, 0.88), (0.88, 0.12), episodes, labels=1, at_end=True)


def model_win(episodes: int) -> StudyProblem:
    """Twenty steps: a choice that wins or loses one by chance, and a way back on which nothing matters.

    Reference: Thomas & Brunskill (2016), ModelWin.
    """
    P, R = np.zeros((3, 2, 4)), np.zeros((3, 2, 4))
    P[0, :, 1:3] = [[0.4, 0.6], [0.6, 0.4]]
    R[0, :, 1:3] = 1.0, -1.0
    P[1:, :, 0] = 1.0
    mdp = TabularMDP(P, R, [1.0, 0.0, 0.0], 20)
    pi_e, pi_b = (as_policy(np.tile(policy, (3, 1)), mdp) for policy in ((0.27, 0.73), (0.73, 0.27)))
    return StudyProblem("ModelWin", Problem("ModelWin", mdp, pi_e, pi_b), episodes)


@dataclass(frozen=True)
class InFeatures:
    """Features drawn anew at every step, of which the product of the first few decides which action pays.

    Attributes:
      name, episodes: as they say.
      order: how many features are multiplied.
      levels: what each feature may be, all equally often.
      signs: whether their signs are multiplied, and not they: an xor of two.
      steps: of an episode.
      others: further features; the first of them earns a little by itself.
    """

    name: str
    order: int
    levels: tuple[float, ...]
    steps: int
    episodes: int
    others: int = 1
    signs: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One for each column."""
        return tuple(f"x{j}" for j in range(self.order + self.others))

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the two actions."""
        return ("minus", "plus")

    @cached_property
    def problem(self) -> FeatureProblem:
        """The two policies in this world: the new one knows the product, the old one hardly anything."""
        weights = ((0.3, -0.3),) + ((0.0, 0.0),) * (self.order - 1) + ((0.2, -0.2),)
        return FeatureProblem(self.name, self, self.knowing, Logistic(weights, (0.0, 0.0)), self.steps)

    def knowing(self, x: FloatArray) -> FloatArray:
        """(m, 2) probabilities that lean towards the action that pays."""
        return _shares(1.0 / (1.0 + np.exp(-1.2 * self._product(x))))

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """(episodes, features) drawn at random."""
        return rng.choice(self.levels, (episodes, len(self.feature_names)))

    def step(
        self, x: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Features drawn anew; an episode of one step ends by itself."""
        rewards = self.paid(x)[np.arange(len(x)), action] + 0.5 * rng.standard_normal(len(x))
        return self.start(len(x), rng), rewards, np.full(len(x), self.steps == 1)

    def paid(self, x: FloatArray) -> FloatArray:
        """(m, 2) mean rewards."""
        paid = self._product(x)[:, None] * np.array([-1.0, 1.0])
        return np.asarray(paid + 0.3 * x[:, self.order, None])

    def _product(self, x: FloatArray) -> FloatArray:
        chosen = x[:, : self.order]
        return np.asarray((np.sign(chosen) if self.signs else chosen).prod(axis=1))

    @property
    def pi_e(self) -> FeaturePolicy:
        """The new policy."""
        return self.problem.pi_e

    @property
    def pi_b(self) -> FeaturePolicy | None:
        """The old policy."""
        return self.problem.pi_b

    @cached_property
    def values(self) -> tuple[float, float]:
        """The exact values of both policies: a sum over all that the features may be."""
        x = np.array(list(product(self.levels, repeat=len(self.feature_names))))
        acts: tuple[Any, Any] = (self.problem.evaluation, self.problem.behaviour)
        new, old = (self.steps * float((act(x) * self.paid(x)).sum(axis=1).mean()) for act in acts)
        return new, old

    def sample(self, seed: int | np.random.SeedSequence) -> Trajectories:
        """A log of the old policy."""
        return self.problem.sample(self.episodes, seed)


def _ward(n_states: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Moves that no action changes, what a state pays, and by how much policies differ in it, -1 to 1."""
    rng = np.random.default_rng(seed)
    moves = np.repeat(rng.dirichlet(np.ones(n_states), n_states)[:, None], 2, axis=1)
    return moves, rng.normal(size=n_states), rng.uniform(-1.0, 1.0, size=n_states)


def _shares(second: Any) -> FloatArray:
    """(S, 2) probabilities from those of the second action."""
    probs = np.asarray(second, dtype=np.float64)
    return np.column_stack([1.0 - probs, probs])


def _started(cell: StudyProblem, d0: FloatArray, pi_b: FloatArray) -> StudyProblem:
    """The problem with another start, and with an old policy that sees all of the state."""
    old = cell.problem.mdp
    mdp = TabularMDP(old.P, old.r, d0.ravel(), old.horizon)
    return replace(cell, problem=replace(cell.problem, mdp=mdp, pi_b=as_policy(pi_b, mdp)))
