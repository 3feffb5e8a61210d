"""What the protocol answers itself is, byte by byte, what the application would have answered."""

import asyncio
import gzip
from collections.abc import Sequence

import orjson
import pytest
import sqlalchemy as sa

from app.api.encoded.cache import MAX_BODY_BYTES
from app.cli.processes.direct_protocol import DirectProtocol
from app.cli.processes.guarded_protocol import GuardedProtocol
from app.services.wiring import Services
from app.storage.database import Database
from app.storage.tables import ForecastRow
from tests.support.connections import listening, read_answer
from tests.support.direct import (
    CLOSING,
    HEAD_LENGTH,
    PLAIN,
    QUESTION,
    RECORDED,
    Direct,
    Stage,
    alike,
    cut,
    document_of,
    request,
)

_BODY = orjson.dumps({**QUESTION, "record": False})


# Which database it is makes no difference to a connection.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


class Impatient(DirectProtocol):
    """Waits for no body."""

    body_within_s = 0.0


USUAL: dict[str, list[bytes]] = {
    "closing": [CLOSING],
    "head in pieces": cut(PLAIN, 30),
    "many pieces": cut(PLAIN, 5, HEAD_LENGTH - 2, HEAD_LENGTH + 3),
    "head, then half of the body": cut(PLAIN, HEAD_LENGTH, HEAD_LENGTH + 9),
    "two at once": [PLAIN + PLAIN],
    "one and a half": cut(PLAIN + PLAIN, len(PLAIN) + 40),
    "HTTP/1.0": [request(line="POST /v1/forecasts HTTP/1.0", record=False)],
    "kept open in HTTP/1.0": [
        request(None, "connection: keep-alive", line="POST /v1/forecasts HTTP/1.0", record=False)
    ],
    "HEAD": [request(b"", line="HEAD /v1/forecasts HTTP/1.1")],
    "GET": [request(b"", line="GET /healthz HTTP/1.1")],
    "query": [request(line="POST /v1/forecasts?a=1 HTTP/1.1", record=False)],
    "absolute address": [request(line="POST http://x/v1/forecasts HTTP/1.1", record=False)],
    "in chunks": [
        request(
            b"%x\r\n%b\r\n0\r\n\r\n" % (len(_BODY), _BODY), "transfer-encoding: chunked", length=-1
        )
    ],
    "expecting": [request(None, "expect: 100-continue", record=False)],
    "upgrading": [request(None, "connection: upgrade", "upgrade: h2c", record=False)],
    "named": [request(None, "x-request-id: mine", record=False)],
    "traced": [request(None, f"traceparent: 00-{'1' * 32}-{'2' * 16}-01", record=False)],
    "text": [request(None, "accept: text/plain", record=False)],
    "two types": [request(None, "content-type: text/csv", record=False)],
    "compressed": [request(gzip.compress(_BODY), "content-encoding: gzip")],
    "long": [request(_BODY + b" " * MAX_BODY_BYTES)],
    "blank line before": [b"\r\n" + PLAIN],
    "no length": [request(b"", length=-1)],
    "wrong length": [request(_BODY, "content-length: 3")],
    "no key of ours": [request(None, "authorization: Bearer tf_a_b", record=False)],
    "endless key": [request(None, "authorization: Bearer " + "a" * 300, record=False)],
    "no JSON": [request(b"{")],
    "refused": [request(workload="nobody's")],
    "no HTTP": [b"\x16\x03\x01\r\n\r\n"],
}


_ENDING = {"closing", "HTTP/1.0", "kept open in HTTP/1.0", "wrong length", "no HTTP"}


@pytest.mark.parametrize("name", USUAL)
def test_requests_out_of_the_ordinary_go_the_usual_way(stage: Stage, name: str) -> None:
    pieces = USUAL[name] if name in _ENDING else [*USUAL[name], CLOSING]

    usual = stage.send_pieces(pieces, GuardedProtocol)

    assert usual
    assert stage.send_pieces(pieces) == usual
    assert stage.send_pieces([PLAIN, *pieces]) == stage.send_pieces(
        [PLAIN, *pieces], GuardedProtocol
    )


@pytest.mark.parametrize("asked", [PLAIN, RECORDED])
def test_seen_question_is_answered_by_the_protocol_as_by_the_application(
    stage: Stage, asked: bytes
) -> None:
    pieces = [asked] * 3 + [CLOSING]

    direct = stage.send_pieces(pieces)

    assert stage.n_direct == 3
    assert direct == stage.send_pieces(pieces, GuardedProtocol)


def test_body_that_comes_after_its_head_is_answered_by_the_protocol(stage: Stage) -> None:
    pieces = [*cut(PLAIN, HEAD_LENGTH), CLOSING]

    direct = stage.send_pieces(pieces)

    assert stage.n_direct == 1
    assert direct == stage.send_pieces(pieces, GuardedProtocol)


def test_body_that_takes_its_time_is_waited_for_by_the_application(stage: Stage) -> None:
    pieces = [*cut(PLAIN, HEAD_LENGTH), CLOSING]

    late = stage.send_pieces(pieces, Impatient)

    assert late == stage.send_pieces(pieces, GuardedProtocol)


def test_new_question_is_answered_by_the_protocol_as_by_the_application(stage: Stage) -> None:
    new = [request(work={"dataset_size": size}, record=False) for size in (1100, 1200, 1300)]

    direct = stage.send_pieces([*new, CLOSING])

    assert stage.n_direct == 3
    assert direct == stage.send_pieces([*new, CLOSING], GuardedProtocol)


def _ask_at_once(stage: Stage, asked: Sequence[bytes]) -> list[bytes]:
    """Have each question come by a connection of its own, in one turn; return the answers."""

    async def talk() -> list[bytes]:
        async with listening(stage.application, Direct, stage.state) as served:
            opened = [await asyncio.open_connection("127.0.0.1", served.port) for _ in asked]
            connections = await served.wait_for_connections(len(asked))
            for taken, each in zip(connections, asked, strict=True):
                taken.data_received(each)
            answers = [await read_answer(reader) for reader, _ in opened]
            for _, writer in opened:
                writer.close()
            return answers

    return asyncio.run(talk())


def test_questions_of_several_connections_are_answered_together(stage: Stage) -> None:
    asked = [request(work={"dataset_size": 1100 + more}, record=False) for more in range(8)]

    answers = _ask_at_once(stage, asked)

    alone = stage.exchange(asked, GuardedProtocol)
    assert [document_of(each)["work"] for each in answers] == [
        document_of(each)["work"] for each in alone
    ]
    assert sorted(alike(each) for each in answers) == sorted(alike(each) for each in alone)
    assert stage.n_direct == len(asked)


def test_question_that_is_answered_with_others_is_recorded_once(
    stage: Stage, services: Services, database: Database
) -> None:
    asked = [request(work={"dataset_size": 1100 + more}) for more in range(8)]

    def recorded() -> set[str]:
        services.ledger.flush()
        with database.engine.connect() as connection:
            return set(connection.scalars(sa.select(ForecastRow.id)))

    before = recorded()
    answers = _ask_at_once(stage, asked)

    assert recorded() - before == {document_of(each)["forecast_id"] for each in answers}
    assert stage.n_direct == len(asked)
