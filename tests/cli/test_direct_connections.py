"""Connections that the protocol answers: order of requests, waiting questions, when they end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from typing_extensions import override

from tests.support.connections import listening, read_answer
from tests.support.direct import (
    HEAD_LENGTH,
    PLAIN,
    Direct,
    Stage,
    cut,
    document_of,
    request,
    status_of,
)


@asynccontextmanager
async def received(
    stage: Stage, what: bytes, protocol: type[Direct] = Direct
) -> AsyncIterator[tuple[asyncio.StreamReader, Direct]]:
    """Hand a request to a connection, within this turn of the loop."""
    async with listening(stage.application, protocol, stage.state) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        [taken] = await served.wait_for_connections(1)
        assert isinstance(taken, Direct)
        try:
            taken.data_received(what)
            yield reader, taken
        finally:
            writer.close()


def test_question_that_waits_is_answered_before_the_service_ends(stage: Stage) -> None:
    async def talk() -> bytes:
        async with received(stage, request(work={"dataset_size": 1500}, record=False)) as (
            reader,
            taken,
        ):
            taken.shutdown()
            return await reader.read()

    answer = asyncio.run(talk())

    assert status_of(answer) == 200
    assert b"connection: close" in answer
    assert stage.n_direct == 0


def test_service_that_ends_closes_a_connection_that_waits(stage: Stage) -> None:
    async def talk() -> bytes:
        async with received(stage, PLAIN) as (reader, taken):
            await read_answer(reader)
            taken.shutdown()
            return await reader.read()

    assert asyncio.run(talk()) == b""
    assert stage.n_direct == 1


def test_more_than_the_question_that_waits_is_read_by_the_application(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    new = request(work={"dataset_size": 1600}, record=False)

    async def talk() -> list[bytes]:
        async with received(stage, new) as (reader, taken):
            taken.data_received(PLAIN)
            return [await read_answer(reader) for _ in range(2)]

    answers = asyncio.run(talk())

    sizes = [document_of(answer)["work"]["dataset_size"] for answer in answers]
    assert sizes == [1600, 1000]
    assert stage.n_direct == 0
    assert "could not be given" not in caplog.text


@pytest.mark.parametrize("pieces", [[PLAIN + PLAIN], cut(PLAIN, HEAD_LENGTH, HEAD_LENGTH + 9)[:2]])
def test_only_the_first_piece_of_a_body_is_waited_for(stage: Stage, pieces: list[bytes]) -> None:
    async def talk() -> bool:
        async with received(stage, pieces[0]) as (_, taken):
            for piece in pieces[1:]:
                taken.data_received(piece)
            return taken.cycle is not None

    assert asyncio.run(talk())


def test_question_is_answered_after_the_request_before_it(stage: Stage) -> None:
    async def talk() -> list[bytes]:
        async with received(stage, request(b"", line="GET /v1/nothing HTTP/1.1")) as (
            reader,
            taken,
        ):
            taken.data_received(PLAIN)
            return [await read_answer(reader) for _ in range(2)]

    answers = asyncio.run(talk())

    assert [status_of(answer) for answer in answers] == [404, 200]


def test_question_that_is_refused_waits_for_no_other_request(stage: Stage) -> None:
    # As long as the question that was asked before: its head is known.
    refused = request(workload="nobody", record=False)

    async def talk() -> int:
        async with received(stage, refused) as (reader, _):
            return status_of(await asyncio.wait_for(read_answer(reader), 60))

    assert len(refused) == len(PLAIN)
    assert asyncio.run(talk()) == 404


@pytest.mark.lengthy
def test_body_that_looks_like_a_question_is_not_answered(stage: Stage) -> None:
    head = request(b"", line="POST /v1/nothing HTTP/1.1", length=len(PLAIN))

    async def talk() -> int:
        async with received(stage, head) as (reader, taken):
            status = status_of(await read_answer(reader))
            # The answer did not wait for the body.
            taken.data_received(PLAIN)
            return status

    assert asyncio.run(talk()) == 404
    assert stage.n_direct == 0


def test_caller_who_does_not_read_is_not_answered_further(stage: Stage) -> None:
    async def talk() -> tuple[int, int]:
        async with received(stage, PLAIN) as (reader, taken):
            await read_answer(reader)
            taken.pause_writing()
            taken.data_received(PLAIN)
            n_direct = stage.n_direct
            taken.resume_writing()
            return n_direct, status_of(await read_answer(reader))

    assert asyncio.run(talk()) == (1, 200)


def test_connection_that_is_being_closed_is_answered_no_further(stage: Stage) -> None:
    async def talk() -> bytes:
        async with received(stage, PLAIN) as (reader, taken):
            await read_answer(reader)
            taken.transport.close()
            taken.data_received(PLAIN)
            return await reader.read()

    assert asyncio.run(talk()) == b""
    assert stage.n_direct == 1


def test_caller_who_leaves_while_a_question_waits_is_not_answered(stage: Stage) -> None:
    async def talk() -> None:
        new = request(work={"dataset_size": 1700}, record=False)
        async with received(stage, new) as (reader, taken):
            taken.transport.abort()
            with suppress(ConnectionError):
                await reader.read()

    asyncio.run(talk())

    assert stage.n_direct == 0


class _Hasty(Direct):
    """Waits for a body until the next turn of the loop."""

    body_within_s = 0.0


def test_head_of_a_caller_who_leaves_is_not_parsed(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async def talk() -> bool:
        async with received(stage, PLAIN[:HEAD_LENGTH], _Hasty) as (reader, taken):
            taken.transport.abort()
            with suppress(ConnectionError):
                await reader.read()
            return taken.cycle is None

    assert asyncio.run(talk())
    assert "Exception in callback" not in caplog.text


def test_connection_is_closed_when_nothing_more_is_asked(stage: Stage) -> None:
    async def talk() -> bool:
        async with received(stage, PLAIN) as (reader, taken):
            await read_answer(reader)
            taken.timeout_keep_alive_handler()
            was_open = not taken.transport.is_closing()
            taken.timeout_keep_alive = 0
            taken.timeout_keep_alive_handler()
            return was_open and await reader.read() == b""

    assert asyncio.run(talk())
    assert stage.n_direct == 1


class _AskedAtOnce(Direct):
    """Gets its first request before the time for a head, which is nothing, has passed."""

    head_timeout_s = 0.0

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        self.data_received(PLAIN)


def test_connection_whose_first_request_was_answered_waits_for_no_head(stage: Stage) -> None:
    async def talk() -> list[int]:
        async with listening(stage.application, _AskedAtOnce, stage.state) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            first = await read_answer(reader)
            writer.write(PLAIN)
            second = await read_answer(reader)
            writer.close()
            return [status_of(first), status_of(second)]

    assert asyncio.run(talk()) == [200, 200]
    assert stage.n_direct == 2


class _Brief(Direct):
    """Keeps no connection open."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.timeout_keep_alive = 0


def test_connection_whose_answers_all_came_from_the_protocol_is_closed_in_time(
    stage: Stage,
) -> None:
    answer = stage.send_pieces([PLAIN], _Brief)

    assert status_of(answer) == 200
    assert stage.n_direct == 1


def test_connection_stays_open_while_a_question_waits(stage: Stage) -> None:
    async def talk() -> int:
        async with received(stage, request(work={"dataset_size": 1800}, record=False)) as (
            reader,
            taken,
        ):
            taken.timeout_keep_alive_handler()
            return status_of(await read_answer(reader))

    assert asyncio.run(talk()) == 200
    assert stage.n_direct == 1
