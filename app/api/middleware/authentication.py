"""Identifies the caller of each request before its body is read, and again after a slow body."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.api.middleware.exchanges import exchange_of
from app.domain.access import Principal
from app.domain.access_errors import ForeignNameError, ForeignPageError, UnauthenticatedError
from app.domain.errors import DomainError

_SLOW_BODY_S: Final = 5.0
"""The key may have been revoked while a body was sent that took longer."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FOREIGN_SITES: Final = frozenset({b"cross-site", b"same-site"})
"""What browsers say in `Sec-Fetch-Site` of requests by pages of other origins (Fetch Metadata)."""
_METRICS: Final = "/metrics"
"""They may name workloads (`TRAINFARE_METRICS_WORKLOADS`)."""
Authenticate = Callable[[str | None], Awaitable[Principal]]


class AuthenticationMiddleware:
    """Identifies the caller before the body is read, and again after a slow one.

    Only for paths below `/v1`. Where no key is needed, whoever asks is on this machine, and so is
    the browser that shows any page of the web: it is not to change anything for another site's, nor
    to take the service, or its metrics, for that site.

    Parameters
    ----------
    app
        The next layer.
    authenticate
        Returns the caller that an Authorization header names.
    answers_to
        Whether a request with these headers, Authorization and Host, may be answered.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticate: Authenticate,
        answers_to: Callable[[str | None, str | None], bool],
    ) -> None:
        self._app = app
        self._authenticate = authenticate
        self._answers_to = answers_to

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self._pass_on(scope, receive, send)
            return
        state: dict[str, Any] = scope["state"]
        headers = exchange_of(scope).headers
        authorization, host = decoded(headers, b"authorization"), decoded(headers, b"host")
        try:
            # A browser asks the service before it lets a foreign page send the header.
            if authorization is None:
                _refuse_foreign_change(scope["method"], headers.get(b"sec-fetch-site"))
            if not self._answers_to(authorization, host):
                raise ForeignNameError(host or "")
            state["principal"] = await self._authenticate(authorization)
        except DomainError as error:
            await problems.respond_to(error, instance=scope["path"])(scope, receive, send)
            return
        started_at = time.monotonic()

        async def receive_again() -> Message:
            message = await receive()
            is_whole = message["type"] == "http.request" and not message.get("more_body", False)
            if is_whole and time.monotonic() - started_at > _SLOW_BODY_S:
                await self._reauthenticate(authorization)
            return message

        await self._app(scope, receive_again, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on that needs no key."""
        if scope["type"] == "http" and scope["path"] == _METRICS:
            host = decoded(exchange_of(scope).headers, b"host")
            # A key that is named proves nothing, since nobody looks it up.
            if not self._answers_to(None, host):
                refusal = ForeignNameError(host or "")
                await problems.respond_to(refusal, instance=_METRICS)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _reauthenticate(self, authorization: str | None) -> None:
        """Refuse a caller that was admitted when the request began and would not be now.

        If that cannot be found out, the first answer holds.
        """
        try:
            await self._authenticate(authorization)
        except UnauthenticatedError:
            raise
        except DomainError:
            return


def decoded(headers: Mapping[bytes, bytes], name: bytes) -> str | None:
    """Return the text of a header, None if there is none."""
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def _refuse_foreign_change(method: str, site: bytes | None) -> None:
    if method not in _SAFE_METHODS and site in _FOREIGN_SITES:
        raise ForeignPageError
