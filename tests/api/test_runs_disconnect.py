"""A sender that leaves in the middle of its upload leaves nothing behind."""

import asyncio

from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import Message, Scope

_BODY = b"workload,duration_seconds\na,5\n"


async def _send_half(application: FastAPI) -> list[Message]:
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/runs",
        "raw_path": b"/v1/runs",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"text/csv"), (b"content-length", b"1000")],
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


def test_half_an_upload_is_neither_stored_nor_an_error(
    application: FastAPI, client: TestClient
) -> None:
    sent = asyncio.run(_send_half(application))

    statuses = [message["status"] for message in sent if "status" in message]
    assert all(status < 500 for status in statuses)
    assert client.get("/v1/workloads/a").status_code == 404
