"""Reads request bodies: decompresses them, limits their decoded size and the time to wait."""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.api.middleware.decoding import DECODERS, SUPPORTED_ENCODINGS, Decoder
from app.api.middleware.exchanges import exchange_of
from app.api.middleware.patience import within
from app.domain.errors import (
    DomainError,
    InvalidRequestError,
    PayloadTooLargeError,
    TooManyValuesError,
    UnsupportedMediaTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_IDLE_TIMEOUT_S: Final = 30.0
_DRAIN_TIMEOUT_S: Final = 5.0
_DRAIN_FACTOR: Final = 2
_VALUE_STARTS: Final = (b",", b"[", b"{")
_MAX_VALUES: Final = 1_000_000
"""An empty JSON object of 3 bytes takes 72 bytes in memory: 64 MiB of them take 1.5 GiB."""
_STREAMED_PATH: Final = "/v1/runs"
_BODYLESS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_BODY_HEADERS: Final = frozenset({b"content-length", b"transfer-encoding"})
_DROPPED_HEADERS: Final = frozenset({b"content-encoding", b"content-length"})


class _Body:
    """The body of one request, as ASGI messages."""

    __slots__ = (
        "_decoded",
        "_decoder",
        "_idle_timeout_s",
        "_is_read_whole",
        "_limit",
        "_pieces",
        "_receive",
        "_received",
        "_values",
        "has_ended",
    )

    def __init__(
        self,
        receive: Receive,
        decoder: Decoder | None,
        limit: int,
        idle_timeout_s: float,
        *,
        is_read_whole: bool,
    ) -> None:
        self._receive = receive
        self._decoder = decoder
        self._limit = limit
        self._idle_timeout_s = idle_timeout_s
        self._is_read_whole = is_read_whole
        self._received = 0
        self._decoded = 0
        self._values = 0
        self._pieces: Iterator[bytes] = iter(())
        self.has_ended = False
        """Whether the sender has sent everything."""

    async def receive(self) -> Message:
        if self._decoder is not None:
            return await self._receive_decoded(self._decoder)
        if self.has_ended:
            return await self._receive()
        message = await self._next()
        self._count(message.get("body", b""))
        return message

    async def _receive_decoded(self, decoder: Decoder) -> Message:
        while True:
            for piece in self._pieces:
                self._count(piece)
                return {"type": "http.request", "body": piece, "more_body": True}
            if self.has_ended:
                return self._end(decoder)
            message = await self._next()
            if message["type"] != "http.request":
                return message
            self._pieces = decoder.decode(message.get("body", b""))

    def _end(self, decoder: Decoder) -> Message:
        self._decoder = None
        if not decoder.is_complete():
            raise InvalidRequestError("The compressed body is incomplete.")
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _next(self) -> Message:
        try:
            message = await within(self._idle_timeout_s, self._receive())
        except TimeoutError as error:
            raise InvalidRequestError(
                f"No part of the body arrived for {self._idle_timeout_s:g} s."
            ) from error
        self._received += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.has_ended = True
        return message

    def _count(self, piece: bytes) -> None:
        self._decoded += len(piece)
        if self._decoded > self._limit:
            raise PayloadTooLargeError(limit_bytes=self._limit)
        # Fewer bytes cannot hold so many values.
        if self._is_read_whole and self._decoded > _MAX_VALUES:
            self._values += sum(map(piece.count, _VALUE_STARTS))
            if self._values > _MAX_VALUES:
                raise TooManyValuesError(_MAX_VALUES)

    async def drain(self) -> None:
        """Read on after a refusal, within bounds: a sender that still writes misses the answer."""
        self._decoder = None
        try:
            async with asyncio.timeout(_DRAIN_TIMEOUT_S):
                while not self.has_ended and self._received < _DRAIN_FACTOR * self._limit:
                    await self._next()
        except (TimeoutError, DomainError):
            return


class BodyMiddleware:
    """Decompresses gzip and zstd, and limits the number of decoded bytes and JSON values."""

    def __init__(
        self, app: ASGIApp, max_bytes: int, idle_timeout_s: float = _IDLE_TIMEOUT_S
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._idle_timeout_s = idle_timeout_s

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Return the awaitable that answers, or one that refuses the body by its headers."""
        if scope["type"] != "http":
            return self._app(scope, receive, send)
        exchange = exchange_of(scope)
        headers = exchange.headers
        if scope["method"] in _BODYLESS and headers.keys().isdisjoint(_BODY_HEADERS):
            return self._app(scope, receive, send)
        encoding = (
            headers.get(b"content-encoding", b"identity").decode("latin-1").strip().casefold()
        )
        decoder = DECODERS[encoding]() if encoding in DECODERS else None
        body = _Body(
            receive,
            decoder,
            self._max_bytes,
            self._idle_timeout_s,
            is_read_whole=scope["path"] != _STREAMED_PATH,
        )
        if b"expect" not in headers:
            exchange.unread = body
        try:
            self._check(encoding, headers.get(b"content-length", b"0"))
        except DomainError as error:
            response = problems.respond_to(error, instance=scope["path"])
            response.headers["Accept-Encoding"] = ", ".join(SUPPORTED_ENCODINGS)
            return response(scope, body.receive, send)
        if decoder is not None:
            scope["headers"] = [
                pair for pair in scope["headers"] if pair[0] not in _DROPPED_HEADERS
            ]
        return self._app(scope, body.receive, send)

    def _check(self, encoding: str, length: bytes) -> None:
        if encoding not in DECODERS and encoding not in {"identity", ""}:
            raise UnsupportedMediaTypeError(f"Content-Encoding {encoding!r}", SUPPORTED_ENCODINGS)
        if length.isdigit() and int(length) > self._max_bytes:
            raise PayloadTooLargeError(limit_bytes=self._max_bytes)
