"""What is exported and uploaded elsewhere teaches the same: exclusions and types come along."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit
from tests.support.uploads import faults, list_runs, make_json_run, post, post_csv, post_json

RUNS = "/v1/workloads/resnet50/runs"


def export(client: TestClient) -> bytes:
    answer = client.get(RUNS, headers={"Accept": "text/csv"})
    assert answer.status_code == 200, answer.text
    return answer.content


def exclude(client: TestClient, index: int, **reason: str) -> None:
    run_id = list_runs(client, "resnet50")[index]["run_id"]
    answer = client.patch(f"/v1/runs/{run_id}", json={"excluded": True, **reason})
    assert answer.status_code == 200, answer.text


def exclusions(client: TestClient) -> dict[float, tuple[bool, str | None]]:
    return {
        run["duration_seconds"]: (run["excluded"], run["excluded_reason"])
        for run in list_runs(client, "resnet50")
    }


def test_excluded_runs_stay_so_where_an_export_is_uploaded(client: TestClient) -> None:
    post_json(client, [make_json_run(duration_seconds=number) for number in (1, 2, 3)])
    exclude(client, 0, reason="=noisy neighbour")
    exclude(client, 1)
    before, file = exclusions(client), export(client)
    client.delete("/v1/workloads/resnet50")

    answer = post(client, file, "text/csv")

    assert answer.json()["created"] == 3
    after = exclusions(client)
    assert {key: value[0] for key, value in after.items()} == {
        key: value[0] for key, value in before.items()
    }
    assert sorted(reason or "" for _, reason in after.values()) == [
        "",
        "=noisy neighbour",
        "no reason was given",
    ]


def test_fit_of_an_export_learns_from_the_same_runs(client: TestClient, services: Services) -> None:
    speeds = {"18": 1.0, "50": 4.0}
    runs = [
        make_json_run(
            duration_seconds=20 + size * speed / workers,
            configuration={"workers": workers},
            work={"dataset_size": size},
            parameters={"arch": arch},
        )
        for workers in (1, 2, 4)
        for size in (1000, 3000)
        for arch, speed in speeds.items()
    ]
    post_json(client, runs)
    exclude(client, 0, reason="noisy neighbour")
    file, declared = export(client), client.get("/v1/workloads/resnet50").json()["parameters"]
    question: dict[str, Any] = {
        "workload": "resnet50",
        "work": {"dataset_size": 1000},
        "parameters": {"arch": "50"},
        "record": False,
    }

    def learned() -> tuple[int, Any]:
        fit(services, "resnet50")
        [regressor] = client.get("/v1/workloads/resnet50/regressors").json()["regressors"]
        forecast = client.post("/v1/forecasts", json=question).json()
        return regressor["runs_used"], forecast["duration_seconds"]

    before = learned()
    client.delete("/v1/workloads/resnet50")
    client.put("/v1/workloads/resnet50", json={"parameters": declared})
    post(client, file, "text/csv")

    assert learned() == before
    assert before[0] == len(runs) - 1
    assert client.get("/v1/workloads/resnet50").json()["parameters"] == declared


def test_run_comes_excluded_where_it_says_why(client: TestClient) -> None:
    post_json(client, [make_json_run(duration_seconds=1, excluded_reason="warm-up")])
    post_csv(client, "workload,duration_seconds,excluded_reason", "resnet50,2,noisy", "resnet50,3,")

    assert exclusions(client) == {1: (True, "warm-up"), 2: (True, "noisy"), 3: (False, None)}


def test_exclusion_is_no_part_of_what_a_run_measured(client: TestClient) -> None:
    run = make_json_run(external_id="a", duration_seconds=1)
    post_json(client, [run])

    answer = post_json(client, [{**run, "excluded_reason": "noisy"}])

    assert answer.json()["duplicates"] == 1
    assert exclusions(client) == {1: (False, None)}


def test_export_with_long_numbers_and_changed_labels_brings_nothing_new(
    client: TestClient,
) -> None:
    run = make_json_run(external_id="a", parameters={"seed": 2**60, "depth": 4})
    [stored] = post_json(client, run).json()["runs"]
    client.patch(f"/v1/runs/{stored['run_id']}", json={"labels": {"k": "v"}}).raise_for_status()

    answer = post(client, export(client), "text/csv")

    assert answer.status_code == 200, answer.text
    assert answer.json()["duplicates"] == 1


@pytest.mark.parametrize(
    "told", [{"excluded_reason": "x" * 501}, {"excluded_reason": 7}, {"excluded": "yes"}]
)
def test_what_is_no_reason_is_refused(client: TestClient, told: dict[str, object]) -> None:
    answer = post_json(client, [make_json_run(**told)])

    assert answer.status_code == 422
    assert "excluded_reason" in str(faults(answer))
