"""Connections whose protocol answers itself where the application need not be asked."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from app.cli.guarded_protocol import GuardedProtocol

if TYPE_CHECKING:
    import asyncio

    # The process imports the application when it builds it, not before.
    from app.api.direct_answers import DirectAnswers, Question


@dataclass(slots=True)
class _Held:
    """Bytes of a request that the parser has not seen."""

    data: bytes
    started_at: float
    waits_for: "asyncio.TimerHandle | Question"

    def release(self) -> bytes:
        """Return the bytes; what was waited for is not."""
        self.waits_for.cancel()
        return self.data


_PARTS: Final = (
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
"""What a protocol of uvicorn has that is used here, and that no document of its promises."""


def is_as_known(protocol: object) -> bool:
    """Whether a protocol has all parts that are used: with another version it may not."""
    return all(hasattr(protocol, part) for part in _PARTS)


class DirectProtocol(GuardedProtocol):
    """Uvicorn's protocol that answers what `DirectAnswers` can, without a request being made of it.

    Between two requests, bytes that begin with a head that was read before are answered at
    once. Everything else is handed to the parser as if it had just come.
    """

    body_within_s: ClassVar[float] = 0.1
    """How long a body may come after its head before the application waits for it instead."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        direct: DirectAnswers | None = self.app_state.get("direct_answers")
        # What is answered here is not in the server's log of requests.
        self._direct = None if self.access_log or not is_as_known(self) else direct
        self._is_between = True
        self._unread_head = b""
        self._held: _Held | None = None
        self._answered_at = 0.0

    @override
    def data_received(self, data: bytes) -> None:
        if self._direct is None:
            super().data_received(data)
            return
        held = self._held
        if held is not None:
            self._held, data = None, held.release() + data
        if not self._is_at_rest() or not self._take(self._direct, data, is_first=held is None):
            self._parse(data)

    def _is_at_rest(self) -> bool:
        """Whether nothing of the connection is unread, unanswered or unsent."""
        return (
            self._is_between
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and not self.transport.is_closing()
        )

    def _take(self, direct: "DirectAnswers", data: bytes, *, is_first: bool) -> bool:
        """Answer or hold a request; False where it has to be parsed."""
        started_at = time.perf_counter()
        found = direct.head_of(data)
        if found is None:
            return False
        head, end = found
        missing = end + head.length - len(data)
        if missing:
            if missing < 0 or not is_first:
                return False
            timer = self.loop.call_later(self.body_within_s, self._let_go)
            self._held = _Held(data, started_at, timer)
            return True
        project_id = direct.project_of(head)
        if project_id is None:
            return False
        body = data[end:]
        answer = direct.again(project_id, body)
        if answer is not None:
            self._write(direct, answer, started_at)
            return True
        question = direct.ask(project_id, body, self._settle)
        if question is not None:
            self._held = _Held(data, started_at, question)
        return question is not None

    def _settle(self, answer: bytes | None) -> None:
        """Take the answer to what is held, None where it is to be parsed."""
        held = self._held
        assert held is not None
        assert self._direct is not None
        if answer is None:
            self._let_go()
            return
        self._held = None
        if not self.transport.is_closing():
            self._write(self._direct, answer, held.started_at)

    def _let_go(self) -> None:
        """Parse what is held."""
        held = self._held
        if held is not None:
            self._held = None
            self._parse(held.release())

    def _parse(self, data: bytes) -> None:
        self._unread_head = data if self._is_between else b""
        super().data_received(data)

    def _write(self, direct: "DirectAnswers", answer: bytes, started_at: float) -> None:
        state = self.server_state
        self.transport.write(direct.message(state.default_headers, answer, started_at))
        state.total_requests += 1
        if self._deadline is not None:
            self._disarm()
        self._answered_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._await_more(self.timeout_keep_alive)

    def _await_more(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    @override
    def timeout_keep_alive_handler(self) -> None:
        """Close the connection unless something was answered since; one timer serves many."""
        left_s = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if self._held is not None:
            left_s = self.timeout_keep_alive
        if left_s > 0:
            self._await_more(left_s)
        else:
            super().timeout_keep_alive_handler()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_between = False

    @override
    def on_headers_complete(self) -> None:
        unread, self._unread_head = self._unread_head, b""
        headers, parser = self.headers, self.parser
        super().on_headers_complete()
        is_usual = parser.should_keep_alive() and not parser.should_upgrade()
        if not is_usual or parser.get_http_version() != "1.1":
            self._direct = None
        elif unread and self._direct is not None:
            self._direct.learn(unread, headers)

    @override
    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_between = True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None
        super().connection_lost(exc)

    @override
    def shutdown(self) -> None:
        """End after the answer that is under way."""
        self._let_go()
        super().shutdown()
