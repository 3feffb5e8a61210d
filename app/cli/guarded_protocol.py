"""Guards connections: slow or endless headers and trailers, what is no HTTP, readers that stop."""

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

if TYPE_CHECKING:
    from collections.abc import Callable

    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_logger = logging.getLogger(__name__)
_MAX_HEAD_BYTES: Final = 1 << 16
_SHORTEN: Final = "Send less in the address and the headers, and what is long in a body."
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


class _RefusedError(Exception):
    """A request that the parser takes and this service does not; the parser ends with it."""

    def __init__(self, kind: ProblemKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class GuardedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol that waits for a request's headers neither for ever nor without bound.

    Uvicorn alone keeps a connection that never ends its headers, and all bytes of them, and
    takes trailers, however many, for headers. Here trailers are read over. Bodies have limits of
    their own in the application, which do not see what stands between and behind their chunks.

    An offer to speak another protocol (`Upgrade`) is declined by going on as if it had not been
    made (RFC 9110, section 7.8). Uvicorn alone loses the body of such a request, and may take it
    for the next one.

    A reader that stops in the midst of its answer is let go: what it holds up (the room of a
    batch, a transaction of an export) is freed.
    """

    head_timeout_s: ClassVar[float] = 10.0
    """How long the headers of a request may take from the connection or their first byte on."""

    reader_timeout_s: ClassVar[float] = 30.0
    least_read_bytes: ClassVar[int] = 1 << 18
    """So much of an answer that waits for its reader is taken within the timeout, or all of it."""

    answer_within_s: ClassVar[float] = 8.0
    """How long answers may take to begin when the server ends; a little later it waits no more."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaits_head = True
        self._head_bytes = 0
        self._unused_bytes = 0
        self._goes_on = False
        """Whether what came last was of use: a head's end or bytes of a body."""
        self._is_declining = False
        self._deadline: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._answered: RequestResponseCycle | None = None
        """The request that is being answered, or was last; `cycle` is the one that came last."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        self._arm()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._end_watch()
        self._tell_gone()
        super().connection_lost(exc)

    @override
    def eof_received(self) -> None:
        # The transport closes itself now; uvicorn hears of it a turn of the loop later.
        self._tell_gone()
        self._watch_rest()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    @override
    def resume_writing(self) -> None:
        self._end_watch()
        super().resume_writing()
        if self.transport.is_closing():
            self._watch_rest()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_rest()

    @override
    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_rest()

    @override
    def data_received(self, data: bytes) -> None:
        self._goes_on = False
        self._feed(data)
        if self._awaits_head:
            # Most heads come whole: no timer is set for them.
            if self._deadline is None:
                self._arm()
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self._refuse(problem_kinds.HEAD_TOO_LARGE, f"They exceed {_MAX_HEAD_BYTES} bytes.")
        elif self._goes_on:
            self._unused_bytes = 0
        else:
            self._unused_bytes += len(data)
            if self._unused_bytes > _MAX_HEAD_BYTES:
                detail = f"Trailers, or what is beside the chunks, exceed {_MAX_HEAD_BYTES} bytes."
                self._refuse(problem_kinds.HEAD_TOO_LARGE, detail)

    def _feed(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                self._decline()
            except httptools.HttpParserError as error:
                ours = error.__context__
                if isinstance(ours, _RefusedError):
                    self._refuse(ours.kind, str(ours))
                else:
                    self.send_400_response("This is no HTTP request.")
                return
            else:
                return

    def _decline(self) -> None:
        """Read on with a parser that knows of the last head only how the body is framed."""
        framing = [b"%b: %b\r\n" % each for each in self.scope["headers"] if each[0] in _FRAMING]
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

    @override
    def on_headers_complete(self) -> None:
        if self._is_declining:
            return
        if self._deadline is not None:
            self._disarm()
        self._awaits_head, self._goes_on = False, True
        self._require_host()
        self._require_short_target()
        super().on_headers_complete()
        # The request has its headers; trailers, which come like them, are none.
        self.headers = []

    def _require_host(self) -> None:
        """Refuse what names no host or several (RFC 9112, section 3.2)."""
        hosts = [name for name, _ in self.headers].count(b"host")
        if hosts != 1 and (hosts or self.parser.get_http_version() == "1.1"):
            found = "several" if hosts else "no"
            detail = f"A request has one Host header; this one has {found}."
            raise _RefusedError(problem_kinds.MALFORMED_HTTP, detail)

    def _require_short_target(self) -> None:
        """Refuse an address that uvicorn's parser of addresses takes for none."""
        if len(self.url) >= _MAX_HEAD_BYTES:
            detail = f"The address alone has {_MAX_HEAD_BYTES} bytes or more."
            raise _RefusedError(problem_kinds.HEAD_TOO_LARGE, detail)

    @override
    def on_body(self, body: bytes) -> None:
        self._goes_on = True
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        # Behind an offer of another protocol the parser takes no body for one.
        if not self.parser.should_upgrade():
            super().on_message_complete()

    @override
    def shutdown(self) -> None:
        """End after the answer that is under way, which the application hastens."""
        stop: Callable[[float], None] | None = self.app_state.get("stop")
        if stop is not None:
            stop(self.answer_within_s)
        super().shutdown()

    @override
    def send_400_response(self, msg: str) -> None:
        self._refuse(problem_kinds.MALFORMED_HTTP, msg)

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(self.head_timeout_s, self._give_up)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if self._under_way() is not None:
            # An earlier request of the connection is still being answered.
            self._arm()
            return
        self._refuse(
            problem_kinds.HEAD_TIMEOUT, f"They took longer than {self.head_timeout_s:g} s."
        )

    @override
    def _start_asgi_task(self, cycle: "RequestResponseCycle", app: "ASGI3Application") -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _under_way(self) -> "RequestResponseCycle | None":
        """Return the request that is being answered."""
        answered = self._answered
        return None if answered is None or answered.response_complete else answered

    def _tell_gone(self) -> None:
        """Tell the request that is being answered; uvicorn tells only the one that came last."""
        under_way = self._under_way()
        if under_way is not None:
            under_way.disconnected = True
            under_way.message_event.set()

    def _watch_rest(self) -> None:
        """Watch what waits on a connection that closes: it may be too little to pause writing."""
        if self._reading is None and self.transport.get_write_buffer_size():
            self._watch_reader()

    def _watch_reader(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(self.reader_timeout_s, self._judge_reader, waiting)

    def _end_watch(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _judge_reader(self, waited: int) -> None:
        """Go on with a reader that took enough of what waited for it, let another one go."""
        taken = waited - self.transport.get_write_buffer_size()
        if taken >= self.least_read_bytes:
            self._watch_reader()
            return
        told = {"taken_bytes": taken, "within_s": self.reader_timeout_s}
        _logger.warning("a reader takes too little of its answer and is let go", extra=told)
        # Closed in the usual way, the connection would wait for its reader.
        self.transport.abort()

    def _refuse(self, kind: ProblemKind, detail: str) -> None:
        """Answer with a problem and close; the connection says nothing that could be read on."""
        self._disarm()
        if self.transport.is_closing():
            return
        under_way = self._under_way()
        if under_way is not None and under_way.response_started:
            # It would be read as a part of the answer that has begun.
            self.transport.close()
            self._watch_rest()
            return
        is_long = kind is problem_kinds.HEAD_TOO_LARGE
        remedy = _SHORTEN if is_long else "Send the request again, whole and without delay."
        document = problems.problem_document(kind, detail, instance="/", remedy=remedy)
        body = orjson.dumps(document)
        head = (
            f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}\r\n"
            f"content-type: {problems.MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()
        self._watch_rest()
