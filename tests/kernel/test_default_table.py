"""The default table by the kernel and by numpy: counts, lanes, windows and influences of models together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel.built import needs_kernel

import deadweight as dw
from deadweight.sums import kernel

S, A = 6, 3
PARTS = ("value", "std_error", "bias", "ess")


def table(seed: int) -> dict[str, list[float]]:
    """A default table of a random log: ragged as often as not, ended and cut episodes, discounts."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([20, 60, 300]))
    lengths = rng.integers(1, 12, n) if seed % 2 else np.full(n, 8)
    steps = int(lengths.sum())
    terminated = rng.random(n) < rng.choice([0.0, 0.6, 1.0])
    log = dw.Trajectories(
        rng.integers(S, size=steps), rng.integers(A, size=steps), rng.normal(size=steps),
        np.concatenate([[0], lengths.cumsum()]), terminated=terminated,
    )  # fmt: skip
    pi_e, pi_b = (rng.dirichlet(np.full(A, 3.0), S) for _ in range(2))
    found: dict[str, Any] = dw.evaluate(log, pi_e, pi_b, gamma=(1.0, 0.9)[seed % 3 == 0]).estimates
    return {name: [getattr(one, part) for part in PARTS] for name, one in found.items()}


@needs_kernel
@pytest.mark.parametrize("seed", range(12))
def test_kernel_and_numpy_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = table(seed)
    monkeypatch.setattr(kernel, "KERNEL", None)
    theirs = table(seed)
    assert "BLEND" in ours
    for name, expected in theirs.items():
        a, b = (np.array(one, dtype=float) for one in (ours[name], expected))
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10, err_msg=f"seed {seed}, {name}")
