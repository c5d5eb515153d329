"""A Ray cluster of several nodes, one of which dies in the middle of a pass: others do its parts again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from stream.folders import mean_reward, policies, table_of, write

import deadweight as dw
from deadweight.io.stream import open_stream
from deadweight.sums.blocks import Block
from deadweight.sums.executors import Ray, Work
from deadweight.sums.reduction import reduce_log

NAMES = ["BEHAVIOUR", "WIS", "WPDIS", "DM", "WDR"]
PATIENCE = 60.0
LOST = "lost"


@dataclass(frozen=True)
class Held:
    """Sums a block; on a node that may be lost it waits until one was, so that a lost node has ended nothing.

    Args:
      notes: a folder for a file about each part that was begun, and one that names the lost node.
      may_be_lost: ids of nodes.
    """

    notes: str
    may_be_lost: tuple[str, ...]

    def __call__(self, block: Block) -> Any:
        import ray

        notes, node = Path(self.notes), ray.get_runtime_context().get_node_id()
        (notes / f"{node} {uuid4()}.began").touch()
        if node in self.may_be_lost:
            in_time(lambda: (notes / LOST).exists() and (notes / LOST).read_text() != node)
        return mean_reward(block)


def in_time(found: Callable[[], Any]) -> Any:
    """What `found` gives as soon as that is something; an error if it takes too long."""
    until = time.monotonic() + PATIENCE
    while not (what := found()):
        if time.monotonic() > until:
            raise AssertionError("nothing came of it in time")
        time.sleep(0.01)
    return what


class LosesANode(Ray):
    """Ray, and a node that is taken away when the first part of a pass is done, once it is `armed`."""

    def __init__(self, cluster: Any, node: Any) -> None:
        super().__init__()
        self.cluster, self.node = cluster, node
        self.armed = False

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """As always; the node goes while other parts are on the way."""
        for result in super().map(work, parts):
            if self.armed:
                self.armed = False
                self.cluster.remove_node(self.node, allow_graceful=False)
            yield result


def lose_a_busy_node(cluster: Any, nodes: list[Any], notes: Path) -> Any:
    """Take away one of the nodes as soon as a part is under way on it, and say so to the others."""

    def busy() -> Any:
        ids = {one.name.partition(" ")[0] for one in notes.glob("*.began")}
        return next((node for node in nodes if node.node_id in ids), None)

    victim = in_time(busy)
    cluster.remove_node(victim, allow_graceful=False)
    (notes / "being written").write_text(victim.node_id)
    (notes / "being written").rename(notes / LOST)
    return victim


@pytest.fixture
def cluster() -> Iterator[tuple[Any, list[Any]]]:
    """A head and two more nodes with one processor each, as processes of this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if os.environ.get("DEADWEIGHT_RAY") != "1":
        pytest.importorskip("ray", reason="pip install 'deadweight[ray]'")
    import ray
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    nodes = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    extra = [nodes.add_node(**size) for _ in range(2)]
    tests = str(Path(__file__).parent.parent)
    ray.init(
        address=nodes.address,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": tests}},
    )
    yield nodes, extra
    ray.shutdown()
    nodes.shutdown()


@pytest.mark.ray
def test_a_node_that_dies_costs_its_parts_and_no_bit(cluster: Any, tmp_path: Path) -> None:
    nodes, extra = cluster
    folder = write(tmp_path / "log", table_of(text=True, truncated=True))
    notes = tmp_path / "notes"
    notes.mkdir()
    alone = open_stream(folder, part_rows=40)
    dying = open_stream(folder, part_rows=40, executor=Ray())
    held = Held(str(notes), tuple(node.node_id for node in extra))
    with ThreadPoolExecutor(1) as beside:
        losing = beside.submit(lose_a_busy_node, nodes, extra, notes)
        assert reduce_log(dying, held) == reduce_log(alone, mean_reward)
        lost = losing.result()
    assert len(list(notes.glob("*.began"))) > len(dying), "a part was begun again"

    # And a whole evaluation, on what is left, of which another node is lost.
    pi_e, pi_b = policies()
    executor = LosesANode(nodes, next(node for node in extra if node is not lost))
    again = open_stream(folder, part_rows=40, executor=executor)
    executor.armed = True
    ours, theirs = (dw.evaluate(one, pi_e, pi_b, NAMES, drop=["s1"]) for one in (again, alone))
    assert not executor.armed, "no node was lost"
    assert ours.to_dict() == theirs.to_dict()
