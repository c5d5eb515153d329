"""The lift, step by step: what is dropped, what that saves, and what it costs.

    python examples/lift_walkthrough.py

The stochastic lift of 11 floors has an exact answer, so that every number below can be checked.
"""

import deadweight as dw


def main() -> None:
    """From the states to the estimates."""
    problem = dw.domains.stochastic_lift(11)
    log = problem.sample(episodes=1000, seed=0)
    print(f"{log.n_episodes:,} episodes, {log.n_steps:,} steps; exact value {problem.true_value:.4f}\n")

    print("1. In which states does the action not matter?")
    known = dw.negligible.lift(problem.mdp)
    found = dw.negligible.q_gap(log, problem.pi_e, epsilon=1.0)
    print(f"   known from the MDP:   {known.states}")
    print(f"   found from the log:   {found.states}\n")

    print("2. What does dropping their ratios save?")
    for name, drop in (("WPDIS", None), ("WSPDIS", found)):
        est = dw.estimate(name, log, problem.pi_e, problem.pi_b, drop=drop)
        print(f"   {name:8} {est.value:8.4f} +- {est.std_error:.4f}, ESS {est.ess:.0f} of {log.n_episodes}")

    print("\n3. What does it cost? The value of the policy that acts as before in dropped states differs by")
    est = dw.estimate("WSPDIS", log, problem.pi_e, problem.pi_b, drop=found)
    exact = dw.theory.moments(problem.mdp, problem.pi_e, problem.pi_b, "SIS", drop=found, horizon=200).bias
    print(f"   {est.bias:+.4f} by the log alone, {exact:+.4f} exactly\n")

    print("4. Which states to drop need not be decided by hand.")
    path = dw.epsilon_path("C-WSPDIS", log, problem.pi_e, problem.pi_b, min_visits=3)
    print(path)


if __name__ == "__main__":
    main()
