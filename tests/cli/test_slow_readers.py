"""Clients that read their answers slowly or not at all hold neither a connection nor a timer."""

import asyncio
import contextlib
import socket
from unittest.mock import MagicMock

import pytest
import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask
from typing_extensions import override
from uvicorn.server import ServerState

from app.cli.processes.guarded_protocol import GuardedProtocol
from tests.support.connections import listening


class _Reader:
    """The connection of a reader for whom much waits, on a loop whose timers a test ends."""

    def __init__(self, application: FastAPI) -> None:
        config = uvicorn.Config(application, lifespan="off", log_config=None)
        self.loop, self.transport = MagicMock(), MagicMock()
        self.waits(1 << 20)
        self.connection = GuardedProtocol(config, ServerState(), {}, _loop=self.loop)
        self.connection.connection_made(self.transport)
        self.connection.pause_writing()

    def waits(self, size: int) -> None:
        self.transport.get_write_buffer_size.return_value = size

    def end_timer(self) -> None:
        seconds, judge, waited = self.loop.call_later.call_args.args
        assert seconds == GuardedProtocol.reader_timeout_s
        judge(waited)


def test_reader_that_takes_next_to_nothing_is_let_go(
    application: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    reader = _Reader(application)

    reader.waits((1 << 20) - GuardedProtocol.min_read_bytes)
    reader.end_timer()
    reader.transport.abort.assert_not_called()
    reader.waits((1 << 20) - 2 * GuardedProtocol.min_read_bytes + 1)
    reader.end_timer()

    reader.transport.abort.assert_called_once_with()
    assert caplog.messages == ["a client reads its answer too slowly and is disconnected"]


def test_reader_who_has_taken_all_is_watched_no_more(application: FastAPI) -> None:
    reader = _Reader(application)
    timer = reader.loop.call_later.return_value
    timer.cancel.reset_mock()

    reader.connection.resume_writing()

    timer.cancel.assert_called_once_with()


@pytest.mark.parametrize("has_read", [False, True])
def test_connection_that_is_lost_leaves_no_timer(application: FastAPI, *, has_read: bool) -> None:
    reader = _Reader(application)
    reader.transport.is_closing.return_value = False
    if has_read:
        reader.connection.resume_writing()

    reader.connection.connection_lost(None)

    timer = reader.loop.call_later
    assert timer.return_value.cancel.call_count == timer.call_count == 2


def test_answer_that_nobody_reads_is_cut_off() -> None:
    class Unforgiving(GuardedProtocol):
        reader_timeout_s = 0.05

    piece, n_pieces = bytes(1 << 20), 64
    application = FastAPI()

    @application.get("/pieces")
    async def answer() -> StreamingResponse:
        return StreamingResponse(iter([piece] * n_pieces))

    async def stop_reading() -> int:
        read = 0
        async with listening(application, Unforgiving) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(b"GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n")
            await served.wait_for_bytes(len(piece))  # it never does: until the connection is closed
            with contextlib.suppress(ConnectionError):
                while part := await reader.read(len(piece)):
                    read += len(part)
            writer.close()
        return read

    assert asyncio.run(stop_reading()) < n_pieces * len(piece)


class _Narrow(GuardedProtocol):
    """Little waits in the system and the rest in the transport, too little to pause writing."""

    reader_timeout_s = 0.05

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        super().connection_made(transport)
        self.timeout_keep_alive = 0


@pytest.mark.parametrize("end", ["keep-alive", "close", "half-closed"])
def test_rest_of_an_answer_that_nobody_reads_holds_no_connection(end: str) -> None:
    application = FastAPI()
    answered = asyncio.Event()

    async def note() -> None:
        answered.set()

    @application.get("/")
    async def answer() -> Response:
        return Response(bytes(60_000), background=BackgroundTask(note))

    async def stop_reading() -> None:
        async with listening(application, _Narrow) as served:
            with socket.socket() as reader:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                reader.settimeout(0)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(reader, ("127.0.0.1", served.port))
                connection = b"close" if end == "close" else b"keep-alive"
                request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: %b\r\n\r\n" % connection
                await loop.sock_sendall(reader, request)
                if end == "half-closed":
                    await answered.wait()
                    reader.shutdown(socket.SHUT_WR)
                async with asyncio.timeout(10):
                    await served.wait_for_bytes(
                        1 << 20
                    )  # it never does: until the connection is closed

    asyncio.run(stop_reading())
