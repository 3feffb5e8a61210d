"""Connections that never become a request are ended with a problem, and others go on."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import MagicMock

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from uvicorn.server import ServerState

from app.api.strict_headers import STRICTEST
from app.cli.processes.direct_protocol import DirectProtocol
from app.cli.processes.guarded_protocol import GuardedProtocol
from tests.support.connections import listening, send_in_pieces
from tests.support.engines import before_any_row

_WHOLE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
_OFFER = b"Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n"
_SECOND = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class _Impatient(GuardedProtocol):
    head_timeout_s = 0.05


def _talk(
    application: FastAPI, *pieces: bytes, protocol: type[GuardedProtocol] = _Impatient
) -> bytes:
    """Send the pieces and return all that came until the service closed the connection."""

    async def talk() -> bytes:
        async with listening(application, protocol) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            answer = await reader.read()
            writer.close()
        return answer

    return asyncio.run(talk())


def _problem(answer: bytes) -> tuple[bytes, dict[str, Any]]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    document: dict[str, Any] = json.loads(body)
    return head.partition(b"\r\n")[0], document


@pytest.mark.parametrize(
    "pieces", [(), (b"GET",), (b"GET /healthz HTTP/1.1\r\n", b"Host: x\r\n", b"X-Slow: a")]
)
@before_any_row
def test_headers_that_never_end_are_given_up(
    application: FastAPI, pieces: tuple[bytes, ...]
) -> None:
    status, problem = _problem(_talk(application, *pieces))

    assert status == b"HTTP/1.1 408 Request Timeout"
    assert (problem["code"], problem["status"]) == ("request_timeout", 408)


def test_endless_headers_are_refused_before_they_fill_the_memory(application: FastAPI) -> None:
    # One byte too many: a reader that left bytes unread would reset the connection.
    endless = b"GET / HTTP/1.1\r\nX-Long: ".ljust((1 << 16) + 1, b"a")

    status, problem = _problem(_talk(application, endless, protocol=GuardedProtocol))

    assert status.startswith(b"HTTP/1.1 431")
    assert problem["code"] == "headers_too_large"
    assert problem["remedy"].startswith("Shorten")


def test_head_is_refused_from_the_first_byte_beyond_the_limit_on(application: FastAPI) -> None:
    config = uvicorn.Config(application, lifespan="off", log_config=None)
    connection = GuardedProtocol(config, ServerState(), {}, _loop=MagicMock())
    transport = MagicMock()
    transport.is_closing.return_value = False
    connection.connection_made(transport)
    connection.data_received(b"GET / HTTP/1.1\r\nX-Long: ".ljust(1 << 16, b"a"))
    transport.write.assert_not_called()

    connection.data_received(b"a")

    [said] = transport.write.call_args.args
    assert said.startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("excess", [0, 1, 9])
def test_address_that_is_too_long_is_no_other_fault(application: FastAPI, excess: int) -> None:
    address = b"/healthz?x=".ljust((1 << 16) + excess, b"a")

    status, problem = _problem(_talk(application, b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % address))

    assert status.startswith(b"HTTP/1.1 431")
    assert problem["code"] == "headers_too_large"


@pytest.mark.parametrize("is_chunked", [False, True])
def test_body_may_be_longer_than_a_head(application: FastAPI, *, is_chunked: bool) -> None:
    start, rest = b'{"workload": "long", "duration_seconds": 10'.ljust(1 << 16), b"}".rjust(1 << 16)
    framing = b"Transfer-Encoding: chunked"
    if is_chunked:
        pieces = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (start, rest, b"")]
    else:
        framing, pieces = b"Content-Length: %d" % len(start + rest), [start, rest]
    head = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%b\r\n\r\n"

    answers = _converse(application, head % framing, *pieces, _SECOND).split(b"HTTP/1.1 ")[1:]

    assert [answer[:3] for answer in answers] == [b"201", b"200"]


def test_what_is_no_http_is_a_problem(application: FastAPI) -> None:
    status, problem = _problem(_talk(application, b"\x16\x03\x01 hello\r\n\r\n"))

    assert status.startswith(b"HTTP/1.1 400")
    assert problem["code"] == "malformed_http"
    assert problem["remedy"].startswith("Send the request again")


@pytest.mark.parametrize("protocol", [GuardedProtocol, DirectProtocol])
@pytest.mark.parametrize("hosts", [b"", b"Host: x\r\nHost: x\r\n", b"Host: a\r\nhost: b\r\n"])
@before_any_row
def test_request_without_exactly_one_host_is_refused_each_time(
    application: FastAPI, protocol: type[GuardedProtocol], hosts: bytes
) -> None:
    for asked in (b"GET /healthz HTTP/1.1\r\n%b\r\n", b"POST /v1/forecasts HTTP/1.1\r\n%b\r\n"):
        status, problem = _problem(_talk(application, asked % hosts, protocol=protocol))

        assert status == b"HTTP/1.1 400 Bad Request"
        assert problem["code"] == "malformed_http"
        assert "Host" in problem["detail"]


def test_http_1_0_needs_no_host(application: FastAPI) -> None:
    assert b" 200 " in _talk(application, b"GET /healthz HTTP/1.0\r\n\r\n")


def test_whole_requests_are_answered_and_the_next_one_is_guarded_too(
    application: FastAPI,
) -> None:
    answer = _talk(application, _WHOLE + _WHOLE, b"GET / HTTP/1.1\r\n")

    first, second, refused = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200")
    assert second.startswith(b"200")
    assert refused.startswith(b"408")


def _converse(application: FastAPI, *pieces: bytes) -> bytes:
    """Send the pieces, each when the one before was read, and return all that came."""

    async def exchange() -> bytes:
        async with listening(application, GuardedProtocol) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            await send_in_pieces(served, writer, pieces)
            answer = await reader.read()
            writer.close()
        return answer

    return asyncio.run(exchange())


@pytest.mark.parametrize("endless", [b"0\r\nX-Long: ", b"0\r\n", b"1;extension="])
@pytest.mark.parametrize("asked", [b"POST /v1/runs", b"GET /healthz"])
@before_any_row
def test_endless_bytes_that_belong_to_no_body_are_refused(
    application: FastAPI, asked: bytes, endless: bytes
) -> None:
    framing = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n"
    head = b"%b HTTP/1.1\r\nHost: x\r\n%b" % (asked, framing)
    flood = b"X-Field: 1\r\n" * 5500 if endless.endswith(b"0\r\n") else b"a" * 65_537

    answer = _converse(application, head + endless, flood)

    # An answer that has begun is cut off: nothing could be said within it.
    has_begun = asked.startswith(b"GET")
    assert answer.startswith(b"HTTP/1.1 200" if has_begun else b"HTTP/1.1 431")
    assert (b"headers_too_large" in answer) != has_begun


@pytest.mark.parametrize("coding", [b"identity, chunked", b"gzip, chunked", b"identity"])
def test_body_in_another_coding_than_chunks_is_refused(application: FastAPI, coding: bytes) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: %b\r\n\r\n"

    status, problem = _problem(_talk(application, head % coding + b"0\r\n\r\n" + _SECOND))

    assert status.startswith(b"HTTP/1.1 400")
    assert problem["code"] == "malformed_http"


def test_name_of_the_coding_may_be_in_capitals(application: FastAPI) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked \r\n\r\n"

    answers = _converse(application, head + b"0\r\n\r\n" + _SECOND).split(b"HTTP/1.1 ")[1:]

    assert [answer[:3] for answer in answers] == [b"200", b"200"]


def test_refusals_before_the_application_have_the_headers_of_all_answers(
    application: FastAPI,
) -> None:
    refused = _talk(application, b"GET /healthz HTTP/1.1\r\n\r\n")

    headers = refused.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    assert {b"%b: %b" % header for header in STRICTEST} <= set(headers)


def _counts(application: FastAPI, *talks: tuple[bytes, ...]) -> list[str]:
    """Send the pieces of each connection and return the counts of requests by status."""

    async def talk() -> str:
        async with listening(
            application, _Impatient, {"requests": application.state.requests}
        ) as served:
            for pieces in (
                *talks,
                (b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",),
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                await send_in_pieces(served, writer, pieces)
                answer = await reader.read()
                writer.close()
        return answer.decode()

    text = asyncio.run(talk())
    name = "trainfare_http_requests_total"
    return [line.removeprefix(name) for line in text.splitlines() if line.startswith(name)]


def test_refusals_before_the_application_are_counted_once(application: FastAPI) -> None:
    chunked = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    counts = _counts(
        application,
        (b"no HTTP\r\n\r\n",),
        (b"GET /healthz HTTP/1.1\r\n\r\n",),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n",),
        (b"GET / HTTP/1.1\r\nX-Long: ".ljust((1 << 16) + 1, b"a"),),
        (chunked, b"no chunk\r\n"),
        (),
    )

    refused = '{method="other",route="(none)",status='
    assert sorted(count for count in counts if refused in count) == [
        f'{refused}"400"}} 2.0',
        f'{refused}"408"}} 1.0',
        f'{refused}"431"}} 1.0',
    ]
    assert len(counts) == len({*counts}) == 4


def test_trailers_are_no_headers(application: FastAPI) -> None:
    chunked = b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
    trailers = b"0\r\nX-Request-ID: told-too-late\r\n\r\n"

    first, second = _converse(application, chunked + trailers + _SECOND).split(b"HTTP/1.1 ")[1:]

    assert first.startswith(b"200")
    assert second.startswith(b"200")
    assert b"told-too-late" not in first


@pytest.mark.parametrize("cuts", [(), ("head",), ("head", "body")])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_offer_of_another_protocol_is_declined_and_the_body_read(
    application: FastAPI, cuts: tuple[str, ...], *, is_chunked: bool
) -> None:
    run = b'{"workload": "offered", "duration_seconds": 10}'
    framing = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(run)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(run), run) if is_chunked else run
    head = b"POST /v1/runs HTTP/1.1\r\nContent-Type: application/json\r\n%b%b\r\n\r\n"
    pieces = [head % (_OFFER, framing), body[:9], body[9:] + _SECOND]
    if "head" not in cuts:
        pieces[:2] = [pieces[0] + pieces[1]]
    if "body" not in cuts:
        pieces[-2:] = [pieces[-2] + pieces[-1]]

    created, healthy = _converse(application, *pieces).split(b"HTTP/1.1 ")[1:]

    assert created.startswith(b"201")
    assert healthy.startswith(b"200")


@pytest.mark.parametrize("is_cut", [False, True])
def test_body_behind_an_offer_is_never_taken_for_a_request(
    application: FastAPI, *, is_cut: bool
) -> None:
    hidden = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    head = (
        b"POST /v1/runs HTTP/1.1\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    pieces = [head % (_OFFER, len(hidden)), hidden + _SECOND]

    answers = _converse(application, *(pieces if is_cut else [b"".join(pieces)]))

    refused, healthy = answers.split(b"HTTP/1.1 ")[1:]
    assert refused.startswith(b"422")
    assert healthy.startswith(b"200")


def test_offers_without_a_body_are_answered_one_after_the_other(application: FastAPI) -> None:
    offer = b"GET /healthz HTTP/1.1\r\n%b\r\n" % _OFFER

    answers = _converse(application, offer * 3 + _SECOND).split(b"HTTP/1.1 ")[1:]

    assert [answer[:3] for answer in answers] == [b"200"] * 4


async def _end_of(request: Request) -> None:
    """Wait until the caller is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def test_request_before_others_of_its_connection_hears_that_its_caller_is_gone() -> None:
    application = FastAPI()
    gone = asyncio.Event()

    @application.get("/")
    async def wait(request: Request) -> None:
        await _end_of(request)
        gone.set()

    async def leave() -> None:
        async with listening(application, GuardedProtocol) as served, asyncio.timeout(10):
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            await send_in_pieces(served, writer, [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2])
            writer.close()
            await gone.wait()

    asyncio.run(leave())


def test_refusal_is_never_put_into_an_answer_that_has_begun() -> None:
    application = FastAPI()

    @application.get("/")
    async def answer(request: Request) -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"begun"
            await _end_of(request)

        return StreamingResponse(pieces())

    async def talk() -> bytes:
        async with listening(application, GuardedProtocol) as served, asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            begun = await reader.readuntil(b"begun\r\n")
            writer.write(_WHOLE + b"no HTTP\r\n\r\n")
            rest = await reader.read()
            writer.close()
        return begun + rest

    assert asyncio.run(talk()).count(b"HTTP/1.1") == 1
