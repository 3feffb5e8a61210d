"""Forecasts during fits, and two simultaneous fits compared with one."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Final

from benchmarks.serving.endpoints import PATH, Asking
from benchmarks.serving.load import Order
from benchmarks.serving.processes import LoadGenerator, Server, started_load, started_service
from benchmarks.serving.slices import Figure, Goal, Slices, alternate
from benchmarks.serving.stage import Stage, forecast_body

_IDLE: Final = "no fits, same run"
_LATENCY: Final = Goal("p99 of forecasts (200 requests/s) while two fits run", _IDLE, 1.5)
_THROUGHPUT: Final = Goal("forecasts a second while two fits run", _IDLE, 0.8, is_least=True)
_TWO: Final = Goal("two fits at once", "one fit", 1.3)
_AT_ONCE, _RATE, _QUEUED = 2, 200.0, 10_000


class Fits:
    """Processes that fit, paused while none should run."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def ask(self, count: int, *, times: int = 1) -> None:
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
        self.ask(count)
        self.wait(count)
        return time.perf_counter() - started

    @contextlib.contextmanager
    def halted(self) -> Iterator[None]:
        """Pause all computing within the block."""
        self._tell(signal.SIGSTOP)
        try:
            yield
        finally:
            self._tell(signal.SIGCONT)

    def _tell(self, number: signal.Signals) -> None:
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
        for _ in range(_AT_ONCE)
    ]
    try:
        fits = Fits(processes)
        fits.wait(_AT_ONCE)
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
        fits.ask(_AT_ONCE, times=_QUEUED)
        for goal, rate in ((_LATENCY, _RATE), (_THROUGHPUT, None)):
            body = forecast_body(record=True, is_new=True)
            order = Order(service.port, PATH, body, seconds=seconds, rate=rate)
            yield _beside_idle(goal, load, service, order, fits, slices)


def _beside_idle(
    goal: Goal, load: LoadGenerator, service: Server, order: Order, fits: Fits, slices: int
) -> Figure:
    asking = Asking(load, service, order)
    is_paced = order.rate is not None

    def busy() -> float:
        per_second = asking.slice()
        return asking.outcomes[-1].p99_s if is_paced else per_second

    found: Slices = alternate(busy, _without(fits, busy), slices)
    return Figure.of(goal, found, failures=asking.failures, note="fits are niced by 10")


def _without(fits: Fits, measure: Callable[[], float]) -> Callable[[], float]:
    def idle() -> float:
        with fits.halted():
            return measure()

    return idle


def measure_fits(_stage: Stage, slices: int, _seconds: float) -> Iterator[Figure]:
    """Yield the time of two simultaneous fits relative to one."""
    with started_fits() as fits:
        found = alternate(lambda: fits.seconds(_AT_ONCE), lambda: fits.seconds(1), slices)
    yield Figure.of(_TWO, found, note="on the clock; of 200 runs each, all regressors")
