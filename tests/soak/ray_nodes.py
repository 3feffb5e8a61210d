"""A Ray cluster of two nodes that computes fits; a node can be lost and another one come."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ray.cluster_utils import Cluster

_TRIES: Final = 10


class RayNodes:
    """The nodes of a cluster on this machine, each with processes and a core of its own."""

    def __init__(self) -> None:
        # The head computes nothing, so that every task runs on a node that can be lost.
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self._nodes = [self._cluster.add_node(num_cpus=1) for _ in range(2)]
        self._cluster.wait_for_nodes()

    @property
    def address(self) -> str:
        """Where the cluster is."""
        address: str = self._cluster.address
        return address

    def lose_one(self) -> None:
        """End the oldest node by SIGKILL."""
        self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)

    def add_one(self) -> None:
        """Bring a new node, however long that takes on a busy machine."""
        for _ in range(_TRIES):
            try:
                self._nodes.append(self._cluster.add_node(num_cpus=1))
            except Exception as error:  # noqa: BLE001 - Ray raises no other after its half minute
                print("a Ray node did not come up:", error, flush=True)  # noqa: T201 - a script
            else:
                return

    def close(self) -> None:
        """End the cluster."""
        self._cluster.shutdown()


@contextmanager
def running_ray() -> Iterator[RayNodes]:
    """Yield a cluster that ends with the block."""
    nodes = RayNodes()
    try:
        yield nodes
    finally:
        nodes.close()
