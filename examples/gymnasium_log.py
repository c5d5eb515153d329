"""A log from a Gymnasium environment, evaluated and compared with the environment's own table.

    pip install 'deadweight[gymnasium]'
    python examples/gymnasium_log.py

FrozenLake publishes its transitions, so that the exact answer is known. Where the ice is slippery, a slip
decides more than the action.
"""

import gymnasium
import numpy as np

import deadweight as dw
from deadweight.envs import mdp_from_gymnasium


def main() -> None:
    """Record, evaluate, compare."""
    env = gymnasium.make("FrozenLake-v1")
    mdp = mdp_from_gymnasium(env)
    q = dw.q_values(mdp, np.full(mdp.r.shape, 0.25), horizon=100)[0]
    careful = 0.7 * np.eye(4)[q.argmax(axis=1)] + 0.3 / 4
    careless = 0.3 * np.eye(4)[q.argmax(axis=1)] + 0.7 / 4
    log = dw.record(env, careless, episodes=2000, seed=0)
    env.close()
    print(f"{log.n_episodes:,} episodes, {log.n_steps:,} steps\n")
    print(dw.evaluate(log, careful))
    new, old = dw.policy_value(mdp, careful), dw.policy_value(mdp, careless)
    print(f"\nexact: new policy {new:.4f}, old policy {old:.4f}")


if __name__ == "__main__":
    main()
