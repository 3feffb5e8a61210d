"""Questions about many workloads that do not exist are refused by few queries."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from app.storage.database import Database
from tests.support.outage import make_unavailable
from tests.support.queries import recorded_queries
from tests.support.regressors import publish_regressor

QUESTION = {
    "configuration": {"gpu_type": "T4", "workers": 2},
    "work": {"dataset_size": 2000, "batch_size": 64},
}
N_NAMES, FEW_QUERIES = 600, 80


def asked(names: list[str]) -> list[dict[str, Any]]:
    return [{"ref": name, "workload": name, **QUESTION} for name in names]


@pytest.fixture
def names(services: Services) -> list[str]:
    publish_regressor(services)
    return ["fitted", *(f"new-{number}" for number in range(N_NAMES)), "fited"]


def test_a_batch_refuses_each_unknown_workload(
    client: TestClient, database: Database, names: list[str]
) -> None:
    with recorded_queries(database) as queries:
        answer = client.post("/v1/forecasts:batch", json={"requests": asked(names)}).json()

    first, *others = answer["forecasts"]
    assert len(queries) < FEW_QUERIES
    assert first["forecast"]["workload"] == "fitted"
    assert answer["failed"] == len(others) == N_NAMES + 1
    for entry in others:
        assert entry["problem"]["code"] == "unknown_workload"
        assert f"'{entry['ref']}'" in entry["problem"]["detail"]


def test_an_order_leaves_out_each_unknown_workload(
    client: TestClient, database: Database, names: list[str]
) -> None:
    jobs = asked(names)

    with recorded_queries(database) as queries:
        answer = client.post("/v1/schedules:rank", json={"jobs": jobs}).json()

    assert len(queries) < FEW_QUERIES
    forecast, *refused = answer["ranked"]
    assert forecast["ref"] == "fitted"
    assert answer["failed"] == N_NAMES + 1
    assert {job["ref"] for job in refused} == set(names[1:])
    assert {job["problem"]["code"] for job in refused} == {"unknown_workload"}


def test_without_a_database_what_is_in_memory_is_answered(
    client: TestClient, database: Database, names: list[str]
) -> None:
    client.post("/v1/forecasts", json={"workload": "fitted", **QUESTION, "record": False})
    make_unavailable(database)

    answer = client.post("/v1/forecasts:batch", json={"requests": asked(names[:40])}).json()

    first, *others = answer["forecasts"]
    assert first["forecast"]["workload"] == "fitted"
    assert {entry["problem"]["code"] for entry in others} == {"database_unavailable"}
