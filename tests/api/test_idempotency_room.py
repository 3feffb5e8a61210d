"""Answers to questions are kept by their key where there is room, and given anew elsewhere."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from httpx2 import Response

from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor

pytestmark = pytest.mark.lengthy

_RANK = {"jobs": [{"ref": "a", "workload": "fitted", "work": {"dataset_size": 1000}}]}
_REPLAYED = "Idempotent-Replayed"


@pytest.fixture
def asking(database: Database, settings: Settings, clock: FakeClock) -> Iterator[TestClient]:
    """Return a client of a service with room for the answer to one question."""
    changed = settings.model_copy(update={"idempotency_bytes": 2_000})
    services = Services(ServiceContext(database, changed, clock))
    publish_regressor(services)
    with TestClient(build_app(changed, services)) as client:
        yield client


def _ask(client: TestClient, key: str, **body: Any) -> Response:
    headers = {"Idempotency-Key": key}
    return client.post("/v1/schedules:rank", json={**_RANK, **body}, headers=headers)


def _kept_bytes(database: Database) -> int:
    with database.engine.connect() as connection:
        lengths = connection.execute(sa.text("SELECT length(body) FROM idempotency")).scalars()
        return sum(length or 0 for length in lengths)


def test_question_without_room_is_answered_anew_and_keeps_its_key(
    asking: TestClient, database: Database
) -> None:
    kept, replayed = (_ask(asking, "first") for _ in range(2))
    for number in range(5):
        last = _ask(asking, f"k{number}")
    repeated = _ask(asking, "k4")
    other = _ask(asking, "k4", policy="deadline_risk")

    assert {each.status_code for each in (kept, replayed, last, repeated)} == {200}
    assert replayed.headers[_REPLAYED] == "true"
    assert _REPLAYED not in repeated.headers
    assert repeated.json() == last.json()
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert 0 < _kept_bytes(database) <= 2_000


def test_answer_that_is_longer_than_the_room_is_not_kept(
    asking: TestClient, database: Database
) -> None:
    defaults = {"workload": "fitted", "work": {"dataset_size": 1000}}
    requests = [{"configuration": {"workers": row + 1}} for row in range(20)]
    body = {"defaults": defaults, "requests": requests}
    headers = {"Idempotency-Key": "long"}

    first, again = (
        asking.post("/v1/forecasts:batch", json=body, headers=headers) for _ in range(2)
    )

    assert len(first.content) > 2_000
    assert first.content == again.content
    assert _REPLAYED not in again.headers
    assert _kept_bytes(database) == 0


def test_what_stores_is_replayed_whatever_room_there_is(asking: TestClient) -> None:
    question = {
        "workload": "fitted",
        "work": {"dataset_size": 1000},
        "configuration": {"workers": 2},
    }
    headers = {"Idempotency-Key": "recorded"}
    for number in range(5):
        _ask(asking, f"k{number}")

    first, again = (asking.post("/v1/forecasts", json=question, headers=headers) for _ in range(2))

    assert first.json()["forecast_id"] == again.json()["forecast_id"]
    assert again.headers[_REPLAYED] == "true"


def test_there_is_room_again_when_earlier_answers_have_lapsed(
    asking: TestClient, settings: Settings, clock: FakeClock
) -> None:
    for number in range(5):
        _ask(asking, f"k{number}")
    full = _ask(asking, "k4")

    clock.advance(3600 * settings.idempotency_hours + 1)
    again = [_ask(asking, "new") for _ in range(2)]

    assert _REPLAYED not in full.headers
    assert [_REPLAYED in each.headers for each in again] == [False, True]
