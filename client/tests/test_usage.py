"""What a run took of its GPUs, as frameworks and drivers tell it: both are made up here."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from trainfare_client import Client, ClientSettings, record
from trainfare_client.collectors.energy import EnergyMeter, counters_joules, gpus_in_use
from trainfare_client.collectors.hardware import gpu_name, peak_memory_bytes, wait_for_gpu

_GIB = 2**30


class Cuda(SimpleNamespace):
    """Two GPUs as `torch.cuda` tells them; the training holds memory of the second alone."""

    fault: Exception | None = None
    peak_bytes = 3 * _GIB

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 2

    def get_device_name(self) -> str:
        return "NVIDIA H100 80GB HBM3"

    def get_device_properties(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(uuid=f"0000000{index}-aaaa")

    def max_memory_allocated(self, index: int = 1) -> int:
        return self.peak_bytes * index

    def synchronize(self) -> None:
        if self.fault is not None:
            raise self.fault


class NvmlError(Exception):
    """What the driver's library raises."""


class Driver(ModuleType):
    """What `pynvml` tells of three GPUs; each reading finds 500 J more on every one of them."""

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.readings = 0
        self.is_open = False
        self.NVMLError = NvmlError
        self.nvmlInit = self.open
        self.nvmlShutdown = self.close
        self.nvmlDeviceGetCount = lambda: 3
        self.nvmlDeviceGetHandleByIndex = int
        self.nvmlDeviceGetUUID = lambda index: b"GPU-0000000%d-AAAA" % index
        self.nvmlDeviceGetTotalEnergyConsumption = self.millijoules

    def open(self) -> None:
        self.is_open = True
        self.readings += 1

    def close(self) -> None:
        self.is_open = False

    def millijoules(self, index: int) -> int:
        if index == 2:
            raise NvmlError("Not Supported")
        return 500_000 * (self.readings + index)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    made = Cuda()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=made))
    return made


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def _ticking(*instants: float) -> Any:
    return iter(instants).__next__


def test_counters_of_gpus_that_count_are_told_by_uuid(driver: Driver) -> None:
    assert counters_joules() == {"00000000-aaaa": 500.0, "00000001-aaaa": 1000.0}
    assert not driver.is_open


def test_nothing_is_counted_without_a_driver(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise NvmlError("Driver Not Loaded")

    monkeypatch.setattr(driver, "nvmlInit", fail)

    assert counters_joules() == {}


def test_energy_is_that_of_the_gpus_in_use(cuda: Cuda, driver: Driver) -> None:
    assert gpus_in_use() == {"00000001-aaaa"}

    meter = EnergyMeter(clock=_ticking(0.0, 2.0))
    meter.begin()

    assert meter.mean_watts() == 250.0


def test_a_span_too_short_for_the_counter_tells_nothing(cuda: Cuda, driver: Driver) -> None:
    meter = EnergyMeter(clock=_ticking(0.0, 0.5))
    meter.begin()

    assert meter.mean_watts() is None


def test_gpu_that_does_not_count_leaves_the_energy_unknown() -> None:
    meter = EnergyMeter(lambda: {"a": 1.0}, lambda: {"a", "b"}, _ticking(0.0, 2.0))
    meter.begin()

    assert meter.mean_watts() is None


def test_run_tells_name_peak_and_energy_of_all_workers(
    cuda: Cuda,
    driver: Driver,
    client: Client,
    settings: ClientSettings,
    workload: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainfare_client.collectors.energy._MIN_SECONDS", 0.0)
    monkeypatch.setenv("WORLD_SIZE", "4")

    with record(workload, settings=settings, quiet=True) as run:
        run.setup_is_over()
        cuda.peak_bytes = 5 * _GIB
    (stored,) = client.runs.all(workload)

    assert stored["configuration"]["gpu_type"] == "H100"
    assert stored["configuration"]["workers"] == 4
    assert stored["resources"]["peak_gpu_memory_bytes"] == 5 * _GIB
    # Setting-up was over at the second reading, the run at the third.
    assert driver.readings == 3
    assert 0 < stored["resources"]["energy_joules"] <= 4 * 500.0


def test_steps_that_fail_after_the_loop_make_the_run_a_failure(
    cuda: Cuda, client: Client, settings: ClientSettings, workload: str
) -> None:
    with record(workload, settings=settings, quiet=True):
        cuda.fault = RuntimeError("CUDA error: device-side assert triggered")
    (stored,) = client.runs.all(workload)

    assert stored["status"] == "failed"


class Scalar:
    """An array of JAX that is there once it is waited for."""

    has_arrived = False

    def __init__(self, *_: object) -> None:
        pass

    def __add__(self, other: float) -> "Scalar":
        return self

    def block_until_ready(self) -> None:
        Scalar.has_arrived = True


class Jax(ModuleType):
    """JAX with a processor and a GPU, whose backends have begun or not."""

    def __init__(self, *, has_begun: bool) -> None:
        super().__init__("jax")
        self.bridge = SimpleNamespace(backends_are_initialized=lambda: has_begun)
        self.has_begun = has_begun
        self.device_put = Scalar

    def local_devices(self) -> list[SimpleNamespace]:
        assert self.has_begun, "listing devices takes their memory"
        gpu = SimpleNamespace(
            platform="gpu",
            device_kind="NVIDIA A100-SXM4-40GB",
            memory_stats=lambda: {"peak_bytes_in_use": _GIB},
        )
        return [SimpleNamespace(platform="cpu"), gpu]


@pytest.fixture(params=[True, False])
def jax(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Jax:
    made = Jax(has_begun=request.param)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "jax", made)
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", made.bridge)
    monkeypatch.setattr(Scalar, "has_arrived", False)
    return made


def test_jax_tells_its_gpu_once_it_has_begun(jax: Jax) -> None:
    wait_for_gpu()

    assert gpu_name() == ("NVIDIA A100-SXM4-40GB" if jax.has_begun else None)
    assert peak_memory_bytes() == (_GIB if jax.has_begun else None)
    assert Scalar.has_arrived is jax.has_begun
