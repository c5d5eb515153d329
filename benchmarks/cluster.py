"""A local Ray cluster of several nodes: the same bits as one process, also if a node dies in the middle.

Run: `python benchmarks/cluster.py 4 --nodes 3`, for 4 million rows on three nodes of one processor each, all
processes of this machine. The folder is that of `scale.py`. A node is taken away when about a third of the
work is done; Ray gives its parts to the others. Needs `pip install 'deadweight[ray]'`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from scale import MILLION, new_policy, prepare

import deadweight as dw

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
NODE = {"num_cpus": 1, "object_store_memory": 200 * 2**20}


def timed(folder: Path, **where: Any) -> tuple[dw.Evaluation, float]:
    """The default table of the folder, and the seconds that it took."""
    start = time.monotonic()
    found = dw.evaluate(str(folder), new_policy(), background=False, **where)
    return found, time.monotonic() - start


def same_bits(ours: dw.Evaluation, theirs: dw.Evaluation) -> str:
    """Whether two evaluations agree to the last bit."""
    return "the same bits" if ours.to_dict() == theirs.to_dict() else "OTHER NUMBERS"


def main() -> None:
    """One process, the cluster, and the cluster that loses a node."""
    import ray
    from ray.cluster_utils import Cluster

    given = argparse.ArgumentParser()
    given.add_argument("million", type=int, nargs="?", default=4)
    given.add_argument("--nodes", type=int, default=3)
    given.add_argument("--folder", type=Path, default=None)
    asked = given.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch) / "logs"
        prepare(folder, asked.million * MILLION)
        alone, seconds = timed(folder)
        headline = alone.headline
        print(f"{asked.million} million rows: {headline.name} {headline.value:.6f}, {alone.verdict.answer}")
        print(f"one process: {seconds:.1f} s")
        nodes = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        others = [nodes.add_node(**NODE) for _ in range(asked.nodes - 1)]
        ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
        together, starting = timed(folder, ray_address=nodes.address)
        print(f"{asked.nodes} nodes, starting: {starting:.1f} s, {same_bits(together, alone)}")
        together, all_of_them = timed(folder, ray_address=nodes.address)
        print(f"{asked.nodes} nodes: {all_of_them:.1f} s, {same_bits(together, alone)}")
        killer = threading.Timer(all_of_them / 3, lambda: nodes.remove_node(others[-1], allow_graceful=False))
        killer.start()
        fewer, seconds = timed(folder, ray_address=nodes.address)
        killer.join()
        print(
            f"{asked.nodes} nodes, one lost after {all_of_them / 3:.1f} s: {seconds:.1f} s, "
            f"{same_bits(fewer, alone)}"
        )
        ray.shutdown()
        nodes.shutdown()


if __name__ == "__main__":
    main()
