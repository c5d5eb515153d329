"""Values of unseen models beside rewards to go, by the kernel and by numpy."""

from __future__ import annotations

import numpy as np
import pytest
from kernel.built import _kernel, needs_kernel

import deadweight as dw
from deadweight.answers import witnesses as unseen_fit
from deadweight.answers.witnesses import Residuals, Slope, Steps, unseen_values
from deadweight.question.question import Question, ask
from deadweight.sums import kernel
from deadweight.sums.blocks import Block, Folds, blocks

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


def both_passes(asked: Question) -> tuple[list[np.ndarray], list[float], bool]:
    """Sums of each block, spreads of each block, and whether the kernel has made them."""
    values = unseen_values(asked)
    assert values is not None
    steps = Steps(values.q, Folds.of(1, asked.sizes), asked.gamma, asked.horizon)
    some: list[Block] = list(blocks(asked.parts[0], cells=200))
    sums = [steps.summarise(block).value for block in some]
    slope = Slope.of(np.sum(sums, axis=0))
    spreads = [float(Residuals(steps, slope)(np.zeros(0), block).value) for block in some]
    return sums, spreads, steps.walk(some[0]) is not None


@needs_kernel
@pytest.mark.parametrize("enough", [25, 10_000])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("longest", [1, 2, 9, 40])
def test_kernel_and_numpy_agree(
    longest: int, ended: bool, gamma: float, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unseen_fit, "ENOUGH", enough)  # of 40 episodes
    monkeypatch.setattr(kernel, "KERNEL", _kernel)
    asked = question(longest, longest, gamma, ended)
    sums, spreads, walked = both_passes(asked)
    assert walked
    monkeypatch.setattr(kernel, "KERNEL", None)
    expected, wanted, walked = both_passes(asked)
    assert not walked
    np.testing.assert_allclose(sums, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(spreads, wanted, rtol=1e-10, atol=1e-10)
    assert np.sum(expected, axis=0)[0].sum() == asked.parts[0].offsets[min(enough, N)]


@needs_kernel
def test_a_step_that_is_in_no_table_is_declined() -> None:
    columns = tuple(map(np.asarray, ([0, S], [0, 0], [1.0, 1.0], [0, 2], [0])))
    values = (np.zeros(S * A), None, 1, 1, S, A)
    assert not _kernel.unseen_sums(2, columns, values, 1.0, np.zeros(10))
    assert not _kernel.unseen_residuals(2, columns, values, 1.0, np.zeros(4), 0.0, np.zeros(1))


@needs_kernel
@pytest.mark.parametrize(
    "values",
    [
        (np.zeros(S * A - 1), None, 1, 1, S, A),
        (np.zeros(2 * S * A), None, 2, 1, S, A),
        (np.zeros(2 * S * A), np.array([2]), 2, 1, S, A),
        (np.zeros(2 * S * A), np.array([0, 0]), 2, 1, S, A),
        (None, None, 1, 1, S, A),
    ],
)
def test_what_does_not_fit_is_an_error(values: tuple[object, ...]) -> None:
    columns = tuple(map(np.asarray, ([0, 1], [0, 0], [1.0, 1.0], [0, 2], [0])))
    with pytest.raises(ValueError, match="do not fit"):
        _kernel.unseen_sums(2, columns, values, 1.0, np.zeros(10))
    good = (np.zeros(S * A), None, 1, 1, S, A)
    with pytest.raises(ValueError, match="do not fit"):
        _kernel.unseen_sums(2, columns, good, 1.0, np.zeros(9))
    with pytest.raises(ValueError, match="do not fit"):
        _kernel.unseen_residuals(2, columns, good, 1.0, np.zeros(3), 0.0, np.zeros(1))
