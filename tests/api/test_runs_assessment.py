"""Uploaded runs are judged against what the published regressor forecasts for them."""

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import law_seconds, publish_regressor
from tests.support.uploads import JsonRun, make_json_run, post_json


def _run(factor: float, **changes: object) -> JsonRun:
    return make_json_run(
        workload="judged",
        duration_seconds=factor * law_seconds(4, 2000.0),
        configuration={"gpu_type": "T4", "workers": 4},
        work={"dataset_size": 2000},
        parameters={"precision": "fp16"},
        **changes,
    )


@pytest.fixture(autouse=True)
def _published(services: Services) -> None:
    publish_regressor(services, workload="judged")


def test_runs_are_judged_as_they_come(client: TestClient) -> None:
    runs = [_run(1), _run(20), _run(0.05), _run(1, status="failed")]

    answer = post_json(client, runs)

    verdicts = [run["assessment"]["verdict"] for run in answer.json()["runs"]]
    assert verdicts == ["as_expected", "slower", "faster", "unknown"]
    slower = answer.json()["runs"][1]["assessment"]
    assert slower["ratio"] > 10
    assert slower["p_value"] < 0.05
    expected = slower["expected_seconds"]
    assert expected["lower"] <= expected["median"] <= expected["upper"]


def test_the_verdict_is_that_of_the_bounds(client: TestClient) -> None:
    [uploaded] = post_json(client, _run(1)).json()["runs"]
    expected = uploaded["assessment"]["expected_seconds"]
    edges = {
        0.999 * expected["lower"]: "faster",
        1.001 * expected["lower"]: "as_expected",
        0.999 * expected["upper"]: "as_expected",
        1.001 * expected["upper"]: "slower",
    }

    runs = [_run(1) | {"duration_seconds": seconds} for seconds in edges]
    judged = post_json(client, runs).json()["runs"]

    assert expected["confidence"] == 0.95
    assert [run["assessment"]["verdict"] for run in judged] == list(edges.values())


def test_runs_in_another_unit_are_warned_of(client: TestClient) -> None:
    runs = [_run(1), _run(1000), _run(20), _run(0.001), _run(1000, status="failed")]

    [warning] = post_json(client, runs).json()["warnings"]

    assert (warning["code"], warning["rows"]) == ("duration_far_off", [2, 4])
    assert post_json(client, _run(20)).json()["warnings"] == []


def test_stored_runs_are_judged_when_asked(client: TestClient) -> None:
    [uploaded] = post_json(client, _run(20)).json()["runs"]

    answer = client.get(f"/v1/runs/{uploaded['run_id']}/assessment")

    assert answer.json() == uploaded["assessment"]


def test_dry_runs_are_judged_too(client: TestClient) -> None:
    [checked] = post_json(client, _run(20), dry_run="true").json()["runs"]

    assert checked["run_id"] is None
    assert checked["assessment"]["verdict"] == "slower"


def test_good_rows_are_judged_when_bad_ones_are_skipped(client: TestClient) -> None:
    drifting = {**_run(1), "parameters": {"precision": 16}}

    answer = post_json(client, [_run(-1), _run(20), drifting], on_invalid="skip")

    assert answer.json()["invalid_count"] == 2
    [run] = answer.json()["runs"]
    assert (run["row"], run["assessment"]["verdict"]) == (2, "slower")


def test_runs_of_other_workloads_are_not_judged(client: TestClient) -> None:
    answer = post_json(client, [_run(1), make_json_run()])

    judged, other = [run["assessment"] for run in answer.json()["runs"]]
    assert judged["verdict"] == "as_expected"
    assert other["verdict"] == "unknown"
    assert "no published regressor" in other["reason"]


def test_large_uploads_are_not_judged_row_by_row(client: TestClient) -> None:
    answer = post_json(client, [_run(1)] * 1001)

    assert answer.json()["created"] == 1001
    assert answer.json()["runs"] is None
