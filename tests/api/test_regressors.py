"""The registry through the door: list, show, publish, roll back."""

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.queries import recorded_queries
from tests.support.regressors import fit, store_runs

REGRESSORS = "/v1/workloads/resnet/regressors"


@pytest.fixture(autouse=True)
def _two_versions(services: Services, clock: FakeClock) -> None:
    store_runs(services.context, "resnet")
    for _ in range(2):
        clock.advance(10)
        fit(services, "resnet")


def test_version_shows_what_it_was_fitted_on(client: TestClient) -> None:
    body = client.get(f"{REGRESSORS}/2").json()

    assert (body["workload"], body["version"], body["published"]) == ("resnet", 2, True)
    assert (body["runs_used"], body["configurations_used"], body["seed"]) == (12, 12, 0)
    assert body["fit_id"].startswith("fit_")
    assert body["created_at"] == "2026-11-01T12:00:20Z"
    assert len(body["training_fingerprint"]) == len(body["artifact_sha256"]) == 64
    assert body["artifact_bytes"] > 100
    assert set(body["library_versions"]) >= {"python", "numpy"}
    features = {feature["name"]: feature for feature in body["features"]}
    assert (features["workers"]["min"], features["workers"]["max"]) == (1.0, 8.0)
    assert features["gpu_type"]["levels"] == ["T4"]
    assert features["param.precision"]["kind"] == "category"
    assert 0 <= body["accuracy_by_axis"]["interpolation"] < 0.5
    assert all(0 <= share <= 1 for share in body["coverage"].values())
    tried = [candidate["regressor"] for candidate in body["candidates"]]
    assert tried == ["log_linear", "pooled.log_linear"]
    assert body["failed_candidates"] == {}


def test_list_is_newest_first(client: TestClient) -> None:
    first = client.get(REGRESSORS, params={"page_size": 1}).json()
    second = client.get(REGRESSORS, params={"page_token": first["next_page_token"]}).json()

    listed = first["regressors"] + second["regressors"]
    assert [(entry["version"], entry["published"]) for entry in listed] == [(2, True), (1, False)]
    assert second["next_page_token"] is None
    assert listed[0] == client.get(f"{REGRESSORS}/2").json()


def test_list_asks_the_database_three_times(client: TestClient, services: Services) -> None:
    client.get(REGRESSORS)

    with recorded_queries(services.context.database) as queries:
        client.get(REGRESSORS)

    assert len(queries) == 3


def test_publish_rolls_back_and_forth(client: TestClient) -> None:
    back = client.post(f"{REGRESSORS}/1:publish")

    assert back.status_code == 200
    assert (back.json()["version"], back.json()["published"]) == (1, True)
    assert not client.get(f"{REGRESSORS}/2").json()["published"]
    assert client.post(f"{REGRESSORS}/2:publish").json()["published"]


def test_publications_are_audited_once_with_who_made_them(
    client: TestClient, services: Services
) -> None:
    for _ in range(2):
        client.post(f"{REGRESSORS}/1:publish")

    with services.context.database.reading() as stores:
        entries = stores.access.list_audit(DEFAULT_PROJECT)
    published = [entry for entry in entries if entry.action == "regressor.publish"]
    fits = [client.get(f"{REGRESSORS}/{version}").json()["fit_id"] for version in (2, 1)]
    assert [(entry.subject, entry.detail) for entry in published] == [
        ("resnet/1", {"previous": 2}),
        ("resnet/2", {"previous": 1, "fit": fits[0]}),
        ("resnet/1", {"previous": None, "fit": fits[1]}),
    ]


def test_next_fit_gets_the_next_number_after_a_roll_back(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    client.post(f"{REGRESSORS}/1:publish")
    clock.advance(10)

    ended = fit(services, "resnet")

    assert (ended.regressor_version, ended.published) == (3, True)
    assert [entry["version"] for entry in client.get(REGRESSORS).json()["regressors"]] == [3, 2, 1]


def test_unknown_version_is_not_found(client: TestClient) -> None:
    answers = [client.get(f"{REGRESSORS}/3"), client.post(f"{REGRESSORS}/3:publish")]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert {answer.json()["code"] for answer in answers} == {"not_found"}


@pytest.mark.parametrize("version", ["0", "latest", "99999999999999999999"])
def test_version_is_a_small_positive_number(client: TestClient, version: str) -> None:
    answer = client.get(f"{REGRESSORS}/{version}")

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize("token", ["x", "-1", "9" * 30, "²"])
def test_page_token_of_another_list_is_refused(client: TestClient, token: str) -> None:
    answer = client.get(REGRESSORS, params={"page_token": token})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_unknown_workload_has_no_registry(client: TestClient) -> None:
    answers = [
        client.get("/v1/workloads/nobody/regressors"),
        client.get("/v1/workloads/nobody/regressors/1"),
        client.post("/v1/workloads/nobody/regressors/1:publish"),
    ]

    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {
        (404, "unknown_workload")
    }


def test_publish_is_a_post(client: TestClient) -> None:
    answer = client.get(f"{REGRESSORS}/1:publish")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
