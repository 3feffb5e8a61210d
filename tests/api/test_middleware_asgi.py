"""The outer layers against senders and routes that HTTP clients in tests cannot be."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable

import orjson
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.middleware.authentication import AuthenticationMiddleware
from app.api.middleware.body import BodyMiddleware
from app.api.middleware.exchanges import ExchangeMiddleware
from app.api.middleware.heads import HeadMiddleware
from app.api.middleware.idempotency import IdempotencyMiddleware
from app.api.middleware.limiting import RateLimitMiddleware
from app.api.problems import respond_to
from app.api.routing import authorization_of
from app.domain.access import DEFAULT_PROJECT, Principal
from app.domain.errors import DomainError
from app.services.wiring import Services
from tests.support.layers import within_exchanges

_CALLER = Principal(DEFAULT_PROJECT, frozenset())
_LIMIT = 1000


def _scope(*headers: tuple[str, str], kind: str = "http") -> Scope:
    return {
        "type": kind,
        "method": "POST",
        "path": "/v1/echo",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        "state": {"principal": _CALLER},
    }


class Sender:
    """Sends the given messages one by one, then is silent."""

    def __init__(self, *messages: Message) -> None:
        self.left = list(messages)

    async def receive(self) -> Message:
        if not self.left:
            await asyncio.Event().wait()
        return self.left.pop(0)


class Receiver:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        status: int = self.messages[0]["status"]
        return status

    @property
    def code(self) -> str:
        code: str = orjson.loads(self.messages[-1]["body"])["code"]
        return code


def _chunk(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def _read_all(scope: Scope, receive: Receive, send: Send) -> None:
    try:
        body = await Request(scope, receive).body()
    except DomainError as error:
        await respond_to(error, instance="/")(scope, receive, send)
        return
    await Response(body)(scope, receive, send)


async def _ignore_body(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(b"early")(scope, receive, send)


def _through(
    app: ASGIApp, scope: Scope, sender: Sender, *, idle_timeout_s: float = 5.0
) -> Receiver:
    receiver = Receiver()
    layer = within_exchanges(BodyMiddleware(app, _LIMIT, idle_timeout_s))
    asyncio.run(layer(scope, sender.receive, receiver.send))
    return receiver


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_sender_that_falls_silent_is_refused(encoding: str) -> None:
    first = gzip.compress(b"abc")[:5] if encoding == "gzip" else b"abc"
    sender = Sender(_chunk(first, more=True))

    receiver = _through(
        _read_all, _scope(("content-encoding", encoding)), sender, idle_timeout_s=0.01
    )

    assert (receiver.status, receiver.code) == (422, "invalid_request")


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_sender_that_goes_away_is_noticed(encoding: str) -> None:
    sender = Sender(_chunk(b"", more=True), {"type": "http.disconnect"})
    noticed: list[ClientDisconnect] = []

    async def notice(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await _read_all(scope, receive, send)
        except ClientDisconnect as gone:
            noticed.append(gone)

    _through(notice, _scope(("content-encoding", encoding)), sender)

    assert len(noticed) == 1


def test_rest_of_a_body_is_read_before_an_early_answer_ends() -> None:
    sender = Sender(_chunk(b"a", more=True), _chunk(b"b", more=True), _chunk(b"c"))

    receiver = _through(_ignore_body, _scope(("content-length", "3")), sender)

    assert receiver.messages[-1]["body"] == b"early"
    assert sender.left == []


def test_endless_body_is_not_read_to_its_end() -> None:
    sender = Sender(*[_chunk(bytes(_LIMIT), more=True)] * 10)

    receiver = _through(_read_all, _scope(("transfer-encoding", "chunked")), sender)

    assert (receiver.status, receiver.code) == (413, "payload_too_large")
    assert len(sender.left) == 8


def test_sender_that_falls_silent_after_a_refusal_is_not_waited_for() -> None:
    sender = Sender(_chunk(b"a", more=True))

    receiver = _through(_ignore_body, _scope(("content-length", "3")), sender, idle_timeout_s=0.01)

    assert receiver.status == 200


def test_sender_that_waits_to_continue_is_not_drained() -> None:
    sender = Sender(_chunk(b"abc"))
    headers = (("content-length", str(_LIMIT + 1)), ("expect", "100-continue"))

    receiver = _through(_read_all, _scope(*headers), sender)

    assert receiver.status == 413
    assert len(sender.left) == 1


def test_message_after_the_body_is_passed_on() -> None:
    sender = Sender(_chunk(gzip.compress(b"abc")), {"type": "http.disconnect"})
    seen: list[Message] = []

    async def look_twice(_scope: Scope, receive: Receive, _send: Send) -> None:
        seen.extend([await receive(), await receive(), await receive()])

    _through(look_twice, _scope(("content-encoding", "gzip")), sender)

    assert [message.get("body") for message in seen] == [b"abc", b"", None]
    assert seen[-1]["type"] == "http.disconnect"


def _layers(services: Services) -> list[Callable[[ASGIApp], ASGIApp]]:
    async def authenticate(_authorization: str | None) -> Principal:
        return _CALLER

    return [
        lambda app: BodyMiddleware(app, _LIMIT),
        lambda app: IdempotencyMiddleware(app, services.idempotency, authorization_of),
        lambda app: AuthenticationMiddleware(app, authenticate, lambda _authorization, _host: True),
        lambda app: RateLimitMiddleware(app, per_minute=10, rates=services.rates),
        within_exchanges,
    ]


def test_what_is_no_http_passes_every_layer(services: Services) -> None:
    seen: list[str] = []

    async def note(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    for layer in _layers(services):
        scope: Scope = {"type": "lifespan"}
        asyncio.run(_call(layer(note), scope))

    assert seen == ["lifespan"] * len(_layers(services))


async def _call(app: ASGIApp, scope: Scope) -> None:
    await app(scope, Sender().receive, Receiver().send)


def _idempotent(app: ASGIApp, services: Services) -> ExchangeMiddleware:
    return within_exchanges(IdempotencyMiddleware(app, services.idempotency, authorization_of))


def test_keyed_sender_that_goes_away_leaves_no_lock(services: Services) -> None:
    layer = _idempotent(_read_all, services)
    scope = _scope(("idempotency-key", "k1"))
    receiver = Receiver()
    gone = Sender(_chunk(b"a", more=True), {"type": "http.disconnect"})

    asyncio.run(layer(scope, gone.receive, receiver.send))
    asyncio.run(layer(scope, Sender(_chunk(b"ab")).receive, receiver.send))

    assert receiver.status == 200


def test_answer_in_pieces_is_replayed_whole(services: Services) -> None:
    async def in_pieces(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one,", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    layer = _idempotent(in_pieces, services)
    first, second = Receiver(), Receiver()
    for receiver in (first, second):
        sender = Sender(_chunk(b"x"), {"type": "http.disconnect"})
        asyncio.run(layer(_scope(("idempotency-key", "k1")), sender.receive, receiver.send))

    assert first.messages[-1]["body"] == second.messages[-1]["body"] == b"one,two"


def test_error_after_the_answer_began_is_not_answered_twice() -> None:
    async def break_late(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError

    receiver = Receiver()
    layer = within_exchanges(break_late)

    with pytest.raises(ValueError, match=r"^$"):
        asyncio.run(layer(_scope(), Sender().receive, receiver.send))

    assert len(receiver.messages) == 1


@pytest.mark.parametrize("version", ["2.0", "2.4"])
def test_head_of_an_answer_without_an_end_ends_after_its_headers(version: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"piece"
            await asyncio.sleep(0)

    receiver = Receiver()
    scope = {**_scope(), "method": "HEAD", "asgi": {"spec_version": version}}
    layer = HeadMiddleware(StreamingResponse(pieces(), headers={"X-Told": "yes"}))
    asyncio.run(layer(scope, Sender().receive, receiver.send))

    start, end = receiver.messages
    assert (b"x-told", b"yes") in start["headers"]
    assert end == {"type": "http.response.body"}


def test_request_id_is_taken_over_only_when_it_is_harmless() -> None:
    answers = []
    for given in ("abc-1", "with space", "x" * 200):
        receiver = Receiver()
        layer = within_exchanges(_ignore_body)
        asyncio.run(layer(_scope(("x-request-id", given)), Sender().receive, receiver.send))
        answers.append(dict(receiver.messages[0]["headers"])[b"x-request-id"])

    assert answers[0] == b"abc-1"
    assert all(len(answer) == 32 for answer in answers[1:])
