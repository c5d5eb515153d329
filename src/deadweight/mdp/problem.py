"""Problem: an MDP or a simulated world, the two policies of an off-policy question, and its answer.

Episodes are drawn all together: one step costs two vectorised draws (action, transition) for all that are
still alive, so the cost of Python is paid once a step instead of once an episode and step.

A `World` has states that are rows of numbers: it says where episodes start and what a step does. There is no
exact value then: the true value of a `FeatureProblem` is the mean of many simulated returns of pi_e, always
the same ones, and has a standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from deadweight.errors import OptionError, PolicyError
from deadweight.log.policies import FeaturePolicy, TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import (
    TabularMDP,
    average_actions,
    check_terminates,
    checked_horizon,
    policy_table,
    policy_value,
    reached,
)
from deadweight.tools.arithmetic import softmax
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray

Act = Callable[[FloatArray], Any]
"""From rows of features (m, d) to probabilities (m, A)."""

TRUTH_EPISODES, TRUTH_SEED = 100_000, 20_240_601


class RowSampler:
    """Draws an entry from a row of a matrix of probabilities, for many rows at once.

    Inverse CDF with a guide table: row k's CDF is shifted to (k, k + 1], so that one sorted array serves
    all rows, and [k, k + 1) is cut into bins whose first possible entry is known. Few draws need to look
    further than that entry.

    Reference: Chen & Asau (1974).
    """

    def __init__(self, probs: FloatArray, indptr: AnyArray) -> None:
        lengths = np.diff(indptr)
        sums = np.cumsum(probs)
        within = sums - np.repeat(sums[indptr[:-1]] - probs[indptr[:-1]], lengths)
        # Dividing by the row's own last sum makes the end of row k exactly k + 1.
        within /= np.repeat(within[indptr[1:] - 1], lengths)
        self._cdf = within + np.repeat(np.arange(lengths.size), lengths)
        # A power of two of bins: their edges are exact, so no draw starts beyond its entry.
        self._bins = 2.0 ** np.ceil(np.log2(2.0 * lengths))
        size = self._bins.astype(np.int64)
        self._first_bin = np.cumsum(size) - size
        row = np.repeat(np.arange(size.size), size)
        edge = row + (np.arange(row.size) - self._first_bin[row]) / self._bins[row]
        self._guide = self._cdf.searchsorted(edge, side="right")

    def draw(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        """One entry (a position in `probs`) for each of the given rows; entries of probability 0 never."""
        u = rng.random(rows.size)
        entries: IntArray = self._guide[self._first_bin[rows] + (u * self._bins[rows]).astype(np.int64)]
        # k + u can round to k + 1, which belongs to the next row.
        u += rows
        np.minimum(u, np.nextafter(rows + 1.0, 0.0), out=u)
        beyond = np.flatnonzero(self._cdf[entries] <= u)
        while beyond.size:
            entries[beyond] += 1
            beyond = beyond[self._cdf[entries[beyond]] <= u[beyond]]
        return entries


def simulate(
    mdp: TabularMDP,
    pi: Any,
    episodes: int,
    seed: int | np.random.SeedSequence | np.random.Generator,
    horizon: int | None = None,
) -> Trajectories:
    """Episodes of pi in the MDP, with propensities.

    Args:
      mdp: the MDP.
      pi: the policy that acts: a `TabularPolicy` or (S, A) probabilities.
      episodes: how many.
      seed: the same seed gives the same log.
      horizon: steps after which an episode is cut; None takes the MDP's own or, when it has none, waits for
        termination.

    Returns:
      A log in which an episode cut at the horizon is not `terminated` and keeps its last successor.

    Example:
      >>> clock = TabularMDP(P=[[[1.0]]], R=[[1.0]], d0=[1.0])
      >>> simulate(clock, [[1.0]], episodes=3, seed=0, horizon=2)
      Trajectories(3 episodes, 6 steps, longest 2, 1 states, 1 actions, 3 truncated, propensities logged)
    """
    if episodes < 1:
        raise OptionError(
            f"episodes must be at least 1; found {episodes!r}.",
            fix="For example simulate(mdp, policy, 1000, seed=0).",
        )
    probs = policy_table(pi, mdp)
    limit = mdp.horizon if horizon is None else checked_horizon(horizon)
    if limit is None:
        chain = average_actions(mdp.P, probs)
        check_terminates(chain, reached(chain, mdp.d0))
    rng = np.random.default_rng(seed)
    live, pairs, entries, last = _roll(mdp, probs, episodes, rng, limit)

    lengths = np.bincount(np.concatenate(live), minlength=episodes)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # Step t of episode i goes to row offsets[i] + t.
    rows = np.concatenate([offsets[alive] + t for t, alive in enumerate(live)])
    pair = np.empty(rows.size, dtype=np.int64)
    pair[rows] = np.concatenate(pairs)
    if mdp.transition_rewards is None:
        rewards = mdp.r.ravel()[pair]
    else:
        rewards = np.empty(rows.size)
        rewards[rows] = mdp.transition_rewards[np.concatenate(entries)]
    states, actions = np.divmod(pair, mdp.n_actions)
    cut = last >= 0
    following = None
    if cut.any():
        following = np.append(states[1:], -1)
        following[offsets[1:] - 1] = last
    return Trajectories(
        states,
        actions,
        rewards,
        offsets,
        probs.ravel()[pair],
        terminated=~cut,
        next_states=following,
    )._limited_to(limit)


def _roll(
    mdp: TabularMDP, probs: FloatArray, episodes: int, rng: np.random.Generator, limit: int | None
) -> tuple[list[IntArray], list[IntArray], list[IntArray], IntArray]:
    """Per step the live episodes, their rows s*A + a and entries of P; then where each was cut off, or -1."""
    n_states, n_actions = probs.shape
    choose = RowSampler(probs.ravel(), np.arange(0, probs.size + 1, n_actions))
    move = RowSampler(mdp.P.data, mdp.P.indptr)
    start = RowSampler(mdp.d0, np.array([0, n_states]))
    alive = np.arange(episodes)
    state = start.draw(np.zeros(episodes, dtype=np.int64), rng)
    live: list[IntArray] = []
    pairs: list[IntArray] = []
    entries: list[IntArray] = []
    while alive.size and (limit is None or len(live) < limit):
        pair = choose.draw(state, rng)  # position s*A + a in the flat policy is the row of P
        entry = move.draw(pair, rng)
        live.append(alive)
        pairs.append(pair)
        entries.append(entry)
        state = mdp.P.indices[entry].astype(np.int64)
        stay = state < n_states
        if not stay.all():
            alive, state = alive[stay], state[stay]
    last = np.full(episodes, -1, dtype=np.int64)
    last[alive] = state
    return live, pairs, entries, last


@dataclass(frozen=True, eq=False)
class Problem:
    """What is the value of pi_e, seen through episodes of pi_b?

    Attributes:
      name: how reports call it.
      mdp: the exact MDP; its horizon is the problem's.
      pi_e, pi_b: evaluation and behaviour policy.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> problem = deterministic_lift(7)
      >>> problem.true_value, problem.behaviour_value
      (1.0, -4.0)
      >>> problem.sample(episodes=100, seed=0).n_episodes
      100
    """

    name: str
    mdp: TabularMDP
    pi_e: TabularPolicy
    pi_b: TabularPolicy

    @property
    def horizon(self) -> int | None:
        """Steps at which episodes are cut; None when they run until they terminate."""
        return self.mdp.horizon

    @cached_property
    def true_value(self) -> float:
        """The exact value of pi_e, undiscounted."""
        return policy_value(self.mdp, self.pi_e)

    @cached_property
    def behaviour_value(self) -> float:
        """The exact value of pi_b, undiscounted."""
        return policy_value(self.mdp, self.pi_b)

    def sample(self, episodes: int = 1000, seed: int | np.random.SeedSequence = 0) -> Trajectories:
        """A log of pi_b with its propensities."""
        return simulate(self.mdp, self.pi_b, episodes, seed)


def as_policy(policy: Any, mdp: TabularMDP) -> TabularPolicy:
    """A `TabularPolicy`, an (S, A) array or the path of an .npy file, as a policy of this MDP.

    States get their index as label, so that a short log that leaves out most of them is still read right.
    """
    if isinstance(policy, str | Path):
        path = Path(policy)
        try:
            policy = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise PolicyError(
                f"No policy could be read from '{path}': {error}.", fix="Give an .npy file of shape (S, A)."
            ) from None
    probs = policy_table(policy, mdp)
    if isinstance(policy, TabularPolicy) and policy.state_labels is not None:
        return policy
    return TabularPolicy(probs, states=range(mdp.n_states))


def uniform(mdp: TabularMDP) -> TabularPolicy:
    """The policy that takes every action equally often."""
    return as_policy(np.full(mdp.r.shape, 1.0 / mdp.n_actions), mdp)


# --- Worlds with features.


class World(Protocol):
    """A problem whose state is a row of d numbers."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the d columns."""

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions."""

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """(episodes, d) first states."""

    def step(
        self, x: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The states that follow, (m, d), the rewards, (m,), and which episodes have ended, (m,)."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The step at time t of the episodes that were alive."""

    t: int
    episodes: IntArray  # (m,) their numbers
    x: FloatArray  # (m, d)
    actions: IntArray  # (m,)
    probs: FloatArray  # (m,) of the actions taken
    rewards: FloatArray  # (m,)
    after: FloatArray  # (m, d)
    ended: BoolArray  # (m,)


def rollout(world: World, act: Act, episodes: int, horizon: int, rng: np.random.Generator) -> Iterator[Steps]:
    """Every step of a policy's episodes until all have ended or the horizon is reached."""
    x = world.start(episodes, rng)
    alive = np.arange(episodes)
    for t in range(horizon):
        table = np.asarray(act(x), dtype=np.float64)
        actions = drawn(table, rng)
        after, rewards, ended = world.step(x, actions, rng)
        yield Steps(t, alive, x, actions, table[np.arange(len(x)), actions], rewards, after, ended)
        alive, x = alive[~ended], after[~ended]
        if not alive.size:
            return


def drawn(table: FloatArray, rng: np.random.Generator) -> IntArray:
    """(m,) an action from each row of probabilities; one of probability 0 never."""
    cdf = np.cumsum(table, axis=1)
    u = rng.random(len(table)) * cdf[:, -1]
    return np.asarray((cdf <= u[:, None]).sum(axis=1))


def returns(world: World, act: Act, episodes: int, horizon: int, rng: np.random.Generator) -> FloatArray:
    """(episodes,) undiscounted returns of simulated episodes."""
    total = np.zeros(episodes)
    for step in rollout(world, act, episodes, horizon, rng):
        total[step.episodes] += step.rewards
    return total


@dataclass(frozen=True)
class Logistic:
    """Action probabilities by a softmax of linear scores of the first features, (m, d) -> (m, A)."""

    weights: tuple[tuple[float, ...], ...]  # a row for each of these features, a column for each action
    bias: tuple[float, ...]  # (A,)

    def __call__(self, x: FloatArray) -> FloatArray:
        """(m, A) probabilities."""
        return softmax(x[:, : len(self.weights)] @ np.array(self.weights) + np.array(self.bias))


@dataclass(frozen=True, eq=False)
class FeatureProblem:
    """What is the value of pi_e, seen through episodes of pi_b?

    Attributes:
      name: how reports call it.
      world: what a step does.
      evaluation, behaviour: pi_e and pi_b as functions from features, (m, d), to probabilities, (m, A).
      horizon: steps at which episodes are cut.
      hidden: so many of the last features are at work in the world and not in the log. pi_b sees them.

    Example:
      >>> from deadweight.domains import continuous_lift
      >>> problem = continuous_lift()
      >>> log = problem.sample(episodes=100, seed=0)
      >>> log.features.shape == (log.n_steps, 1)
      True
      >>> problem.true_value < 0 < problem.true_value_error < 0.02
      True
    """

    name: str
    world: World
    evaluation: Act
    behaviour: Act
    horizon: int
    hidden: int = 0

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features in the log."""
        names = self.world.feature_names
        return names[: len(names) - self.hidden]

    @property
    def pi_e(self) -> FeaturePolicy:
        """The evaluation policy, which sees what the log shows."""
        return FeaturePolicy(self.evaluation, actions=self.world.action_names)

    @property
    def pi_b(self) -> FeaturePolicy | None:
        """The behaviour policy; None if it sees more than the log shows: only propensities are right then."""
        return None if self.hidden else FeaturePolicy(self.behaviour, actions=self.world.action_names)

    @property
    def true_value(self) -> float:
        """The value of pi_e, undiscounted, as the mean of many simulated returns."""
        return float(self._returns.mean())

    @property
    def true_value_error(self) -> float:
        """The standard error of `true_value`."""
        return _error(self._returns)

    @property
    def behaviour_value(self) -> float:
        """The value of pi_b, undiscounted, from as many simulated returns."""
        return float(self._behaviour_returns.mean())

    @property
    def behaviour_value_error(self) -> float:
        """The standard error of `behaviour_value`."""
        return _error(self._behaviour_returns)

    @cached_property
    def _behaviour_returns(self) -> FloatArray:
        return self._simulated(self.behaviour)

    @cached_property
    def _returns(self) -> FloatArray:
        return self._simulated(lambda x: self.evaluation(self._shown(x)))

    def _simulated(self, act: Act) -> FloatArray:
        return returns(self.world, act, TRUTH_EPISODES, self.horizon, np.random.default_rng(TRUTH_SEED))

    def _shown(self, x: FloatArray) -> FloatArray:
        return x[:, : len(self.feature_names)]

    def sample(self, episodes: int = 1000, seed: int | np.random.SeedSequence = 0) -> Trajectories:
        """A log of pi_b with its propensities and, where it was cut, with what came next."""
        if episodes < 1:
            raise OptionError(
                f"episodes must be at least 1; found {episodes}.", fix="For example sample(1000, seed=0)."
            )
        rng = np.random.default_rng(seed)
        steps = list(rollout(self.world, self.behaviour, episodes, self.horizon, rng))
        order = np.argsort(np.concatenate([step.episodes for step in steps]), kind="stable")
        last = np.full((episodes, len(self.feature_names)), np.nan)
        final = steps[-1]
        cut = final.episodes[~final.ended] if final.t == self.horizon - 1 else final.episodes[:0]
        last[cut] = self._shown(final.after[~final.ended])[: len(cut)]
        terminated = np.ones(episodes, dtype=bool)
        terminated[cut] = False

        def column(name: str) -> Any:
            return np.concatenate([getattr(step, name) for step in steps])[order]

        lengths = np.bincount(column("episodes"), minlength=episodes)
        return Trajectories(
            None,
            np.array(self.world.action_names, dtype=object)[column("actions")],
            column("rewards"),
            np.concatenate([[0], np.cumsum(lengths)]),
            propensities=column("probs"),
            terminated=terminated,
            features=self._shown(column("x")),
            feature_names=self.feature_names,
            last_features=last,
        )._limited_to(self.horizon)


def _error(earned: FloatArray) -> float:
    return float(earned.std(ddof=1) / np.sqrt(len(earned)))
