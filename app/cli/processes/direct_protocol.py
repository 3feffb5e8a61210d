"""A connection protocol that answers some requests without calling the application."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from app.cli.processes.guarded_protocol import GuardedProtocol

if TYPE_CHECKING:
    import asyncio

    # At run time the application is imported only when it is built.
    from app.api.shortcut.protocol import DirectAnswers, Question


@dataclass(slots=True)
class _PendingRequest:
    """Bytes of a request that have not been given to the parser yet."""

    data: bytes
    started_at: float
    waits_for: "asyncio.TimerHandle | Question"

    def release(self) -> bytes:
        """Return the bytes and cancel what they waited for."""
        self.waits_for.cancel()
        return self.data


_USED_ATTRIBUTES: Final = (
    "access_log",
    "app_state",
    "cycle",
    "flow",
    "loop",
    "on_headers_complete",
    "on_message_begin",
    "on_message_complete",
    "parser",
    "server_state",
    "timeout_keep_alive",
    "timeout_keep_alive_handler",
    "timeout_keep_alive_task",
    "transport",
)
"""Undocumented attributes of uvicorn's protocol that are used here."""


def is_compatible(protocol: object) -> bool:
    """Whether a protocol has all attributes used here; another uvicorn version may lack some."""
    return all(hasattr(protocol, part) for part in _USED_ATTRIBUTES)


class DirectProtocol(GuardedProtocol):
    """Uvicorn's protocol, answering through `DirectAnswers` where possible without parsing.

    Between two requests, bytes that begin with a known head are answered at once. Everything else
    is passed to the parser as if it had just arrived.
    """

    body_within_s: ClassVar[float] = 0.1
    """How long to wait for a body after its head before the application takes over."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        direct: DirectAnswers | None = self.app_state.get("direct_answers")
        # Disabled with an access log, because requests answered here would not be in it.
        self._direct = None if self.access_log or not is_compatible(self) else direct
        self._is_between_messages = True
        self._unread_head = b""
        self._pending: _PendingRequest | None = None
        self._answered_at = 0.0

    @override
    def data_received(self, data: bytes) -> None:
        if self._direct is None:
            super().data_received(data)
            return
        pending = self._pending
        if pending is not None:
            self._pending, data = None, pending.release() + data
        if not self._is_idle() or not self._answer_or_hold(
            self._direct, data, is_first=pending is None
        ):
            self._parse(data)

    def _is_idle(self) -> bool:
        """Whether nothing on the connection is unread, unanswered or unsent."""
        return (
            self._is_between_messages
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and not self.transport.is_closing()
        )

    def _answer_or_hold(self, direct: "DirectAnswers", data: bytes, *, is_first: bool) -> bool:
        """Answer or hold a request; return False if it must be parsed."""
        started_at = time.perf_counter()
        known_head = direct.head_of(data)
        if known_head is None:
            return False
        head, end = known_head
        missing_bytes = end + head.length - len(data)
        if missing_bytes:
            if missing_bytes < 0 or not is_first:
                return False
            timer = self.loop.call_later(self.body_within_s, self._parse_pending)
            self._pending = _PendingRequest(data, started_at, timer)
            return True
        project_id = direct.project_of(head)
        if project_id is None:
            return False
        body = data[end:]
        answer = direct.cached_answer(project_id, body)
        if answer is not None:
            self._write(direct, answer, started_at)
            return True
        question = direct.ask(project_id, body, self._settle)
        if question is not None:
            self._pending = _PendingRequest(data, started_at, question)
        return question is not None

    def _settle(self, answer: bytes | None) -> None:
        """Take the answer to the held request, None if it must be parsed."""
        pending = self._pending
        assert pending is not None
        assert self._direct is not None
        if answer is None:
            self._parse_pending()
            return
        self._pending = None
        if not self.transport.is_closing():
            self._write(self._direct, answer, pending.started_at)

    def _parse_pending(self) -> None:
        """Pass the held bytes to the parser."""
        pending = self._pending
        if pending is not None:
            self._pending = None
            self._parse(pending.release())

    def _parse(self, data: bytes) -> None:
        self._unread_head = data if self._is_between_messages else b""
        super().data_received(data)

    def _write(self, direct: "DirectAnswers", answer: bytes, started_at: float) -> None:
        state = self.server_state
        self.transport.write(direct.message(state.default_headers, answer, started_at))
        state.total_requests += 1
        if self._deadline is not None:
            self._disarm()
        self._answered_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._arm_keep_alive(self.timeout_keep_alive)

    def _arm_keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    @override
    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it is idle, else restart the timer, which many answers share."""
        remaining_s = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if self._pending is not None:
            remaining_s = self.timeout_keep_alive
        if remaining_s > 0:
            self._arm_keep_alive(remaining_s)
        else:
            super().timeout_keep_alive_handler()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_between_messages = False

    @override
    def on_headers_complete(self) -> None:
        unread, self._unread_head = self._unread_head, b""
        headers, parser = self.headers, self.parser
        super().on_headers_complete()
        is_usual = parser.should_keep_alive() and not parser.should_upgrade()
        if not is_usual:
            self._direct = None
        elif unread and self._direct is not None:
            self._direct.learn(unread, headers)

    @override
    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_between_messages = True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._pending is not None:
            self._pending.release()
            self._pending = None
        super().connection_lost(exc)

    @override
    def shutdown(self) -> None:
        """Close after the current answer."""
        self._parse_pending()
        super().shutdown()
