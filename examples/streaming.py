"""A log on disk: a folder of Parquet files is evaluated by its name, part by part if it is large.

    python examples/streaming.py

The result is the same as for the log in memory. With `workers=4` parts are summed by four processes, and with
`ray_address="auto"` by a Ray cluster; neither changes a digit.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import deadweight as dw

FILES, EPISODES = 6, 2000


def write_files(folder: Path, problem: dw.domains.Problem) -> None:
    """One file for each day."""
    for day in range(FILES):
        log = problem.sample(EPISODES, seed=day)
        episode = np.repeat(np.arange(EPISODES), log.lengths)
        table = pa.table(
            {
                "episode": day * EPISODES + episode,
                "step": np.arange(log.n_steps) - log.offsets[episode],
                "state": log.states,
                "action": log.actions,
                "reward": log.rewards,
                "behaviour_prob": log.propensities,
            }
        )
        pq.write_table(table, folder / f"day-{day}.parquet")


def main() -> None:
    """Write, evaluate by name, compare with memory."""
    problem = dw.domains.stochastic_lift(9)
    new = dw.TabularPolicy(np.tile([0.2, 0.8], (7, 1)))
    names = ["BEHAVIOUR", "WPDIS", "C-WSPDIS"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, problem)
        on_disk = dw.evaluate(folder, new, estimators=names)
        in_memory = dw.evaluate(dw.read(folder), new, estimators=names)
    print(on_disk)
    difference = max(abs(on_disk[name].value - in_memory[name].value) for name in names)
    print(f"\nexact {dw.policy_value(problem.mdp, new):.4f}")
    print(f"difference to the log in memory below 1e-12: {difference < 1e-12}")


if __name__ == "__main__":
    main()
