"""Logs written as folders of Parquet, cut and ordered in ways that streams must not mind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deadweight.io.open import open_log
from deadweight.sums.blocks import Block
from deadweight.sums.summaries import Moments

N_STATES, N_ACTIONS = 6, 3


def table_of(
    episodes: int = 60,
    longest: int = 9,
    *,
    seed: int = 0,
    text: bool = False,
    truncated: bool = False,
    propensities: bool = False,
    fixed: bool = False,
) -> pa.Table:
    """A log as a table sorted by episode and step."""
    rng = np.random.default_rng(seed)
    lengths = np.full(episodes, longest) if fixed else rng.integers(1, longest + 1, episodes)
    steps = int(lengths.sum())
    last = np.cumsum(lengths) - 1
    states = rng.integers(0, N_STATES, steps)
    columns: dict[str, Any] = {
        "episode": np.repeat(np.arange(episodes) * 3, lengths),
        "step": np.concatenate([np.arange(length) for length in lengths]),
        "state": states,
        "action": rng.integers(0, N_ACTIONS, steps),
        "reward": rng.normal(size=steps),
        "unused": rng.normal(size=steps),
    }
    if truncated:
        ended = rng.random(episodes) < 0.6
        flags = np.zeros(steps, dtype=bool)
        flags[last] = ended
        following = np.append(states[1:], -1)
        following[last] = np.where(rng.random(episodes) < 0.7, rng.integers(0, N_STATES, episodes), -1)
        columns |= {"terminated": flags, "next_state": following}
    if propensities:
        columns["behaviour_prob"] = rng.uniform(0.2, 1.0, steps)
        columns["target_prob"] = rng.uniform(0.0, 1.0, steps)
    if text:
        names = np.array([f"s{i}" for i in range(N_STATES)], dtype=object)
        columns["state"] = names[columns["state"]]
        columns["action"] = np.array(["left", "stay", "right"], dtype=object)[columns["action"]]
        if truncated:
            known = columns["next_state"] >= 0
            columns["next_state"] = [names[i] if k else None for i, k in zip(following, known, strict=True)]
    return pa.table(columns)


def write(
    folder: Path, table: pa.Table, files: int = 3, group_rows: int = 20, names: Sequence[str] = ()
) -> Path:
    """The table as so many files of row groups of so many rows; episodes are cut wherever it falls."""
    folder.mkdir(exist_ok=True)
    edges = np.linspace(0, table.num_rows, files + 1).astype(int)
    for i, (lo, hi) in enumerate(pairwise(edges)):
        name = names[i] if names else f"part-{i}.parquet"
        pq.write_table(table.slice(lo, hi - lo), folder / name, row_group_size=group_rows)
    return folder


def policies(seed: int = 1, n_states: int = N_STATES) -> tuple[np.ndarray, np.ndarray]:
    """Two policies with full support."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(N_ACTIONS, 3.0), n_states), rng.dirichlet(np.full(N_ACTIONS, 3.0), n_states)


# --- what a block is asked for in tests of executors: importable, so that other processes find it ---------


def mean_reward(block: Block) -> list[Moments]:
    return [Moments.of(block.flat(block.rewards))]


@dataclass(frozen=True)
class KilledOnce:
    """Sums a block, but the first process that comes to a part with this number of episodes is killed."""

    mark: str
    episodes: int

    def __call__(self, block: Block) -> list[Moments]:
        if block.log.n_episodes == self.episodes:
            try:
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return mean_reward(block)


def killed_always(block: Block) -> list[Moments]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def opened(source: Any, use: Callable[[Any], Any], **settings: Any) -> Any:
    """What `use` makes of a log that comes in by the front door."""
    with open_log(source, **settings) as log:
        return use(log)
