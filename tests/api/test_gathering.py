"""Forecasts that are asked at the same time are answered together, as if each were alone."""

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import orjson
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from typing_extensions import override

from app.api.shortcut.gathering import MAX_GATHERED, MIN_GATHERED, Gatherer
from app.api.shortcut.protocol import Question
from app.domain import deadlines
from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.deadlines import Deadline
from app.domain.forecasts import ForecastRequest
from app.main import build_app
from app.services.answering.answers import LazyAnswer
from app.services.answering.memo import Grounds
from app.services.forecasts import ForecastService
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.tables import ForecastRow
from tests.support.forged import put_forged
from tests.support.log_lines import log_lines
from tests.support.questions import documents
from tests.support.regressors import publish_regressor
from tests.support.together import Caller, ask_in_turn, ask_together

JSON = (b"content-type", b"application/json")
TEXT = (b"accept", b"text/plain")
NAMED = (JSON, (b"x-request-id", b"one"))
_ID = re.compile(rb"fc_[0-9a-z]+")

refused: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"workload": "fitted", "configuration": {"workers": 0}},
        {"workload": "fitted", "configuration": {"gpu_type": "A100"}},
        {"workload": "fitted", "configuration": {"gpu_type": "no such thing"}},
        {"workload": "fitted", "parameters": {"colour": "red"}},
        {"workload": "fitted", "batchsize": 3},
        {"workload": "fitted", "regressor_version": 77},
        {"workload": "nobody's"},
        {},
        [],
        None,
    ]
)
recorded = st.builds(lambda asked, record: {**asked, "record": record}, documents, st.booleans())
bodies = st.one_of(
    st.one_of(documents, recorded, refused).map(orjson.dumps), st.sampled_from([b"{", b"", b"1"])
)


def question(workers: int, **changes: Any) -> bytes:
    configuration = {"gpu_type": "T4", "workers": workers}
    body = {"workload": "fitted", "configuration": configuration, "work": {"dataset_size": 900}}
    return orjson.dumps({**body, **changes})


def callers(count: int, **changes: Any) -> list[Caller]:
    return [Caller(question(workers, **changes)) for workers in range(1, count + 1)]


def response_of(caller: Caller) -> tuple[int | None, bytes | None, bytes]:
    """Return what a caller was answered, whatever the forecast is called."""
    return (
        caller.status,
        caller.response_headers.get(b"content-type"),
        _ID.sub(b"fc_", caller.answer),
    )


def figures(application: FastAPI) -> tuple[float, float]:
    """Return how many forecasts were answered together, and by how many evaluations."""
    with TestClient(application) as client:
        text = client.get("/metrics").text
    forecasts, evaluations = (
        float(re.findall(rf"^trainfare_gathered_{name}_total (\S+)$", text, re.MULTILINE)[0])
        for name in ("forecasts", "evaluations")
    )
    return forecasts, evaluations


@pytest.fixture
def published(services: Services, application: FastAPI) -> Iterator[FastAPI]:
    """The application, with all that two workloads need in memory."""
    for name in ("fitted", "other"):
        publish_regressor(services, workload=name)
        ask_in_turn(application, [Caller(question(1, workload=name))])
    yield application
    services.close()


@pytest.fixture
def forgetful(published: FastAPI, settings: Settings, services: Services) -> FastAPI:
    """The same, without any memory of what was answered."""
    return build_app(settings.model_copy(update={"answer_cache_size": 0}), services)


@examples(max_examples=60)
@given(asked=st.lists(bodies, min_size=MIN_GATHERED, max_size=3 * MIN_GATHERED))
def test_each_is_answered_as_if_it_had_asked_alone(forgetful: FastAPI, asked: list[bytes]) -> None:
    alone, together = ([Caller(body, NAMED) for body in asked] for _ in range(2))
    ask_in_turn(forgetful, alone)

    ask_together(forgetful, together)

    assert list(map(response_of, together)) == list(map(response_of, alone))


@pytest.mark.parametrize(
    "count", [MIN_GATHERED, MAX_GATHERED, MAX_GATHERED + 1, 2 * MAX_GATHERED + MIN_GATHERED]
)
def test_many_are_answered_by_few_evaluations(published: FastAPI, count: int) -> None:
    asking = callers(count)

    ask_together(published, asking)

    rounds, rest = divmod(count, MAX_GATHERED)
    assert {caller.status for caller in asking} == {200}
    assert figures(published) == (
        (count, rounds + 1) if rest >= MIN_GATHERED else (count - rest, rounds)
    )


def test_few_are_answered_one_by_one(published: FastAPI) -> None:
    asking = callers(MIN_GATHERED - 1)

    ask_together(published, asking)

    assert {caller.status for caller in asking} == {200}
    assert figures(published) == (0, 0)


def test_workloads_are_answered_each_by_its_own_regressor(published: FastAPI) -> None:
    asking = [
        *callers(MIN_GATHERED),
        *callers(MIN_GATHERED, workload="other"),
        *callers(1, explain=True),
    ]

    ask_together(published, asking)

    names = [orjson.loads(caller.answer)["workload"] for caller in asking]
    assert names == ["fitted"] * MIN_GATHERED + ["other"] * MIN_GATHERED + ["fitted"]
    assert figures(published) == (2 * MIN_GATHERED + 1, 2)


def test_projects_never_share_an_answer(published: FastAPI, services: Services) -> None:
    _, token = services.access.create_key("b", [Scope.ADMIN], project="second")
    _, own = services.access.create_key("a", [Scope.READ])
    keys = [[JSON, (b"authorization", b"Bearer " + each.encode())] for each in (own, token)]
    ask_in_turn(published, [Caller(question(1), key) for key in keys])
    asking = [Caller(question(2), key) for _ in range(2 * MIN_GATHERED) for key in keys]

    ask_together(published, asking)

    assert [caller.status for caller in asking] == [200, 404] * (2 * MIN_GATHERED)
    assert figures(published) == (2 * MIN_GATHERED, 1)


def test_sentences_are_told_one_by_one(published: FastAPI) -> None:
    asking = [Caller(question(workers), [JSON, TEXT]) for workers in range(1, MIN_GATHERED + 1)]

    ask_together(published, asking)

    assert {caller.response_headers[b"content-type"] for caller in asking} == {
        b"text/plain; charset=utf-8"
    }
    assert figures(published) == (0, 0)


def test_each_recorded_forecast_stands_in_the_ledger(published: FastAPI) -> None:
    asking = [*callers(MIN_GATHERED), *callers(MIN_GATHERED, record=False)]
    ask_together(published, asking)
    answers = [orjson.loads(caller.answer) for caller in asking]

    with TestClient(published) as client:
        entries = [
            client.get(f"/v1/forecasts/{answer['forecast_id']}").json()
            for answer in answers[:MIN_GATHERED]
        ]

    assert [entry["forecast"] for entry in entries] == answers[:MIN_GATHERED]
    assert [entry["request"] for entry in entries] == [
        orjson.loads(caller.body) for caller in asking[:MIN_GATHERED]
    ]
    assert [answer["forecast_id"] for answer in answers[MIN_GATHERED:]] == [None] * MIN_GATHERED
    assert len({answer["forecast_id"] for answer in answers}) == MIN_GATHERED + 1


def test_each_forecast_is_recorded_once(
    published: FastAPI, services: Services, database: Database
) -> None:
    def count() -> int:
        services.ledger.flush()
        with database.engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(ForecastRow)) or 0

    before = count()

    ask_together(published, callers(MIN_GATHERED))

    assert count() - before == MIN_GATHERED


def test_answers_are_remembered(published: FastAPI) -> None:
    first, again = callers(MIN_GATHERED), callers(MIN_GATHERED)
    ask_together(published, first)

    ask_in_turn(published, again)

    assert published.state.answers.figures.hits == MIN_GATHERED
    assert list(map(response_of, again)) == list(map(response_of, first))


def test_caller_who_left_is_not_answered_and_the_others_are(
    published: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    asking = callers(MIN_GATHERED + 1)

    async def leave() -> None:
        tasks = [asyncio.create_task(caller.ask(published)) for caller in asking]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(leave())

    assert [caller.status for caller in asking] == [None] + [200] * MIN_GATHERED
    assert not caplog.records


def test_question_whose_time_is_over_is_left_out(services: Services, published: FastAPI) -> None:
    gatherer = Gatherer(services, published.state.answers)

    async def ask_late() -> list[bytes | None]:
        answers: list[asyncio.Future[bytes | None]] = []
        for late in (True, *[False] * MIN_GATHERED):
            deadline = Deadline(1.0)
            token = deadlines.current.set(deadline)
            body = question(len(answers) + 1)
            answers.append(gatherer.ask(DEFAULT_PROJECT, body, orjson.loads(body)))
            deadlines.current.reset(token)
            if late:
                deadline.end()
        return await asyncio.gather(*answers)

    late, *others = asyncio.run(ask_late())

    assert late is None
    assert None not in others


def test_damaged_regressor_is_told_to_each_in_its_own_words(
    published: FastAPI, settings: Settings, database: Database
) -> None:
    put_forged(database)
    with TestClient(build_app(settings)) as client:
        ask_in_turn(client.app, callers(1))
        asking = callers(MIN_GATHERED)

        ask_together(client.app, asking)

    codes = {orjson.loads(caller.answer)["code"] for caller in asking}
    assert codes == {"regressor_unavailable"}


class _Failing(ForecastService):
    """A service with a fault that shows only in many questions."""

    @override
    def ask_on(
        self, grounds: Grounds, requests: Sequence[ForecastRequest], now: datetime
    ) -> Sequence[LazyAnswer]:
        raise ZeroDivisionError


def test_fault_of_one_is_no_fault_of_its_neighbours(
    published: FastAPI, services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    services.__dict__["forecasts"] = _Failing(
        services.context, services.regressor_cache, services.prices, services.ledger
    )
    asking = callers(MIN_GATHERED)

    with caplog.at_level(logging.ERROR):
        ask_together(published, asking)

    assert {caller.status for caller in asking} == {200}
    assert "one by one" in caplog.text


def test_endless_name_keeps_no_neighbour_from_being_answered(published: FastAPI) -> None:
    depth = 1_000
    endless = b'{"workload":' + b"[" * depth + b"]" * depth + b"}"
    asking = [Caller(endless), *callers(MIN_GATHERED)]

    ask_together(published, asking)

    assert [caller.status for caller in asking] == [422] + [200] * MIN_GATHERED
    assert figures(published) == (MIN_GATHERED, 1)


class _Unreachable(Question):
    """A question whose answer cannot be given."""

    @override
    def settle(self, answer: bytes | None) -> None:
        raise ConnectionError


def test_answer_that_cannot_be_given_keeps_no_neighbour_waiting(
    services: Services, published: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    gatherer = Gatherer(services, published.state.answers)
    body = question(1)
    unreachable = _Unreachable(DEFAULT_PROJECT, body, orjson.loads(body), lambda _: None, print)

    async def ask() -> list[bytes | None]:
        gatherer.gather(unreachable)
        return await asyncio.gather(
            *(
                gatherer.ask(DEFAULT_PROJECT, each.body, orjson.loads(each.body))
                for each in callers(MIN_GATHERED)
            )
        )

    answers = asyncio.run(ask())

    assert None not in answers
    assert "could not be given" in caplog.text


def test_lines_of_what_is_answered_together_name_none_of_the_requests(
    published: FastAPI, services: Services
) -> None:
    services.__dict__["forecasts"] = _Failing(
        services.context, services.regressor_cache, services.prices, services.ledger
    )

    with log_lines() as lines:
        ask_together(
            published, [Caller(question(1 + place), NAMED) for place in range(MIN_GATHERED)]
        )

    [line] = [event for event in lines.events if "one by one" in str(event)]
    assert "request_id" not in line


@pytest.mark.parametrize("count", [1, MIN_GATHERED, MAX_GATHERED, MAX_GATHERED + 1])
def test_nothing_is_waited_for_once_all_are_answered(
    services: Services, published: FastAPI, count: int
) -> None:
    gatherer = Gatherer(services, published.state.answers)

    async def ask() -> bool:
        await asyncio.gather(
            *(
                gatherer.ask(DEFAULT_PROJECT, each.body, orjson.loads(each.body))
                for each in callers(count)
            )
        )
        return gatherer._open is None

    assert asyncio.run(ask())


def test_another_loop_is_not_waited_for(published: FastAPI) -> None:
    """What a loop that was stopped left behind is not what the next one waits for."""
    left = callers(1)[0]
    loop = asyncio.new_event_loop()
    task = loop.create_task(left.ask(published))
    loop.call_soon(loop.stop)
    loop.run_forever()
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    asking = callers(MIN_GATHERED)

    ask_together(published, asking)

    assert {caller.status for caller in asking} == {200}
