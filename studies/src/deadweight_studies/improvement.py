"""Is a policy that `improve` ships better than pi_b, how much better, and how many states does it touch?

Every problem has an exact truth, so that a shipped policy is worse than pi_b or it is not. Problems with a
near-optimal pi_b have next to nothing to gain and much to lose: there pi_b takes good actions nearly always,
and each of the alternatives that are nearly as good often enough to be mistaken for better ones. On *hard*
problems the log hides what pays, or is sparse, or all reward comes late.

Beside `deadweight.improve` stand alternatives which learn from the same fitted model and the same averaged
action values, so that they differ in what they dare to change and in how they make sure, and in nothing else:

- the model's optimum: policy iteration in the fitted model;
- SPIBB (Laroche, Trichelair & Tachet des Combes, 2019): pairs seen fewer than so many times keep their
  probability; what is left of it goes to the best of the others;
- HCPI (Thomas, Theocharous & Ghavamzadeh, 2015): a mixture of pi_b and the optimum of one half of the log,
  shipped if the lower end of its interval on the other half is above the mean return.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.problem import Problem, as_policy
from deadweight.mdp.tabular import TabularMDP, policy_value
from deadweight.question.question import Question, ask
from deadweight.tools.arithmetic import softmax
from deadweight.typing import BoolArray, FloatArray
from deadweight.verbs.estimate import estimate
from deadweight.verbs.improve import improve
from deadweight.verbs.recipe import Horizon, Models
from deadweight_studies.problems import StudyProblem, hard_problems, random_problem, study_problems
from deadweight_studies.real_kinds import real_problems
from deadweight_studies.records import Record
from deadweight_studies.study import Study, markdown, of_problems

# --- What else one would do: the model's optimum, SPIBB, a tested candidate

MOST_ROUNDS = 30
MIXES = (1.0, 0.5, 0.25, 0.1)
LEVEL = 0.95


def model_optimum(log: Trajectories, pi_b: TabularPolicy) -> FloatArray:
    """(S, A) the best policy of the fitted model."""
    question = ask(log, pi_b, pi_b)
    return _iterated(question, np.ones_like(question.pi_b, dtype=bool))


def spibb(log: Trajectories, pi_b: TabularPolicy, fewest: int) -> FloatArray:
    """(S, A) the best policy of the fitted model that leaves pairs seen less than `fewest` times alone."""
    question = ask(log, pi_b, pi_b)
    return _iterated(question, question.counts.visits() >= fewest)


def _iterated(question: Question, free: BoolArray) -> FloatArray:
    """Policy iteration that moves only the probability of free pairs."""
    pi_b = question.pi_b
    models = Models(question.model, 1, Horizon.of(question))
    kept = np.where(free, 0.0, pi_b)
    left = 1.0 - kept.sum(axis=1)
    every, pi = np.arange(len(pi_b)), pi_b
    for _ in range(MOST_ROUNDS):
        q = models.mean_values(pi, pi_b)[0]
        best = np.where(free, q, -np.inf).argmax(axis=1)
        before, pi = pi, kept.copy()
        pi[every, best] += left
        pi = np.where(free.any(axis=1, keepdims=True), pi, pi_b)
        if np.array_equal(before, pi):
            break
    return pi


def candidate_that_passed(
    log: Trajectories, pi_b: TabularPolicy, estimator: str, rng: np.random.Generator
) -> FloatArray:
    """(S, A) the candidate that was best on one half if it passes on the other, else pi_b.

    The candidate is the mixture with the highest lower end on the half that it was learnt from, with the size
    of the other one in mind; both have one-sided confidence `LEVEL`.
    """
    first = np.zeros(log.n_episodes, dtype=bool)
    first[rng.permutation(log.n_episodes)[: log.n_episodes // 2]] = True
    training, testing = log.select(first), log.select(~first)
    table = ask(log, pi_b, pi_b).pi_b
    optimum = model_optimum(training, pi_b)
    candidates = [mix * optimum + (1 - mix) * table for mix in MIXES]
    lowest = [_lower_end(training, pi, pi_b, estimator) for pi in candidates]
    chosen = candidates[int(np.argmax(lowest))]
    passed = _lower_end(testing, chosen, pi_b, estimator) > _mean_return(testing)
    return chosen if passed else table


def _lower_end(log: Trajectories, pi: FloatArray, pi_b: TabularPolicy, estimator: str) -> float:
    """One-sided: with the confidence of an interval whose both ends together have less."""
    bound = estimate(estimator, log, TabularPolicy(pi), pi_b, interval="student-t", level=2 * LEVEL - 1)
    assert bound.interval is not None
    return bound.interval[0]


def _mean_return(log: Trajectories) -> float:
    return float(log.rewards.sum() / log.n_episodes)


# --- The study

SEED = 1617
OURS = "improve"
OPTIMUM = "model's optimum"
ALTERNATIVES = (OPTIMUM, "SPIBB, 5", "SPIBB, 20", "HCPI, PDIS", "HCPI, WDR")
VARIANTS = (OURS, "caution 1", "strict", "without the gate", *ALTERNATIVES)
LOSS = 0.03
CLOSE = "near-optimal"
HARD = "hard"
# What is hidden lasts longer than any window; and a plain problem beside them.
REAL = "real"
REAL_KINDS = ("toxic dose", "pays 5 later", "graph")
# A policy is worse if it loses more than rounding.
ROUNDING = 1e-9


def near_optimal(name: str, problem: Problem, episodes: int) -> StudyProblem:
    """The problem with a behaviour policy that is hardly worse than the best one.

    It is a soft maximum of the best policy's action values, with one action in a hundred at random, and so
    soft that it loses `LOSS` of what acting at random loses.
    """
    mdp, horizon = problem.mdp, problem.horizon
    q = _best_values(mdp, horizon or 200)
    best = policy_value(mdp, np.eye(mdp.n_actions)[q.argmax(axis=1)], horizon)
    worst = policy_value(mdp, np.full(mdp.r.shape, 1.0 / mdp.n_actions), horizon)
    low, high = 1e-4, 10.0  # temperature, in units of how much actions matter
    unit = float((q.max(axis=1) - q.min(axis=1)).mean())
    for _ in range(40):
        middle = float(np.sqrt(low * high))
        pi_b = 0.99 * softmax(q / (middle * unit)) + 0.01 / mdp.n_actions
        soft = best - policy_value(mdp, pi_b, horizon) > LOSS * (best - worst)
        low, high = (low, middle) if soft else (middle, high)
    return StudyProblem(name, replace(problem, name=name, pi_b=as_policy(pi_b, mdp)), episodes)


def _best_values(mdp: TabularMDP, horizon: int) -> FloatArray:
    """(S, A) action values of the best policy with all steps to go."""
    v = np.zeros(mdp.n_states + 1)
    q = mdp.r
    for _ in range(horizon):
        q = mdp.r + np.asarray(mdp.P @ v).reshape(mdp.r.shape)
        v[:-1] = q.max(axis=1)
    return q


@cache
def cells() -> dict[str, StudyProblem]:
    """Problems of the other studies, six with a near-optimal pi_b, those that break rules, and real kinds."""
    plain = {problem.name: problem for problem in study_problems()}
    named = {
        "stochastic lift 11": 1000,
        "inventory": 250,
        "windy grid": 400,
        "machine repair": 300,
        "random 30 x 4": 500,
    }
    close = [
        near_optimal(f"{CLOSE}: {name}", plain[name].problem, episodes) for name, episodes in named.items()
    ]
    close.append(near_optimal(f"{CLOSE}: random 12 x 3", random_problem(12, 3, 15, seed=41), 300))
    hard = [replace(problem, name=f"{HARD}: {problem.name}") for problem in hard_problems()]
    real = [replace(problem, name=f"{REAL}: {problem.name}") for problem in real_problems(REAL_KINDS)]
    return {**plain, **{problem.name: problem for problem in [*close, *hard, *real]}}


def learn_all(log: Trajectories, pi_b: TabularPolicy, seed: int) -> dict[str, FloatArray]:
    """The policy of every variant."""
    rng = np.random.default_rng(seed)

    def improved(**settings: Any) -> FloatArray:
        return improve(log, pi_b, seed=seed, evaluation=False, **settings).policy.probs

    return {
        OURS: improved(),
        "caution 1": improved(caution=1.0),
        "strict": improved(gate="strict"),
        "without the gate": improved(gate=False),
        OPTIMUM: model_optimum(log, pi_b),
        "SPIBB, 5": spibb(log, pi_b, 5),
        "SPIBB, 20": spibb(log, pi_b, 20),
        "HCPI, PDIS": candidate_that_passed(log, pi_b, "PDIS", rng),
        "HCPI, WDR": candidate_that_passed(log, pi_b, "WDR", rng),
    }


def run(name: str, number: int) -> dict[str, Any]:
    """For one log what the policy of each variant gains, and in how many visited states it differs."""
    cell, place = cells()[name], list(cells()).index(name)
    log = cell.sample(np.random.SeedSequence([SEED, place, number]))
    pi_b, mdp = cell.pi_b, cell.problem.mdp
    horizon = cell.problem.horizon
    base = policy_value(mdp, cell.problem.pi_b, horizon)
    visited = np.bincount(log.states, minlength=pi_b.n_states) > 0
    outcomes = {}
    for variant, pi in learn_all(log, pi_b, number).items():
        full = pi if cell.shown is None else pi[cell.shown]
        changed = (np.abs(pi - pi_b.probs) > ROUNDING).any(axis=1) & visited
        outcomes[variant] = [policy_value(mdp, full, horizon) - base, int(changed.sum())]
    return {"base": base, "found": outcomes}


@dataclass(frozen=True)
class Line:
    """What the runs of one problem show, by variant.

    Attributes:
      problem: its name.
      runs: how many.
      gain: mean.
      worse: share of the runs in which the policy is worse than pi_b.
      changed: mean number of states.
    """

    problem: str
    runs: int
    gain: Mapping[str, float]
    worse: Mapping[str, float]
    changed: Mapping[str, float]

    @property
    def group(self) -> str:
        """Whether pi_b is near-optimal, the problem hard or of a real kind; empty for the others."""
        return next((group for group in (CLOSE, HARD, REAL) if self.problem.startswith(f"{group}: ")), "")

    def relative(self, variant: str) -> float:
        """The gain as a share of the best alternative's; NaN where no alternative gains anything."""
        best = max(self.gain[other] for other in ALTERNATIVES)
        return self.gain[variant] / best if best > 0 else float("nan")


def line(name: str, records: list[Record]) -> Line:
    """The line of a problem."""
    gains = {v: np.array([record["found"][v][0] for record in records]) for v in VARIANTS}
    scale = max(abs(records[0]["base"]), 1.0)
    return Line(
        name,
        len(records),
        {v: float(gain.mean()) for v, gain in gains.items()},
        {v: float((gain < -ROUNDING * scale).mean()) for v, gain in gains.items()},
        {v: float(np.mean([record["found"][v][1] for record in records])) for v in VARIANTS},
    )


def table(lines: list[Line]) -> str:
    """A table of the variants over all problems, and one of the problems."""
    groups = ("", CLOSE, HARD, REAL)
    usual, close, hard, real = ([line for line in lines if line.group == group] for group in groups)
    heads = ["", f"gain / best alternative ({len(usual)} problems)", "runs worse than pi_b, mean", "at most"]
    heads += ["states changed", f"near-optimal pi_b ({len(close)}): worse, mean", "at most"]
    heads += [f"hard ({len(hard)}): gain / best", "worse, mean", "at most"]
    heads += [f"real kinds ({len(real)}): gain / best", "worse, mean", "at most"]
    rows = [_variant_row(variant, usual, close, hard, real) for variant in VARIANTS]
    below = ["problem", *(f"{variant}: gain (worse)" for variant in (OURS, *ALTERNATIVES))]
    return f"{markdown(heads, rows)}\n\n{markdown(below, [_problem_row(line) for line in lines])}\n"


def _variant_row(
    variant: str, usual: list[Line], close: list[Line], hard: list[Line], real: list[Line]
) -> list[str]:
    return [
        variant,
        _mean([line.relative(variant) for line in usual]),
        *_mean_and_worst([line.worse[variant] for line in usual]),
        _mean([line.changed[variant] for line in usual], 1),
        *_mean_and_worst([line.worse[variant] for line in close]),
        _mean([line.relative(variant) for line in hard]),
        *_mean_and_worst([line.worse[variant] for line in hard]),
        _mean([line.relative(variant) for line in real]),
        *_mean_and_worst([line.worse[variant] for line in real]),
    ]


def _mean(values: list[float], digits: int = 2) -> str:
    known = [value for value in values if not np.isnan(value)]
    return f"{np.mean(known):.{digits}f}" if known else ""


def _mean_and_worst(shares: list[float]) -> list[str]:
    return [f"{np.mean(shares):.1%}", f"{max(shares):.1%}"] if shares else ["", ""]


def _problem_row(line: Line) -> list[str]:
    cells = [f"{line.gain[v]:+.3g} ({line.worse[v]:.0%})" for v in (OURS, *ALTERNATIVES)]
    return [line.problem, *cells]


def _words(line: Line) -> str:
    gain, worse = line.gain[OURS], line.worse[OURS]
    return f"{line.problem}: gain {gain:+.3g}, worse in {worse:.0%} of {line.runs} runs"


STUDY = Study(
    name="improve",
    cells=cells,
    run=run,
    fingerprint=of_problems(SEED, VARIANTS),
    line=line,
    table=table,
    words=_words,
)
