"""Is there a better policy in the log? A list of changes to read, a veto, and a trial on new episodes.

    python examples/better_policy.py

Made up here: 800 stays on a ward. Each hour a patient is stable, worse or in crisis, and the staff waits,
calls a doctor or treats at once. The log does not say with which probability: what was done is counted.
"""

import numpy as np

import deadweight as dw

ACTIONS = ("wait", "call", "treat")
# What was done so far: the same everywhere, more or less.
HABITS = {"stable": (0.6, 0.3, 0.1), "worse": (0.4, 0.4, 0.2), "crisis": (0.3, 0.5, 0.2)}
# Probability of being stable an hour later, by condition and action; else a patient gets worse by one step.
RECOVERS = {"stable": (0.70, 0.72, 0.73), "worse": (0.30, 0.65, 0.70), "crisis": (0.05, 0.20, 0.60)}
COSTS = {"wait": 0.0, "call": 0.2, "treat": 0.6}
SCORES = {"stable": 1.0, "worse": 0.3, "crisis": -1.0}
NEXT = {"stable": "worse", "worse": "crisis", "crisis": "crisis"}


def stays(policy: dict[str, tuple[float, ...]], number: int, seed: int) -> dw.Trajectories:
    """Stays of eight hours under a policy; they are cut there, the patients' stories go on."""
    rng = np.random.default_rng(seed)
    episodes = []
    for _ in range(number):
        condition, hours = "stable", []
        for _ in range(8):
            action = int(rng.choice(3, p=policy[condition]))
            score = SCORES[condition] - COSTS[ACTIONS[action]]
            hours.append((condition, ACTIONS[action], score))
            recovers = rng.random() < RECOVERS[condition][action]
            condition = "stable" if recovers else NEXT[condition]
        episodes.append(hours)
    return dw.Trajectories.from_episodes(episodes, time_limit=8)


def main() -> None:
    """Learn, read, veto, try."""
    log = stays(HABITS, 800, seed=0)
    found = dw.improve(log, evaluation=False)
    print(found)

    # The head nurse does not want every crisis treated without a doctor.
    vetoed = found.veto(["crisis"])
    kept = ", ".join(f"{action} {p:.2f}" for action, p in zip(ACTIONS, shares(vetoed, "crisis"), strict=True))
    print(f"\nAfter a veto in crisis: {kept}")

    # The proof is a trial: new stays under the policy, against new stays under the habits.
    policy = {state: shares(found.policy, state) for state in HABITS}
    before, after = (stays(one, 800, seed=9).rewards.sum() / 800 for one in (HABITS, policy))
    print(f"\nOn 800 new stays: {before:.2f} under the habits, {after:.2f} under the policy.")


def shares(policy: dw.TabularPolicy, state: str) -> tuple[float, ...]:
    """The probabilities of all actions in a state."""
    assert policy.state_labels is not None
    assert policy.action_labels is not None
    row = policy.probs[list(policy.state_labels).index(state)]
    by_action = dict(zip(policy.action_labels, row, strict=True))
    return tuple(float(by_action[action]) for action in ACTIONS)


if __name__ == "__main__":
    main()
