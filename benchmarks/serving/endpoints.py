"""One forecast over HTTP, relative to a bare ASGI application that answers a constant."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from benchmarks.serving.load import Order, Outcome
from benchmarks.serving.processes import (
    LoadGenerator,
    Server,
    started_floor,
    started_load,
    started_service,
)
from benchmarks.serving.slices import Figure, Goal, Slices, alternate
from benchmarks.serving.stage import Stage, forecast_body

PATH: Final = "/v1/forecasts"
_BARE: Final = "bare ASGI"
_SEEN: Final = Goal("POST /v1/forecasts, seen configuration{}", _BARE, 0.50, is_least=True)
_NEW: Final = Goal("POST /v1/forecasts, new configuration{}", _BARE, 0.20, is_least=True)
_LATENCY: Final = Goal("the same at 200 requests/s: p99 in ms", "10 ms", 10.0)
_RATE: Final = 200.0
_numbers = count(100_000_000, 1_000_000)


def fresh_numbers() -> int:
    """Return a nine-digit start number that no earlier order has used."""
    return next(_numbers)


@dataclass(slots=True)
class Requester:
    """Asks one server in slices; records the CPU time of the server and the load generator."""

    load: LoadGenerator
    server: Server
    order: Order
    outcomes: list[Outcome] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def slice(self) -> float:
        """Ask for one slice; return the answers per second."""
        order = replace(self.order, first=fresh_numbers())
        before = self.server.cpu_seconds()
        outcome = self.load.carry_out(order)
        self.cpu_s.append((self.server.cpu_seconds() - before) / outcome.answered)
        self.outcomes.append(outcome)
        return outcome.per_second

    @property
    def failures(self) -> int:
        """The number of unsuccessful answers."""
        return sum(outcome.failures for outcome in self.outcomes)

    def cost_us(self) -> float:
        """Return the server's CPU time per request: the median of all slices but the first."""
        return 1e6 * statistics.median(self.cpu_s[1:])

    def load_cost_us(self) -> float:
        """Return the load generator's CPU time per request, in microseconds."""
        answered = sum(outcome.answered for outcome in self.outcomes)
        return 1e6 * sum(outcome.cpu_s for outcome in self.outcomes) / answered


def measure_endpoints(stage: Stage, slices: int, seconds: float) -> Iterator[Figure]:
    """Yield the figures of known and of new configurations, recorded in the ledger and not."""
    with (
        started_floor("bare") as floor,
        started_service(stage.database_url) as service,
        started_load() as load,
    ):
        for is_new, goal in ((False, _SEEN), (True, _NEW)):
            for record in (False, True):
                body = forecast_body(record=record, is_new=is_new)
                named = replace(goal, what=goal.what.format(", recorded" if record else ""))
                order = Order(service.port, PATH, body, seconds=seconds)
                yield _against_floor(named, load, service, floor, order, slices)
        body = forecast_body(record=True, is_new=True)
        order = Order(service.port, PATH, body, seconds=seconds, rate=_RATE)
        yield _paced(load, service, floor, order, slices)


def _against_floor(
    goal: Goal, load: LoadGenerator, service: Server, floor: Server, order: Order, slices: int
) -> Figure:
    ours = Requester(load, service, order)
    bare = Requester(load, floor, replace(order, port=floor.port))
    timings = alternate(ours.slice, bare.slice, slices)
    by_cpu = Slices(bare.cpu_s[1::2], ours.cpu_s[1:], ours.cpu_s[1:])
    note = (
        f"by CPU time {by_cpu.ratio:.2f}, {ours.cost_us():.0f} us a request;"
        f" load generator {ours.load_cost_us():.0f} us a request,"
        f" {ours.load_cost_us() / 1e6 / ours.cpu_s[-1]:.2f} of the service's"
    )
    return Figure.of(goal, timings, failures=ours.failures + bare.failures, note=note)


def _paced(
    load: LoadGenerator, service: Server, floor: Server, order: Order, slices: int
) -> Figure:
    ours = Requester(load, service, order)
    bare = Requester(load, floor, replace(order, port=floor.port))
    alternate(ours.slice, bare.slice, slices)
    ordered = sorted(1e3 * outcome.p99_s for outcome in ours.outcomes[1:])
    floors = sorted(1e3 * outcome.p99_s for outcome in bare.outcomes[1:])
    middle = ordered[len(ordered) // 2]
    note = f"median of the slices; bare ASGI: {floors[len(floors) // 2]:.2f} ms"
    failures = ours.failures + bare.failures
    return Figure(_LATENCY, middle, None, (ordered[0], ordered[-1]), failures, note)
