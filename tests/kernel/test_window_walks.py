"""Windowed weights by the kernel and by numpy, of episodes longer and shorter than it walks in one go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel.built import needs_kernel

import deadweight as dw
from deadweight.answers.rounds import Influences
from deadweight.estimators.product import SelfNormalised
from deadweight.estimators.windowed import model_steps, windowed
from deadweight.question.question import ask
from deadweight.sums import kernel
from deadweight.sums.blocks import blocks
from deadweight.typing import FloatArray

S, A = 5, 2


def found(seed: int, longest: int) -> dict[str, Any]:
    """Sums and influences of both windows."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, 30)
    steps = int(lengths.sum())
    log = dw.Trajectories(
        rng.integers(S, size=steps), rng.integers(A, size=steps), rng.normal(size=steps),
        np.concatenate([[0], lengths.cumsum()]), terminated=rng.random(30) < 0.5,
    )  # fmt: skip
    pi_e, pi_b = (rng.dirichlet(np.full(A, 5.0), S) for _ in range(2))
    question = ask(log, pi_e, pi_b)
    families = [windowed(question, model_steps(question), window) for window in (3, 2)]
    (block,) = blocks(log)
    sums = [SelfNormalised(one).summarise(block) for one in families]
    fits = [one.finish(some, weighted=True) for one, some in zip(families, sums, strict=True)]
    results: dict[str, FloatArray] = {"influences": Influences([fit.influence for fit in fits])(block)}
    for window, some in zip((3, 2), sums, strict=True):
        results |= {f"weight {window}": some.groups[0].weight, f"weighted {window}": some.groups[0].weighted}
    return results


@needs_kernel
@pytest.mark.parametrize("longest", [2, 9, 128, 131, 300])
def test_kernel_and_numpy_agree(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = found(longest, longest)
    monkeypatch.setattr(kernel, "KERNEL", None)
    theirs = found(longest, longest)
    for what, expected in theirs.items():
        np.testing.assert_allclose(ours[what], expected, rtol=1e-10, atol=1e-10, err_msg=what)
