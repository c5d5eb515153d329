"""What is asked of a log, however it came in: in its own words for states and actions."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from doors.worlds import World

import deadweight as dw

Values = Mapping[str, float]
RATIOS_ONLY = ("BEHAVIOUR", "IS", "WIS", "PDIS", "WPDIS")
STATEWISE = ("SIS", "WSIS", "SPDIS", "WSPDIS")


@dataclass(frozen=True)
class Words:
    """What the log calls the states and actions of a world."""

    states: list[Any]
    actions: list[Any]


def as_given(world: World) -> Words:
    """Labels that stay what they are."""
    return Words(world.states, world.actions)


def in_tables(world: World) -> Words:
    """Labels of a table with types: days are written out."""

    def word(label: Any) -> Any:
        return str(label) if isinstance(label, dt.date) else label

    return Words([word(label) for label in world.states], [word(label) for label in world.actions])


def in_text(world: World) -> Words:
    """Labels of a file without types: numbers where all cells of a column read back as they are written."""
    table = world.columns()
    cells = {name: [cell(one) for one in table.get(name, []) if one is not None] for name in table}
    states = _numbers(cells["state"] + cells.get("next_state", []))
    actions = _numbers(cells["action"])
    return Words(
        [cell(label) if not states else _number(cell(label)) for label in world.states],
        [cell(label) if not actions else _number(cell(label)) for label in world.actions],
    )


def _numbers(cells: Sequence[str]) -> bool:
    return all(_number(one) != one for one in cells)


def _number(text: str) -> Any:
    """The number that is written like this, or the text."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            number = kind(text)
            if repr(number) == text and abs(number) < 2**63:
                return number
    return text


def cell(value: Any) -> str:
    """A value as it is written in a file without types."""
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def table_of(probs: np.ndarray, words: Words, rng: np.random.Generator) -> dw.TabularPolicy:
    """A policy by labels, with its rows and columns in any order."""
    rows, columns = rng.permutation(len(words.states)), rng.permutation(len(words.actions))
    return dw.TabularPolicy(
        probs[rows][:, columns],
        states=[words.states[i] for i in rows],
        actions=[words.actions[j] for j in columns],
    )


def policies(world: World, words: Words, rng: np.random.Generator) -> tuple[Any, Any]:
    """pi_e and pi_b: by labels, or None where the log has its own columns."""
    pi_e = table_of(world.pi_e, words, rng) if world.target == "table" else None
    if world.old_policies is not None:
        return pi_e, {one: table_of(probs, words, rng) for one, probs in world.old_policies.items()}
    return pi_e, table_of(world.pi_b, words, rng) if world.logged == "table" else None


def asked(
    world: World,
    log: Any,
    words: Words,
    rng: np.random.Generator,
    *,
    pi_e: Any = None,
    pi_b: Any = None,
    names: Sequence[str] = (),
    drop: Any = None,
) -> dict[str, float]:
    """The values of the estimators that a world is asked for."""
    named = policies(world, words, rng)
    found = dw.evaluate(
        log,
        named[0] if pi_e is None else pi_e,
        named[1] if pi_b is None else pi_b,
        estimators=list(names or world.names),
        drop=[words.states[s] for s in sorted(world.drop)] if drop is None else drop,
        gamma=world.gamma,
        interval=None,
        solve="longest",
        background=False,
    )
    return {name: found[name].value for name in names or world.names}


def read(
    world: World, source: Any, rng: np.random.Generator, words: Words | None = None, **given: Any
) -> Values:
    """The values of what `read` makes of a source."""
    log = dw.read(source, time_limit=world.time_limit, **given)
    return asked(world, log, in_tables(world) if words is None else words, rng)


def is_right(world: World, name: str, value: float) -> bool:
    """Whether a value is what the loops say."""
    return abs(value - world.expected[name]) <= 1e-9 * abs(world.expected[name]) + 1e-12 * world.size
