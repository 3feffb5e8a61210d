"""A sender that leaves in the middle of its body leaves nothing behind, and is no error of ours."""

import asyncio

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import Message, Scope

from tests.support.log_lines import log_lines

_BODY = b"workload,duration_seconds\na,5\n"


async def _send_half(
    application: FastAPI, path: str, *headers: tuple[bytes, bytes]
) -> list[Message]:
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-length", b"1000"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
    }
    incoming: list[Message] = [
        {"type": "http.request", "body": _BODY, "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop(0) if incoming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await application(scope, receive, send)
    return sent


def test_half_an_upload_is_not_stored(application: FastAPI, client: TestClient) -> None:
    sent = asyncio.run(_send_half(application, "/v1/runs", (b"content-type", b"text/csv")))

    assert sent == []
    assert client.get("/v1/workloads/a").status_code == 404


@pytest.mark.parametrize("headers", [(), ((b"idempotency-key", b"once"),)])
@pytest.mark.parametrize(
    "path",
    ["/v1/runs", "/v1/forecasts", "/v1/forecasts:batch", "/v1/recommendations", "/v1/prices"],
)
def test_caller_who_left_is_counted_as_no_error_of_the_service(
    application: FastAPI, client: TestClient, path: str, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    with log_lines() as lines:
        asyncio.run(_send_half(application, path, (b"content-type", b"application/json"), *headers))

    [counted] = [
        line
        for line in client.get("/metrics").text.splitlines()
        if line.startswith("trainfare_http_requests_total{")
    ]
    assert f'route="{path}",status="499"' in counted
    assert lines.events == []
