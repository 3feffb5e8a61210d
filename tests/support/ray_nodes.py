"""A Ray cluster of two nodes that computes fits; a node can be lost and another one come."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ray.cluster_utils import Cluster

_TRIES: Final = 10
_SEEN_WITHIN_S: Final = 120.0
_FIRST: Final = -15
"""The niceness of what must come up, and answer, within Ray's fixed half minute."""


class RayNodes:
    """The nodes of a cluster on this machine, each with processes and a core of its own.

    Parameters
    ----------
    folder
        Where the nodes keep their sockets and logs: a short path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cluster = Cluster()
        # The first is the head. It computes nothing: every task runs on a node that can be lost.
        self._start(cores=0, gives_way=False)
        self._nodes = [self._start(cores=1) for _ in range(2)]
        self._cluster.wait_for_nodes(_SEEN_WITHIN_S)

    @property
    def address(self) -> str:
        """Where the cluster is."""
        address: str = self._cluster.address
        return address

    def _start(self, cores: int, *, gives_way: bool = True) -> Any:
        """Bring a node, again when a busy machine lets Ray's fixed half minute pass."""
        for attempt in range(1, _TRIES + 1):
            before = _children()
            try:
                with before_others(give_way_again=gives_way):
                    return self._cluster.add_node(wait=False, num_cpus=cores)
            except Exception as error:  # noqa: BLE001 - Ray raises no other after its half minute
                print(f"Ray node, attempt {attempt}: {error}", flush=True)  # noqa: T201 - a script
                self._end_half_started(_children() - before)
        raise RuntimeError(f"No Ray node came up in {_TRIES} attempts.")

    def _end_half_started(self, process_ids: set[int]) -> None:
        for process_id in process_ids:
            # Other threads start processes too, which have nothing to do with this folder.
            with suppress(OSError):
                command = Path(f"/proc/{process_id}/cmdline").read_bytes()
                if os.fsencode(self._folder) in command:
                    os.kill(process_id, signal.SIGKILL)

    def lose_one(self) -> None:
        """End the oldest node by SIGKILL."""
        self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)

    def add_one(self) -> None:
        """Bring a new node, however long that takes on a busy machine."""
        self._nodes.append(self._start(cores=1))

    def close(self) -> None:
        """End the cluster."""
        self._cluster.shutdown()


def _children(process: int | str = "self") -> set[int]:
    """Return the child processes of one."""
    found: set[int] = set()
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):
            found.update(int(each) for each in (thread / "children").read_text().split())
    return found


@contextmanager
def before_others(*, give_way_again: bool) -> Iterator[None]:
    """Start processes ahead of what else runs, which would starve them of their half minute.

    They give way as the trial does once they are up, if they compute. Only root may do so; others
    start as they are.
    """
    ours, before = os.getpriority(os.PRIO_PROCESS, 0), _children()
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _FIRST)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, ours)
        started = list(_children() - before) if give_way_again else []
        for process in started:
            for thread in Path(f"/proc/{process}/task").glob("*"):
                with suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), ours)
            started += _children(process)


@contextmanager
def running_ray() -> Iterator[RayNodes]:
    """Yield a cluster that ends with the block and that no other program takes for its own."""
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        others = os.environ.get("RAY_TMPDIR")
        os.environ["RAY_TMPDIR"] = folder
        nodes = RayNodes(Path(folder))
        try:
            yield nodes
        finally:
            nodes.close()
            if others is None:
                del os.environ["RAY_TMPDIR"]
            else:
                os.environ["RAY_TMPDIR"] = others
