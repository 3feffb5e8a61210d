"""Stored runs are listed, looked at, kept out of fits and removed."""

import gzip
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from app.domain.access import DEFAULT_PROJECT
from app.domain.zstd import zstd
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.engines import before_any_row
from tests.support.queries import recorded_queries
from tests.support.uploads import list_runs, make_json_run, post, post_csv, post_json


def _upload(client: TestClient, **changes: object) -> str:
    [run] = post_json(client, make_json_run(**changes)).json()["runs"]
    run_id: str = run["run_id"]
    return run_id


@pytest.mark.parametrize("media_type", ["text/csv", "application/json", "application/x-ndjson"])
@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
@before_any_row
def test_compressed_upload_that_does_not_say_so_is_told_the_header(
    client: TestClient, media_type: str, name: str, pack: Callable[[bytes], bytes]
) -> None:
    answer = client.post(
        "/v1/runs", content=pack(b"workload,duration_seconds"), headers={"Content-Type": media_type}
    )

    assert answer.status_code == 422
    assert f"with the header Content-Encoding: {name}." in answer.json()["detail"]


def test_lists_are_newest_first_and_stable_while_runs_come(client: TestClient) -> None:
    post_csv(client, "workload,duration_seconds", *[f"a,{i}" for i in range(1, 6)])

    first = client.get("/v1/workloads/a/runs?page_size=2").json()
    post_csv(client, "workload,duration_seconds", "a,99")
    second = client.get(
        "/v1/workloads/a/runs", params={"page_size": 3, "page_token": first["next_page_token"]}
    ).json()

    assert [run["duration_seconds"] for run in first["runs"]] == [5, 4]
    assert [run["duration_seconds"] for run in second["runs"]] == [3, 2, 1]
    assert second["next_page_token"] is None


def test_lists_can_be_filtered(client: TestClient, clock: FakeClock) -> None:
    failed = _upload(client, status="failed")
    clock.advance(60)
    late = _upload(client, configuration={"gpu_type": "Tesla T4"})
    client.patch(f"/v1/runs/{failed}", json={"excluded": True, "reason": "wrong node"})

    def ids(**query: str) -> list[str]:
        return [run["run_id"] for run in list_runs(client, **query)]

    assert ids(status="failed") == [failed]
    assert ids(gpu_type="T4") == [late]
    assert ids(created_after="2026-11-01T12:00:30Z") == [late]
    assert ids(created_before="2026-11-01T12:00:30Z") == [failed]
    assert ids(excluded="true") == [failed]
    assert ids(excluded="false") == [late]


@pytest.mark.parametrize(
    "query",
    [
        "page_token=x",
        "page_size=0",
        "page_size=1001",
        "status=odd",
        "gpu_type=%00",
        "gpu_type=",
        "sort=up",
    ],
)
def test_wrong_queries_are_refused(client: TestClient, query: str) -> None:
    _upload(client)

    assert client.get(f"/v1/workloads/resnet50/runs?{query}").status_code == 422


@pytest.mark.parametrize("name", ["created_after", "created_before"])
@pytest.mark.parametrize(
    ("instant", "status"),
    [
        ("0001-01-01T00:00:00+14:00", 422),
        ("9999-12-31T23:59:59-14:00", 422),
        ("0001-01-01T00:00:00Z", 200),
        ("9999-12-31T23:59:59Z", 200),
    ],
)
def test_instants_end_where_the_calendar_does(
    client: TestClient, name: str, instant: str, status: int
) -> None:
    _upload(client)

    answer = client.get("/v1/workloads/resnet50/runs", params={name: instant})

    assert answer.status_code == status, answer.text
    if status == 422:
        assert answer.json()["errors"][0]["field"] == name


def test_lists_of_unknown_workloads_are_unknown(client: TestClient) -> None:
    assert client.get("/v1/workloads/none/runs").json()["code"] == "unknown_workload"


def test_exclusion_is_shown_audited_and_can_be_taken_back(
    client: TestClient, services: Services
) -> None:
    run_id = _upload(client)

    excluded = client.patch(f"/v1/runs/{run_id}", json={"excluded": True, "reason": "noisy"})
    included = client.patch(f"/v1/runs/{run_id}", json={"excluded": False})

    assert (excluded.json()["excluded"], excluded.json()["excluded_reason"]) == (True, "noisy")
    assert (included.json()["excluded"], included.json()["excluded_reason"]) == (False, None)
    with services.context.database.reading() as stores:
        *entries, _upload_before = stores.access.list_audit(DEFAULT_PROJECT)
    assert [entry.action for entry in entries] == ["run.include", "run.exclude"]
    assert {entry.subject for entry in entries} == {run_id}


def test_excluded_runs_are_no_matter_for_fits(client: TestClient, services: Services) -> None:
    run_id = _upload(client)
    _upload(client, status="failed")
    _upload(client, parameters={"x": 1})
    client.patch(f"/v1/runs/{run_id}", json={"excluded": True})

    with services.context.database.reading() as stores:
        [workload] = stores.workloads.page(DEFAULT_PROJECT, limit=1).items
        columns = stores.runs.evidence_for_fit(workload.workload_id, None).runs
        later = stores.runs.evidence_for_fit(workload.workload_id, columns.created_at[0]).runs

    assert len(columns) == 1
    assert columns.parameters == [{"x": 1}]
    assert columns.workers == (8,)
    assert len(later) == 1


def test_labels_are_merged_and_null_removes_one(client: TestClient) -> None:
    run_id = _upload(client, labels={"a": "1", "b": "2"})

    answer = client.patch(f"/v1/runs/{run_id}", json={"labels": {"a": None, "c": "3"}})

    assert answer.json()["labels"] == {"b": "2", "c": "3"}
    assert answer.json()["excluded"] is False


def test_reason_keeps_standing_when_an_excluded_run_changes(client: TestClient) -> None:
    run_id = _upload(client)
    client.patch(f"/v1/runs/{run_id}", json={"excluded": True, "reason": "noisy"})

    answer = client.patch(f"/v1/runs/{run_id}", json={"labels": {"a": "b"}})

    assert answer.json()["excluded_reason"] == "noisy"


def test_label_without_a_text_is_removed_so_that_an_export_is_an_upload(client: TestClient) -> None:
    run_id = _upload(client, external_id="a", labels={"a": "1", "b": "2"})

    changed = client.patch(f"/v1/runs/{run_id}", json={"labels": {"a": "", "b": " ", "c": "3"}})
    exported = client.get("/v1/workloads/resnet50/runs", headers={"Accept": "text/csv"})
    repeated = post(client, exported.content, "text/csv")

    assert changed.json()["labels"] == {"c": "3"}
    assert (repeated.status_code, repeated.json()["duplicates"]) == (200, 1)


def test_run_takes_no_more_labels_than_an_upload_could_give_it(client: TestClient) -> None:
    run_id = _upload(client)

    def add(begin: int, end: int, value: str | None = "x") -> Response:
        labels = {f"label-{number}": value for number in range(begin, end)}
        return client.patch(f"/v1/runs/{run_id}", json={"labels": labels})

    added = [add(begin, begin + 100).status_code for begin in (0, 100, 200)]
    refused, removed, again = add(300, 301), add(0, 1, None), add(300, 301)

    assert added == [200, 200, 200]
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "labels")
    assert (removed.status_code, again.status_code) == (200, 200)


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"reason": "why"}, "invalid_request"),
        ({"exclude": True}, "unknown_field"),
        ({"duration_seconds": 5}, "unknown_field"),
        ({"labels": {"a": "\u0000"}}, "invalid_request"),
        ({"excluded": 10**400}, "invalid_request"),
    ],
)
def test_wrong_changes_are_refused(client: TestClient, patch: dict[str, object], code: str) -> None:
    run_id = _upload(client)

    answer = client.patch(f"/v1/runs/{run_id}", json=patch)

    assert answer.status_code == 422
    assert answer.json()["code"] == code


def test_removed_runs_are_gone_and_audited(client: TestClient, services: Services) -> None:
    run_id = _upload(client)

    assert client.delete(f"/v1/runs/{run_id}").status_code == 204

    assert client.get(f"/v1/runs/{run_id}").status_code == 404
    with services.context.database.reading() as stores:
        entry, _upload_before = stores.access.list_audit(DEFAULT_PROJECT)
    assert (entry.action, entry.subject) == ("run.delete", run_id)


@pytest.mark.parametrize("run_id", ["run_01m7y9yrxp1qj7qqbwjt5qz3m", "nonsense", "%00", "fit_1"])
@pytest.mark.parametrize(
    ("method", "body"),
    [("GET", None), ("DELETE", None), ("PATCH", {}), ("PATCH", {"excluded": False})],
)
def test_unknown_runs_do_not_exist(
    client: TestClient, method: str, body: dict[str, bool] | None, run_id: str
) -> None:
    answer = client.request(method, f"/v1/runs/{run_id}", json=body)

    assert answer.json()["code"] == "not_found"
    assert client.get(f"/v1/runs/{run_id}/assessment").status_code == 404


def test_a_run_without_a_regressor_is_judged_unknown(client: TestClient) -> None:
    run_id = _upload(client)

    answer = client.get(f"/v1/runs/{run_id}/assessment")

    assert answer.status_code == 200
    assert answer.json()["verdict"] == "unknown"
    assert answer.json()["expected_seconds"] is None


def test_lists_take_as_many_statements_whatever_their_length(
    client: TestClient, services: Services
) -> None:
    counts = []
    for rows in (1, 40):
        post_csv(client, "workload,duration_seconds,param.x", *["a,5,1"] * rows)
        with recorded_queries(services.context.database) as queries:
            client.get("/v1/workloads/a/runs")
        counts.append(len(queries))

    assert counts == [3, 3]


def test_good_runs_are_offered_to_be_stored_where_there_are_any(client: TestClient) -> None:
    mixed, bad = (
        post_json(client, [make_json_run(duration_seconds=each) for each in durations]).json()
        for durations in ((5, -5), (-5, -6))
    )

    assert mixed["code"] == bad["code"] == "invalid_rows"
    assert "on_invalid=skip" in mixed["remedy"]
    assert "on_invalid=skip" not in bad["remedy"]


def test_skipped_rows_are_named_with_the_values_that_were_sent(client: TestClient) -> None:
    rows = [make_json_run(), *(make_json_run(duration_seconds=value) for value in (True, -3, -0.5))]

    skipped = post_json(client, rows, on_invalid="skip").json()
    refused = post_json(client, rows).json()

    values = [fault["value"] for fault in skipped["invalid"]]
    assert [repr(value) for value in values] == ["True", "-3", "-0.5"]
    assert values == [fault["value"] for fault in refused["errors"]]
