"""What is left of CI reports once a workload, or their runs, were removed."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.fits import FitRequest
from app.domain.identifiers import Slug
from app.services.wiring import Services
from tests.support.regressors import fit, publish_regressor

pytestmark = pytest.mark.lengthy

URL = "/v1/ci/reports"


def run(workload: str, seconds: float, **fields: object) -> dict[str, Any]:
    return {
        "workload": workload,
        "duration_seconds": seconds,
        "configuration": {"gpu_type": "T4", "workers": 4},
        "work": {"dataset_size": 2000.0},
        "parameters": {"precision": "fp16"},
    } | fields


def report(client: TestClient, *runs: dict[str, Any], **fields: object) -> dict[str, Any]:
    body = {"branch": "feature", "base_branch": "main", "runs": runs} | fields
    answer = client.post(URL, json=body)
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


@pytest.fixture(autouse=True)
def _published(services: Services) -> None:
    for name in ("secret", "kept"):
        publish_regressor(services, name)


def test_report_of_a_removed_workload_alone_goes(client: TestClient) -> None:
    own = report(client, run("secret", 900.0, external_id="nightly-1"))
    other = report(client, run("kept", 270.0))

    client.delete("/v1/workloads/secret").raise_for_status()

    gone = [
        client.get(f"{URL}/{own['report_id']}"),
        client.post(f"{URL}/{own['report_id']}:promote"),
        client.post(
            f"{URL}/{own['report_id']}:acknowledge", json={"author": "ada", "reason": "meant"}
        ),
    ]
    assert [(each.status_code, each.json()["code"]) for each in gone] == [(404, "not_found")] * 3
    assert client.get(URL).json()["reports"] == [other]


def test_report_of_several_workloads_keeps_the_others(
    client: TestClient, services: Services
) -> None:
    price = {"gpu_type": "T4", "price_per_hour": "0.90", "purchase": "owned", "source": "us"}
    client.post("/v1/prices", json=price | {"valid_from": "2026-01-01T00:00:00Z"})
    services.fits.request_fit(DEFAULT_PROJECT, Slug("secret"), FitRequest())
    shared = report(client, run("secret", 900.0, external_id="n-1"), run("kept", 270.0))
    assert shared["cost_change"] is not None

    client.delete("/v1/workloads/secret").raise_for_status()

    answer = client.get(f"{URL}/{shared['report_id']}")
    left = answer.json()
    assert "secret" not in answer.text
    assert "n-1" not in answer.text
    assert left["runs"] == shared["runs"][1:]
    assert (left["verdict"], left["exit_code"]) == (shared["verdict"], shared["exit_code"])
    assert (left["cost_change"], left["fit"]) == (None, None)
    assert left["summary"].startswith("Only part of this report is kept")
    promoted = client.post(f"{URL}/{shared['report_id']}:promote").json()
    assert promoted["promoted_at"] is not None
    [stored] = shared["runs"][1:]
    assert not client.get(f"/v1/runs/{stored['run_id']}").json()["excluded"]


def test_report_whose_runs_were_removed_is_not_promoted(client: TestClient) -> None:
    answer = report(client, run("kept", 270.0))
    client.delete(f"/v1/runs/{answer['runs'][0]['run_id']}").raise_for_status()

    refused = [
        client.post(f"{URL}/{answer['report_id']}:promote"),
        client.post(
            f"{URL}/{answer['report_id']}:acknowledge", json={"author": "ada", "reason": "meant"}
        ),
    ]

    assert [(response.status_code, response.json()["code"]) for response in refused] == [
        (404, "not_found")
    ] * 2
    assert "POST /v1/ci/reports" in refused[0].json()["remedy"]
    assert client.get(f"{URL}/{answer['report_id']}").json()["acknowledged"] is None


def test_reports_of_another_project_stay(client: TestClient, services: Services) -> None:
    _, token = services.access.create_key("other", [Scope.ADMIN], project="other")
    headers = {"Authorization": f"Bearer {token}"}
    theirs = client.post(URL, json={"runs": [run("secret", 9.0)]}, headers=headers).json()

    client.delete("/v1/workloads/secret").raise_for_status()

    assert client.get(f"{URL}/{theirs['report_id']}", headers=headers).json() == theirs


def test_many_reports_go_together(client: TestClient, services: Services) -> None:
    fit(services, "secret")
    for number in range(5):
        report(client, run("secret", 900.0 + number))

    client.delete("/v1/workloads/secret").raise_for_status()

    assert client.get(URL).json()["reports"] == []
