"""Small random problems as logs with labels and, the same steps, with one feature for each label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import deadweight as dw

STATES, ACTIONS = 4, 2


@dataclass(frozen=True)
class Twins:
    """The same episodes twice, with policies for each."""

    labels: dw.Trajectories
    features: dw.Trajectories
    pi_e: np.ndarray
    pi_b: np.ndarray
    row_e: dw.RowPolicy
    row_b: dw.RowPolicy
    flags: np.ndarray


def twins(seed: int, ends: str, n: int = 60, limit: int = 6) -> Twins:
    """Episodes that all terminate, are cut by a time limit, or are cut with known successors."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(STATES + 1), size=(STATES, ACTIONS))
    P[..., -1] *= 0.5
    P /= P.sum(axis=-1, keepdims=True)
    R = rng.normal(size=(STATES, ACTIONS))
    pi_b, pi_e = (rng.dirichlet(np.full(ACTIONS, 3.0), size=STATES) for _ in range(2))
    s, a, r, offsets, terminated, last = [], [], [], [0], [], []
    for _ in range(n):
        state, steps = int(rng.integers(STATES)), 0
        while True:
            action = int(rng.choice(ACTIONS, p=pi_b[state]))
            s.append(state)
            a.append(action)
            r.append(R[state, action] + 0.1 * rng.normal())
            steps += 1
            state = int(rng.choice(STATES + 1, p=P[state, action]))
            if state == STATES or (ends != "terminated" and steps == limit):
                break
        terminated.append(state == STATES)
        last.append(state)
        offsets.append(len(s))
    known = ends == "successors"
    codes = np.array(s)
    after = np.array([np.eye(STATES)[i] if i < STATES else np.full(STATES, np.nan) for i in last])
    following = np.full(len(s), -1)
    following[np.array(offsets[1:]) - 1] = np.where(terminated, -1, last)
    inner = np.setdiff1d(np.arange(len(s)), np.array(offsets[1:]) - 1)
    following[inner] = codes[inner + 1]
    rest = {"terminated": terminated}
    rows = pi_e[codes]
    after_e = np.array([pi_e[i] if i < STATES else np.full(ACTIONS, np.nan) for i in last])
    return Twins(
        dw.Trajectories(s, a, r, offsets, next_states=following if known else None, **rest),
        dw.Trajectories(
            None,
            a,
            r,
            offsets,
            features=np.eye(STATES)[codes],
            last_features=after if known else None,
            **rest,
        ),
        pi_e,
        pi_b,
        dw.RowPolicy(rows, last=after_e if known else None),
        dw.RowPolicy(pi_b[codes]),
        rng.random(len(s)) < 0.4,
    )
