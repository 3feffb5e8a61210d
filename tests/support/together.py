"""Sends simultaneous requests to an application, as if each caller had its own connection."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Scope

_JSON = (b"content-type", b"application/json")


@dataclass(slots=True)
class Caller:
    """One `POST /v1/forecasts` and its answer."""

    body: bytes
    headers: Sequence[tuple[bytes, bytes]] = (_JSON,)
    status: int | None = None
    answer: bytes = b""
    response_headers: dict[bytes, bytes] = field(default_factory=dict)

    def scope(self) -> Scope:
        """Return the ASGI scope of the request, as a server passes it."""
        return {
            "type": "http",
            "method": "POST",
            "path": "/v1/forecasts",
            "raw_path": b"/v1/forecasts",
            "root_path": "",
            "scheme": "http",
            "query_string": b"",
            "headers": list(self.headers),
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }

    async def receive(self) -> Message:
        """Return the body."""
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: Message) -> None:
        """Keep the answer."""
        if message["type"] == "http.response.start":
            self.status, self.response_headers = message["status"], dict(message["headers"])
        else:
            self.answer += message["body"]

    async def ask(self, application: ASGIApp) -> None:
        """Send the request and wait for the answer."""
        await application(self.scope(), self.receive, self.send)


def ask_together(application: ASGIApp, callers: Sequence[Caller]) -> None:
    """Have all callers ask before the first is answered."""

    async def ask_all() -> None:
        await asyncio.gather(*(caller.ask(application) for caller in callers))

    asyncio.run(ask_all())


def ask_in_turn(application: ASGIApp, callers: Sequence[Caller]) -> None:
    """Have each caller ask after the one before was answered."""

    async def ask_all() -> None:
        for caller in callers:
            await caller.ask(application)

    asyncio.run(ask_all())
