"""`deadweight demo`: a log whose answer is known, evaluated plain and state-based side by side."""

from __future__ import annotations

import json as json_module

from deadweight.cli.tables import print_table
from deadweight.domains import stochastic_lift
from deadweight.estimate import evaluate
from deadweight.estimators.names import RECIPES
from deadweight.results import Estimate, Evaluation

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
HEADINGS = ("plain", "value", "error", "ESS", "state-based", "value", "error", "ESS", "dropped")


def demo(size: int, episodes: int, seed: int, json: bool) -> None:
    """Simulate, evaluate, print."""
    problem = stochastic_lift(size)
    log = problem.sample(episodes, seed)
    names = list(dict.fromkeys([*BASELINES, *(name for pair in PAIRS for name in pair)]))
    ev = evaluate(log, problem.pi_e, problem.pi_b, names, drop="auto")
    truth = problem.true_value
    if json:
        print(json_module.dumps({"truth": truth, **ev.to_dict()}, indent=2))
        return
    print(f"A lift of {size} floors, {log.n_episodes:,} episodes ({log.n_steps:,} steps) of a policy that acts at random.")
    print(f"What would a policy earn that presses the right button 95 % of the time? Exactly {truth:.4f}.\n")
    rows = [_row(ev, plain, state_based, truth) for plain, state_based in PAIRS]
    rows += [[name, *_numbers(ev[name], truth), "", "", "", "", ""] for name in BASELINES]
    print_table(HEADINGS, rows, left=(0, 4))
    print(_closing(ev, truth))


def _row(ev: Evaluation, plain: str, state_based: str, truth: float) -> list[str]:
    dropped = ", ".join(str(label) for label in ev[state_based].dropped)
    return [plain, *_numbers(ev[plain], truth), state_based, *_numbers(ev[state_based], truth), dropped or "none"]


def _numbers(estimate: Estimate, truth: float) -> list[str]:
    ess = "" if estimate.ess is None else f"{estimate.ess:.0f}"
    return [f"{estimate.value:.4f}", f"{estimate.value - truth:+.4f}", ess]


def _closing(ev: Evaluation, truth: float) -> str:
    products = [pair for pair in PAIRS if RECIPES[pair[1]].product]
    closer = sum(abs(ev[s].value - truth) < abs(ev[p].value - truth) for p, s in products)
    best = ev["C-WSPDIS"]
    lower, upper = best.interval or (float("nan"), float("nan"))
    return (
        f"\nDropping the states in which the action hardly matters brought {closer} of {len(products)} product "
        f"estimators closer to the truth in this log.\n"
        f"C-WSPDIS with its 95 % interval: {best.value:.4f} [{lower:.4f}, {upper:.4f}]. "
        f"ESS is the number of episodes that effectively carry the weights, out of {best.n_episodes:,}."
    )
