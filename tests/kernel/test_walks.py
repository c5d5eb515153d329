"""The compiled kernel against numpy: the same sums up to the order of additions, or a block declined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel.built import _kernel, needs_kernel

import deadweight as dw
from deadweight.estimators.product import PerDecision, ProductFamily, ProductSums, WholeEpisode
from deadweight.log.interface import in_memory
from deadweight.sums import kernel
from deadweight.sums.blocks import Field, Table, blocks
from deadweight.sums.pairs import PolicyPair, pair_policies
from deadweight.sums.reduction import reduce_log
from deadweight.sums.weighting import SAFE_LOG, Weighting

S, A = 5, 3
PLAIN = ("IS", "WIS", "PDIS", "WPDIS")
STATE_BASED = ("SIS", "WSIS", "SPDIS", "WSPDIS")
LENGTHS: dict[str, list[int]] = {
    "equal": [7] * 40,
    "ragged": [1, 9, 2, 30, 4, 4, 17] * 12,
    "one step": [1] * 50,
    "single": [23],
    "very unequal": [1, 150],
    "many": [3] * 600 + [2] * 600,  # sums of sums over episodes
    "long": [700, 650, 300],  # and over steps
}


class Watched:
    """The kernel, with a count of the blocks that it has summed and of those that it has declined."""

    def __init__(self) -> None:
        self.summed = self.declined = self.influences_made = 0

    def sums(self, *arguments: Any) -> bool:
        done = _kernel.sums(*arguments)
        self.summed, self.declined = self.summed + done, self.declined + (not done)
        return done

    def influences(self, *arguments: Any) -> bool:
        self.influences_made += 1
        return _kernel.influences(*arguments)

    def lane_influences(self, *arguments: Any) -> bool:
        """Plain weights are lanes of one walk; that of one estimate alone is for other terms."""
        self.influences_made += 1
        return _kernel.lane_influences(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(_kernel, name)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched()
    monkeypatch.setattr(kernel, "KERNEL", found)
    return found


def make_log(lengths: Sequence[int], seed: int = 0, **columns: Any) -> dw.Trajectories:
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    states, actions = rng.integers(S, size=n), rng.integers(A, size=n)
    states[0], actions[0] = S - 1, A - 1
    return dw.Trajectories(states, actions, rng.normal(size=n), offsets, **columns)


def make_policies(seed: int = 1, like: float = 5.0) -> tuple[np.ndarray, np.ndarray]:
    """Two policies, the more alike the larger `like` is."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(A, like), S), rng.dirichlet(np.full(A, like), S)


def numbers(log: Any, pi_e: Any, pi_b: Any, names: Sequence[str], **options: Any) -> np.ndarray:
    """Value, standard error and effective sample size of each name, in all and at each step."""
    ev = dw.evaluate(log, pi_e, pi_b, names, interval=None, also=["std_error", "ess_steps"], **options)
    found = [ev[name] for name in names]
    none = np.full(log.horizon, np.nan)  # of an estimate without weights
    steps = [none if one.ess_steps is None else one.ess_steps for one in found]
    return np.array(
        [[one.value, one.std_error, one.ess, *some] for one, some in zip(found, steps, strict=True)],
        dtype=float,
    )


def both(*arguments: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """The numbers by the kernel, and by numpy."""
    ours = numbers(*arguments, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "KERNEL", None)
        return ours, numbers(*arguments, **options)


@needs_kernel
@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("kind", LENGTHS)
def test_same_numbers(watched: Watched, kind: str, gamma: float) -> None:
    log, policies = make_log(LENGTHS[kind]), make_policies(like=300.0 if kind == "long" else 5.0)
    ours, theirs = both(log, *policies, PLAIN, gamma=gamma)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert watched.summed > 0
    assert watched.influences_made > 0
    assert watched.declined == 0


@needs_kernel
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_returns(watched: Watched, gamma: float) -> None:
    """The same bits alone and on a walk, and the same number as by numpy."""
    log = make_log(LENGTHS["ragged"])
    alone, of_numpy = both(log, *make_policies(), ["BEHAVIOUR"], gamma=gamma)
    with_others = numbers(log, *make_policies(), ["WIS", "BEHAVIOUR"], gamma=gamma)
    np.testing.assert_array_equal(with_others[1], alone[0])
    np.testing.assert_allclose(alone, of_numpy, rtol=1e-12)


@needs_kernel
@pytest.mark.parametrize("given_as", ["tables", "propensities", "target_probs", "both columns"])
@pytest.mark.parametrize("drop", ["states", "steps"])
def test_same_numbers_with_a_drop_from_whatever_source(watched: Watched, given_as: str, drop: str) -> None:
    pi_e, pi_b = make_policies()
    log = make_log(LENGTHS["ragged"])
    columns: dict[str, Any] = {}
    if given_as in ("propensities", "both columns"):
        columns["propensities"], pi_b = pi_b[log.states, log.actions], None
    if given_as in ("target_probs", "both columns"):
        columns["target_probs"], pi_e = pi_e[log.states, log.actions], None
    log = make_log(LENGTHS["ragged"], **columns)
    flags = np.arange(log.n_steps) % 3 == 0
    ours, theirs = both(log, pi_e, pi_b, STATE_BASED, drop=[1, 4] if drop == "states" else flags)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert watched.summed > 0
    assert watched.declined == 0
    plain, _ = both(log, pi_e, pi_b, PLAIN)
    assert not np.allclose(ours[:, 0], plain[:, 0]), "the drop changes something"


@needs_kernel
@pytest.mark.parametrize(
    ("wild", "declined"),
    [
        ({}, 0),
        ({64: 1e-5, 66: 0.0}, 0),
        ({10: 1e-120, 20: 1e-120}, 1),
        ({10: 1e-120, 60: 1e-120, 130: 0.0}, 1),
    ],
    ids=["tame", "wild and zero", "out of range", "out of range and then zero"],
)
def test_quotients_of_two_columns(watched: Watched, wild: dict[int, float], declined: int) -> None:
    """They are made 64 at a time, and followed step by step where one of them is large or small."""
    lengths = [63, 64, 65, 128, 129, 300, 1]
    rng, n = np.random.default_rng(3), sum(lengths)
    bottom, top = rng.uniform(0.2, 1.0, n), rng.uniform(0.2, 1.0, n)
    top[330::37] = 0.0
    for step, ratio in wild.items():
        top[192 + step] = ratio * bottom[192 + step]  # within the episode of 128 steps
    log = make_log(lengths, propensities=bottom, target_probs=np.minimum(top, 1.0))
    found, expected = both(log, None, None, PLAIN)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    assert bool(watched.declined) == bool(declined)


@needs_kernel
@pytest.mark.parametrize("finished", ["leave", "survivors"])
def test_other_conventions_are_left_to_numpy(watched: Watched, finished: str) -> None:
    log = make_log(LENGTHS["ragged"])
    ours, theirs = both(log, *make_policies(), ("PDIS", "WPDIS"), finished=finished)
    np.testing.assert_array_equal(ours, theirs)
    assert watched.summed == 0


@needs_kernel
def test_zero_weights(watched: Watched) -> None:
    """Some episodes with weight zero, then all of them: the same zero, and the same flag."""
    pi_e, pi_b = make_policies()
    pi_e[:, 0] = 0.0
    pi_e /= pi_e.sum(axis=1, keepdims=True)
    log = make_log(LENGTHS["ragged"])
    ours, theirs = both(log, pi_e, pi_b, PLAIN)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    never = dw.Trajectories(np.zeros(6, int), np.zeros(6, int), np.ones(6), [0, 2, 6])
    found = dw.estimate("WPDIS", never, [[0.0, 1.0]], [[0.5, 0.5]], interval=None)
    assert found.value == 0.0
    assert "zero-weights" in found.flags
    assert watched.declined == 0


def family(pair: PolicyPair, gamma: float = 1.0, drop: Field | None = None) -> ProductFamily:
    return ProductFamily([WholeEpisode(), PerDecision()], Weighting(pair, drop), gamma)


def sums_of(made: ProductFamily, log: dw.Trajectories, workers: int = 1, cells: int = 1 << 19) -> ProductSums:
    found: ProductSums = reduce_log([log], lambda block: [made.summarise(block)], workers, cells)[0]
    return found


def close(one: ProductSums, other: ProductSums) -> None:
    for a, b in zip(one.groups, other.groups, strict=True):
        np.testing.assert_array_equal(a.shift, b.shift)
        np.testing.assert_array_equal(a.counted, b.counted)
        np.testing.assert_allclose(a.weight, b.weight, rtol=1e-12)
        np.testing.assert_allclose(a.weighted, b.weighted, rtol=1e-12, atol=1e-12)
    assert one.plain.mean == pytest.approx(other.plain.mean, rel=1e-12, nan_ok=True)


@needs_kernel
def test_nan_passes_through(watched: Watched) -> None:
    """A step that pi_b rules out, if one ever got here, must not look like a number."""
    pi_e, pi_b = make_policies()
    pi_b[2, 1] = 0.0
    log = make_log(LENGTHS["ragged"])
    pair = PolicyPair(pi_e, pi_b, np.arange(S), np.arange(A))
    seen = PolicyPair(None, pi_b, np.arange(S), np.arange(A))  # with the log's own target_prob
    log = make_log(LENGTHS["ragged"], target_probs=pi_e[log.states, log.actions])
    for made in (family(pair), family(pair, drop=Table(np.arange(S) == 2)), family(seen)):
        ours = sums_of(made, log)
        assert watched.summed > 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "KERNEL", None)
            theirs = sums_of(made, log)
        close(ours, theirs)
        assert np.isnan(ours.plain.mean)
        assert np.isnan(ours.groups[1].weight[-1])
        assert watched.declined == 0


@needs_kernel
@pytest.mark.parametrize("up_and_back", [False, True])
def test_products_that_leave_the_range_are_left_to_numpy(watched: Watched, up_and_back: bool) -> None:
    """Also those that come back, and those in one episode of many."""
    n, horizon = 30, 600
    actions = np.zeros((n, horizon), dtype=int)
    actions[:, 1::2] = 1
    actions[-1] = np.repeat([0, 1], 300) if up_and_back else 1  # 9**300 and back, or 0.2**600
    rewards = np.random.default_rng(0).normal(size=n * horizon)
    log = dw.Trajectories(np.zeros(n * horizon, int), actions.ravel(), rewards, np.arange(0, n + 1) * horizon)
    pi_e, pi_b = [[0.9, 0.1]], [[0.1, 0.9]] if up_and_back else [[0.5, 0.5]]
    ours, theirs = both(log, pi_e, pi_b, PLAIN)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert watched.declined > 0
    assert watched.summed == 0


@needs_kernel
def test_blocks_in_and_out_of_range_make_one_result(watched: Watched) -> None:
    """A short block goes through the kernel, a long one through numpy; their sums and influences merge."""
    lengths = [3] * 40 + [2_000] * 6
    n = sum(lengths)
    actions = np.zeros(n, dtype=int)
    actions[:120] = np.arange(120) % 7 % 2
    log = dw.Trajectories(
        np.zeros(n, int), actions, np.cos(np.arange(n)), np.concatenate([[0], np.cumsum(lengths)])
    )
    pair = pair_policies(
        in_memory(log).labels, [[0.9, 0.1]], [[0.5, 0.5]]
    )  # long episodes end with 1.8**2000

    def summed() -> tuple[Any, Any]:
        made = family(pair)
        sums = sums_of(made, log, cells=200)
        influence = made.finish(sums, weighted=True).influence
        assert influence is not None
        values = np.concatenate([influence(block) for block in blocks(log, 200)])
        return sums.groups[1].ratio, values

    ours = summed()
    assert watched.summed > 0
    assert watched.declined > 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "KERNEL", None)
        theirs = summed()
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-300)


@needs_kernel
def test_the_range_is_that_of_running_products() -> None:
    """One step within exp(+-SAFE_LOG) is taken, one beyond is not."""
    log = dw.Trajectories([0, 0], [0, 1], [1.0, 1.0], [0, 1, 2])
    for inside, factor in ((True, 0.999), (False, 1.001)):
        table = np.exp(np.array([1.0, -1.0]) * SAFE_LOG * factor)
        arguments = (table, None, None, None, None, None, None, 2, 1)
        out = tuple(np.zeros(size) for size in (2, 2, 2, 1, 1))
        columns = (log.states, log.actions, log.rewards, log.offsets, np.arange(2))
        assert _kernel.sums(columns, arguments, None, out, np.zeros(8)) is inside


@needs_kernel
@given(st.data())
def test_any_log(data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=30))
    seed = data.draw(st.integers(0, 1_000))
    gamma = data.draw(st.sampled_from([1.0, 0.95, 0.3]))
    cells = data.draw(st.sampled_from([1, 20, 1_000]))
    log, (pi_e, pi_b) = make_log(lengths, seed), make_policies(seed)
    if data.draw(st.booleans()):
        pi_e = np.eye(A)[pi_e.argmax(axis=1)]
    drop = np.random.default_rng(seed).random(S) < data.draw(st.sampled_from([0.0, 0.5]))
    pair = pair_policies(in_memory(log).labels, pi_e, pi_b)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for use in (_kernel, None):
            patch.setattr(kernel, "KERNEL", use)
            found.append(sums_of(family(pair, gamma, Table(drop)), log, cells=cells))
    close(*found)


@needs_kernel
def test_same_bits_for_any_number_of_workers(watched: Watched) -> None:
    log = make_log(LENGTHS["ragged"] * 5)
    pair = pair_policies(in_memory(log).labels, *make_policies())

    def bits(workers: int) -> list[bytes]:
        sums = sums_of(family(pair), log, workers, cells=100)
        columns = [column.tobytes() for group in sums.groups for column in (group.weight, group.weighted)]
        return [*columns, repr(sums.plain).encode()]

    assert bits(1) == bits(2) == bits(3)
    assert watched.summed > 30


@needs_kernel
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.float32])
def test_columns_of_any_type(watched: Watched, dtype: Any) -> None:
    log = make_log(LENGTHS["ragged"])
    whole = dtype if np.issubdtype(dtype, np.integer) else np.int16
    same = dw.Trajectories(
        log.states.astype(whole),
        log.actions.astype(whole),
        log.rewards.astype(np.float32 if dtype == np.float32 else np.float64),
        log.offsets.astype(np.int32),
    )
    ours, theirs = both(same, *make_policies(), PLAIN)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert watched.summed > 0


@needs_kernel
def test_scattered_columns(watched: Watched) -> None:
    """Rewards in several pieces are left to numpy; flags of steps are put in order, and lie in one."""
    log = make_log(LENGTHS["ragged"])
    rewards = np.repeat(log.rewards, 2)[::2]
    same = dw.Trajectories(log.states, log.actions, rewards, log.offsets)
    ours, theirs = both(same, *make_policies(), PLAIN)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert (watched.summed > 0) == same.rewards.flags.c_contiguous
    before, flags = watched.summed, np.repeat(np.arange(log.n_steps) % 3 == 0, 2)[::2]
    ours, theirs = both(log, *make_policies(), STATE_BASED, drop=flags)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert watched.summed > before
