"""Guards connections before a request exists: slow or endless headers, and what is no HTTP."""

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar, Final

import orjson
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api import problems
from app.api.problems import ProblemKind

_MAX_HEAD_BYTES: Final = 1 << 16


class GuardedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol that waits for a request's headers neither for ever nor without bound.

    Uvicorn alone keeps a connection that never ends its headers, and all bytes of them. Bodies
    have limits of their own in the application.
    """

    head_timeout_s: ClassVar[float] = 10.0
    """How long the headers of a request may take from the connection or their first byte on."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaits_head = True
        self._head_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        self._arm()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Most heads come whole: no timer is set for them.
        if self._awaits_head:
            if self._deadline is None:
                self._arm()
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self._refuse(problems.HEAD_TOO_LARGE, f"They exceed {_MAX_HEAD_BYTES} bytes.")

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._awaits_head, self._head_bytes = True, 0

    @override
    def on_headers_complete(self) -> None:
        if self._deadline is not None:
            self._disarm()
        self._awaits_head = False
        super().on_headers_complete()

    @override
    def send_400_response(self, msg: str) -> None:
        self._refuse(problems.MALFORMED_HTTP, msg)

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(self.head_timeout_s, self._give_up)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # An earlier request of the connection is still being answered.
            self._arm()
            return
        self._refuse(problems.HEAD_TIMEOUT, f"They took longer than {self.head_timeout_s:g} s.")

    def _refuse(self, kind: ProblemKind, detail: str) -> None:
        """Answer with a problem and close; the connection says nothing that could be read on."""
        self._disarm()
        if self.transport.is_closing():
            return
        remedy = "Send the request again, whole and without delay."
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
