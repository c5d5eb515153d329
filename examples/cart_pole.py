"""States as features: cart-pole of Gymnasium, from episodes of one policy to a verdict on another.

    pip install 'deadweight[gymnasium]'
    python examples/cart_pole.py

A policy is a function of features: a matrix with one row for each step goes in, probabilities of the actions
come out. The same function acts in the environment and is evaluated.
"""

import gymnasium
import numpy as np

import deadweight as dw

STEPS = 60


def follows_the_pole(closely: float):
    """Push to the side to which the pole leans and falls, the more surely the more it does."""

    def policy(x: np.ndarray) -> np.ndarray:
        right = 1 / (1 + np.exp(-closely * (5 * x[:, 2] + x[:, 3])))
        return np.column_stack([1 - right, right])

    return policy


def main() -> None:
    """Record the old policy, evaluate the new one, and see whether that was right."""
    old, new = follows_the_pole(1.0), follows_the_pole(1.6)
    env = gymnasium.make("CartPole-v1")
    log = dw.record(env, old, episodes=150, seed=0, max_steps=STEPS)
    print(log)
    found = dw.evaluate(log, new, old, background=False)
    print(found)
    played = dw.record(env, new, episodes=150, seed=1, max_steps=STEPS)
    returns = np.add.reduceat(played.rewards, played.offsets[:-1])
    error = returns.std(ddof=1) / np.sqrt(len(returns))
    print(f"\nThe new policy at play: {returns.mean():.2f} +- {2 * error:.2f} steps upright, of {STEPS}.")


if __name__ == "__main__":
    main()
