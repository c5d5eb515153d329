"""Evaluation policies for inventory management: policy gradient as in the paper, and a softened optimum."""

from __future__ import annotations

import numpy as np

from deadweight.domains.problem import softmax
from deadweight.mdp.simulate import simulate
from deadweight.mdp.tabular import TabularMDP
from deadweight.typing import FloatArray

EPISODES = 500
BATCH = 10
LEARNING_RATE = 0.5
SEED = 2024


def policy_gradient(mdp: TabularMDP) -> FloatArray:
    r"""A softmax policy after 500 episodes of REINFORCE, in batches of 10; (S, A).

    .. math:: \theta \mathrel{+}= \alpha \sum_t A_t \nabla \log \pi_\theta(a_t | s_t)

    A_t is the return to go less its mean over the batch at the same step, in units of its standard
    deviation. The paper's own policy was not published; this one is the same for everybody.

    Reference: Williams (1992).
    """
    rng = np.random.default_rng(SEED)
    theta = np.zeros(mdp.r.shape)
    for _ in range(EPISODES // BATCH):
        probs = softmax(theta)
        log = simulate(mdp, probs, BATCH, rng)
        rewards = log.rewards.reshape(BATCH, -1)
        to_go = rewards[:, ::-1].cumsum(axis=1)[:, ::-1]
        advantage = to_go - to_go.mean(axis=0)
        advantage /= advantage.std() + 1e-12
        pair = log.states * mdp.n_actions + log.actions
        push = np.bincount(pair, advantage.ravel(), theta.size).reshape(theta.shape)
        gradient = push - probs * push.sum(axis=1, keepdims=True)
        theta += LEARNING_RATE * gradient / BATCH
    return softmax(theta)


def softened_optimal(mdp: TabularMDP, greed: float = 0.8) -> FloatArray:
    """The greedy policy of Q* at the first step, with probability `greed`, else a uniform action; (S, A)."""
    v = np.zeros(mdp.n_states + 1)
    q = mdp.r
    for _ in range(mdp.horizon or 1):
        q = mdp.r + np.asarray(mdp.P @ v).reshape(mdp.r.shape)
        v[:-1] = q.max(axis=1)
    greedy = np.eye(mdp.n_actions)[q.argmax(axis=1)]
    return np.asarray(greed * greedy + (1.0 - greed) / mdp.n_actions, dtype=np.float64)
