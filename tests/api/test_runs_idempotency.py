"""An upload with an Idempotency-Key stores its answer with its runs: both or none."""

import io

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.errors import InProgressError
from app.domain.idempotency import IdempotencyTicket, Replay
from app.services.uploads.terms import KeptAnswer, UploadFormat, UploadResult
from app.services.wiring import Services
from tests.support.regressors import publish_regressor
from tests.support.uploads import list_runs, post

_CSV = b"workload,duration_seconds\nresnet50,5\nresnet50,6\n"


def _post(
    client: TestClient, key: str = "k-1", token: str | None = None
) -> tuple[int, bytes, str | None]:
    headers = {"Content-Type": "text/csv", "Idempotency-Key": key}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    answer = client.post("/v1/runs", content=_CSV, headers=headers)
    return answer.status_code, answer.content, answer.headers.get("idempotent-replayed")


def test_a_retry_is_answered_like_the_first_and_stores_nothing(client: TestClient) -> None:
    first = _post(client)

    second = _post(client)

    assert first == (201, second[1], None)
    assert second == (201, first[1], "true")
    assert len(list_runs(client)) == 2


def test_an_answer_comes_again_only_to_keys_that_may_do_what_it_answers(
    client: TestClient, services: Services
) -> None:
    _, writing = services.access.create_key("ci", [Scope.RUNS_WRITE])
    _, renewed = services.access.create_key("ci anew", [Scope.RUNS_WRITE, Scope.READ])
    _, reading = services.access.create_key("dashboard", [Scope.READ])
    first = _post(client, token=writing)

    assert _post(client, token=reading)[0] == 403
    assert _post(client, token=renewed) == (201, first[1], "true")
    assert len(list_runs(client)) == 2


def test_a_forecast_comes_again_only_to_keys_that_may_read(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services)
    _, reading = services.access.create_key("dashboard", [Scope.READ])
    _, writing = services.access.create_key("ci", [Scope.RUNS_WRITE])
    body = {"workload": "fitted", "configuration": {"workers": 4}}

    def ask(token: str) -> int:
        headers = {"Idempotency-Key": "k-1", "Authorization": f"Bearer {token}"}
        return client.post("/v1/forecasts", json=body, headers=headers).status_code

    assert [ask(reading), ask(writing), ask(reading)] == [200, 403, 200]


def test_repetitions_under_another_key_are_kept(client: TestClient) -> None:
    _post(client, "k-1")
    _post(client, "k-2")

    assert len(list_runs(client)) == 4


def test_runs_are_not_stored_when_their_answer_cannot_be(
    client: TestClient, services: Services
) -> None:
    def render(result: UploadResult) -> Replay:
        return Replay(201, {}, b"")

    lost = IdempotencyTicket(DEFAULT_PROJECT, "/v1/runs", "k-1", fence="taken over")

    with pytest.raises(InProgressError):
        services.uploads.upload(
            DEFAULT_PROJECT, io.BytesIO(_CSV), UploadFormat.CSV, finish=KeptAnswer(lost, render)
        )

    assert client.get("/v1/workloads/resnet50").status_code == 404
    assert post(client, _CSV, "text/csv").json()["created"] == 2
