"""Identifies the caller of each request before its body is read."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import problems
from app.api.middleware.exchanges import exchange_of
from app.domain.access import Principal
from app.domain.errors import DomainError

Authenticate = Callable[[str | None], Awaitable[Principal]]


class AuthenticationMiddleware:
    """Identifies the caller before the body is read; only for paths below `/v1`."""

    def __init__(self, app: ASGIApp, authenticate: Authenticate) -> None:
        self._app = app
        self._authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        state: dict[str, Any] = scope["state"]
        given = exchange_of(scope).headers.get(b"authorization")
        try:
            authorization = None if given is None else given.decode("latin-1")
            state["principal"] = await self._authenticate(authorization)
        except DomainError as error:
            await problems.respond_to(error, instance=scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)
