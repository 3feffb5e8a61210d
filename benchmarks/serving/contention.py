"""Forecasts during fits, and two simultaneous fits compared with one."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Final

from app.services.computing.child import NICENESS
from benchmarks.serving.endpoints import PATH, Requester
from benchmarks.serving.load import Order
from benchmarks.serving.processes import LoadGenerator, Server, started_load, started_service
from benchmarks.serving.slices import Figure, Goal, Slices, alternate
from benchmarks.serving.stage import Stage, forecast_body

_IDLE: Final = "no fits, same run"
_LATENCY: Final = Goal("p99 of forecasts (200 requests/s) while two fits run", _IDLE, 1.5)
_THROUGHPUT: Final = Goal("forecasts a second while two fits run", _IDLE, 0.8, is_least=True)
_TWO: Final = Goal("two fits at once", "one fit", 1.3)
_N_PROCESSES, _RATE, _QUEUED = 2, 200.0, 10_000


class Fits:
    """Processes that fit, paused while none should run."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def request(self, count: int, *, times: int = 1) -> None:
        """Let `count` processes fit, each `times` times in a row."""
        for process in self._processes[:count]:
            _pipe(process.stdin).write("fit\n" * times)
            _pipe(process.stdin).flush()

    def wait(self, count: int) -> None:
        """Wait until `count` processes have made one fit each."""
        for process in self._processes[:count]:
            _pipe(process.stdout).readline()

    def seconds(self, count: int) -> float:
        """Return the seconds of one fit in each of `count` processes at the same time."""
        started = time.perf_counter()
        self.request(count)
        self.wait(count)
        return time.perf_counter() - started

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause all computing within the block."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes:
            process.send_signal(number)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@contextlib.contextmanager
def started_fits() -> Iterator[Fits]:
    """Start processes that fit on request; kill them at the end."""
    command = [sys.executable, "-m", "benchmarks.serving.fitting"]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(_N_PROCESSES)
    ]
    try:
        fits = Fits(processes)
        fits.wait(_N_PROCESSES)
        yield fits
    finally:
        for process in processes:
            process.kill()
            with process:
                pass


def measure_contention(stage: Stage, slices: int, seconds: float) -> Iterator[Figure]:
    """Yield how simultaneous fits affect forecasts: latency, throughput."""
    with (
        started_fits() as fits,
        started_service(stage.database_url) as service,
        started_load() as load,
    ):
        fits.request(_N_PROCESSES, times=_QUEUED)
        for goal, rate in ((_LATENCY, _RATE), (_THROUGHPUT, None)):
            body = forecast_body(record=True, is_new=True)
            order = Order(service.port, PATH, body, seconds=seconds, rate=rate)
            yield _compare_with_idle(goal, load, service, order, fits, slices)


def _compare_with_idle(
    goal: Goal, load: LoadGenerator, service: Server, order: Order, fits: Fits, slices: int
) -> Figure:
    requester = Requester(load, service, order)
    is_paced = order.rate is not None

    def busy() -> float:
        per_second = requester.slice()
        return requester.outcomes[-1].p99_s if is_paced else per_second

    timings: Slices = alternate(busy, _paused(fits, busy), slices)
    return Figure.of(
        goal, timings, failures=requester.failures, note=f"fits are niced by {NICENESS}"
    )


def _paused(fits: Fits, measure: Callable[[], float]) -> Callable[[], float]:
    def idle() -> float:
        with fits.paused():
            return measure()

    return idle


def measure_fits(_stage: Stage, slices: int, _seconds: float) -> Iterator[Figure]:
    """Yield the time of two simultaneous fits relative to one."""
    with started_fits() as fits:
        timings = alternate(lambda: fits.seconds(_N_PROCESSES), lambda: fits.seconds(1), slices)
    yield Figure.of(_TWO, timings, note="on the clock; of 200 runs each, all regressors")
