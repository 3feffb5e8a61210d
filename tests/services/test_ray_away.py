"""A Ray cluster that goes away as a whole and comes back costs no fit its attempts."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import FitState
from app.domain.identifiers import Slug
from app.fitter import Fitter
from app.services.computing.ray_cluster import RayComputer
from app.services.fitting import FittingService
from app.services.wiring import Services
from tests.support.ray_nodes import raised_priority
from tests.support.regressors import QUICK, store_runs
from tests.support.server import start_process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.xdist_group("ray"),
    # Ray's own.
    pytest.mark.filterwarnings("default"),
]
_TRIES = 5
one_database = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""Which one makes no difference to a cluster that is away, and each test brings two."""


def _free_ports() -> tuple[int, int]:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        return one.getsockname()[1], two.getsockname()[1]


def _start(folder: str, ports: tuple[int, int]) -> subprocess.Popen[str]:
    """Start a head with one core, again when a busy machine lets Ray's half minute pass."""
    command = [
        str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--num-cpus=1",
        "--node-ip-address=127.0.0.1",
        "--disable-usage-stats", "--include-dashboard=false", f"--temp-dir={folder}",
        f"--port={ports[0]}", f"--ray-client-server-port={ports[1]}",
    ]  # fmt: skip
    for _ in range(_TRIES):
        with raised_priority(restores_children=True):
            process = subprocess.Popen(
                command,
                env={**os.environ, "RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            assert process.stdout is not None
            has_started = any("Ray runtime started" in line for line in process.stdout)
        if has_started:
            return process
        process.wait()
        process.stdout.close()
    raise AssertionError("Ray did not start")


@contextmanager
def running_head(folder: str, ports: tuple[int, int]) -> Iterator[None]:
    process = _start(folder, ports)
    try:
        yield
    finally:
        process.terminate()
        process.communicate()


def _address(ports: tuple[int, int], *, from_a_node: bool = False) -> str:
    return f"127.0.0.1:{ports[0]}" if from_a_node else f"ray://127.0.0.1:{ports[1]}"


@one_database
@pytest.mark.parametrize("from_a_node", [False, True], ids=["client", "node"])
def test_fit_waits_for_a_cluster_that_is_away(services: Services, *, from_a_node: bool) -> None:
    context, ports = services.context, _free_ports()
    store_runs(context, "resnet")
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        with running_head(folder, ports):
            computer = RayComputer(_address(ports, from_a_node=from_a_node), beat_s=0.1)
            while not computer.is_ready():
                pass
            fitter = Fitter(FittingService(context), computer, context.settings, beat_s=0.1)
        requested, _ = services.fits.request_fit(DEFAULT_PROJECT, Slug("resnet"), QUICK)

        while computer.is_ready():
            # The connection notices its end a moment later.
            fitter.step()
        meanwhile = services.fits.get(DEFAULT_PROJECT, requested.fit_id)
        with running_head(folder, ports):
            while services.fits.get(DEFAULT_PROJECT, requested.fit_id).state is FitState.QUEUED:
                fitter.step()
            computer.close()

    ended = services.fits.get(DEFAULT_PROJECT, requested.fit_id)
    assert meanwhile.state is FitState.QUEUED
    assert ended.state is FitState.SUCCEEDED
    assert ended.attempts - meanwhile.attempts == 1


@one_database
def test_fitter_that_starts_before_its_cluster_serves_once_it_is_there(
    services: Services, database_url: str
) -> None:
    ports = _free_ports()
    store_runs(services.context, "resnet")
    requested, _ = services.fits.request_fit(DEFAULT_PROJECT, Slug("resnet"), QUICK)
    running = start_process("fitter", database_url=database_url, ray_address=_address(ports))
    running.wait_for_line("no Ray cluster answers")
    running.wait_for_line("no Ray cluster answers")

    with (
        TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
        running_head(folder, ports),
    ):
        running.wait_for_line("published version 1")
        running.process.terminate()
        running.drain()

    assert running.wait() == 0
    ended = services.fits.get(DEFAULT_PROJECT, requested.fit_id)
    assert (ended.state, ended.attempts) == (FitState.SUCCEEDED, 1)


def test_attempts_to_connect_become_rarer(caplog: pytest.LogCaptureFixture) -> None:
    elapsed_s = [0.0]
    computer = RayComputer("ray://127.0.0.1:1", clock=lambda: elapsed_s[0])

    for seconds in range(100):
        elapsed_s[0] = float(seconds)
        assert not computer.is_ready()
        assert not computer.is_ready()

    pauses = [vars(record)["next_attempt_in_s"] for record in caplog.records]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert computer.waits_for is not None
    assert computer.waits_for.startswith("ray://127.0.0.1:1: ")
    assert "refused" in computer.waits_for
    computer.close()
