"""Fields: the same values on a block, whichever way they are given; equal ones are shared."""

from __future__ import annotations

import numpy as np
import pytest

import deadweight as dw
from deadweight.errors import DropError, EstimationError
from deadweight.log.interface import in_memory
from deadweight.question.drops import Drop
from deadweight.sums.blocks import (
    Block,
    ByFold,
    Column,
    ExceptFirst,
    Field,
    Folds,
    Logged,
    Table,
    blocks,
    table_of,
)
from deadweight.sums.pairs import pair_policies

S, A, T = 4, 3, 7
RNG = np.random.default_rng(5)
LENGTHS = RNG.integers(1, T + 1, 30)
LOG = dw.Trajectories.from_episodes(
    [[(int(RNG.integers(S)), int(RNG.integers(A)), 0.0) for _ in range(length)] for length in LENGTHS]
).with_propensities(RNG.uniform(0.1, 1.0, LENGTHS.sum()))
STEP = np.arange(LOG.n_steps) - np.repeat(LOG.offsets[:-1], LOG.lengths)
TABLES = {
    "state": Table(RNG.normal(size=S)),
    "state and action": Table(RNG.normal(size=(S, A)), by_action=True),
    "time and state": Table(RNG.normal(size=(T, S)), by_time=True),
    "all three": Table(RNG.normal(size=(T, S, A)), by_time=True, by_action=True),
}


def row_by_row(table: Table) -> np.ndarray:
    """The same as a plain loop over the rows of the log."""
    found = []
    for s, a, t in zip(LOG.states, LOG.actions, STEP, strict=True):
        value = table.values[t] if table.by_time else table.values
        found.append(value[s, a] if table.by_action else value[s])
    return np.array(found)


def by_blocks(field: Field, cells: int = 40) -> np.ndarray:
    """(steps,) its values on blocks, put back where they belong; checks that padding is zero."""
    found = np.full(LOG.n_steps, np.nan)
    for block in blocks(LOG, cells):
        values = field.on(block)
        assert values.shape == (block.n, block.horizon)
        for row, episode in enumerate(block.rows):
            length = block.lengths[row]
            found[LOG.offsets[episode] : LOG.offsets[episode + 1]] = values[row, :length]
            assert not values[row, length:].any()
    return found


def one_block() -> Block:
    return next(blocks(LOG))


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("cells", [40, 100_000])
def test_a_table_and_a_column_are_the_same_field(kind: str, cells: int) -> None:
    expected = row_by_row(TABLES[kind])
    assert np.array_equal(by_blocks(TABLES[kind], cells), expected)
    assert np.array_equal(by_blocks(Column(expected), cells), expected)
    if not TABLES[kind].by_time:
        assert np.array_equal(TABLES[kind].along(LOG), expected)


def test_a_column_of_the_log() -> None:
    assert np.array_equal(by_blocks(Logged("propensities")), LOG.propensities)


@pytest.mark.parametrize("other", ["alike", "of another shape"])
def test_each_episode_has_the_field_of_its_fold(other: str) -> None:
    first = TABLES["all three"]
    second = Table(RNG.normal(size=(T, S, A)), by_time=True, by_action=True)
    if other != "alike":
        second = Table(RNG.normal(size=S))
    fold_of = np.arange(LOG.n_episodes) % 2
    found = by_blocks(ByFold((first, second), Folds.of(2, [LOG.n_episodes])))
    expected = np.where(np.repeat(fold_of, LOG.lengths) == 0, row_by_row(first), row_by_row(second))
    assert np.array_equal(found, expected)


def test_a_drop_that_spares_first_steps() -> None:
    drop = Table(np.array([True, False, True, False]))
    expected = np.array([True, False, True, False])[LOG.states] & (STEP > 0)
    assert np.array_equal(by_blocks(ExceptFirst(drop)), expected)
    assert np.array_equal(ExceptFirst(drop).along(LOG), expected)


def test_equal_fields_are_looked_up_once() -> None:
    mask = np.array([True, False, True, False])
    block = one_block()
    assert Table(mask).on(block) is Table(mask.copy()).on(block)
    assert Table(mask).on(block) is not Table(~mask).on(block)
    assert Table(mask) != Column(mask)
    values = np.arange(12.0).reshape(4, 3)
    assert Table(values, by_action=True) != Table(values, by_time=True)


def test_arrays_that_differ_where_the_hash_does_not_look_are_told_apart() -> None:
    flags = np.zeros(100_000, dtype=bool)
    other = flags.copy()
    other[1] = True
    assert hash(Column(flags)) == hash(Column(other))
    assert Column(flags) != Column(other)


def test_whoever_needs_a_table_says_so() -> None:
    assert table_of(TABLES["state"], "X needs a table", "") is TABLES["state"].values
    with pytest.raises(EstimationError, match=r"X needs a table; found one flag for each step"):
        table_of(Column(np.ones(3, dtype=bool)), "X needs a table", "")
    with pytest.raises(
        DropError, match=r"A state report needs a drop of states; found one flag for each step"
    ):
        Drop(steps=np.ones(3, dtype=bool)).mask_for("A state report", 3)
    logged = dw.Trajectories([0], [0], [1.0], [0, 1], target_probs=[0.5], propensities=[0.5])
    with pytest.raises(EstimationError, match=r"DM needs the evaluation policy for all actions; found only"):
        pair_policies(in_memory(logged).labels, None, None).require_pi_e("DM")
