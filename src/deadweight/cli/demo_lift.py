"""`deadweight demo --domain lift`: logs of the paper's lift, plain and state-based side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deadweight.cli.domains import ranges
from deadweight.cli.failures import finish, report_files
from deadweight.cli.output import tell_words
from deadweight.cli.terminal_tables import print_table
from deadweight.domains import Problem, stochastic_lift
from deadweight.errors import how_many
from deadweight.estimate import evaluate
from deadweight.results.evaluation import Evaluation

PAIRS = (
    ("WIS", "WSIS"),
    ("WPDIS", "WSPDIS"),
    ("WPDIS", "C-WSPDIS"),
    ("WINCRIS", "WSINCRIS"),
    ("WDR", "WDRSIS"),
    ("SDRE", "SSDRE"),
    ("MIS", "SMIS"),
    ("TMIS", "STMIS"),
)
BASELINES = ("BEHAVIOUR", "DM")
NAMES = tuple(dict.fromkeys([*BASELINES, *(name for pair in PAIRS for name in pair)]))
HEADINGS = ("plain", "value", "ESS", "RMSE", "state-based", "value", "ESS", "RMSE", "dropped")


def lift_demo(size: int, episodes: int, seed: int, logs: int, report: Path, json: bool) -> int:
    """Simulate, evaluate, print, and write the report of the first log; the exit code."""
    problem = stochastic_lift(size)
    seeds = np.random.SeedSequence(seed).spawn(logs)
    log = problem.sample(episodes, seeds[0])
    ev = evaluate(log, problem.pi_e, problem.pi_b, NAMES, drop="auto")
    rmse = _root_mean_squared_errors(problem, ev, episodes, seeds)
    truth = problem.true_value
    title = f"Demo: a lift of {size} floors"
    files = report_files(report, lambda path: ev.report(path, title=title, truth=truth))
    if json:
        return finish(0, files, {"truth": truth, "logs": logs, "rmse": rmse, **ev.to_dict()})
    tell_words(
        f"A lift of {size} floors; a log of {log.n_episodes:,} episodes ({log.n_steps:,} steps) of a policy "
        "that acts at random.\n"
        "What would a policy earn that presses the right button 95 % of the time? "
        f"The exact answer is {truth:.4f}.\n"
    )
    rows = [_row(ev, rmse, plain, state_based) for plain, state_based in PAIRS]
    rows += [[*_numbers(ev, rmse, name), "", "", "", "", ""] for name in BASELINES]
    print_table(HEADINGS, rows, left=(0, 4, 8))
    tell_words(_closing(ev, logs))
    return finish(0, files)


def _root_mean_squared_errors(
    problem: Problem, first: Evaluation, episodes: int, seeds: list[np.random.SeedSequence]
) -> dict[str, float]:
    """Of each estimator over all logs; the first one is evaluated already."""
    evaluations = [first]
    for seed in seeds[1:]:
        log = problem.sample(episodes, seed)
        evaluations.append(evaluate(log, problem.pi_e, problem.pi_b, NAMES, drop="auto", interval=None))
    errors = {name: [ev[name].value - problem.true_value for ev in evaluations] for name in NAMES}
    return {name: float(np.sqrt(np.mean(np.square(found)))) for name, found in errors.items()}


def _row(ev: Evaluation, rmse: dict[str, float], plain: str, state_based: str) -> list[str]:
    dropped = ev[state_based].dropped
    return [
        *_numbers(ev, rmse, plain),
        *_numbers(ev, rmse, state_based),
        ranges(dropped) if dropped else "nothing",
    ]


def _numbers(ev: Evaluation, rmse: dict[str, float], name: str) -> list[str]:
    ess = ev[name].ess
    return [name, f"{ev[name].value:.3f}", "" if ess is None else f"{ess:.0f}", f"{rmse[name]:.3f}"]


def _closing(ev: Evaluation, logs: int) -> str:
    best = ev["C-WSPDIS"]
    lower, upper = best.interval or (np.nan, np.nan)
    return (
        f"\nValues are of the first log, RMSE (root mean squared error) of {how_many(logs, 'log')} of "
        f"this size. ESS is how many of the {best.n_episodes:,} episodes effectively carry the weights. "
        "State-based estimators drop the ratios of states that a rule takes for negligible, chosen from "
        "the log.\n"
        f"C-WSPDIS of the first log with its 95 % interval: {best.value:.4f} [{lower:.4f}, {upper:.4f}]."
    )
