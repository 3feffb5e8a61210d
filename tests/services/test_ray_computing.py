"""A Ray cluster of two nodes computes what this process would, also when a node is lost."""

import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import ray
from typing_extensions import override

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import FitRequest, FitState
from app.domain.identifiers import Slug
from app.fitter import Fitter, open_computer
from app.services.computing.processes import TimedOutError
from app.services.computing.ray_cluster import RayComputer
from app.services.computing.task import (
    ComputationLostError,
    FitRefusedError,
    FitTask,
    InProcessComputer,
)
from app.services.fitting import FittingService
from app.services.wiring import Services
from app.settings import Settings
from models.features.hardware import HardwareDescription
from tests.support.fit_tasks import make_task
from tests.support.ray_nodes import RayNodes, running_ray
from tests.support.regressors import QUICK, store_runs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.xdist_group("ray"),
    # Ray's own.
    pytest.mark.filterwarnings("default"),
]
WHOLE = FitRequest(time_budget_s=3600.0)
"""All regressors."""


class HeldDataSheets(dict[str, HardwareDescription]):
    """Data sheets that nobody can look up before a file is there: a fit gets as far as them."""

    def __init__(self, gate: Path) -> None:
        super().__init__(T4=HardwareDescription(8.1, 65, 16, 320))
        self.gate = gate

    @override
    def __contains__(self, level: object) -> bool:
        while not self.gate.exists():
            time.sleep(0.01)
        return super().__contains__(level)


def held_task(gate: Path) -> FitTask:
    """Return a task that is under way, and does not end, until a file is there."""
    task = make_task(WHOLE)
    gpu_types = [("T4", "L4")[run % 2] for run in range(task.runs.n_runs)]
    features = replace(task.runs.features, categorical={"gpu_type": gpu_types})
    runs = replace(task.runs, features=features)
    return replace(task, runs=runs, hardware=HeldDataSheets(gate))


class StopComputingError(Exception):
    """Raised by a caller that wants no more."""


@dataclass
class SteppingClock:
    """A clock that somebody else moves."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def sleep_long() -> None:
    time.sleep(600)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayNodes]:
    with running_ray() as nodes:
        yield nodes


@pytest.fixture
def computer(cluster: RayNodes) -> Iterator[RayComputer]:
    computer = RayComputer(cluster.address, beat_s=0.1)
    assert computer.is_ready()
    yield computer
    computer.close()


def ignore(_share: float, _step: str) -> None:
    pass


def test_cluster_computes_what_this_process_would_to_the_byte(computer: RayComputer) -> None:
    task = make_task(WHOLE)
    steps: list[tuple[float, str]] = []

    outcome = computer.compute(task, lambda share, step: steps.append((share, step)))

    here = InProcessComputer()
    assert outcome == here.compute(task, ignore)
    assert steps[0] == (0.0, "starting")
    assert computer.resources() == {"cores": 2.0, "nodes": 3}


def test_connection_leaves_what_the_process_does_on_sigterm(cluster: RayNodes) -> None:
    before = signal.getsignal(signal.SIGTERM)

    computer = RayComputer(cluster.address)
    is_ready = computer.is_ready()
    computer.close()

    assert is_ready
    assert signal.getsignal(signal.SIGTERM) is before


def test_refusal_comes_back_from_the_cluster(computer: RayComputer) -> None:
    hopeless = make_task(replace(QUICK, regressors=("boosted_trees",)))

    with pytest.raises(FitRefusedError) as refused:
        computer.compute(hopeless, ignore)

    assert refused.value.problem.code == "fit_failed"


def test_bug_on_a_node_is_told(computer: RayComputer) -> None:
    broken = replace(make_task(QUICK), hardware={"T4": "no data sheet"})  # type: ignore[dict-item] # a bug of ours

    with pytest.raises(FitRefusedError) as refused:
        computer.compute(broken, ignore)

    assert refused.value.problem.code == "internal"


def test_caller_that_wants_no_more_frees_the_cluster(computer: RayComputer, tmp_path: Path) -> None:
    def stop_when_computed(_share: float, step: str) -> None:
        if step == "encoding":
            raise StopComputingError

    with pytest.raises(StopComputingError):
        computer.compute(held_task(tmp_path / "never"), stop_when_computed)

    patience = time.monotonic() + 60
    while ray.available_resources().get("CPU", 0) < 2:
        assert time.monotonic() < patience
        time.sleep(0.05)


@pytest.mark.usefixtures("computer")
def test_fit_under_way_goes_on_while_the_head_is_out_of_reach(tmp_path: Path) -> None:
    gate, found = tmp_path / "gate", list[tuple[bool, str | None]]()
    head = socket.create_server(("127.0.0.1", 0))
    fitter = RayComputer(f"127.0.0.1:{head.getsockname()[1]}", beat_s=0.1)
    was_ready = fitter.is_ready()

    def lose_the_head(_share: float, step: str) -> None:
        if step == "encoding" and not gate.exists():
            head.close()
            found.append((fitter.is_ready(), fitter.waits_for))
            gate.touch()

    outcome = fitter.compute(held_task(gate), lose_the_head)

    [(is_ready, reason)] = found
    assert was_ready
    assert not is_ready
    assert reason is not None
    assert "refused" in reason
    assert outcome.artifact
    assert not fitter.is_ready()
    assert not ray.is_initialized()


def test_fit_that_never_ends_is_ended(cluster: RayNodes, tmp_path: Path) -> None:
    computer = RayComputer(cluster.address, beat_s=0.05, limit_s=lambda _budget_s: 0.0)
    assert computer.is_ready()

    with pytest.raises(TimedOutError):
        computer.compute(held_task(tmp_path / "never"), ignore)

    computer.close()


def test_time_that_a_fit_waits_for_a_core_is_not_its_own(cluster: RayNodes) -> None:
    clock, steps, waits = SteppingClock(), list[str](), "waiting for a free core of the cluster"
    computer = RayComputer(cluster.address, beat_s=0.05, clock=clock)
    assert computer.is_ready()
    holders = [ray.remote(num_cpus=1)(sleep_long).remote() for _ in range(2)]
    while ray.available_resources().get("CPU", 0) > 0:
        time.sleep(0.05)

    def let_it_wait(_share: float, step: str) -> None:
        steps.append(step)
        if step == waits:
            clock.seconds += 10_000.0
        if steps.count(waits) == 5:
            for holder in holders:
                ray.cancel(holder, force=True)

    outcome = computer.compute(make_task(QUICK), let_it_wait)

    computer.close()
    assert outcome.artifact
    assert steps.count(waits) >= 5


def test_fit_goes_on_when_its_node_is_lost(
    cluster: RayNodes, computer: RayComputer, tmp_path: Path
) -> None:
    task, steps, gate = held_task(tmp_path / "gate"), list[str](), tmp_path / "gate"

    def lose_the_nodes(_share: float, step: str) -> None:
        steps.append(step)
        if step == "encoding" and not gate.exists():
            # Whichever it is computed on.
            cluster.kill_node()
            cluster.kill_node()
            gate.touch()
            cluster.add_node()

    try:
        outcome = computer.compute(task, lose_the_nodes)
    finally:
        cluster.add_node()

    assert "encoding" in steps
    assert outcome == InProcessComputer().compute(task, ignore)


def test_fitter_publishes_what_the_cluster_computed(cluster: RayNodes, services: Services) -> None:
    settings = Settings(ray_address=cluster.address, data_dir=services.context.settings.data_dir)
    store_runs(services.context, "resnet")
    requested, _ = services.fits.request_fit(DEFAULT_PROJECT, Slug("resnet"), QUICK)
    computer = open_computer(settings, 0.1)

    Fitter(FittingService(services.context), computer, settings, beat_s=0.1).step()

    computer.close()
    ended = services.fits.get(DEFAULT_PROJECT, requested.fit_id)
    assert (ended.state, ended.regressor_version) == (FitState.SUCCEEDED, 1)


def test_cluster_that_is_gone_loses_the_computation(computer: RayComputer) -> None:
    computer.close()

    with pytest.raises(ComputationLostError):
        computer.compute(make_task(QUICK), ignore)
