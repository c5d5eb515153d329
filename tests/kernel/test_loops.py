"""The smaller loops of the kernel, each against its numpy twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel.built import _kernel, needs_kernel

from deadweight.answers import bootstrap as poisson
from deadweight.estimators import incremental
from deadweight.io import part_log
from deadweight.sums import kernel


@needs_kernel
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 2)), min_size=1, max_size=12))
def test_borders_of_episodes(rows: list[tuple[int, int]]) -> None:
    for some in (rows, sorted(set(rows))):
        episode, step = np.array(some).T.copy()
        found = []
        with pytest.MonkeyPatch.context() as patch:
            for use in (_kernel, None):
                patch.setattr(kernel, "KERNEL", use)
                offsets = part_log._offsets(episode, step)
                found.append(None if offsets is None else offsets.tolist())
        assert found[0] == found[1]
    assert found[0] is not None, "sorted rows without repetition are in order"


@needs_kernel
@pytest.mark.parametrize(("episodes", "steps"), [(1, 1), (3, 2), (4, 5), (130, 3), (1031, 7)])
def test_moments_of_windows(episodes: int, steps: int) -> None:
    rng = np.random.default_rng(episodes)
    a, b, rewards = (rng.lognormal(size=(steps, episodes)).T for _ in range(3))
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for use in (_kernel, None):
            patch.setattr(kernel, "KERNEL", use)
            found.append(incremental._moments(a, b, 1e6 + rewards, None))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-11)
    x = b * (1e6 + rewards)
    np.testing.assert_allclose(found[0][2], np.square(x - x.mean(axis=0)).sum(axis=0), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="windows"):
        _kernel.windows(np.ones(4), np.ones(4), np.ones(4), 3, np.ones(5))


@needs_kernel
@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize(
    ("column", "value", "sound"),
    [
        ("states", 2, True),
        ("states", 3, False),
        ("states", -1, False),
        ("actions", 2, False),
        ("actions", -5, False),
        ("rewards", 1e100, True),
        ("rewards", -1e100, True),
        ("rewards", 1.01e100, False),
        ("rewards", -1.01e100, False),
        ("rewards", np.nan, False),
        ("rewards", -np.inf, False),
    ],
)
def test_codes_and_rewards_that_may_be(column: str, value: float, sound: bool, place: int) -> None:
    columns = {"states": np.arange(5) % 3, "actions": np.arange(5) % 2, "rewards": np.linspace(-1, 1, 5)}
    columns[column][place] = value
    with pytest.MonkeyPatch.context() as patch:
        for use in (_kernel, None):
            patch.setattr(kernel, "KERNEL", use)
            assert part_log._plausible(*columns.values(), 3, 2) == sound


@needs_kernel
@pytest.mark.parametrize("seed", [0, 7, -5, 2**70 + 1])
@pytest.mark.parametrize("resamples", [0, 1, 3, 4, 30, 255, 256, 257, 1003])
def test_copies_of_episodes_have_the_same_bits(seed: int, resamples: int) -> None:
    episodes = np.random.default_rng(resamples).integers(0, 2**40, 50)
    for some in (episodes, episodes[::7], episodes[:0]):
        by_kernel = poisson.poisson_weights(seed, some, resamples)
        np.testing.assert_array_equal(by_kernel, poisson._by_numpy(seed, some, resamples))
    with pytest.raises(ValueError, match="resamples"):
        _kernel.resample_copies(0, episodes, np.arange(8), resamples, np.empty(3, dtype=np.uint8))
