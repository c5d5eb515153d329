"""FeatureProblem: a simulated world with the two policies of an off-policy question, and its answer.

States are rows of numbers, so there is no exact value: `true_value` is the mean of many simulated returns of
pi_e, always the same ones, and `true_value_error` its standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.domains.rollout import Act, World, returns, rollout
from deadweight.errors import OptionError
from deadweight.log.trajectories import Trajectories
from deadweight.policy.row_policies import FeaturePolicy
from deadweight.typing import FloatArray

TRUTH_EPISODES = 100_000
TRUTH_SEED = 20_240_601


@dataclass(frozen=True)
class Logistic:
    """Action probabilities by a softmax of linear scores, (m, d) -> (m, A).

    Attributes:
      weights: (d, A), a row for each of the first d features; it does not look at others.
      bias: (A,).
    """

    weights: tuple[tuple[float, ...], ...]
    bias: tuple[float, ...]

    def __call__(self, x: FloatArray) -> FloatArray:
        """(m, A) probabilities."""
        scores = x[:, : len(self.weights)] @ np.array(self.weights) + np.array(self.bias)
        scores -= scores.max(axis=1, keepdims=True)
        odds = np.exp(scores)
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


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
        """Its standard error."""
        return _error(self._returns)

    @property
    def behaviour_value(self) -> float:
        """The value of pi_b, likewise."""
        return float(self._behaviour_returns.mean())

    @property
    def behaviour_value_error(self) -> float:
        """Its standard error."""
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
