"""Answers forecasts within the server's protocol if the request's head was seen before.

A client repeats its headers byte by byte, so they are parsed once. The caller's rights and the
validity of a remembered answer are checked each time.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from app.api.encoded.cache import MAX_BODY_BYTES, EncodedAnswers
from app.api.encoded.forecasts import answer_from_memory, cached_answer
from app.api.forecasts import PATH
from app.api.metrics.counters import Count
from app.api.middleware.authentication import decoded
from app.api.middleware.exchanges import json_head
from app.api.middleware.metrics import RequestMetrics
from app.api.requests.bodies import parse_json
from app.api.shortcut.asgi import is_plain
from app.api.shortcut.gathering import Gatherer
from app.domain.access import Scope
from app.domain.errors import DomainError, InvalidRequestError
from app.domain.identifiers import ProjectId
from app.services.wiring import Services

_logger = logging.getLogger(__name__)
_Headers = Sequence[tuple[bytes, bytes]]
_REQUEST_LINE: Final = b"POST %b HTTP/1.1\r\n" % PATH.encode()
_END: Final = b"\r\n\r\n"
_OTHER_LINES: Final = 2
"""Lines of a head besides its headers: the request line and the empty line at the end."""

_KNOWN_HEADERS: Final = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"accept-language",
        b"authorization",
        b"connection",
        b"content-length",
        b"content-type",
        b"host",
        b"user-agent",
    }
)
"""A request with any other header takes the normal path, which interprets that header."""

_MAX_HEAD_BYTES: Final = 2048
MAX_HEADS: Final = 1024
"""Heads that are remembered; when there are so many, all are forgotten before the next."""


class Head(NamedTuple):
    """What the headers say: the name under which the caller is known, and the body's length."""

    caller: str
    length: int


@dataclass(slots=True, eq=False)
class Question:
    """A question from a connection, waiting to be answered together with others or alone."""

    project_id: ProjectId
    body: bytes
    document: Any
    _answer_alone: Callable[["Question"], bytes | None]
    _deliver: Callable[[bytes | None], None]
    is_wanted: bool = True
    """Whether the connection still waits for the answer."""

    def cancel(self) -> None:
        """Discard the answer."""
        self.is_wanted = False

    def settle(self, answer: bytes | None) -> None:
        """Give the connection the answer, or None if it must take the normal path."""
        if self.is_wanted:
            self._deliver(self._answer_alone(self) if answer is None else answer)


class DirectAnswers:
    """Knows request heads that were parsed before, and answers the bodies that follow them.

    Whatever is not a plain success from memory is left to the application: it writes refusals,
    waits for the database and applies rate limits.

    Parameters
    ----------
    services
        Provide the forecasts and identify the callers.
    answers
        The remembered answers.
    gatherer
        Answers simultaneous questions together.
    metrics
        Counts and times the requests.
    """

    def __init__(
        self,
        services: Services,
        answers: EncodedAnswers,
        gatherer: Gatherer,
        metrics: RequestMetrics,
    ) -> None:
        self._services = services
        self._answers = answers
        self._gatherer = gatherer
        self._metrics = metrics
        self._heads: dict[bytes, Head] = {}
        self.forecasts = Count(
            "trainfare_direct_forecasts",
            "Forecasts that were answered without a request being made of what came.",
        )
        self._server_headers: _Headers = ()
        self._beginning = _beginning(())

    def learn(self, data: bytes, headers: _Headers) -> None:
        """Remember a request head at the beginning of data, as the parser has read it.

        Call it only if the connection stays open after the request.
        """
        end = _end_of_head(data)
        # Refuse a head whose end the parser sees elsewhere: it would match more than its headers.
        if end is None or data.count(b"\n", 0, end) != len(headers) + _OTHER_LINES:
            return
        by_name = dict(headers)
        if (
            len(by_name) != len(headers)
            or not by_name.keys() <= _KNOWN_HEADERS
            or not is_plain(by_name)
        ):
            return
        caller, length = self._caller_of(by_name), by_name.get(b"content-length", b"")
        is_short = end <= _MAX_HEAD_BYTES and length.isdigit() and int(length) <= MAX_BODY_BYTES
        if caller is not None and is_short:
            if len(self._heads) >= MAX_HEADS:
                self._heads.clear()
            self._heads[_digest(data[:end])] = Head(caller, int(length))

    def _caller_of(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the name by which a caller is known, None if the application must look."""
        access = self._services.access
        authorization, host = decoded(headers, b"authorization"), decoded(headers, b"host")
        return access.name_of(authorization) if access.answers_to(authorization, host) else None

    def head_of(self, data: bytes) -> tuple[Head, int] | None:
        """Return the known head at the beginning of data, and where it ends."""
        end = _end_of_head(data)
        if end is None:
            return None
        head = self._heads.get(_digest(data[:end]))
        return None if head is None else (head, end)

    def project_of(self, head: Head) -> ProjectId | None:
        """Return the project of a known caller who may read and has no rate limit, else None."""
        if Services.forecasts.made_by(self._services) is None:
            return None
        caller = self._services.access.at_hand(head.caller)
        if caller is None or caller.requests_per_minute is not None:
            return None
        return caller.project_id if caller.allows(Scope.READ) else None

    def cached_answer(self, project_id: ProjectId, body: bytes) -> bytes | None:
        """Return the remembered answer to a body if it is still valid."""
        return cached_answer(self._services.forecasts, self._answers, project_id, body)

    def ask(
        self, project_id: ProjectId, body: bytes, deliver: Callable[[bytes | None], None]
    ) -> Question | None:
        """Return a question that will be settled later, None if the body is not JSON."""
        try:
            document = parse_json(body)
        except InvalidRequestError:
            return None
        question = Question(project_id, body, document, self._answer_alone, deliver)
        self._gatherer.gather(question)
        return question

    def _answer_alone(self, question: Question) -> bytes | None:
        forecasts, body = self._services.forecasts, question.body
        try:
            return answer_from_memory(
                forecasts, self._answers, question.project_id, body, question.document
            )
        except DomainError:
            return None
        except Exception:
            # The normal path logs whose request it was.
            _logger.exception("a question is asked again the usual way")
            return None

    def message(self, server_headers: _Headers, answer: bytes, started_at: float) -> bytes:
        """Return a complete response (status, headers, body) and count it as sent.

        Parameters
        ----------
        server_headers
            The server's own headers; a different object when they change.
        answer
            The body.
        started_at
            When the request arrived, by `time.perf_counter`.
        """
        if server_headers is not self._server_headers:
            self._server_headers = server_headers
            self._beginning = _beginning(server_headers)
        elapsed_s = time.perf_counter() - started_at
        self._metrics.observe("POST", PATH, 200, elapsed_s)
        self.forecasts.value += 1
        return b"".join((self._beginning, json_head(len(answer), elapsed_s), answer))


def _end_of_head(data: bytes) -> int | None:
    """Return where the head of a forecast request ends, None if incomplete or of another route."""
    position = data.find(_END) if data.startswith(_REQUEST_LINE) else -1
    return None if position < 0 else position + len(_END)


def _digest(head: bytes) -> bytes:
    """Return a hash that names a head without revealing the key in it."""
    return hashlib.sha256(head).digest()


def _beginning(server_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % header for header in server_headers)
    return b"HTTP/1.1 200 OK\r\n" + lines
