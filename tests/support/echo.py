"""Routes that tests add to the application to examine its middleware alone."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request, Response
from fastapi.testclient import TestClient
from starlette.routing import Route

from app.api.requests.routers import ApiRouter
from app.main import build_app
from app.services.wiring import Services
from app.settings import Settings


class Echo:
    """Counts its calls and answers with what it read, or with the requested status.

    While `gate` is closed its answers wait; `entered` signals that one does.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.status = 201
        self.entered = Event()
        self.gate = Event()
        self.gate.set()

    async def stream(self, request: Request) -> Response:
        """Answer with the body as read chunk by chunk; status 0 raises a deliberate error."""
        self.calls += 1
        body = b"".join([chunk async for chunk in request.stream()])
        self.entered.set()
        await asyncio.to_thread(self.gate.wait)
        if self.status == 0:
            message = "a planted bug"
            raise ValueError(message)
        return Response(
            body,
            status_code=self.status,
            media_type="text/csv",
            headers={"Location": f"/v1/echo/{self.calls}", "X-Size": str(len(body))},
        )

    @staticmethod
    async def parse(document: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        """Answer with the parsed document."""
        return document


@contextmanager
def echoing_client(settings: Settings, services: Services) -> Iterator[tuple[TestClient, Echo]]:
    """Yield a client of an application with `/v1/echo` (stream) and `/v1/json` (parsed)."""
    app: FastAPI = build_app(settings, services)
    echo = Echo()
    app.router.routes.append(Route("/v1/echo", echo.stream, methods=["POST", "GET"]))
    app.router.routes.append(Route("/v1/echo/{name:path}", echo.stream, methods=["POST"]))
    router = ApiRouter("/v1", "echo")
    router.add_api_route("/json", Echo.parse, methods=["POST"])
    app.router.routes.extend(router.routes)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client, echo
