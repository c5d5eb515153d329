"""Choosing among policies: several candidates from one log, compared with each other and with what was done.

    python examples/choosing_policies.py

Each candidate is judged by the same episodes, so that differences are known better than values. The one to
take is the first of the ranking, if it is shown to beat what was done; `may_be_best` are those that have not
been beaten yet.
"""

import numpy as np

import deadweight as dw

RIGHT = (0.6, 0.7, 0.8, 0.9)


def main() -> None:
    """Policies that press the right button more or less often, from a log of one that tosses a coin."""
    problem = dw.domains.stochastic_lift(9)
    log = problem.sample(episodes=1000, seed=1)
    candidates = {f"right {share:.0%}": np.tile([1 - share, share], (7, 1)) for share in RIGHT}
    found = dw.compare(log, candidates, problem.pi_b)
    print(f"{'policy':12}{'value':>8}{'better by':>11}{'at least':>10}{'at most':>9}{'exact':>8}")
    for name in found.ranking:
        verdict = found.difference(name)
        exact = dw.policy_value(problem.mdp, candidates[name]) - problem.behaviour_value
        print(
            f"{name:12}{found[name].headline.value:8.2f}{verdict.difference:11.2f}{verdict.interval[0]:10.2f}"
            f"{verdict.interval[1]:9.2f}{exact:8.2f}"
        )
    print(f"\nMay be the best: {', '.join(found.candidates)}. Recommended: {found.recommendation}.")
    for reason in found.reasons:
        print(f"  {reason}")


if __name__ == "__main__":
    main()
