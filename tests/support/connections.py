"""Real connections to an application through uvicorn's protocols, within the test process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI
from typing_extensions import override
from uvicorn.server import ServerState

from app.cli.processes.guarded_protocol import GuardedProtocol


@dataclass
class Listening:
    """A server with one protocol, and the connections that it accepted."""

    state: ServerState
    port: int = 0
    connections: list[GuardedProtocol] = field(default_factory=list)
    received: int = 0
    is_closed: bool = False
    """Whether a connection was closed."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, data: bytes) -> None:
        """Count data that was passed to a connection."""
        self.received += len(data)
        self._changed.set()

    def end(self) -> None:
        """Note that a connection was closed."""
        self.is_closed = True
        self._changed.set()

    async def wait_for_connections(self, count: int) -> list[GuardedProtocol]:
        """Return the connections once there are at least `count`."""
        while len(self.connections) < count:
            self._changed.clear()
            await self._changed.wait()
        return self.connections

    def add_connection(self, connection: GuardedProtocol) -> None:
        """Note a new connection."""
        self.connections.append(connection)
        self._changed.set()

    async def wait_for_bytes(self, total: int) -> None:
        """Wait until `total` bytes have been passed to the connections, or one was closed."""
        while self.received < total and not self.is_closed:
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def listening(
    application: FastAPI,
    protocol: type[GuardedProtocol],
    app_state: Mapping[str, Any] | None = None,
    *,
    access_log: bool = False,
) -> AsyncIterator[Listening]:
    """Serve an application on a free port; `app_state` is the state that its lifespan yields."""
    config = uvicorn.Config(
        application,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=access_log,
    )
    log = logging.getLogger("uvicorn.access")
    handlers, propagates = log.handlers, log.propagate
    config.load()

    served = Listening(ServerState())

    class Watched(protocol):  # type: ignore[valid-type, misc]  # of any protocol
        @override
        def connection_made(self, transport: asyncio.Transport) -> None:  # as in uvicorn
            super().connection_made(transport)
            served.add_connection(self)

        @override
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            served.count(data)

        @override
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            served.end()

    server = await asyncio.get_running_loop().create_server(
        lambda: Watched(config=config, server_state=served.state, app_state=dict(app_state or {})),
        "127.0.0.1",
        0,
    )
    served.port = server.sockets[0].getsockname()[1]
    try:
        async with server:
            yield served
    finally:
        log.handlers, log.propagate = handlers, propagates


async def send_in_pieces(
    served: Listening, writer: asyncio.StreamWriter, pieces: Sequence[bytes]
) -> None:
    """Send the pieces, each after the one before has been passed to the connection."""
    for piece in pieces:
        total = served.received + len(piece)
        writer.write(piece)
        await served.wait_for_bytes(total)


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """Return one answer with head and body, empty if the connection was closed instead."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    lengths = [
        int(line.partition(b":")[2])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    ]
    return head + (await reader.readexactly(lengths[0]) if lengths else b"")
