"""Lanes: all levels of the paths of many names at once, compiled, by numpy, and each level by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from kernel.built import _kernel, needs_kernel

import deadweight as dw
from deadweight.answers.lanes import Laned
from deadweight.answers.rounds import carry_out
from deadweight.estimators.estimator import BUILT_IN
from deadweight.negligible.levels import (
    Columns,
    LevelPlans,
    Levels,
    columns_of,
    level_by_level,
    level_drops,
    make_levels,
)
from deadweight.question.asked import read_options
from deadweight.question.question import Question, ask
from deadweight.sums import kernel
from deadweight.sums.blocks import blocks
from deadweight.sums.lanes import Lanes, LaneValues, LaneWalk, Wanted
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray

S, A = 7, 3
NAMES = ("WSIS", "WSPDIS", "C-WSPDIS", "C-WSIS", "SIS", "SPDIS", "C-SPDIS", "C-SIS", "WDRSIS", "DRSIS")
FIELDS = ("estimate", "std_error", "bias", "ess")
WAYS = [None] if _kernel is None else [_kernel, None]


def draw(seed: int, extreme: float = 1.0) -> tuple[dw.Trajectories, FloatArray, FloatArray]:
    """A random log, ragged as often as not, and two policies, of which pi_e may rule actions out."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 5, 33, 70, 200]))
    lengths = rng.integers(1, 1 + int(rng.choice([1, 4, 15])), n)
    pi_b = rng.dirichlet(np.full(A, 2.0), S)
    pi_e = rng.dirichlet(np.full(A, 0.5), S)
    if rng.random() < 0.5:
        pi_e = np.where(pi_e < 0.1, 0.0, pi_e)
    pi_e = pi_e**extreme / (pi_e**extreme).sum(axis=1, keepdims=True)
    states = rng.integers(0, S, lengths.sum())
    uniform = rng.random(len(states))[:, None]
    actions = (uniform > pi_b.cumsum(axis=1)[states][:, :-1]).sum(axis=1)
    offsets = np.concatenate([[0], lengths.cumsum()])
    rewards = rng.normal(size=len(states))
    propensities = pi_b[states, actions] if rng.random() < 0.3 else None
    log = dw.Trajectories(states, actions, rewards, offsets, propensities=propensities)
    return log, pi_e, pi_b


def question_of(seed: int, **options: object) -> Question:
    log, pi_e, pi_b = draw(seed)
    gamma = (1.0, 0.9)[seed % 2]
    return ask(log, pi_e, None if log.propensities is not None else pi_b, gamma, read_options(options))


def found_by(way: object, question: Question, names: Sequence[str] = NAMES) -> list[Columns]:
    """Columns by the kernel, or by numpy, in lanes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "KERNEL", way)
        levels = make_levels(question, most=25)
        wanted = [(BUILT_IN[name], levels) for name in names]
        assert all(plans_in_lanes(question, name, levels) for name in names)
        return carry_out(question, columns_of(question, wanted))[0]


def plans_in_lanes(question: Question, name: str, levels: Levels) -> bool:
    return LevelPlans.of(question, BUILT_IN[name], level_drops(question, levels)).laned


def one_by_one(question: Question, name: str) -> Columns:
    """The same without lanes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Laned, "of", classmethod(lambda cls, family: None))
        return level_by_level(question, BUILT_IN[name], make_levels(question, most=25))


def assert_alike(found: Columns, expected: Columns, what: str) -> None:
    for field in FIELDS:
        a, b = getattr(found, field), getattr(expected, field)
        atol = 1e-10 * max(1.0, float(np.nanmax(np.abs(b), initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=atol, err_msg=f"{what}: {field}")


def compare(seed: int, names: Sequence[str] = NAMES, **options: object) -> None:
    """The kernel with numpy on one random log."""
    by_way = [found_by(way, question_of(seed, **options), names) for way in WAYS]
    for name, *columns in zip(names, *by_way, strict=True):
        assert_alike(columns[0], columns[-1], f"seed {seed}, {name}")


@pytest.mark.parametrize("first", range(0, 32, 8))
def test_all_ways_agree(first: int) -> None:
    for seed in range(first, first + 8):
        by_way = [found_by(way, question_of(seed)) for way in WAYS]
        alone = question_of(seed)
        for place, name in enumerate(NAMES):
            expected = one_by_one(alone, name)
            for columns in by_way:
                assert_alike(columns[place], expected, f"seed {seed}, {name}")


@needs_kernel
@pytest.mark.parametrize("first", range(100, 300, 50))
def test_kernel_and_numpy_agree(first: int) -> None:
    """`python benchmarks/agreement.py 10000` compares as many random logs as one likes."""
    for seed in range(first, first + 50):
        compare(seed)


@pytest.mark.parametrize("way", WAYS)
def test_cross_fitted_values_follow_their_folds(way: object) -> None:
    found = found_by(way, question_of(4, cross_fit=3), ["WDRSIS"])[0]
    assert_alike(found, one_by_one(question_of(4, cross_fit=3), "WDRSIS"), "cross-fitted")


def test_workers_change_nothing() -> None:
    log, pi_e, pi_b = draw(5)
    many = dw.Trajectories(
        np.tile(log.states, 4000), np.tile(log.actions, 4000), np.tile(log.rewards, 4000),
        np.concatenate([[0], np.tile(log.lengths, 4000).cumsum()]),
    )  # fmt: skip
    found = []
    for workers in (1, 3):
        question = ask(many, pi_e, pi_b, 1.0, read_options({}), workers)
        found.append(found_by(kernel.KERNEL, question, ["WSPDIS"])[0])
    for field in FIELDS:
        assert getattr(found[0], field).tobytes() == getattr(found[1], field).tobytes()


@pytest.mark.parametrize("way", WAYS)
def test_products_out_of_range_are_declined(way: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """An excursion that comes back counts too."""
    monkeypatch.setattr(kernel, "KERNEL", way)
    ratio = np.concatenate([np.full(80, 1e6), np.full(80, 1e-6)])
    log = dw.Trajectories(
        np.zeros(160, dtype=int), np.zeros(160, dtype=int), np.ones(160), [0, 160],
        propensities=np.full(160, 1e-7), target_probs=ratio * 1e-7,
    )  # fmt: skip
    question = ask(log, None, None)
    lanes, values = Lanes(np.array([[False], [True]])), LaneValues(np.zeros((160, 1)))
    walk = LaneWalk(next(blocks(log)), Weighting(question.pair), lanes, values)
    assert walk.sums(1.0, Wanted(steps=True)).declined


@pytest.mark.parametrize("way", WAYS)
def test_a_declined_log_is_summed_without_lanes(way: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "KERNEL", way)
    rng = np.random.default_rng(0)
    states, actions = np.tile([0, 1], 400), rng.integers(2, size=800)
    log = dw.Trajectories(states, actions, rng.normal(size=800), [0, 400, 800])
    pi_b, pi_e = np.full((2, 2), 0.5), np.array([[1e-5, 1 - 1e-5], [0.4, 0.6]])
    names = ["WSIS", "WSPDIS", "C-WSPDIS", "WDRSIS"]
    question = ask(log, pi_e, pi_b)
    levels = make_levels(question, most=25)
    (found,) = carry_out(question, columns_of(question, [(BUILT_IN[name], levels) for name in names]))
    for name, columns in zip(names, found, strict=True):
        assert_alike(columns, one_by_one(ask(log, pi_e, pi_b), name), name)


@pytest.mark.parametrize("options", [{"finished": "leave"}, {"drop_first": False}])
def test_other_conventions_go_level_by_level(options: dict[str, object]) -> None:
    question = question_of(3, **options)
    name = "WDRSIS" if "drop_first" in options else "WSPDIS"
    assert not plans_in_lanes(question, name, make_levels(question, most=5))
    path = dw.epsilon_path(name, *draw(3), gamma=0.9, **options)
    assert np.isfinite(path.estimate).all()


@needs_kernel
@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("the tables", {"table": np.ones(5)}),
        ("the lanes", {"pattern": np.array([3])}),
        ("the values", {"delta": np.ones(3)}),
        ("the episodes", {"rows": np.array([9])}),
        ("the folds", {"fold_of": np.array([1])}),
        ("the results", {"final": np.ones(3)}),
    ],
)
def test_the_kernel_checks_what_it_is_told(what: str, change: dict[str, FloatArray]) -> None:
    a = {"rows": np.array([0]), "table": np.ones(2), "delta": np.ones(2), "fold_of": None}
    a |= {"final": np.ones(4), "pattern": np.array([0]), **change}
    log = (np.zeros(2, dtype=int), np.zeros(2, dtype=int), np.ones(2), np.array([0, 2]), a["rows"])
    lanes = (a["table"], None, None, None, None, a["pattern"], np.full(4, -1), 2, 4, 4, 1)
    results = (np.zeros(8), None, None, None, np.zeros(8), np.zeros(12), None, None, a["final"], None)
    values = (None, None, a["delta"], a["fold_of"], 2, 1)
    with pytest.raises(ValueError, match=what):
        _kernel.lane_sums(2, log, lanes, values, None, results)
