"""Questions about many workloads that cannot answer are refused by few queries."""

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import PublishMode
from app.domain.identifiers import Slug
from app.services.wiring import Services
from app.storage.database import Database
from tests.support.outage import make_unavailable
from tests.support.queries import recorded_queries
from tests.support.regressors import QUICK, fit, publish_regressor, store_runs

QUESTION = {
    "configuration": {"gpu_type": "T4", "workers": 2},
    "work": {"dataset_size": 2000, "batch_size": 64},
}
N_NAMES, FEW_QUERIES = 600, 80
UNFITTED, EMPTY, PENDING = "unfitted", "empty", "pending"


def asked(names: list[str], **members: int | None) -> list[dict[str, Any]]:
    return [{"ref": name, "workload": name, **QUESTION, **members} for name in names]


@pytest.fixture
def names(services: Services) -> list[str]:
    """Return a fitted workload, some that exist without a regressor, and many unknown ones."""
    publish_regressor(services)
    for name in (UNFITTED, PENDING):
        store_runs(services.context, name)
    store_runs(services.context, EMPTY, excluded=True)
    services.fits.request_fit(DEFAULT_PROJECT, Slug(PENDING), QUICK)
    unknown = [f"new-{number}" for number in range(N_NAMES - 4)]
    return ["fitted", "fited", UNFITTED, EMPTY, PENDING, *unknown]


def test_a_batch_refuses_each_workload_that_cannot_answer(
    client: TestClient, database: Database, names: list[str]
) -> None:
    with recorded_queries(database) as queries:
        answer = client.post("/v1/forecasts:batch", json={"requests": asked(names)}).json()

    first, *others = answer["forecasts"]
    assert len(queries) < FEW_QUERIES
    assert first["forecast"]["workload"] == "fitted"
    assert answer["failed"] == len(others) == N_NAMES
    codes = {entry["ref"]: entry["problem"]["code"] for entry in others}
    assert {name for name, code in codes.items() if code == "no_regressor"} == {
        UNFITTED, EMPTY, PENDING,
    }  # fmt: skip
    assert set(codes.values()) == {"no_regressor", "unknown_workload"}
    for entry in others:
        assert f"'{entry['ref']}'" in entry["problem"]["detail"]


def test_many_are_refused_as_one_is(client: TestClient, names: list[str]) -> None:
    batch = client.post("/v1/forecasts:batch", json={"requests": asked(names)}).json()
    problems = {entry["ref"]: entry["problem"] for entry in batch["forecasts"][1:5]}

    for name in ("fited", UNFITTED, EMPTY, PENDING):
        alone = client.post("/v1/forecasts", json={"workload": name, **QUESTION}).json()
        for member in ("code", "title", "detail", "status"):
            assert problems[name][member] == alone[member]


def test_a_version_of_a_workload_without_a_published_one_is_asked(
    client: TestClient, services: Services, names: list[str]
) -> None:
    unpublished = replace(QUICK, publish=PublishMode.NEVER)
    store_runs(services.context, "kept")
    version = fit(services, "kept", unpublished).regressor_version
    requests = [*asked(names), *asked(["kept"], regressor_version=version), *asked(["kept"])]

    answer = client.post("/v1/forecasts:batch", json={"requests": requests}).json()

    of_version, of_published = answer["forecasts"][-2:]
    assert of_version["forecast"]["regressor_version"] == version
    assert of_published["problem"]["code"] == "no_regressor"


def test_an_order_leaves_out_each_workload_that_cannot_answer(
    client: TestClient, database: Database, names: list[str]
) -> None:
    jobs = asked(names)

    with recorded_queries(database) as queries:
        answer = client.post("/v1/schedules:rank", json={"jobs": jobs}).json()

    assert len(queries) < FEW_QUERIES
    forecast, *refused = answer["ranked"]
    assert forecast["ref"] == "fitted"
    assert answer["failed"] == N_NAMES
    assert {job["ref"] for job in refused} == set(names[1:])
    assert {job["problem"]["code"] for job in refused} == {"no_regressor", "unknown_workload"}


def test_without_a_database_what_is_in_memory_is_answered(
    client: TestClient, database: Database, names: list[str]
) -> None:
    client.post("/v1/forecasts", json={"workload": "fitted", **QUESTION, "record": False})
    make_unavailable(database)

    answer = client.post("/v1/forecasts:batch", json={"requests": asked(names[:40])}).json()

    first, *others = answer["forecasts"]
    assert first["forecast"]["workload"] == "fitted"
    assert {entry["problem"]["code"] for entry in others} == {"database_unavailable"}
