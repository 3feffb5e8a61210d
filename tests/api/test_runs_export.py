"""Runs as rows again: what is exported is an upload."""

import csv
import io

import pytest
from fastapi.testclient import TestClient
from httpx2 import Headers

from app.services.run_exports import FRESH_FOR, MemberNames
from app.services.wiring import Services
from app.storage.runs import RunStore
from tests.support.clock import FakeClock
from tests.support.overtaking import after_first
from tests.support.queries import recorded_queries
from tests.support.uploads import list_runs, make_json_run, post, post_csv, post_json


def _export(client: TestClient, workload: str, **query: str) -> str:
    answer = client.get(
        f"/v1/workloads/{workload}/runs", headers={"Accept": "text/csv"}, params=query
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    return answer.text


def test_export_is_an_upload_that_creates_nothing(client: TestClient) -> None:
    runs = [
        make_json_run(
            external_id=f"id-{i}",
            parameters={"precision": "fp16", "depth": 0.1 + i},
            phases={"setup_seconds": 4.25},
            resources={"gpu_utilization": 0.5},
            labels={"note": 'a, "quoted"\nline'[:8], "sum": "=1+1"},
            cost={"amount": "34.830001", "currency": "EUR"},
            started_at="2026-11-01T10:00:00.000001Z",
            forecast_id="fc_1",
            progress=0.25,
            status="preempted",
        )
        for i in range(3)
    ]
    post_json(client, runs)

    exported = _export(client, "resnet50")
    repeated = post(client, exported.encode(), "text/csv")

    assert repeated.status_code == 200
    assert (repeated.json()["created"], repeated.json()["duplicates"]) == (0, 3)


@pytest.mark.parametrize(("owner", "name"), [(MemberNames, "read"), (RunStore, "page")])
def test_runs_uploaded_while_an_export_begins_lose_nothing(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    post_json(client, make_json_run(external_id="before"))
    late = make_json_run(external_id="meanwhile", labels={"node": "a"}, parameters={"depth": 2})
    after_first(monkeypatch, owner, name, lambda: post_json(client, late))

    exported = _export(client, "resnet50")
    repeated = post(client, exported.encode(), "text/csv").json()

    assert (repeated["created"], repeated["duplicates"]) == (0, 1)
    assert _export(client, "resnet50").count("\n") == 3


def test_export_guards_spreadsheets_against_formulas(client: TestClient) -> None:
    values = ["=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1", "'=x", "plain", "it's"]
    post_json(
        client,
        [make_json_run(external_id=f"{i}", labels={"v": v}) for i, v in enumerate(values)],
    )

    rows = list(csv.DictReader(io.StringIO(_export(client, "resnet50"))))

    cells = [row["label.v"] for row in rows][::-1]
    assert cells == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\uff1d1", "''=x", "plain", "it's"]
    repeated = post(client, _export(client, "resnet50").encode(), "text/csv")
    assert repeated.json()["duplicates"] == len(values)


def test_export_has_all_pages_unless_one_is_asked_for(client: TestClient) -> None:
    rows = [f"a,{i},{i + 1}" for i in range(2100)]
    post_csv(client, "workload,run_id,duration_seconds", *rows)

    everything = _export(client, "a").splitlines()
    page = client.get("/v1/workloads/a/runs?page_size=2", headers={"Accept": "text/csv"})

    assert len(everything) == 2101
    assert len(page.text.splitlines()) == 3
    token = page.headers["next-page-token"]
    rest = _export(client, "a", page_token=token).splitlines()
    assert len(rest) == 2099


def test_pages_have_the_columns_of_all_runs_which_are_looked_for_once(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    post_csv(client, "workload,run_id,duration_seconds,label.old", "a,1,2,x")
    post_csv(client, "workload,run_id,duration_seconds,phase.sync_seconds", "a,2,2,1", "a,3,2,1")

    with recorded_queries(services.context.database) as queries:
        first = client.get("/v1/workloads/a/runs?page_size=2", headers={"Accept": "text/csv"})
        n_first = len(queries)
        rest = _export(client, "a", page_size="2", page_token=first.headers["next-page-token"])

    assert len(queries) - n_first < n_first
    assert not any("distinct" in query.casefold() for query in queries[n_first:])
    assert first.text.splitlines()[0] == rest.splitlines()[0]
    assert rest.splitlines()[0].endswith(",phase.sync_seconds,label.old")

    post_csv(client, "workload,run_id,duration_seconds,label.new", "a,4,2,y")
    newest = _export(client, "a", page_size="1")
    clock.advance(seconds=FRESH_FOR.total_seconds() + 1)
    later = _export(client, "a", page_size="1", page_token=first.headers["next-page-token"])

    assert newest.splitlines()[0].endswith(",label.new,label.old")
    assert later.splitlines()[0] == newest.splitlines()[0]


def test_pages_can_be_uploaded_where_all_columns_together_are_too_many(
    client: TestClient,
) -> None:
    for run in range(3):
        labels = {f"note-{run}-{number}": "x" for number in range(150)}
        post_json(
            client, make_json_run(external_id=f"id-{run}", labels=labels, parameters={f"p{run}": 1})
        )

    whole = post(client, _export(client, "resnet50").encode(), "text/csv")
    pages, token = [], None
    while token != "":
        answer = client.get(
            "/v1/workloads/resnet50/runs",
            headers={"Accept": "text/csv"},
            params={"page_size": 1} | ({"page_token": token} if token else {}),
        )
        pages.append(answer.content)
        token = answer.headers.get("Next-Page-Token", "")
    client.delete("/v1/workloads/resnet50")
    stored = [post(client, page, "text/csv").json()["created"] for page in pages]

    assert whole.status_code == 422
    assert "a page of an export (page_size)" in whole.json()["detail"]
    assert stored == [1, 1, 1]
    names = [name for run in list_runs(client) for name in run["labels"]]
    assert len(set(names)) == 450


@pytest.mark.parametrize(
    ("accept", "is_exported"),
    [
        ("application/json;q=0, text/csv", True),
        ("application/json;q=0.1, TEXT/CSV", True),
        ("application/json;q=0, */*", True),
        ("text/csv;q=0.1, application/json", False),
        ("text/csv;q=0, */*", False),
        ("text/csvs", False),
    ],
)
def test_runs_are_exported_to_whoever_likes_rows_best(
    client: TestClient, accept: str, *, is_exported: bool
) -> None:
    post_csv(client, "workload,run_id,duration_seconds", "a,1,2")

    answer = client.get("/v1/workloads/a/runs", headers={"Accept": accept})

    assert answer.headers["content-type"].startswith("text/csv") is is_exported


def test_lines_of_an_accept_header_count_together_and_caches_learn_of_it(
    client: TestClient,
) -> None:
    post_csv(client, "workload,run_id,duration_seconds", "a,1,2")
    lines = [("Accept", "application/json;q=0.5"), ("Accept", "text/csv")]

    rows = client.get("/v1/workloads/a/runs", headers=Headers(lines))
    document = client.get("/v1/workloads/a/runs")

    assert rows.headers["content-type"].startswith("text/csv")
    assert rows.headers["vary"] == document.headers["vary"] == "Accept"
    assert "vary" not in client.get("/v1/workloads/a").headers


def test_export_of_an_unknown_workload_is_a_problem(client: TestClient) -> None:
    answer = client.get("/v1/workloads/none/runs", headers={"Accept": "text/csv"})

    assert answer.status_code == 404
    assert answer.json()["code"] == "unknown_workload"
