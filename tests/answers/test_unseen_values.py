"""Values of unseen models beside rewards to go, against plain loops over episodes."""

from __future__ import annotations

import numpy as np
import pytest

import deadweight as dw
from deadweight.answers.model_tests import CalibrationSlope
from deadweight.answers.trust import unseen_values
from deadweight.question.question import Question, ask
from deadweight.sums.blocks import Block, blocks

S, A, N = 5, 2, 40


def question(seed: int, longest: int, gamma: float, ended: bool) -> Question:
    """About a ragged log; one that was cut has values at each step, one that ended the same at all."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, N)
    steps = int(lengths.sum())
    log = dw.Trajectories(
        rng.integers(S, size=steps), rng.integers(A, size=steps), rng.normal(size=steps),
        np.concatenate([[0], lengths.cumsum()]), terminated=np.full(N, ended),
    )  # fmt: skip
    return ask(log, *(rng.dirichlet(np.full(A, 5.0), S) for _ in range(2)), gamma)


def in_loops(asked: Question, slope: CalibrationSlope, enough: int) -> tuple[np.ndarray, float]:
    """Sums by step, and the spread of the slope, episode by episode."""
    log, rows = asked.parts[0], []
    for block in blocks(log, cells=200):
        values = slope.q.on(block)
        for i, episode in enumerate(block.rows):
            if episode < enough:
                rewards = log.rewards[log.offsets[episode] : log.offsets[episode + 1]]
                to_go = [
                    rewards[t:] @ asked.gamma ** np.arange(len(rewards) - t) for t in range(len(rewards))
                ]
                rows.append((values[i, : len(rewards)], np.array(to_go)))
    sums = np.zeros((5, asked.horizon))
    for x, y in rows:
        sums[:, : len(x)] += np.stack([np.ones(len(x)), x, y, x * x, x * y])
    number = np.maximum(sums[0], 1.0)
    apart = [(x - (sums[1] / number)[: len(x)], y - (sums[2] / number)[: len(x)]) for x, y in rows]
    squares = sum(x @ x for x, _ in apart)
    b = sum(x @ y for x, y in apart) / squares
    return sums, sum((x @ (y - b * x)) ** 2 for x, y in apart) / squares**2


@pytest.mark.parametrize("enough", [25, 10_000])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("longest", [2, 9, 40])
def test_as_in_plain_loops(longest: int, ended: bool, gamma: float, enough: int) -> None:
    asked = question(longest, longest, gamma, ended)
    values = unseen_values(asked)
    assert values is not None
    slope = CalibrationSlope.of(asked, values.q, enough)  # of 40 episodes
    parts: list[Block] = list(blocks(asked.parts[0], cells=200))
    sums = np.sum([slope.summarise(block).value for block in parts], axis=0)
    residuals = slope.residuals(sums)
    spread = sum(float(residuals(np.zeros(0), block).value) for block in parts)
    expected, wanted = in_loops(asked, slope, enough)
    scale = np.array([1.0, slope.unit, slope.unit, slope.unit**2, slope.unit**2])[:, None]
    np.testing.assert_allclose(sums, expected * scale, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(spread, wanted, rtol=1e-8)
    assert sums[0].sum() == asked.parts[0].offsets[min(enough, N)]
