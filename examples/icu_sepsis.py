"""A real table: 716 states and 25 actions of sepsis treatment, with the exact truth beside the estimates.

    pip install 'deadweight[bench]'
    python examples/icu_sepsis.py

The wheel icu-sepsis holds transition tables estimated from MIMIC-III. They are read by path, since importing
the package needs a library that is no longer maintained. The log is 2,000 stays of the clinicians' policy;
the new policy moves half of its probability to actions that are better in the table.
"""

import sys
from importlib.metadata import PackageNotFoundError

import numpy as np
from deadweight_studies.sepsis import sepsis, softened_improvement

import deadweight as dw


def main() -> None:
    """Exact values, a log, and what the log alone says."""
    try:
        mdp, expert = sepsis()
    except PackageNotFoundError:
        print("Skipped: icu-sepsis is not installed (pip install 'deadweight[bench]').")
        sys.exit(0)
    uniform = np.full(expert.shape, 1.0 / expert.shape[1])
    new = softened_improvement(mdp, expert)
    for name, policy in (("clinicians", expert), ("uniform", uniform), ("new", new)):
        print(f"exact survival, {name:10} {dw.policy_value(mdp, policy):.5f}")
    log = dw.simulate(mdp, expert, episodes=2000, seed=0)
    print(f"\n{log.n_episodes:,} stays, {log.n_steps:,} steps\n")
    # All reward comes at the end of a stay. Per-decision weighting sums a ratio for every possible last step,
    # and its late ones rest on a handful of long stays. So the table, and the verdict, do without it.
    print(dw.evaluate(log, new, expert, estimators=["BLEND", "BEHAVIOUR", "DM", "WIS", "WDR", "WDRSIS"]))
    print(f"\nNot to be used here: {dw.estimate('C-WSPDIS', log, new, expert)}")


if __name__ == "__main__":
    main()
