"""How good is the headline? BLEND and the rows beside it, on problems whose answer is known.

A run is one log: every row of the table with its interval, the verdict, and the verdict where the new policy
is the old one with probabilities from counts. Cells on which the rule was chosen stand apart from those on
which it was not. Beside the table's rows stands `magic`, which no evaluation has.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from deadweight.domains import stochastic_lift
from deadweight.estimators.density_ratio import solve_simplex_qp
from deadweight.log.behaviour import estimate_behaviour
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.negligible.state_tests import DropWarning
from deadweight.question.learned_behaviour import fit_behaviour
from deadweight.question.question import Question, ask
from deadweight.sums.blocks import Block
from deadweight.typing import FloatArray, IntArray
from deadweight.verbs.estimate import answered_table, evaluate
from deadweight.verbs.verdict import verdict
from deadweight_studies.coverage import cells as old_cells
from deadweight_studies.problems import (
    BinnedCartpole,
    StudyProblem,
    endless,
    frailty,
    hard_problems,
    hidden,
    late_reward,
    previous_action,
    random_problem,
)
from deadweight_studies.real_kinds import Cell, Confounded, InFeatures, Kind, real_cells
from deadweight_studies.study import Runs

# --- MAGIC

RESAMPLES = 200
# The bootstrap's interval leaves out so much at either end.
TAIL = 0.05
# So many lengths are looked at, evenly from the model alone to all steps.
MOST_LENGTHS = 12
# Added to the diagonal, relative to its mean: the programme needs a matrix of full rank.
RIDGE = 1e-9


def magic(question: Question, rng: np.random.Generator) -> float:
    r"""MAGIC for a log in memory: weighted DR and a model, blended by the length of a return.

    .. math:: g^{(j)} = \sum_i \sum_{t \le j} \gamma^t \left[ w_{it} (r_{it} - Q_t) + w_{i,t-1} V_t \right]
       + \gamma^{j+1} \sum_i w_{ij} V_{j+1}

    takes weights for the first j + 1 steps and the model from there on: :math:`g^{(-1)}` is the model alone,
    and the last one is WDR. Of all mixes :math:`x'g` the one is taken with the least
    :math:`x'(\Omega + bb')x`, where :math:`\Omega` is the sample covariance over episodes, and :math:`b_j`
    how far :math:`g^{(j)}` lies outside an interval of WDR by the percentile bootstrap.

    Reference: Thomas & Brunskill (2016).

    Args:
      question: about one log, with the model and the ratios.
      rng: of the bootstrap.
    """
    log, gamma = question.parts[0], question.gamma
    block = Block(log, np.arange(log.n_episodes), contiguous=False)
    new, old = (field.on(block) for field in (question.pair.evaluation, question.pair.behaviour))
    rho = np.divide(new, old, out=np.ones(new.shape), where=old > 0)  # of padding: one
    with np.errstate(divide="ignore"):
        log_w = np.cumsum(np.log(rho), axis=1)
    weights = np.exp(log_w - np.maximum(log_w.max(axis=0), np.finfo(float).min))
    weights = np.column_stack([np.ones(log.n_episodes), weights])  # place t: before step t
    discount = np.asarray(gamma ** np.arange(block.horizon + 1), dtype=np.float64)
    wrong = block.rewards - question.values.q.on(block)
    values = np.column_stack([question.values.v.on(block), np.zeros(log.n_episodes)])
    returns = _returns(weights, wrong, values, discount)
    lengths = np.unique(np.linspace(0, block.horizon, MOST_LENGTHS).round().astype(int))
    g = returns.sum(axis=0)[lengths]
    covariance = np.atleast_2d(np.cov(returns[:, lengths].T)) * log.n_episodes
    drawn = rng.multinomial(log.n_episodes, np.full(log.n_episodes, 1.0 / log.n_episodes), RESAMPLES)
    low, high = np.quantile(_resampled(drawn, weights, wrong, values, discount), [TAIL, 1.0 - TAIL])
    bias = np.maximum(g - max(high, g[-1]), 0.0) - np.maximum(min(low, g[-1]) - g, 0.0)
    return float(_least(covariance + np.outer(bias, bias)) @ g)


def _returns(weights: FloatArray, wrong: FloatArray, values: FloatArray, discount: FloatArray) -> FloatArray:
    """(n, T + 1) what each episode adds to the return of each length, the model alone first."""
    w = weights / _totals(weights.sum(axis=0))
    summed = np.cumsum(discount[:-1] * (w[:, 1:] * wrong + w[:, :-1] * values[:, :-1]), axis=1)
    return np.column_stack([np.zeros(len(w)), summed]) + discount * w * values


def _resampled(
    drawn: IntArray, weights: FloatArray, wrong: FloatArray, values: FloatArray, discount: FloatArray
) -> FloatArray:
    """(resamples,) WDR of episodes drawn so often."""
    total = _totals(drawn @ weights)
    corrected = (drawn @ (weights[:, 1:] * wrong)) / total[:, 1:]
    by_step = corrected + (drawn @ (weights[:, :-1] * values[:, :-1])) / total[:, :-1]
    return np.asarray(by_step @ discount[:-1])


def _totals(total: FloatArray) -> FloatArray:
    """Sums of weights to divide by; where all are zero so is what is divided."""
    divisor: FloatArray = np.where(total > 0, total, 1.0)
    return divisor


def _least(matrix: FloatArray) -> FloatArray:
    """The point of the simplex with the least x' matrix x."""
    from scipy.sparse import csr_array

    scale = float(np.trace(matrix)) / len(matrix)
    if not scale > 0:  # they all agree in every episode
        return np.append(np.zeros(len(matrix) - 1), 1.0)
    size, vectors = np.linalg.eigh(matrix / scale)
    root = csr_array(vectors * np.sqrt(np.maximum(size, 0.0)))
    return solve_simplex_qp(root, RIDGE).x


# --- The study

SEED = 2029
LEVEL = 0.95
MAGIC_SEED = 2016
NAMES = ("BLEND", "BEHAVIOUR", "DM", "LIN", "WIS", "WPDIS", "C-WSPDIS", "WDR", "WDRSIS")
# Estimates that a mix has beside those of the table.
ALSO = ("WIN3", "WIN2")
# Rows whose automatic drop is compared with the free one.
DROPPED = ("C-WSPDIS", "WDRSIS")
# Headlines of earlier versions, whose verdicts stand beside that of the mix.
BEFORE = ("C-WSPDIS", "WPDIS")


Task = StudyProblem | BinnedCartpole | Confounded | InFeatures


@cache
def cells() -> dict[str, Cell]:
    """All cells by name, in the order that their seeds depend on."""
    tasks: list[Task] = [*old_cells().values(), *hard_problems()]
    tasks += [
        StudyProblem(f"stochastic lift {size}, uncut", stochastic_lift(size), 1000) for size in (7, 11, 17)
    ]
    tuned = [Cell(task, True, _kind(task)) for task in (*tasks, *fresh_problems())]
    return {named(cell.task): cell for cell in [*tuned, *real_cells()]}


def _kind(task: Task) -> Kind:
    """The kind of a cell that was here before there were kinds."""
    as_it_is = isinstance(task, StudyProblem) and task.shown is None
    return "well specified" if as_it_is else "not Markov"


def named(task: Task) -> str:
    """The name of a task with its number of episodes, which some names have already."""
    number = f", n = {task.episodes}"
    return f"{task.name.removesuffix(number)}{number}"


def fresh_problems() -> list[StudyProblem | BinnedCartpole]:
    """Tasks of older kinds, on which no rule for a drop was chosen, nor the first rule of BLEND."""
    return [
        BinnedCartpole(),
        StudyProblem("stochastic lift 9, uncut", stochastic_lift(9), 1000),
        previous_action("previous action pays, 8 x 2", 8, 2, horizon=10, seed=31, episodes=400),
        frailty("hidden frailty, 6 x 3", 6, 3, horizon=12, seed=32, episodes=300),
        StudyProblem("random 40 x 4", random_problem(40, 4, 15, seed=33), 120),
        StudyProblem("random 15 x 3", random_problem(15, 3, 15, seed=34), 250),
        StudyProblem("late reward, 30 x 3", late_reward(30, 3, seed=35), 300),
        StudyProblem("fixed horizon, 20 x 3", endless(20, 3, horizon=15, seed=36), 250),
        hidden("hidden 12 x 3", random_problem(24, 3, 15, seed=37), 400),
        replace(hidden("hidden 10 x 2", random_problem(20, 2, 30, seed=38), 300), episodes=150),
    ]


def run(name: str, number: int) -> dict[str, Any]:
    """One log of a cell, ready for JSON."""
    place = list(cells()).index(name)
    return measured(cells()[name].task, np.random.SeedSequence([SEED, place, number]))


def measured(task: Task, seed: np.random.SeedSequence) -> dict[str, Any]:
    """All that a run keeps of one log."""
    log = task.sample(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DropWarning)
        question = ask(log, task.pi_e, task.pi_b)
        table, _ = answered_table(question, NAMES, "auto", None, "auto", LEVEL)
        free = evaluate(log, task.pi_e, task.pi_b, DROPPED, drop="auto:free", interval=None)
        null = evaluate(log, *_same_policy(task, log), ["BEHAVIOUR", "BLEND"], background=False)
    headline = table["BLEND"]
    mix = headline.blend
    assert mix is not None
    parts = {part.name: part.value for part in mix.parts}
    before = {name: verdict(table[name], table["BEHAVIOUR"]).answer for name in BEFORE}
    return {
        "rows": {name: [table[name].value, *(table[name].interval or ())] for name in table},
        "parts": {name: parts[name] for name in ALSO if name in parts},
        "shares": mix.shares,
        "magic": magic(question, np.random.default_rng(MAGIC_SEED)),
        "free": {name: free[name].value for name in DROPPED},
        "flags": list(headline.flags),
        "infinite": "infinite-variance" in table["WPDIS"].flags,
        "error": table["DM"].std_error,
        "verdict": judged(table.verdict.answer, task.values),
        "before": {name: judged(answer, task.values) for name, answer in before.items()},
        "null": null.verdict.answer,
        "evidence": evidence_of(question),
    }


def _same_policy(task: Task, log: Trajectories) -> tuple[Any, Any]:
    """The old policy as a new one, and as it is known from the log itself."""
    if not log.has_states:
        return task.pi_b, fit_behaviour(log, candidates=["logit"], seed=0)
    counted = estimate_behaviour(log)
    return (task.pi_b if isinstance(task.pi_b, TabularPolicy) else counted), counted


def evidence_of(question: Question) -> dict[str, Any]:
    """What the mix of a question was made of, as far as it is numbers: other rules can be tried on it."""
    evidence = next(
        each for each in question.paths.values() if is_dataclass(each) and hasattr(each, "covariance")
    )
    values = {field.name: getattr(evidence, field.name) for field in fields(evidence)}
    size = len(values["names"])
    return {name: _kept(value) for name, value in values.items() if _is_kept(value, size)}


def _is_kept(value: object, size: int) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim <= 2 and all(length == size for length in value.shape)
    words = isinstance(value, tuple) and all(isinstance(word, str) for word in value)
    return words or isinstance(value, bool | int | float | str)


def _kept(value: Any) -> Any:
    """With twelve digits, which is all that a replay needs."""
    if isinstance(value, np.ndarray | tuple):
        return [_kept(entry) for entry in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def judged(answer: str, values: tuple[float, float]) -> str:
    """Whether a verdict is "right", "wrong", or "cannot tell"."""
    if answer == "cannot tell":
        return answer
    return "right" if (answer == "better") == (values[0] > values[1]) else "wrong"


def facts(task: Any) -> Iterator[object]:
    """What the logs of a task depend on."""
    yield from (task.name, task.episodes, task.values, repr(getattr(task, "noise", None)))
    policies = (task.pi_e, task.pi_b)
    yield from (policy.probs for policy in policies if isinstance(policy, TabularPolicy))


def _fingerprint(place: int, cell: Cell) -> Iterator[object]:
    yield from (place, SEED, NAMES, DROPPED, *facts(cell.task))


STUDY = Runs(name="headline", cells=cells, run=run, fingerprint=_fingerprint)
