"""Replays the first answer to a POST that is repeated with the same `Idempotency-Key`."""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.api.dependencies import READING, Authorization
from app.api.middleware.exchanges import exchange_of
from app.domain import deadlines
from app.domain.availability_errors import StorageUnavailableError
from app.domain.errors import DomainError, Fault, InProgressError, InvalidRequestError
from app.domain.idempotency import IdempotencyTicket, Replay
from app.services.idempotency import IdempotencyService

if TYPE_CHECKING:
    from app.domain.access import Principal

_KEY: Final = re.compile(r"[\x20-\x7e]{1,255}")
_IN_MEMORY_BYTES: Final = 1 << 20
_PIECE_BYTES: Final = 1 << 18
_MAX_PATH: Final = 300
_NOT_KEPT: Final = frozenset({401, 403, 429})
_RECORDING_PATH: Final = "/v1/forecasts"
"""The only path where read access stores something: a recorded forecast."""

_SERVER_ERROR: Final = 500
_UNSTORED: Final = frozenset({"content-length"})


class _Answer:
    """Holds an answer back until it is stored.

    Parameters
    ----------
    is_question
        Whether the request may simply be answered again if its answer is not stored.
    """

    def __init__(self, *, is_question: bool) -> None:
        self._start: Message | None = None
        self._body = bytearray()
        self.is_question = is_question
        self.is_complete = False

    @property
    def status(self) -> int:
        assert self._start is not None
        status: int = self._start["status"]
        return status

    @property
    def is_kept(self) -> bool:
        return self.status < _SERVER_ERROR and self.status not in _NOT_KEPT

    async def collect(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        self.is_complete = not message.get("more_body", False)

    def to_replay(self) -> Replay:
        assert self._start is not None
        headers = Headers(raw=self._start["headers"])
        kept = {name: value for name, value in headers.items() if name not in _UNSTORED}
        return Replay(self.status, kept, bytes(self._body))

    async def send_to(self, send: Send) -> None:
        assert self._start is not None
        await send(self._start)
        await send({"type": "http.response.body", "body": bytes(self._body)})


def _key_of(scope: Scope) -> str | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    key = exchange_of(scope).headers.get(b"idempotency-key")
    return None if key is None or "principal" not in scope["state"] else key.decode("latin-1")


def _ticket(scope: Scope, key: str) -> IdempotencyTicket:
    if not _KEY.fullmatch(key):
        raise InvalidRequestError(
            "The Idempotency-Key cannot be used.",
            [
                Fault(
                    "A key has 1 to 255 printable ASCII characters.",
                    "Send a UUID or a hash of the content.",
                    field="Idempotency-Key",
                    value=key[:80],
                )
            ],
        )
    principal: Principal = scope["state"]["principal"]
    path: str = scope["path"]
    if len(path) > _MAX_PATH:
        path = hashlib.sha256(path.encode(errors="surrogatepass")).hexdigest()
    return IdempotencyTicket(principal.project_id, path, key)


async def _spool(scope: Scope, receive: Receive, spool: IO[bytes]) -> str:
    """Write the body to `spool`; return a hash of query, content type and body."""
    content_type = Headers(scope=scope).get("content-type", "")
    digest = hashlib.sha256(scope["query_string"] + b"\0" + content_type.encode() + b"\0")
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        digest.update(chunk)
        spool.write(chunk)
        if not message.get("more_body", False):
            spool.seek(0)
            return digest.hexdigest()


def _replaying(spool: IO[bytes], receive: Receive) -> Receive:
    has_ended = False

    async def receive_spooled() -> Message:
        nonlocal has_ended
        if has_ended:
            return await receive()
        chunk = spool.read(_PIECE_BYTES)
        has_ended = len(chunk) < _PIECE_BYTES
        return {"type": "http.request", "body": chunk, "more_body": not has_ended}

    return receive_spooled


async def _send_replay(replay: Replay, send: Send) -> None:
    headers = {
        **replay.headers,
        "idempotent-replayed": "true",
        "content-length": str(len(replay.body)),
    }
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": replay.status, "headers": raw})
    await send({"type": "http.response.body", "body": replay.body})


class IdempotencyMiddleware:
    """Runs a POST with an `Idempotency-Key` once; requests without one have no overhead.

    A request that only asks changes nothing: its answer is stored if there is room, else computed
    again. The ticket is in `scope["state"]["idempotency"]`: a route that finishes it in the
    transaction of its own work stores both atomically.

    Parameters
    ----------
    app
        The application within.
    service
        Stores the first answers.
    authorization_of
        Finds the authorization that a request's route requires. It is checked before a replay:
        answers are stored per project, whose keys may differ in what they allow.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: IdempotencyService,
        authorization_of: Callable[[Scope], Authorization | None],
    ) -> None:
        self._app = app
        self._service = service
        self._authorization_of = authorization_of

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Return the awaitable that answers: without a key, the application itself."""
        key = _key_of(scope)
        if key is None:
            return self._app(scope, receive, send)
        return self._answer(key, scope, receive, send)

    async def _answer(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        with SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as spool:
            try:
                is_question = self._authorize(scope)
                ticket = _ticket(scope, key)
                digest = await _spool(scope, receive, spool)
                started = await asyncio.to_thread(self._service.begin, ticket, digest)
            except ClientDisconnect:
                return
            except DomainError as error:
                await problems.respond_to(error, instance=scope["path"])(scope, receive, send)
                return
            if isinstance(started, Replay):
                await _send_replay(started, send)
                return
            scope["state"]["idempotency"] = started
            answer = _Answer(is_question=is_question)
            await self._run_once(started, scope, _replaying(spool, receive), answer)
            await answer.send_to(send)

    def _authorize(self, scope: Scope) -> bool:
        """Return whether the request only asks, so that running it twice is harmless.

        Raises
        ------
        ForbiddenError
            If the caller may not make the request.
        """
        authorization = self._authorization_of(scope)
        if authorization is None:
            return False
        authorization.check(scope["state"]["principal"])
        return authorization.scope is READING.scope and scope["path"] != _RECORDING_PATH

    async def _run_once(
        self, ticket: IdempotencyTicket, scope: Scope, receive: Receive, answer: _Answer
    ) -> None:
        try:
            async with self._renewing(ticket):
                await self._app(scope, receive, answer.collect)
        except Exception:
            await self._settle(ticket, answer)
            raise
        # Not reached on cancellation: a thread may still be storing, so the lock is left to expire.
        await self._settle(ticket, answer)

    async def _settle(self, ticket: IdempotencyTicket, answer: _Answer) -> None:
        # An answer that its route has stored already, or that cannot be stored now, is sent anyway.
        suppressed = contextlib.suppress(InProgressError, StorageUnavailableError)
        with suppressed, deadlines.unlimited():
            if not answer.is_complete or not answer.is_kept:
                await asyncio.to_thread(self._service.forget, ticket)
            else:
                kept = answer.to_replay()
                finish = self._service.keep if answer.is_question else self._service.finish
                await asyncio.to_thread(finish, ticket, kept.status, kept.headers, kept.body)

    @contextlib.asynccontextmanager
    async def _renewing(self, ticket: IdempotencyTicket) -> AsyncIterator[None]:
        async def renew() -> None:
            while True:
                await asyncio.sleep(self._service.lock_s / 3)
                with contextlib.suppress(StorageUnavailableError):
                    await asyncio.to_thread(self._service.renew, ticket)

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()
