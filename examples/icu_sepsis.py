"""A real table: 716 states and 25 actions of sepsis treatment, with the exact truth beside the estimates.

    pip install 'deadweight[bench]'
    python examples/icu_sepsis.py

The wheel icu-sepsis holds transition tables estimated from MIMIC-III. They are read by path, since importing
the package needs a library that is no longer maintained. The log is 2,000 stays of the clinicians' policy;
the new policy moves half of its probability to actions that are better in the table.
"""

import sys
from importlib.metadata import PackageNotFoundError, distribution

import numpy as np

import deadweight as dw

HORIZON = 500


def sepsis() -> tuple[dw.TabularMDP, np.ndarray]:
    """The MDP, and the clinicians' policy as (S, A) probabilities."""
    files = distribution("icu-sepsis").files or []
    path = next(file for file in files if file.name == "dynamics.npz").locate()
    with np.load(path) as arrays:
        P, R, d0 = (np.array(arrays[name], dtype=float) for name in ("tx_mat", "r_mat", "d_0"))
        expert = np.array(arrays["expert_policy"], dtype=float)
    ended = expert.sum(axis=1) == 0  # death, survival, and what follows: nobody acts there
    P[ended] = 0.0  # mass that is missing from a row is termination
    expert[ended] = 1.0 / expert.shape[1]
    rewards = R if R.shape == P.shape else R.reshape(P.shape[:2])
    return dw.TabularMDP(P, rewards, d0 / d0.sum(), horizon=HORIZON), expert


def softened_improvement(mdp: dw.TabularMDP, expert: np.ndarray) -> np.ndarray:
    """Half clinician, half softmax of the clinicians' own action values, over what clinicians do at all."""
    q = dw.q_values(mdp, expert, HORIZON)[0]
    better = np.where(expert > 0, np.exp((q - q.max(axis=1, keepdims=True)) / 0.01), 0.0)
    return 0.5 * expert + 0.5 * better / better.sum(axis=1, keepdims=True)


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
    print(dw.evaluate(log, new, expert, estimators=["BEHAVIOUR", "DM", "WIS", "WDR", "WDRSIS"]))
    print(f"\nNot to be used here: {dw.estimate('C-WSPDIS', log, new, expert)}")


if __name__ == "__main__":
    main()
