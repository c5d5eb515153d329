"""PDIS, WPDIS, DR and INCRIS(10) against plain loops over episodes: `python benchmarks/loops.py [rounds]`.

The loops are those of the test-suite, written to be read beside the formulas, on lists of tuples; both sides
start from a log in their own form. For DR the model is fitted outside the clock, and the loops are given its
Q values besides. The loops of INCRIS multiply every ratio anew in every window: they show what is saved, not
what loops could do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from deadweight_studies.benchmark.timing import ratio, setting

from deadweight.mdp.tabular import q_values
from deadweight.values.model import fit_mdp
from deadweight.verbs.estimate import estimate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import reference

EPISODES, HORIZON = 1_000, 100


def main(rounds: int = 3) -> None:
    """Check that both agree, and print how many times faster ours is."""
    problem = setting(EPISODES, HORIZON)
    plain = reference.Log([[(int(s), int(a), float(r)) for s, a, r in episode] for episode in problem.log])
    pi_e, pi_b = problem.pi_e.tolist(), problem.pi_b.tolist()
    model = fit_mdp(problem.log, *problem.pi_e.shape)
    q = q_values(model, problem.pi_e, HORIZON)
    loops: dict[str, Callable[[], float]] = {
        "PDIS": lambda: reference.per_decision(plain, pi_e, pi_b),
        "WPDIS": lambda: reference.per_decision(plain, pi_e, pi_b, weighted=True),
        "DR": lambda: reference.doubly_robust(plain, pi_e, pi_b, q=q),
        "INCRIS": lambda: reference.incremental(plain, pi_e, pi_b)[0],
    }
    for name, loop in loops.items():

        def ours(name: str = name) -> float:
            # Solved over the steps of the log, as the loops do.
            return estimate(
                name, problem.log, problem.pi_e, problem.pi_b, interval=None, model=model, solve="longest"
            ).value

        np.testing.assert_allclose(ours(), loop(), rtol=1e-9)
        measured = ratio(ours, loop, rounds, repeats=20).inverse
        print(f"{name}, {EPISODES:,} x {HORIZON}, loops over ours: {measured}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
