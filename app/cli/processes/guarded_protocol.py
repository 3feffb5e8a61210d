"""Guards connections against slow or endless headers and trailers, non-HTTP, stalled readers."""

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final

import httptools
import orjson
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api import problem_kinds, problems
from app.api.problem_kinds import ProblemKind
from app.api.strict_headers import STRICTEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    # At run time the application is imported only when it is built.
    from app.api.middleware.metrics import RequestMetrics

_logger = logging.getLogger(__name__)
_MAX_HEAD_BYTES: Final = 1 << 16
_SHORTEN: Final = "Shorten the address and the headers; send what is long in a body."
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


class _RefusedError(Exception):
    """A request that the parser accepts but this service refuses; raised within the parser."""

    def __init__(self, kind: ProblemKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class GuardedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with bounds on the time and size of request headers.

    Uvicorn itself keeps a connection whose headers never end, with all their bytes, and treats
    any number of trailers as headers. Here trailers are skipped. The application limits bodies, but
    does not see the bytes between and after their chunks.

    An offer to switch protocols (`Upgrade`) is declined by ignoring it (RFC 9110, section 7.8).
    Uvicorn itself loses the body of such a request, and may read it as the next request.

    A client that stops reading its answer is disconnected, which frees what it holds (the room of
    a batch, the transaction of an export).
    """

    head_timeout_s: ClassVar[float] = 10.0
    """Time limit for the headers of a request, from the connection or their first byte."""

    reader_timeout_s: ClassVar[float] = 30.0
    min_read_bytes: ClassVar[int] = 1 << 18
    """A client must read this much of a waiting answer, or all of it, within the timeout."""

    answer_within_s: ClassVar[float] = 8.0
    """Time limit for answers to begin when the server ends; it stops waiting a little later."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._requests: RequestMetrics | None = self.app_state.get("requests")
        self._awaits_head = True
        self._begun_at = self.loop.time()
        """When the last head began, the connection before the first."""
        self._head_bytes = 0
        self._unused_bytes = 0
        self._has_progress = False
        """Whether the last data made progress: the end of a head, or bytes of a body."""
        self._is_declining = False
        self._deadline: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._latest_cycle: RequestResponseCycle | None = None
        """The request being or last answered; `cycle` is the one that arrived last."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        self._arm()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._end_watch()
        self._notify_disconnect()
        super().connection_lost(exc)

    @override
    def eof_received(self) -> None:
        # The transport closes itself now; uvicorn learns of it one turn of the loop later.
        self._notify_disconnect()
        self._watch_unsent()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    @override
    def resume_writing(self) -> None:
        self._end_watch()
        super().resume_writing()
        if self.transport.is_closing():
            self._watch_unsent()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_unsent()

    @override
    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_unsent()

    @override
    def data_received(self, data: bytes) -> None:
        self._has_progress = False
        self._feed(data)
        if self._awaits_head:
            # Most heads arrive in one piece and need no timer.
            if self._deadline is None:
                self._arm()
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self._refuse(problem_kinds.HEAD_TOO_LARGE, f"They exceed {_MAX_HEAD_BYTES} bytes.")
        elif self._has_progress:
            self._unused_bytes = 0
        else:
            self._unused_bytes += len(data)
            if self._unused_bytes > _MAX_HEAD_BYTES:
                detail = f"Trailers, or what surrounds the chunks, exceed {_MAX_HEAD_BYTES} bytes."
                self._refuse(problem_kinds.HEAD_TOO_LARGE, detail)

    def _feed(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                self._decline_upgrade()
            except httptools.HttpParserError as error:
                refusal = error.__context__
                if isinstance(refusal, _RefusedError):
                    self._refuse(refusal.kind, str(refusal))
                else:
                    self.send_400_response("This is not an HTTP request.")
                return
            else:
                return

    def _decline_upgrade(self) -> None:
        """Continue with a new parser that knows only the body framing from the last head."""
        framing = [
            b"%b: %b\r\n" % header for header in self.scope["headers"] if header[0] in _FRAMING
        ]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as in uvicorn
        self._is_declining = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        self._is_declining = False

    @override
    def on_message_begin(self) -> None:
        if not self._is_declining:
            super().on_message_begin()
            self._awaits_head, self._head_bytes = True, 0
            self._begun_at = self.loop.time()

    @override
    def on_headers_complete(self) -> None:
        if self._is_declining:
            return
        if self._deadline is not None:
            self._disarm()
        self._awaits_head, self._has_progress = False, True
        self._require_host()
        self._require_known_coding()
        self._require_short_target()
        super().on_headers_complete()
        # The request keeps its list; trailers, which arrive like headers, go to this new one.
        self.headers = []

    def _require_host(self) -> None:
        """Refuse a request without exactly one Host header (RFC 9112, section 3.2)."""
        hosts = [name for name, _ in self.headers].count(b"host")
        if hosts != 1 and (hosts or self.parser.get_http_version() == "1.1"):
            number = "several" if hosts else "no"
            detail = f"A request has one Host header; this one has {number}."
            raise _RefusedError(problem_kinds.MALFORMED_HTTP, detail)

    def _require_known_coding(self) -> None:
        """Refuse a body in another transfer coding than chunks, which the parser would not undo.

        A proxy that does undo it, or knows none but `chunked`, reads another body.
        """
        for name, value in self.headers:
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                detail = "The only transfer coding is chunked; this request names another one."
                raise _RefusedError(problem_kinds.MALFORMED_HTTP, detail)

    def _require_short_target(self) -> None:
        """Refuse a target that is too long for uvicorn's URL parser."""
        if len(self.url) >= _MAX_HEAD_BYTES:
            detail = f"The address alone has {_MAX_HEAD_BYTES} bytes or more."
            raise _RefusedError(problem_kinds.HEAD_TOO_LARGE, detail)

    @override
    def on_body(self, body: bytes) -> None:
        self._has_progress = True
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        # After an Upgrade offer the parser does not recognize the body.
        if not self.parser.should_upgrade():
            super().on_message_complete()

    @override
    def shutdown(self) -> None:
        """Close after the current answer, and have the application finish it in time."""
        stop: Callable[[float], None] | None = self.app_state.get("stop")
        if stop is not None:
            stop(self.answer_within_s)
        super().shutdown()

    @override
    def send_400_response(self, msg: str) -> None:
        self._refuse(problem_kinds.MALFORMED_HTTP, msg)

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(self.head_timeout_s, self._on_head_timeout)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_head_timeout(self) -> None:
        if self._active_cycle() is not None:
            # An earlier request on the connection is still being answered.
            self._arm()
            return
        self._refuse(
            problem_kinds.HEAD_TIMEOUT, f"They took longer than {self.head_timeout_s:g} s."
        )

    @override
    def _start_asgi_task(self, cycle: "RequestResponseCycle", app: "ASGI3Application") -> None:
        self._latest_cycle = cycle
        super()._start_asgi_task(cycle, app)

    def _active_cycle(self) -> "RequestResponseCycle | None":
        """Return the request that is being answered, if any."""
        latest = self._latest_cycle
        return None if latest is None or latest.response_complete else latest

    def _notify_disconnect(self) -> None:
        """Notify the request being answered of the disconnect; uvicorn notifies only the latest."""
        active = self._active_cycle()
        if active is not None:
            active.disconnected = True
            active.message_event.set()

    def _watch_unsent(self) -> None:
        """Watch unsent data on a closing connection: it may be too little to pause writing."""
        if self._reading is None and self.transport.get_write_buffer_size():
            self._watch_reader()

    def _watch_reader(self) -> None:
        unsent_bytes = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(
            self.reader_timeout_s, self._check_reader, unsent_bytes
        )

    def _end_watch(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _check_reader(self, unsent_bytes: int) -> None:
        """Keep a client that has read enough of the waiting data, disconnect any other."""
        read_bytes = unsent_bytes - self.transport.get_write_buffer_size()
        if read_bytes >= self.min_read_bytes:
            self._watch_reader()
            return
        details = {"taken_bytes": read_bytes, "within_s": self.reader_timeout_s}
        _logger.warning("a client reads its answer too slowly and is disconnected", extra=details)
        # A normal close would wait for the client to read.
        self.transport.abort()

    def _refuse(self, kind: ProblemKind, detail: str) -> None:
        """Answer with a problem and close, since nothing after the error can be parsed."""
        self._disarm()
        if self.transport.is_closing():
            return
        active = self._active_cycle()
        if active is not None and active.response_started:
            # The problem would be read as part of the answer that has begun.
            self.transport.close()
            self._watch_unsent()
            return
        if active is None:
            self._count(kind)
        is_long = kind is problem_kinds.HEAD_TOO_LARGE
        remedy = _SHORTEN if is_long else "Send the request again, whole and without delay."
        document = problems.problem_document(kind, detail, instance="/", remedy=remedy)
        body = orjson.dumps(document)
        head = b"HTTP/1.1 %d %b\r\n" % (kind.status, HTTPStatus(kind.status).phrase.encode())
        headers = (
            *self.server_state.default_headers,  # the date
            (b"content-type", problems.MEDIA_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *STRICTEST,
        )
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(head + lines + b"\r\n" + body)
        self.transport.close()
        self._watch_unsent()

    def _count(self, kind: ProblemKind) -> None:
        """Count a refused request; the application counts those that reached it itself.

        Nothing was asked on a connection without a byte, such as a balancer's check of the port.
        """
        is_silent = kind is problem_kinds.HEAD_TIMEOUT and not self._head_bytes
        if self._requests is not None and not is_silent:
            self._requests.observe_refused(kind.status, self.loop.time() - self._begun_at)
