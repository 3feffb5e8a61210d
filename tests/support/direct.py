"""Requests forecasts over real connections, answered by the protocol or by the application."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson
from fastapi import FastAPI

from app.cli.processes.direct_protocol import DirectProtocol
from app.cli.processes.guarded_protocol import GuardedProtocol
from app.services.wiring import Services
from tests.support.connections import listening, read_answer, send_in_pieces

QUESTION: dict[str, Any] = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 4},
    "work": {"dataset_size": 1000},
}
_VARYING = re.compile(
    rb'fc_[0-9a-z]{25}|(?<=x-request-id: )[0-9a-f]{32}|(?<="request_id":")[0-9a-f]{32}'
    rb"|(?<=dur=)[0-9.]+"
)


class Direct(DirectProtocol):
    """The protocol with a body timeout as long as a test may take."""

    body_within_s = 60.0


def request(
    body: bytes | None = None,
    *headers: str,
    line: str = "POST /v1/forecasts HTTP/1.1",
    length: int | None = None,
    **changes: Any,
) -> bytes:
    """Return a request as sent on the wire; `changes` apply to the question."""
    sent = orjson.dumps({**QUESTION, **changes}) if body is None else body
    length_header = (
        [f"content-length: {len(sent) if length is None else length}"] if length != -1 else []
    )
    lines = [line, "host: x", "content-type: application/json", *headers, *length_header]
    return "\r\n".join([*lines, "", ""]).encode() + sent


PLAIN = request(record=False)
RECORDED = request()
CLOSING = request(None, "connection: close", record=False)
HEAD_LENGTH = PLAIN.index(b"\r\n\r\n") + 4


def cut(whole: bytes, *places: int) -> list[bytes]:
    """Return a request cut into pieces."""
    edges = [0, *places, len(whole)]
    return [whole[start:end] for start, end in pairwise(edges)]


def alike(answer: bytes) -> bytes:
    """Return an answer with the parts masked that vary between identical requests."""
    return _VARYING.sub(b"*", answer)


def status_of(answer: bytes) -> int:
    """Return the status of an answer."""
    return int(answer.split(b" ", 2)[1])


def document_of(answer: bytes) -> Any:
    """Return the JSON of an answer."""
    return orjson.loads(answer.partition(b"\r\n\r\n")[2])


@dataclass
class Stage:
    """An application that caches forecasts, and the state that it gives the server."""

    application: FastAPI
    services: Services

    @property
    def n_direct(self) -> int:
        """The number of forecasts that the protocol answered."""
        counted: Any = self.state["direct_answers"].forecasts
        count: int = counted.value
        return count

    @property
    def state(self) -> dict[str, Any]:
        """The state that the application gives the server."""
        return {"direct_answers": self.application.state.direct_answers}

    def send_pieces(
        self, pieces: Sequence[bytes], protocol: type[GuardedProtocol] = Direct, **more: Any
    ) -> bytes:
        """Send the pieces over one connection; return all data received until it was closed."""

        async def talk() -> bytes:
            async with listening(self.application, protocol, self.state, **more) as served:
                reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                try:
                    await send_in_pieces(served, writer, pieces)
                    return await asyncio.wait_for(reader.read(), 60)
                finally:
                    writer.close()

        return alike(asyncio.run(talk()))

    def exchange(
        self, requests: Sequence[bytes], protocol: type[GuardedProtocol] = Direct
    ) -> list[bytes]:
        """Send each request after the answer to the one before; return the answers."""

        async def talk() -> list[bytes]:
            async with listening(self.application, protocol, self.state) as served:
                reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                answers = []
                for request_bytes in requests:
                    writer.write(request_bytes)
                    answers.append(await read_answer(reader))
                writer.close()
                return answers

        return asyncio.run(talk())
