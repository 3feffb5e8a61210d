"""Answers `POST /v1/forecasts` without the router, and from the cache where possible.

Schedulers call it thousands of times a second: routing and the framework's preparations would cost
more than the answer. The operation itself is defined in `app.api.forecasts`.
"""

from collections.abc import Mapping
from typing import Final

from fastapi import Request
from opentelemetry import trace
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.api.encoded.cache import MAX_BODY_BYTES, EncodedAnswers
from app.api.encoded.forecasts import answer_from_memory, cached_answer
from app.api.forecasts import PATH, make_forecast, router
from app.api.middleware.exchanges import exchange_of, json_headers
from app.api.requests.bodies import parse_json
from app.api.requests.known_queries import check_query
from app.api.shortcut.gathering import Gatherer
from app.domain.access import Principal
from app.domain.access import Scope as AccessScope
from app.domain.access_errors import ForbiddenError
from app.domain.errors import DomainError
from app.services.wiring import Services

_JSON_TYPES: Final = frozenset({b"application/json", b"application/json; charset=utf-8"})
_JSON_ACCEPTED: Final = frozenset({b"*/*", b"application/json"})
_TELEMETRY: Final = "fastapi.telemetry"
"""Scope key under which the framework keeps a request's trace, if it traces requests."""

_ROUTE: Final = next(route for route in router.routes if getattr(route, "path", "") == PATH)


class ForecastShortcut:
    """The innermost layer: any other request than `POST /v1/forecasts` goes to the router.

    Parameters
    ----------
    app
        The router.
    services
        Provide the forecasts.
    answers
        The remembered answers.
    gatherer
        Answers simultaneous questions together.
    """

    def __init__(
        self, app: ASGIApp, services: Services, answers: EncodedAnswers, gatherer: Gatherer
    ) -> None:
        self._app = app
        self._services = services
        self._answers = answers
        self._gatherer = gatherer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it on."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope["route"] = _ROUTE
        if scope.get(_TELEMETRY) is not None:
            _name_span()
        try:
            check_query(scope, _ROUTE)
            principal: Principal = scope["state"]["principal"]
            if not principal.allows(AccessScope.READ):
                raise ForbiddenError(AccessScope.READ.value)
            body = await _read(receive)
            if Services.forecasts.made_by(self._services) is None:
                await run_in_threadpool(self._import)
            answer = await self._answer(scope, principal, body)
            if answer is not None:
                headers = json_headers(b"%d" % len(answer))
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": answer})
                return
            response = await make_forecast(Request(scope, _replaying(body, receive)))
        except DomainError as error:
            response = problems.respond_to(error, instance=PATH)
        await response(scope, receive, send)

    def _import(self) -> None:
        """Import the forecasting code: this takes tenths of a second, so it runs in a thread."""
        from app.api.batches import forecasts  # noqa: F401, PLC0415 - imported for later

        _ = self._services.forecasts

    async def _answer(self, scope: Scope, principal: Principal, body: bytes) -> bytes | None:
        """Return the answer, None if it needs another media type or something not in memory."""
        answers, project_id = self._answers, principal.project_id
        if _lines_of(scope, b"accept") > 1 or not is_plain(exchange_of(scope).headers):
            answers.figures.misses += 1
            return None
        forecasts = self._services.forecasts
        answer = cached_answer(forecasts, answers, project_id, body)
        if answer is not None:
            return answer
        answers.figures.misses += 1
        document = parse_json(body)
        if len(body) <= MAX_BODY_BYTES:
            answer = await self._gatherer.ask(project_id, body, document)
        if answer is None:
            answer = answer_from_memory(forecasts, answers, project_id, body, document)
        return answer


def is_plain(headers: Mapping[bytes, bytes]) -> bool:
    """Whether JSON is sent and accepted, without further media type parameters."""
    return (
        headers.get(b"accept", b"*/*") in _JSON_ACCEPTED
        and headers.get(b"content-type", b"application/json") in _JSON_TYPES
    )


def _lines_of(scope: Scope, name: bytes) -> int:
    return [header for header, _ in scope["headers"]].count(name)


def _name_span() -> None:
    """Name the request's span after its route, as the router would."""
    span = trace.get_current_span()
    span.set_attribute("http.route", PATH)
    span.update_name(f"POST {PATH}")


async def _read(receive: Receive) -> bytes:
    """Return the body.

    Raises
    ------
    ClientDisconnect
        If the caller disconnects before its end.
    """
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        piece: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return b"".join((*pieces, piece)) if pieces else piece
        pieces.append(piece)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first replays the body, then continues with `receive`."""
    is_read = False

    async def receive_again() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
