"""A lean load generator, run as a separate process: `python -m benchmarks.serving.load`.

It reads one order (JSON) per line from its standard input and answers each with one line: the
number of answered requests, the time and latencies, the number of unsuccessful answers, and its own
CPU time. The bytes of requests are built once; answers are parsed by httptools.
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import httptools
import uvloop
from typing_extensions import override

MARK: Final = "%NUMBER%"
"""Placeholder in a body for a number that differs in every request."""

_SUCCESS: Final = range(200, 300)


@dataclass(frozen=True, slots=True)
class Order:
    """What to ask: `rate` requests per second, or as many as `connections` get answered.

    `MARK` in the body is replaced by a number that counts up from `first`.
    """

    port: int
    path: str
    body: str = ""
    first: int = 0
    connections: int = 16
    seconds: float = 1.0
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result; latencies are in seconds, `cpu_s` is the generator's own CPU time."""

    answered: int
    failures: int
    seconds: float
    median_s: float
    p99_s: float
    cpu_s: float

    @property
    def per_second(self) -> float:
        """Answers per second."""
        return self.answered / self.seconds


def requests_of(order: Order) -> Iterator[bytes]:
    """Yield requests without end."""
    method = "POST" if order.body else "GET"
    head = f"{method} {order.path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: keep-alive\r\n"
    number = order.first
    if MARK not in order.body:
        length = f"content-type: application/json\r\ncontent-length: {len(order.body)}\r\n"
        request = f"{head}{length if order.body else ''}\r\n{order.body}".encode()
        while True:
            yield request
    before, after = order.body.split(MARK)
    while True:
        body = f"{before}{number}{after}"
        number += 1
        yield (
            f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
        ).encode()


class _Session:
    """The state that all connections of one order share."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.requests = requests_of(order)
        self.latencies: list[float] = []
        self.failures = 0
        self.idle: deque[_Connection] = deque()
        self.due: deque[float] = deque()
        self.deadline = time.perf_counter() + order.seconds
        self.open = 0
        self.ended = asyncio.get_running_loop().create_future()

    def send_next(self) -> None:
        """Ask on a free connection; if there is none, the request waits and its wait counts."""
        now = time.perf_counter()
        if self.idle:
            self.idle.popleft().send(now)
        else:
            self.due.append(now)

    def answered(self, connection: "_Connection", status: int) -> None:
        now = time.perf_counter()
        self.latencies.append(now - connection.due_at)
        if status not in _SUCCESS:
            self.failures += 1
        if self.due:
            connection.send(self.due.popleft())
        elif self.order.rate is None and now < self.deadline:
            connection.send(now)
        elif now < self.deadline:
            self.idle.append(connection)
        else:
            connection.end()

    def lost(self, *, was_waiting: bool) -> None:
        self.failures += was_waiting
        self.open -= 1
        if self.open == 0 and not self.ended.done():
            self.ended.set_result(None)


class _Connection(asyncio.Protocol):
    def __init__(self, session: _Session) -> None:
        self._session = session
        self._parser = httptools.HttpResponseParser(self)
        self._is_waiting = False
        self._transport: asyncio.Transport | None = None
        self.due_at = 0.0

    @override
    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._session.open += 1
        self._session.idle.append(self)

    def send(self, due_at: float) -> None:
        assert self._transport is not None
        self.due_at, self._is_waiting = due_at, True
        self._transport.write(next(self._session.requests))

    @override
    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        self._is_waiting = False
        self._session.answered(self, status)

    def end(self) -> None:
        assert self._transport is not None
        self._transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._session.lost(was_waiting=self._is_waiting)


async def _pace(session: _Session, rate: float) -> None:
    started = time.perf_counter()
    for number in range(int(rate * session.order.seconds)):
        pause = started + number / rate - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        session.send_next()


async def carry_out(order: Order) -> Outcome:
    """Return the outcome of an order's requests."""
    loop = asyncio.get_running_loop()
    cpu_started = time.process_time()
    session = _Session(order)
    for _ in range(order.connections):
        await loop.create_connection(lambda: _Connection(session), "127.0.0.1", order.port)
    session.deadline = (started := time.perf_counter()) + order.seconds
    if order.rate is None:
        for _ in range(order.connections):
            session.send_next()
    else:
        await _pace(session, order.rate)
        await asyncio.sleep(max(session.deadline - time.perf_counter(), 0.0))
    for connection in session.idle:
        connection.end()
    await session.ended
    seconds = time.perf_counter() - started
    ordered = sorted(session.latencies) or [float("nan")]
    return Outcome(
        answered=len(session.latencies),
        failures=session.failures,
        seconds=seconds,
        median_s=ordered[len(ordered) // 2],
        p99_s=ordered[int(0.99 * (len(ordered) - 1))],
        cpu_s=time.process_time() - cpu_started,
    )


async def main() -> None:
    """Carry out orders until the input ends."""
    for line in sys.stdin:
        outcome = await carry_out(Order(**json.loads(line)))
        print(json.dumps(asdict(outcome)), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
