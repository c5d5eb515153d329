"""Choosing among policies: several candidates from one log, ranked with intervals.

    python examples/choosing_policies.py

Each candidate is evaluated from the same episodes. The one to take is not the one with the highest estimate
but the one whose interval stays highest; candidates whose intervals reach into it have not been beaten yet.
"""

import numpy as np

import deadweight as dw

LEVEL = 0.95
RIGHT = (0.6, 0.7, 0.8, 0.9)


def main() -> None:
    """Policies that press the right button more or less often, from a log of one that tosses a coin."""
    problem = dw.domains.stochastic_lift(9)
    log = problem.sample(episodes=1000, seed=1)
    candidates = {f"right {share:.0%}": np.tile([1 - share, share], (7, 1)) for share in RIGHT}
    # Four intervals are read together, so each of them must hold more often than all of them should.
    each = 1 - (1 - LEVEL) / len(candidates)
    found = {
        name: dw.estimate("C-WSPDIS", log, policy, problem.pi_b, level=each)
        for name, policy in candidates.items()
    }
    print(f"{'policy':12}{'lower':>8}{'value':>8}{'upper':>8}{'ESS':>6}{'exact':>8}")
    for name, est in sorted(found.items(), key=lambda item: item[1].interval, reverse=True):
        lower, upper = est.interval
        exact = dw.policy_value(problem.mdp, candidates[name])
        print(f"{name:12}{lower:8.2f}{est.centre:8.2f}{upper:8.2f}{est.ess:6.0f}{exact:8.2f}")
    best = max(found, key=lambda name: found[name].interval[0])
    rivals = [name for name in found if name != best and found[name].interval[1] > found[best].interval[0]]
    print(f"\nHighest lower end: {best}. Not beaten yet: {', '.join(rivals) or 'none'}.")


if __name__ == "__main__":
    main()
