"""Fits through the door: ask, follow, wait, cancel."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from httpx2 import Headers

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import FitRequest
from app.domain.identifiers import FitId, ProjectId, Slug
from app.services.fitting import FittingService
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.queries import recorded_queries
from tests.support.regressors import make_fitter, store_runs

FITS = "/v1/workloads/resnet/fits"
QUICK = {"regressors": ["log_linear"]}


@pytest.fixture(autouse=True)
def _runs(services: Services) -> None:
    store_runs(services.context, "resnet")


@pytest.fixture
def running_fitter(services: Services) -> Iterator[None]:
    """A fitter that steps as long as the test lasts."""
    stop = threading.Event()
    fitter = make_fitter(services.context, stop)
    thread = threading.Thread(target=fitter.run)
    thread.start()
    yield
    stop.set()
    thread.join()


def step(services: Services) -> None:
    assert make_fitter(services.context).step()


def test_request_is_accepted_and_names_where_to_look(client: TestClient) -> None:
    answer = client.post(FITS)

    body = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/fits/{body['fit_id']}"
    assert int(answer.headers["retry-after"]) >= 1
    assert body == {
        "fit_id": body["fit_id"],
        "workload": "resnet",
        "state": "queued",
        "progress": 0.0,
        "step": "no fitter is running; start one with `trainfare fitter`",
        "requested_at": "2026-11-01T12:00:00Z",
        "started_at": None,
        "ended_at": None,
        "attempts": 0,
        "cancel_requested": False,
        "request": {
            "time_budget_s": 60.0,
            "seed": 0,
            "regressors": None,
            "publish": "auto",
            "runs_since": None,
        },
        "candidates": [],
        "regressor_version": None,
        "published": None,
        "problem": None,
    }


def test_queued_fit_says_what_keeps_it_from_starting(
    client: TestClient, services: Services
) -> None:
    fit = client.post(FITS).json()
    fitting, started_at = FittingService(services.context), services.context.now()

    fitting.seen("one", started_at, waits_for="head:10001")
    waiting = client.get(f"/v1/fits/{fit['fit_id']}").json()["step"]
    fitting.seen("other", started_at)
    listed = client.get(FITS).json()["fits"][0]["step"]

    assert (waiting, listed) == ("every fitter waits for Ray", None)


def test_request_keeps_what_was_asked(client: TestClient) -> None:
    question = {
        "time_budget_s": 5.0,
        "seed": 3,
        "regressors": ["log_linear", "scaling_law", "log_linear"],
        "publish": "never",
        "runs_since": "2026-10-01T12:00:00+02:00",
    }

    body = client.post(FITS, json=question).json()

    assert body["request"] == {
        **question,
        "regressors": ["log_linear", "scaling_law"],
        "runs_since": "2026-10-01T10:00:00Z",
    }


def test_second_fit_request_returns_the_active_fit(client: TestClient) -> None:
    first = client.post(FITS, json=QUICK).json()

    answer = client.post(FITS, json={"seed": 9})

    assert answer.status_code == 200
    assert answer.json() == first
    assert answer.headers["location"] == f"/v1/fits/{first['fit_id']}"


def test_fit_that_has_ended_shows_candidates_and_version(
    client: TestClient, services: Services
) -> None:
    fit_id = client.post(FITS, json=QUICK).json()["fit_id"]
    step(services)

    body = client.get(f"/v1/fits/{fit_id}").json()

    assert (body["state"], body["progress"], body["regressor_version"]) == ("succeeded", 1.0, 1)
    assert (body["published"], body["problem"]) == (True, None)
    assert body["started_at"] == body["ended_at"] == "2026-11-01T12:00:00Z"
    candidate, pooled = body["candidates"]
    assert pooled["regressor"] == "pooled.log_linear"
    assert candidate["regressor"] == "log_linear"
    assert candidate["weight"] + pooled["weight"] == pytest.approx(1.0)
    assert 0 < candidate["mape"] < 0.2
    assert set(candidate["by_axis"]) >= {"interpolation", "workers"}


def test_failed_fit_shows_its_problem(client: TestClient, services: Services) -> None:
    fit_id = client.post(FITS, json={"regressors": ["boosted_trees"]}).json()["fit_id"]
    step(services)

    body = client.get(f"/v1/fits/{fit_id}").json()

    assert (body["state"], body["problem"]["code"]) == ("failed", "fit_failed")
    assert "boosted_trees" in body["problem"]["detail"]


@pytest.mark.usefixtures("running_fitter")
def test_prefer_wait_answers_the_fit_that_has_ended(client: TestClient) -> None:
    answer = client.post(FITS, json=QUICK, headers={"Prefer": "respond-async, wait=30"})

    assert answer.status_code == 200
    assert answer.json()["state"] == "succeeded"
    assert answer.headers["preference-applied"] == "wait=30"
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [("wait=0", "wait=0"), ('wait="0"; foo', "wait=0"), ("wait=soon", None), ("handling=x", None)],
)
def test_wait_that_is_over_leaves_the_fit_accepted(
    client: TestClient, prefer: str, applied: str | None
) -> None:
    answer = client.post(FITS, json=QUICK, headers={"Prefer": prefer})

    assert answer.status_code == 202
    assert answer.headers.get("preference-applied") == applied


@pytest.mark.parametrize(
    "lines", [["wait=86400"], [f"wait={'9' * 400}"], ["respond-async", "wait=00086400"]]
)
def test_wait_is_limited_to_a_minute(
    client: TestClient, services: Services, lines: list[str]
) -> None:
    fit_id = client.post(FITS, json=QUICK).json()["fit_id"]
    step(services)
    headers = Headers([("Prefer", line) for line in lines])

    answer = client.get(f"/v1/fits/{fit_id}", headers=headers)

    assert answer.headers["preference-applied"] == "wait=60"
    assert answer.json()["state"] == "succeeded"


def test_unknown_regressor_is_refused_with_the_nearest_name(client: TestClient) -> None:
    answer = client.post(FITS, json={"regressors": ["log_linear", "boosted_tree"]})

    problem = answer.json()
    [fault] = problem["errors"]
    assert (answer.status_code, problem["code"]) == (422, "invalid_request")
    assert (fault["field"], fault["pointer"]) == ("regressors", "/regressors/1")
    assert "'boosted_trees'" in fault["remedy"]


def test_regressor_unlike_any_is_refused_with_the_known_names(client: TestClient) -> None:
    [fault] = client.post(FITS, json={"regressors": ["?"]}).json()["errors"]

    assert "scaling_law" in fault["remedy"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"time_budget": 3}, "unknown_field"),
        ({"time_budget_s": 0}, "invalid_request"),
        ({"seed": -1}, "invalid_request"),
        ({"regressors": []}, "invalid_request"),
        ({"publish": "always"}, "invalid_request"),
        ({"runs_since": "2026-10-01T12:00:00"}, "invalid_request"),
        ({"runs_since": "0001-01-01T00:00:00+12:00"}, "invalid_request"),
    ],
    ids=str,
)
def test_malformed_request_is_refused(
    client: TestClient, body: dict[str, object], code: str
) -> None:
    answer = client.post(FITS, json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_unknown_workload_has_no_fits(client: TestClient) -> None:
    answers = [client.post("/v1/workloads/nobody/fits"), client.get("/v1/workloads/nobody/fits")]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert {answer.json()["code"] for answer in answers} == {"unknown_workload"}


def test_workload_without_usable_runs_cannot_be_fitted(
    client: TestClient, services: Services
) -> None:
    store_runs(services.context, "excluded", excluded=True)

    answers = [
        client.post("/v1/workloads/excluded/fits"),
        client.post(FITS, json={"runs_since": "2030-01-01T00:00:00Z"}),
    ]

    assert [answer.status_code for answer in answers] == [409, 409]
    assert {answer.json()["code"] for answer in answers} == {"no_regressor"}


@pytest.mark.parametrize("fit_id", ["fit_nothing", "fit_" + "0" * 25, "run_" + "0" * 25, "%00"])
def test_unknown_fit_is_not_found(client: TestClient, fit_id: str) -> None:
    answers = [
        client.get(f"/v1/fits/{fit_id}"),
        client.get(f"/v1/fits/{fit_id}/events"),
        client.post(f"/v1/fits/{fit_id}:cancel"),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert {answer.json()["code"] for answer in answers} == {"not_found"}


def test_fit_of_another_project_does_not_exist(client: TestClient, services: Services) -> None:
    context = services.context
    with context.database.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO project (id, name, created_at)"
            " VALUES ('prj_2', 'other', '2026-11-01 12:00:00')"
        )
    store_runs(context, "theirs", project_id=ProjectId("prj_2"))
    with context.database.transaction() as stores:
        workload = stores.workloads.get(ProjectId("prj_2"), Slug("theirs"))
        assert workload is not None
        fit, _ = stores.fits.request(workload.workload_id, FitRequest(), context.now())

    assert client.get(f"/v1/fits/{fit.fit_id}").status_code == 404
    assert client.get("/v1/workloads/theirs/fits").status_code == 404


def test_queued_fit_is_cancelled_at_once_and_stays_so(client: TestClient) -> None:
    fit_id = client.post(FITS).json()["fit_id"]

    answers = [client.post(f"/v1/fits/{fit_id}:cancel") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert {answer.json()["state"] for answer in answers} == {"cancelled"}
    assert client.post(FITS).status_code == 202


def test_cancel_leaves_a_fit_that_has_ended(client: TestClient, services: Services) -> None:
    fit_id = client.post(FITS, json=QUICK).json()["fit_id"]
    step(services)

    body = client.post(f"/v1/fits/{fit_id}:cancel").json()

    assert (body["state"], body["cancel_requested"]) == ("succeeded", False)


def test_cancel_is_a_post(client: TestClient) -> None:
    answer = client.get("/v1/fits/fit_1:cancel")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_list_pages_through_the_fits(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    asked = []
    for _ in range(3):
        clock.advance(1)
        asked.append(client.post(FITS, json=QUICK).json()["fit_id"])
        step(services)

    first = client.get(FITS, params={"page_size": 2}).json()
    second = client.get(FITS, params={"page_token": first["next_page_token"]}).json()

    assert [fit["fit_id"] for fit in first["fits"] + second["fits"]] == asked[::-1]
    assert second["next_page_token"] is None


def test_list_asks_the_database_as_often_for_many_fits_as_for_one(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    counts = []
    for _ in range(3):
        clock.advance(1)
        client.post(FITS, json=QUICK)
        step(services)
        with recorded_queries(services.context.database) as queries:
            client.get(FITS)
        counts.append(len(queries))

    assert counts == [3, 3, 3]


def test_page_token_of_another_list_is_refused(client: TestClient) -> None:
    answer = client.get(FITS, params={"page_token": "run_1"})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def events(text: str) -> list[tuple[str, dict[str, object]]]:
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith(":")]
        if lines:
            members = dict(line.split(": ", 1) for line in lines)
            found.append((members["event"], json.loads(members["data"])))
    return found


@pytest.mark.usefixtures("running_fitter")
def test_events_tell_of_a_fit_until_it_ends(client: TestClient) -> None:
    fit_id = client.post(FITS, json=QUICK).json()["fit_id"]

    answer = client.get(f"/v1/fits/{fit_id}/events")

    reported = events(answer.text)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [name for name, _ in reported][-1] == "end"
    assert {name for name, _ in reported[:-1]} <= {"progress"}
    assert reported[-1][1] == client.get(f"/v1/fits/{fit_id}").json()


def test_events_of_a_fit_that_has_ended_are_one(client: TestClient, services: Services) -> None:
    fit_id = client.post(FITS, json=QUICK).json()["fit_id"]
    step(services)

    reported = events(client.get(f"/v1/fits/{fit_id}/events").text)

    assert [(name, fit["state"]) for name, fit in reported] == [("end", "succeeded")]


def test_head_of_the_events_of_a_queued_fit_ends(client: TestClient) -> None:
    fit_id = client.post(FITS, json=QUICK).json()["fit_id"]

    answer = client.head(f"/v1/fits/{fit_id}/events")
    unknown = client.head("/v1/fits/fit_1/events")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert unknown.status_code == 404
    counted = 'method="HEAD",route="/v1/fits/{fit}/events",status="200"} 1.0'
    assert counted in client.get("/metrics").text


def test_events_end_when_the_workload_is_deleted(client: TestClient, services: Services) -> None:
    fit_id = client.post(FITS, json=QUICK).json()["fit_id"]
    fit = services.fits.get(DEFAULT_PROJECT, FitId(fit_id))

    async def follow() -> list[str]:
        reported = []
        async for latest in services.fits.follow(DEFAULT_PROJECT, fit):
            reported.append(latest.state.value)
            with services.context.database.engine.begin() as connection:
                connection.exec_driver_sql("DELETE FROM fit")
        return reported

    assert asyncio.run(follow()) == ["queued"]
