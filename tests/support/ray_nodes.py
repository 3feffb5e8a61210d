"""A Ray cluster of two nodes that computes fits; nodes can be lost and added."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ray.cluster_utils import Cluster

_MAX_ATTEMPTS: Final = 10
_STARTUP_TIMEOUT_S: Final = 120.0
_HIGH_PRIORITY: Final = -15
"""The niceness of processes that must start within Ray's fixed timeout of half a minute."""


class RayNodes:
    """The nodes of a cluster on this machine, each with its own processes and one core.

    Parameters
    ----------
    folder
        Where the nodes keep their sockets and logs; the path must be short.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cluster = Cluster()
        # The first is the head, without cores: every task runs on a node that can be lost.
        self._start(cores=0, is_lowered_again=False)
        self._nodes = [self._start(cores=1) for _ in range(2)]
        self._cluster.wait_for_nodes(_STARTUP_TIMEOUT_S)

    @property
    def address(self) -> str:
        """The address of the cluster."""
        address: str = self._cluster.address
        return address

    def _start(self, cores: int, *, is_lowered_again: bool = True) -> Any:
        """Start a node; retry if it exceeds Ray's fixed timeout on a busy machine."""
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            before = _children()
            try:
                with raised_priority(restores_children=is_lowered_again):
                    return self._cluster.add_node(wait=False, num_cpus=cores)
            except Exception as error:  # noqa: BLE001 - Ray raises no narrower one on its timeout
                print(f"Ray node, attempt {attempt}: {error}", flush=True)  # noqa: T201 - a script
                self._end_half_started(_children() - before)
        raise RuntimeError(f"No Ray node came up in {_MAX_ATTEMPTS} attempts.")

    def _end_half_started(self, process_ids: set[int]) -> None:
        for process_id in process_ids:
            # Only processes of this folder: other threads start processes too.
            with suppress(OSError):
                command = Path(f"/proc/{process_id}/cmdline").read_bytes()
                if os.fsencode(self._folder) in command:
                    os.kill(process_id, signal.SIGKILL)

    def kill_node(self) -> None:
        """Kill the oldest node by SIGKILL."""
        self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)

    def add_node(self) -> None:
        """Start a new node, however long that takes on a busy machine."""
        self._nodes.append(self._start(cores=1))

    def close(self) -> None:
        """End the cluster."""
        self._cluster.shutdown()


def _children(process: int | str = "self") -> set[int]:
    """Return the child processes of a process."""
    children: set[int] = set()
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):
            children.update(
                int(process_id) for process_id in (thread / "children").read_text().split()
            )
    return children


@contextmanager
def raised_priority(*, restores_children: bool) -> Iterator[None]:
    """Start processes in the block with higher priority, so that they meet Ray's start timeout.

    With `restores_children` they get this process's priority back once they are up. Without root
    rights priorities stay as they are.
    """
    own_priority, children_before = os.getpriority(os.PRIO_PROCESS, 0), _children()
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _HIGH_PRIORITY)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, own_priority)
        started = list(_children() - children_before) if restores_children else []
        for process in started:
            for thread in Path(f"/proc/{process}/task").glob("*"):
                with suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), own_priority)
            started += _children(process)


@contextmanager
def running_ray() -> Iterator[RayNodes]:
    """Yield a cluster that ends with the block and that no other program connects to."""
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        previous_folder = os.environ.get("RAY_TMPDIR")
        os.environ["RAY_TMPDIR"] = folder
        nodes = RayNodes(Path(folder))
        try:
            yield nodes
        finally:
            nodes.close()
            if previous_folder is None:
                del os.environ["RAY_TMPDIR"]
            else:
                os.environ["RAY_TMPDIR"] = previous_folder
