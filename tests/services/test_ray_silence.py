"""A computation of which a Ray cluster tells nothing any more is given up."""

import socket
from dataclasses import dataclass, field

import pytest

from app.domain.fits import FitRequest
from app.services.computing import ray_cluster
from app.services.computing.ray_cluster import RayComputer
from app.services.computing.task import ComputationLostError
from tests.support.fit_tasks import make_task

_BEAT_S = 60.0


@dataclass
class _SilentCluster:
    """Takes a computation and tells nothing of it; each look at it takes a minute."""

    elapsed_s: float = 0.0
    connections: list[float] = field(default_factory=list)

    def start(self, _task: object) -> "_SilentCluster":
        return self

    def has_ended(self, _within_s: float) -> bool:
        self.elapsed_s += _BEAT_S
        return False

    def progress(self) -> None:
        return None

    def end(self) -> None:
        pass


def test_fit_of_which_nothing_is_told_is_lost_and_the_cluster_reached_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = _SilentCluster()
    monkeypatch.setattr(ray_cluster, "_Computation", cluster)
    monkeypatch.setattr(ray_cluster, "_is_connected", lambda: True)
    monkeypatch.setattr(
        RayComputer, "_connect", lambda _self: cluster.connections.append(cluster.elapsed_s)
    )
    with socket.create_server(("127.0.0.1", 0)) as head:
        computer = RayComputer(
            f"127.0.0.1:{head.getsockname()[1]}", clock=lambda: cluster.elapsed_s
        )
        was_ready = computer.is_ready()
        reported: list[str] = []

        with pytest.raises(ComputationLostError, match="has not responded for 360 s"):
            computer.compute(make_task(FitRequest()), lambda _share, step: reported.append(step))

        # Somebody listens at the address, but the connection leads nowhere.
        assert was_ready
        assert cluster.connections == []
        assert [computer.is_ready(), computer.is_ready()] == [True, True]
        assert cluster.connections == [360.0]
        assert set(reported) == {"starting"}
        computer.close()
