"""Problems for the automatic drop: where it should help, and where a wrong model asks for too much of it.

The first were looked at while the rule was chosen, the last were not: nothing was tuned on them. Among both
are rewards for a past that the labels hide, hidden frailty, few episodes, late rewards, features cut into
fifty cells, and labels that mean nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from deadweight.domains import Problem, stochastic_lift
from deadweight.domains.problem import as_policy
from deadweight.log.trajectories import Trajectories
from deadweight.policy.policies import TabularPolicy
from deadweight.studies.cartpole import BinnedCartpole
from deadweight.studies.hard import endless, frailty, hard_problems, late_reward, previous_action
from deadweight.studies.headline_study import fresh_problems as headline_problems
from deadweight.studies.problems import (
    StudyProblem,
    conveyor_belt,
    hidden,
    machine_repair,
    random_problem,
    river,
    study_problems,
    windy_grid,
)


@dataclass(frozen=True)
class NoiseLabels:
    """A problem whose policies depend on nothing, and whose log shows random labels for its states.

    Attributes:
      name: how tables call it.
      problem: the exact problem.
      episodes: size of a log.
      labels: number of labels.
    """

    name: str
    problem: Problem
    episodes: int
    labels: int = 20

    @property
    def pi_e(self) -> TabularPolicy:
        """The same whatever the label says."""
        return self._for_labels(self.problem.pi_e)

    @property
    def pi_b(self) -> TabularPolicy:
        """Likewise."""
        return self._for_labels(self.problem.pi_b)

    def _for_labels(self, policy: TabularPolicy) -> TabularPolicy:
        return TabularPolicy(np.tile(policy.probs[0], (self.labels, 1)))

    @property
    def values(self) -> tuple[float, float]:
        """The exact values of the evaluation and of the behaviour policy."""
        return self.problem.true_value, self.problem.behaviour_value

    def sample(self, seed: int | np.random.SeedSequence) -> Trajectories:
        """A log in which every step has a label by chance."""
        of_log, of_labels = np.random.SeedSequence(seed).spawn(2) if isinstance(seed, int) else seed.spawn(2)
        log = self.problem.sample(self.episodes, of_log)
        labels = np.random.default_rng(of_labels).integers(self.labels, size=log.n_steps)
        return Trajectories(
            labels,
            log.actions,
            log.rewards,
            log.offsets,
            propensities=log.propensities,
            terminated=log.terminated,
        )._limited_to(log.time_limit)


Task = StudyProblem | BinnedCartpole | NoiseLabels


def blind(n_states: int, n_actions: int, horizon: int, seed: int) -> Problem:
    """A random problem with policies that depend on nothing; pi_e prefers what pays on average."""
    problem = random_problem(n_states, n_actions, horizon, seed)
    pi_e = np.full(n_actions, 0.4 / n_actions)
    pi_e[problem.mdp.r.mean(axis=0).argmax()] += 0.6
    both = (np.tile(one, (n_states, 1)) for one in (pi_e, np.full(n_actions, 1.0 / n_actions)))
    return Problem(problem.name, problem.mdp, *(as_policy(one, problem.mdp) for one in both))


@cache
def tuned_cells() -> dict[str, Task]:
    """Cells that were looked at while the rule was chosen, in the order that their seeds depend on."""
    cells: list[Task] = [*study_problems(), *hard_problems(), *headline_problems()]
    cells += [
        NoiseLabels("noise labels: river", river(), 300),
        NoiseLabels("noise labels: conveyor belt", conveyor_belt(), 500),
        NoiseLabels("noise labels: random 30 x 4", blind(30, 4, 10, seed=2), 400),
        NoiseLabels("noise labels: random 8 x 2", blind(8, 2, 12, seed=5), 300, labels=50),
        BinnedCartpole("cartpole in 50 other cells", 400, seed=22),
        BinnedCartpole("cartpole in 50 cells, 150 episodes", 150, seed=23),
    ]
    return {cell.name: cell for cell in cells}


@cache
def fresh_cells() -> dict[str, Task]:
    """Cells that were not."""
    cells: list[Task] = [
        previous_action("previous action pays, 7 x 3", 7, 3, horizon=10, seed=41, episodes=400),
        previous_action("previous action pays, 12 x 2", 12, 2, horizon=12, seed=42, episodes=300),
        frailty("hidden frailty, 7 x 2", 7, 2, horizon=15, seed=43, episodes=300),
        BinnedCartpole("cartpole in yet other cells", 400, seed=24),
        BinnedCartpole("cartpole in yet other cells, 200 episodes", 200, seed=25),
        NoiseLabels("noise labels: short river", river(7, horizon=15), 300, labels=10),
        NoiseLabels("noise labels: random 12 x 3", blind(12, 3, 12, seed=44), 300),
        StudyProblem("random 10 x 3", random_problem(10, 3, 12, seed=45), 200),
        StudyProblem("random 25 x 2", random_problem(25, 2, 30, seed=46), 150),
        hidden("hidden 9 x 3", random_problem(18, 3, 15, seed=47), 300),
        StudyProblem("late reward, 25 x 3", late_reward(25, 3, seed=48), 300),
        StudyProblem("fixed horizon, 15 x 2", endless(15, 2, horizon=20, seed=49), 250),
        StudyProblem("short belt", conveyor_belt(24, every=6), 400),
        StudyProblem("short river", river(7, horizon=20), 250),
        StudyProblem("machine repair, 6 levels", machine_repair(6, horizon=30), 300),
        StudyProblem("windy grid, 5 x 5", windy_grid(5, horizon=25), 300),
        StudyProblem("stochastic lift 13", stochastic_lift(13), 1000),
    ]
    return {cell.name: cell for cell in cells}
