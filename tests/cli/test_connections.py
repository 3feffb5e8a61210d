"""Connections that never become a request are ended with a problem, and others go on."""

import asyncio
import json
from typing import Any

import pytest
from fastapi import FastAPI

from app.cli.connections import GuardedProtocol
from tests.support.connections import listening

_WHOLE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


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


def test_what_is_no_http_is_a_problem(application: FastAPI) -> None:
    status, problem = _problem(_talk(application, b"\x16\x03\x01 hello\r\n\r\n"))

    assert status.startswith(b"HTTP/1.1 400")
    assert problem["code"] == "malformed_http"


def test_whole_requests_are_answered_and_the_next_one_is_guarded_too(
    application: FastAPI,
) -> None:
    answer = _talk(application, _WHOLE + _WHOLE, b"GET / HTTP/1.1\r\n")

    first, second, refused = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200")
    assert second.startswith(b"200")
    assert refused.startswith(b"408")
