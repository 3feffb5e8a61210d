"""What the protocol answers itself is, byte by byte, what the application would have answered."""

import asyncio
import gzip
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from fastapi import FastAPI

from app.api.encoded_answers import MAX_BODY_BYTES
from app.cli.connections import GuardedProtocol
from app.cli.direct_connections import DirectProtocol
from app.domain.access import Scope
from app.services.wiring import Services
from tests.support.connections import Listening, listening, read_answer, send_in_pieces
from tests.support.regressors import publish_regressor

ASKED: dict[str, Any] = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 4},
    "work": {"dataset_size": 1000},
}
_VARYING = re.compile(
    rb'fc_[0-9a-z]{25}|(?<=x-request-id: )[0-9a-f]{32}|(?<="request_id":")[0-9a-f]{32}'
    rb"|(?<=dur=)[0-9.]+"
)


class Direct(DirectProtocol):
    """Waits for bodies as long as a test may take."""

    body_within_s = 60.0


class Impatient(DirectProtocol):
    """Waits for no body."""

    body_within_s = 0.0


def request(
    body: bytes | None = None,
    *headers: str,
    line: str = "POST /v1/forecasts HTTP/1.1",
    length: int | None = None,
    **changes: Any,
) -> bytes:
    sent = orjson.dumps({**ASKED, **changes}) if body is None else body
    told = [f"content-length: {len(sent) if length is None else length}"] if length != -1 else []
    lines = [line, "host: x", "content-type: application/json", *headers, *told]
    return "\r\n".join([*lines, "", ""]).encode() + sent


PLAIN = request(record=False)
RECORDED = request()
CLOSING = request(None, "connection: close", record=False)
_BODY = orjson.dumps({**ASKED, "record": False})


def cut(whole: bytes, *places: int) -> list[bytes]:
    """Return a request in pieces."""
    edges = [0, *places, len(whole)]
    return [whole[start:end] for start, end in zip(edges, edges[1:], strict=False)]


_HEAD = PLAIN.index(b"\r\n\r\n") + 4
Talk = Callable[[Listening], Awaitable[None]]


@dataclass
class Stage:
    """An application whose forecasts are remembered, and what it tells the server."""

    application: FastAPI
    services: Services

    @property
    def n_direct(self) -> int:
        """How many forecasts the protocol answered."""
        figures: Any = self.state["direct_answers"].figures
        count: int = figures.forecasts
        return count

    @property
    def state(self) -> dict[str, Any]:
        return {"direct_answers": self.application.state.direct_answers}

    def hear(
        self, pieces: Sequence[bytes], protocol: type[GuardedProtocol] = Direct, **more: Any
    ) -> bytes:
        """Send the pieces over one connection; return all that came until it was closed."""

        async def talk() -> bytes:
            async with listening(self.application, protocol, self.state, **more) as served:
                reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                try:
                    await send_in_pieces(served, writer, pieces)
                    return await asyncio.wait_for(reader.read(), 60)
                finally:
                    writer.close()

        return _VARYING.sub(b"*", asyncio.run(talk()))

    def converse(
        self, requests: Sequence[bytes], protocol: type[GuardedProtocol] = Direct
    ) -> list[bytes]:
        """Send each request when the one before was answered; return the answers."""

        async def talk() -> list[bytes]:
            async with listening(self.application, protocol, self.state) as served:
                reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                answers = []
                for each in requests:
                    writer.write(each)
                    answers.append(await read_answer(reader))
                writer.close()
                return answers

        return asyncio.run(talk())


@pytest.fixture
def stage(services: Services, application: FastAPI) -> Stage:
    publish_regressor(services)
    stage = Stage(application, services)
    stage.converse([PLAIN, PLAIN, RECORDED, RECORDED], GuardedProtocol)
    stage.converse([PLAIN, RECORDED])
    assert stage.n_direct == 0
    return stage


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def code_of(answer: bytes) -> str:
    code: str = orjson.loads(answer.partition(b"\r\n\r\n")[2])["code"]
    return code


USUAL: dict[str, list[bytes]] = {
    "closing": [CLOSING],
    "head in pieces": cut(PLAIN, 30),
    "many pieces": cut(PLAIN, 5, _HEAD - 2, _HEAD + 3),
    "head, then half of the body": cut(PLAIN, _HEAD, _HEAD + 9),
    "two at once": [PLAIN + PLAIN],
    "one and a half": cut(PLAIN + PLAIN, len(PLAIN) + 40),
    "HTTP/1.0": [request(line="POST /v1/forecasts HTTP/1.0", record=False)],
    "kept open in HTTP/1.0": [
        request(None, "connection: keep-alive", line="POST /v1/forecasts HTTP/1.0", record=False)
    ],
    "HEAD": [request(b"", line="HEAD /v1/forecasts HTTP/1.1")],
    "GET": [request(b"", line="GET /healthz HTTP/1.1")],
    "query": [request(line="POST /v1/forecasts?a=1 HTTP/1.1", record=False)],
    "absolute address": [request(line="POST http://x/v1/forecasts HTTP/1.1", record=False)],
    "in chunks": [
        request(
            b"%x\r\n%b\r\n0\r\n\r\n" % (len(_BODY), _BODY), "transfer-encoding: chunked", length=-1
        )
    ],
    "expecting": [request(None, "expect: 100-continue", record=False)],
    "upgrading": [request(None, "connection: upgrade", "upgrade: h2c", record=False)],
    "named": [request(None, "x-request-id: mine", record=False)],
    "traced": [request(None, f"traceparent: 00-{'1' * 32}-{'2' * 16}-01", record=False)],
    "text": [request(None, "accept: text/plain", record=False)],
    "two types": [request(None, "content-type: text/csv", record=False)],
    "compressed": [request(gzip.compress(_BODY), "content-encoding: gzip")],
    "long": [request(_BODY + b" " * MAX_BODY_BYTES)],
    "blank line before": [b"\r\n" + PLAIN],
    "no length": [request(b"", length=-1)],
    "wrong length": [request(_BODY, "content-length: 3")],
    "no key of ours": [request(None, "authorization: Bearer tf_a_b", record=False)],
    "endless key": [request(None, "authorization: Bearer " + "a" * 300, record=False)],
    "no JSON": [request(b"{")],
    "refused": [request(workload="nobody's")],
    "no HTTP": [b"\x16\x03\x01\r\n\r\n"],
}


_ENDING = {"closing", "HTTP/1.0", "kept open in HTTP/1.0", "wrong length", "no HTTP"}


@pytest.mark.parametrize("name", USUAL)
def test_requests_out_of_the_ordinary_go_the_usual_way(stage: Stage, name: str) -> None:
    pieces = USUAL[name] if name in _ENDING else [*USUAL[name], CLOSING]

    usual = stage.hear(pieces, GuardedProtocol)

    assert usual
    assert stage.hear(pieces) == usual
    assert stage.hear([PLAIN, *pieces]) == stage.hear([PLAIN, *pieces], GuardedProtocol)


@pytest.mark.parametrize("asked", [PLAIN, RECORDED])
def test_seen_question_is_answered_by_the_protocol_as_by_the_application(
    stage: Stage, asked: bytes
) -> None:
    pieces = [asked] * 3 + [CLOSING]

    direct = stage.hear(pieces)

    assert stage.n_direct == 3
    assert direct == stage.hear(pieces, GuardedProtocol)


def test_body_that_comes_after_its_head_is_answered_by_the_protocol(stage: Stage) -> None:
    pieces = [*cut(PLAIN, _HEAD), CLOSING]

    direct = stage.hear(pieces)

    assert stage.n_direct == 1
    assert direct == stage.hear(pieces, GuardedProtocol)


def test_body_that_takes_its_time_is_waited_for_by_the_application(stage: Stage) -> None:
    pieces = [*cut(PLAIN, _HEAD), CLOSING]

    late = stage.hear(pieces, Impatient)

    assert late == stage.hear(pieces, GuardedProtocol)


def test_new_question_is_answered_by_the_protocol_as_by_the_application(stage: Stage) -> None:
    new = [request(work={"dataset_size": size}, record=False) for size in (1100, 1200, 1300)]

    direct = stage.hear([*new, CLOSING])

    assert stage.n_direct == 3
    assert direct == stage.hear([*new, CLOSING], GuardedProtocol)


def test_questions_of_several_connections_are_answered_together(stage: Stage) -> None:
    asked = [request(work={"dataset_size": 1100 + more}, record=False) for more in range(8)]

    async def talk() -> list[bytes]:
        async with listening(stage.application, Direct, stage.state) as served:
            opened = [await asyncio.open_connection("127.0.0.1", served.port) for _ in asked]
            while len(served.taken) < len(asked):
                await asyncio.sleep(0)
            for taken, each in zip(served.taken, asked, strict=True):
                taken.data_received(each)
            answers = [await read_answer(reader) for reader, _ in opened]
            for _, writer in opened:
                writer.close()
            return answers

    answers = asyncio.run(talk())

    alone = stage.converse(asked, GuardedProtocol)
    assert [orjson.loads(each.partition(b"\r\n\r\n")[2])["work"] for each in answers] == [
        orjson.loads(each.partition(b"\r\n\r\n")[2])["work"] for each in alone
    ]
    assert sorted(_VARYING.sub(b"*", each) for each in answers) == sorted(
        _VARYING.sub(b"*", each) for each in alone
    )
    assert stage.n_direct == len(asked)
