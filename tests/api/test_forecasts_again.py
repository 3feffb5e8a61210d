"""A forecast that is asked again in the same words is answered from memory, while it holds."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from app.api.encoded.cache import MAX_BODY_BYTES, EncodedAnswers
from app.api.encoded.forecasts import cached_answer
from app.domain.access import DEFAULT_PROJECT, Scope
from app.services.wiring import Services
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.outage import make_unavailable
from tests.support.regressors import fit, publish_regressor
from tests.support.together import Caller, ask_in_turn

QUESTION: dict[str, Any] = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 4},
    "work": {"dataset_size": 1000},
    "parameters": {"precision": "fp16"},
}
PRICE = {
    "provider": "own",
    "region": "here",
    "instance_type": "box",
    "gpu_type": "T4",
    "gpu_count": 1,
    "price_per_hour": "0.01",
    "purchase": "on_demand",
    "currency": "USD",
    "valid_from": "2026-10-31T18:00:00Z",
    "source": "invoice",
}
RATE = {
    "from_currency": "USD",
    "to_currency": "EUR",
    "rate": "0.9",
    "valid_from": "2026-01-01",
    "source": "a bank",
}


@pytest.fixture
def answers(services: Services, application: FastAPI) -> EncodedAnswers:
    publish_regressor(services)
    kept: EncodedAnswers = application.state.answers
    return kept


def ask(client: TestClient, *, headers: dict[str, str] | None = None, **changes: Any) -> Any:
    answer = client.post("/v1/forecasts", json={**QUESTION, **changes}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def warm(client: TestClient, **changes: Any) -> Any:
    """Ask until the answer comes from memory: once to load, once to remember."""
    ask(client, **changes)
    return ask(client, **changes)


def test_same_body_is_answered_by_the_same_figures_under_another_id(
    client: TestClient, answers: EncodedAnswers
) -> None:
    first = warm(client)

    second = ask(client)

    assert (answers.figures.hits, answers.figures.misses) == (1, 2)
    assert {**first, "forecast_id": None} == {**second, "forecast_id": None}
    assert first["forecast_id"] != second["forecast_id"]
    assert list(first) == list(second)


def test_each_repeated_forecast_stands_in_the_ledger(
    client: TestClient, answers: EncodedAnswers
) -> None:
    warm(client)
    repeated = ask(client)

    entry = client.get(f"/v1/forecasts/{repeated['forecast_id']}").json()

    assert entry["request"] == QUESTION
    assert entry["forecast"] == repeated


def test_unrecorded_forecast_is_repeated_without_an_id(
    client: TestClient, answers: EncodedAnswers
) -> None:
    first = warm(client, record=False)

    assert ask(client, record=False) == first
    assert first["forecast_id"] is None
    assert (answers.figures.hits, answers.figures.misses) == (1, 2)


def test_new_version_answers_anew(
    client: TestClient, answers: EncodedAnswers, services: Services, clock: FakeClock
) -> None:
    warm(client)
    fit(services, "fitted")
    clock.advance(services.context.settings.regressor_refresh_s + 1)

    assert ask(client)["regressor_version"] == 2


def test_told_end_of_a_fit_and_told_publication_are_known_to_the_next_answer(
    client: TestClient, answers: EncodedAnswers, services: Services
) -> None:
    warm(client)
    ended = fit(services, "fitted")

    assert client.get(f"/v1/fits/{ended.fit_id}").json()["state"] == "succeeded"
    after_fit = warm(client)["regressor_version"]
    assert client.post("/v1/workloads/fitted/regressors/1:publish").status_code == 200

    assert (after_fit, ask(client)["regressor_version"]) == (2, 1)


def test_changed_and_removed_workload_is_known_to_the_next_answer(
    client: TestClient, answers: EncodedAnswers
) -> None:
    client.post("/v1/exchange-rates", json=RATE)
    before = warm(client)["cost"]["currency"]
    client.put("/v1/workloads/fitted", json={"currency": "EUR"})
    after = warm(client)["cost"]["currency"]
    assert client.delete("/v1/workloads/fitted").status_code == 204

    assert (before, after) == ("USD", "EUR")
    assert client.post("/v1/forecasts", json=QUESTION).status_code == 404


def test_new_price_answers_anew(client: TestClient, answers: EncodedAnswers) -> None:
    before = warm(client)["cost"]["price_per_hour"]
    assert client.post("/v1/prices", json=[PRICE]).status_code == 201

    assert ask(client)["cost"]["price_per_hour"] == "0.01"
    assert before != "0.01"


@pytest.mark.parametrize("version", [None, 1, 2])
def test_new_currency_of_the_workload_is_told_by_each_version(
    client: TestClient,
    answers: EncodedAnswers,
    services: Services,
    clock: FakeClock,
    version: int | None,
) -> None:
    fit(services, "fitted")
    client.post("/v1/exchange-rates", json=RATE)
    assert warm(client, regressor_version=version)["cost"]["currency"] == "USD"
    client.put("/v1/workloads/fitted", json={"currency": "EUR"})
    clock.advance(services.context.settings.regressor_refresh_s + 1)

    assert ask(client, regressor_version=version)["cost"]["currency"] == "EUR"


def test_age_of_a_price_is_told_as_of_now(
    client: TestClient, answers: EncodedAnswers, clock: FakeClock
) -> None:
    client.post("/v1/prices", json=[PRICE])
    assert warm(client)["cost"]["price"]["age_days"] == 1
    clock.advance(12 * 3600 - 1)
    assert warm(client)["cost"]["price"]["age_days"] == 1
    clock.advance(1)

    assert ask(client)["cost"]["price"]["age_days"] == 2


def test_answer_whose_day_has_ended_is_not_repeated_whatever_it_rests_on(
    client: TestClient, answers: EncodedAnswers, services: Services, clock: FakeClock
) -> None:
    warm(client)
    body = client.build_request("POST", "/v1/forecasts", json=QUESTION).content
    kept = answers.find(DEFAULT_PROJECT, body)
    assert kept is not None

    def repeated(until: datetime) -> bytes | None:
        answers.keep(DEFAULT_PROJECT, body, kept._replace(until=until))
        return cached_answer(services.forecasts, answers, DEFAULT_PROJECT, body)

    assert repeated(clock()) is None
    assert repeated(clock() + timedelta(microseconds=1)) is not None


def test_text_is_answered_where_json_was_before(
    client: TestClient, answers: EncodedAnswers
) -> None:
    warm(client)

    answer = client.post("/v1/forecasts", json=QUESTION, headers={"Accept": "text/plain"})

    assert answer.headers["content-type"].startswith("text/plain")
    assert "fitted" in answer.text


@pytest.mark.parametrize(("first", "kind"), [("*/*", b"text"), ("application/json", b"json")])
def test_each_line_of_what_is_accepted_counts(
    client: TestClient, application: FastAPI, answers: EncodedAnswers, first: str, kind: bytes
) -> None:
    lines = [first.encode(), b"application/json;q=0.5, text/plain"]
    headers = [[(b"accept", line) for line in lines], [(b"accept", b", ".join(lines))]]
    warm(client)
    body = client.post("/v1/forecasts", json=QUESTION).request.content
    asking = [Caller(body, [(b"host", b"testserver"), *accepted]) for accepted in headers]

    ask_in_turn(application, asking)

    kinds = [caller.response_headers[b"content-type"] for caller in asking]
    assert all(kind in each for each in kinds), kinds
    assert {caller.status for caller in asking} == {200}


def test_another_media_type_is_refused_also_when_the_body_is_known(
    client: TestClient, answers: EncodedAnswers
) -> None:
    body = client.build_request("POST", "/v1/forecasts", json=QUESTION).content
    for _ in range(3):
        sent = {"Content-Type": "application/json"}
        assert client.post("/v1/forecasts", content=body, headers=sent).status_code == 200

    answer = client.post("/v1/forecasts", content=body, headers={"Content-Type": "text/csv"})

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


def test_another_project_is_not_answered_from_this_ones_memory(
    client: TestClient, answers: EncodedAnswers, services: Services
) -> None:
    warm(client)
    _, token = services.access.create_key("b", [Scope.ADMIN], project="second")

    answer = client.post(
        "/v1/forecasts", json=QUESTION, headers={"Authorization": f"Bearer {token}"}
    )

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_workload")


def test_key_that_may_not_read_is_refused_also_when_the_body_is_known(
    client: TestClient, answers: EncodedAnswers, services: Services
) -> None:
    warm(client)
    _, token = services.access.create_key("writer", [Scope.RUNS_WRITE])

    answer = client.post(
        "/v1/forecasts", json=QUESTION, headers={"Authorization": f"Bearer {token}"}
    )

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_known_body_is_answered_while_the_database_is_away(
    client: TestClient, answers: EncodedAnswers, database: Database, clock: FakeClock
) -> None:
    warm(client)
    make_unavailable(database)
    assert ask(client)["regressor_version"] == 1
    clock.advance(3600)

    stale = ask(client)

    assert "stale_regressor" in {warning["code"] for warning in stale["warnings"]}


def test_idempotency_key_replays_a_repeated_forecast(
    client: TestClient, answers: EncodedAnswers
) -> None:
    warm(client)
    first = ask(client, headers={"Idempotency-Key": "k"})

    assert ask(client, headers={"Idempotency-Key": "k"}) == first


@pytest.mark.parametrize("excess", [0, 1])
def test_long_bodies_are_not_remembered(
    client: TestClient, answers: EncodedAnswers, excess: int
) -> None:
    body = client.build_request("POST", "/v1/forecasts", json=QUESTION).content
    padded = body.ljust(MAX_BODY_BYTES + excess)
    for _ in range(2):
        answer = client.post(
            "/v1/forecasts", content=padded, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 200

    assert len(answers) == 1 - excess


def test_least_used_answer_leaves_first(client: TestClient, answers: EncodedAnswers) -> None:
    ask(client)
    small = EncodedAnswers(2)
    ask(client)
    [(key, one)] = list(answers._answers._values.items())
    for body in (b"1", b"2"):
        small.keep(DEFAULT_PROJECT, body, one)
    small.find(DEFAULT_PROJECT, b"1")

    small.keep(DEFAULT_PROJECT, b"3", one)

    assert key[0] == DEFAULT_PROJECT
    assert small.find(DEFAULT_PROJECT, b"2") is None
    assert small.find(DEFAULT_PROJECT, b"1") is one


def test_repeated_forecasts_are_counted_under_their_route(
    client: TestClient, answers: EncodedAnswers
) -> None:
    warm(client)
    ask(client)

    text = client.get("/metrics").text

    assert (
        'trainfare_http_requests_total{method="POST",route="/v1/forecasts",status="200"} 3.0'
        in text
    )


def test_body_in_pieces_is_the_same_body(application: FastAPI, answers: EncodedAnswers) -> None:
    with TestClient(application) as client:
        body = client.build_request("POST", "/v1/forecasts", json=QUESTION).content
        warm(client)

        statuses = asyncio.run(_post(application, [body[:10], body[10:]]))

    assert statuses == [200]
    assert answers.figures.hits == 1


def test_caller_who_leaves_before_the_end_is_not_answered_from_memory(
    application: FastAPI, answers: EncodedAnswers
) -> None:
    with TestClient(application) as client:
        body = client.build_request("POST", "/v1/forecasts", json=QUESTION).content
        warm(client)

        asyncio.run(_post(application, [body], leaves=True))

    assert answers.figures.hits == 0


async def _post(application: FastAPI, pieces: list[bytes], *, leaves: bool = False) -> list[int]:
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": piece, "more_body": leaves or index < len(pieces) - 1}
        for index, piece in enumerate(pieces)
    ]
    messages.append({"type": "http.disconnect"})
    statuses: list[int] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = Caller(b"").scope()
    await application(scope, receive, send)
    return statuses
