"""All levels of a path at once: compiled, by numpy, and by the ordinary estimator at each level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from kernel.built import _kernel

import deadweight as dw
from deadweight.estimators.names import BUILT_IN
from deadweight.negligible.all_levels import all_levels
from deadweight.negligible.columns import Columns, level_by_level
from deadweight.negligible.levels import Levels, make_levels
from deadweight.question.core import Question, ask
from deadweight.question.options import read_options
from deadweight.sums import kernel
from deadweight.sums.blocks import blocks
from deadweight.sums.level_walks import LevelValues, LevelWalk, NestedDrops
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray

S, A = 7, 3
GROUPS = (
    ("WSIS", "WSPDIS", "C-WSPDIS", "C-WSIS"),
    ("SIS", "SPDIS", "C-SPDIS", "C-SIS"),
    ("WDRSIS",),
    ("DRSIS",),
)
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


def found_by(way: object, question: Question, names: Sequence[str], levels: Levels) -> list[Columns]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "KERNEL", way)
        found = all_levels(question, [BUILT_IN[name] for name in names], levels)
    assert found is not None
    return found


def assert_alike(found: Columns, expected: Columns, what: str) -> None:
    for field in FIELDS:
        a, b = getattr(found, field), getattr(expected, field)
        atol = 1e-10 * max(1.0, float(np.nanmax(np.abs(b), initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=atol, err_msg=f"{what}: {field}")


@pytest.mark.parametrize("first", range(0, 48, 8))
def test_all_ways_agree(first: int) -> None:
    for seed in range(first, first + 8):
        question = question_of(seed)
        levels = make_levels(question, most=25)
        for names in GROUPS:
            by_way = [found_by(way, question, names, levels) for way in WAYS]
            for place, name in enumerate(names):
                expected = level_by_level(question, BUILT_IN[name], levels)
                for columns in by_way:
                    assert_alike(columns[place], expected, f"seed {seed}, {name}")


@pytest.mark.parametrize("way", WAYS)
def test_cross_fitted_values_follow_their_folds(way: object) -> None:
    question = question_of(4, cross_fit=3)
    levels = make_levels(question, most=25)
    found = found_by(way, question, ["WDRSIS"], levels)[0]
    assert_alike(found, level_by_level(question, BUILT_IN["WDRSIS"], levels), "cross-fitted")


def test_workers_change_nothing() -> None:
    log, pi_e, pi_b = draw(5)
    many = dw.Trajectories(
        np.tile(log.states, 4000), np.tile(log.actions, 4000), np.tile(log.rewards, 4000),
        np.concatenate([[0], np.tile(log.lengths, 4000).cumsum()]),
    )  # fmt: skip
    found = []
    for workers in (1, 3):
        question = ask(many, pi_e, pi_b, 1.0, read_options({}), workers)
        levels = make_levels(question, most=5)
        found.append(found_by(kernel.KERNEL, question, ["WSPDIS"], levels)[0])
    for field in FIELDS:
        assert getattr(found[0], field).tobytes() == getattr(found[1], field).tobytes()


@pytest.mark.parametrize("way", WAYS)
def test_products_out_of_range_are_declined(way: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """An excursion that comes back counts too; the path then goes level by level."""
    monkeypatch.setattr(kernel, "KERNEL", way)
    ratio = np.concatenate([np.full(80, 1e6), np.full(80, 1e-6)])
    log = dw.Trajectories(
        np.zeros(160, dtype=int), np.zeros(160, dtype=int), np.ones(160), [0, 160],
        propensities=np.full(160, 1e-7), target_probs=ratio * 1e-7,
    )  # fmt: skip
    question = ask(log, None, None)
    drops, values = NestedDrops(np.array([1]), 2), LevelValues(np.zeros((160, 1)))
    block = next(blocks(log))
    assert LevelWalk(block, Weighting(question.pair), drops, values).sums(1.0) is None


@pytest.mark.parametrize("options", [{"finished": "leave"}, {"drop_first": False}])
def test_other_conventions_go_level_by_level(options: dict[str, object]) -> None:
    question = question_of(3, **options)
    name = "WDRSIS" if "drop_first" in options else "WSPDIS"
    assert all_levels(question, [BUILT_IN[name]], make_levels(question, most=5)) is None
    path = dw.epsilon_path(name, *draw(3), gamma=0.9, **options)
    assert np.isfinite(path.estimate).all()


@pytest.mark.skipif(_kernel is None, reason="the kernel is not built")
@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("the tables", {"table": np.ones(5)}),
        ("the values", {"delta": np.ones(1)}),
        ("the episodes", {"rows": np.array([9])}),
        ("the folds", {"fold_of": np.array([1])}),
        ("the results", {"final": np.ones(3)}),
    ],
)
def test_the_kernel_checks_what_it_is_told(what: str, change: dict[str, FloatArray]) -> None:
    a = {"rows": np.array([0]), "table": np.ones(2), "delta": np.ones(2), "fold_of": None}
    a |= {"final": np.ones(4), **change}
    log = (np.zeros(2, dtype=int), np.zeros(2, dtype=int), np.ones(2), np.array([0, 2]), a["rows"])
    levels = (a["table"], None, None, None, None, np.array([1.0]), np.arange(4.0), 2, 1)
    table = np.zeros(8)
    results = (table, table.copy(), np.zeros(0), table.copy(), np.zeros(12), a["final"], np.zeros(1))
    values = (None, None, a["delta"], a["fold_of"])
    with pytest.raises(ValueError, match=what):
        _kernel.path_sums(log, levels, values, None, results)
