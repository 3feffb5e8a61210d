"""Queues in order through the door: policies, ties, ageing, jobs that cannot be forecast."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import law_seconds, publish_regressor


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def job(ref: str, size: float = 2000.0, workers: int = 2, **changes: Any) -> dict[str, Any]:
    return {
        "ref": ref,
        "workload": "fitted",
        "configuration": {"gpu_type": "T4", "workers": workers},
        "work": {"dataset_size": size},
        "parameters": {"precision": "fp16"},
        **changes,
    }


def rank(client: TestClient, *jobs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    answer = client.post("/v1/schedules:rank", json={"jobs": jobs, **changes})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def refs(document: dict[str, Any]) -> list[str]:
    return [entry["ref"] for entry in document["ranked"]]


def test_shortest_service_counts_gpu_seconds_not_duration(
    client: TestClient, published: Services
) -> None:
    answer = rank(client, job("wide", workers=8), job("narrow", workers=1), job("small", 1000.0))

    assert refs(answer) == ["small", "narrow", "wide"]
    first = answer["ranked"][0]["expected_service_gpu_seconds"]
    assert first["expected"] == pytest.approx(2 * law_seconds(2, 1000.0), rel=0.05)
    assert first["lower"] < first["median"] < first["upper"]
    assert [entry["priority"] for entry in answer["ranked"]] == [3, 2, 1]


def test_shortest_remaining_prefers_what_is_nearly_done(
    client: TestClient, published: Services
) -> None:
    jobs = [job("short", 1000.0), job("nearly", 4000.0, progress=0.95)]

    by_service = rank(client, *jobs)
    by_remaining = rank(client, *jobs, policy="shortest_remaining_first")

    assert refs(by_service) == ["short", "nearly"]
    assert refs(by_remaining) == ["nearly", "short"]


def test_slower_progress_than_forecast_moves_a_job_back(
    client: TestClient, published: Services
) -> None:
    slow = job("slow", progress=0.5, elapsed_s=20 * law_seconds(2, 2000.0))
    fast = job("fast", progress=0.5, elapsed_s=0.5 * law_seconds(2, 2000.0))

    answer = rank(client, slow, fast, policy="shortest_remaining_first")

    assert refs(answer) == ["fast", "slow"]
    waits = [entry["remaining_seconds"]["median"] for entry in answer["ranked"]]
    assert waits[0] == pytest.approx(0.5 * law_seconds(2, 2000.0), rel=0.1)
    assert waits[1] > 5 * waits[0]


def test_equal_jobs_share_a_priority_and_go_by_submission(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    now = clock()
    first = job("later", submitted_at=(now - timedelta(seconds=5)).isoformat())
    second = job("earlier", submitted_at=(now - timedelta(seconds=9)).isoformat())

    answer = rank(client, first, second, ageing_s=None)

    assert refs(answer) == ["earlier", "later"]
    assert [entry["priority"] for entry in answer["ranked"]] == [1, 1]


@pytest.mark.parametrize("ageing_s", [86_400.0, 5e-324])
def test_long_job_that_waits_passes_short_newcomers(
    client: TestClient, published: Services, clock: FakeClock, ageing_s: float
) -> None:
    waiting = job("long", 4000.0, submitted_at=(clock() - timedelta(days=30)).isoformat())
    newcomer = job("short", 1000.0, submitted_at=clock().isoformat())

    aged = rank(client, newcomer, waiting, ageing_s=ageing_s)
    ageless = rank(client, newcomer, waiting, ageing_s=None)

    assert refs(aged) == ["long", "short"]
    assert aged["ranked"][0]["waited_s"] == pytest.approx(30 * 86400)
    assert refs(ageless) == ["short", "long"]


def test_least_slack_goes_first_and_the_hopeless_do_not_block_it(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    def due(seconds: float) -> str:
        return (clock() + timedelta(seconds=seconds)).isoformat()

    answer = rank(
        client,
        job("free", 1000.0),
        job("hopeless", deadline=due(60)),
        job("relaxed", deadline=due(90_000)),
        job("tight", deadline=due(3 * law_seconds(2, 2000.0))),
        policy="deadline_risk",
    )

    assert refs(answer) == ["tight", "relaxed", "hopeless", "free"]
    chances = [entry["deadline_probability"] for entry in answer["ranked"]]
    assert chances[0] > 0.9
    assert chances[2] < 0.1
    assert chances[3] is None


def test_latest_start_leaves_the_time_that_nine_in_ten_runs_take(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    def due(seconds: float) -> str:
        return (clock() + timedelta(seconds=seconds)).isoformat()

    long_s, short_s = law_seconds(2, 4000.0), law_seconds(2, 1000.0)
    long = job("long", 4000.0, deadline=due(1.5 * long_s))
    short = job("short", 1000.0, deadline=due(long_s + short_s))
    question = {name: value for name, value in long.items() if name not in {"ref", "deadline"}}
    limit_s = client.post("/v1/forecasts", json={**question, "time_limit_quantile": 0.9}).json()[
        "time_limit_seconds"
    ]

    answer = rank(client, short, long, policy="deadline_risk", confidence=0.9)

    # The deadline of the short job is nearer, but it can wait longer.
    assert refs(answer) == ["long", "short"]
    start = datetime.fromisoformat(answer["ranked"][0]["latest_start"])
    slack_s = (start - clock()).total_seconds()
    assert slack_s == pytest.approx(1.5 * long_s - limit_s, abs=2)


@pytest.mark.parametrize(
    ("unknown", "expected"),
    [
        ("first", ["new", "short", "medium", "long", "longest"]),
        ("median", ["short", "medium", "new", "long", "longest"]),
        ("last", ["short", "medium", "long", "longest", "new"]),
    ],
)
def test_job_that_cannot_be_forecast_stands_where_the_request_says(
    client: TestClient, published: Services, unknown: str, expected: list[str]
) -> None:
    sizes = {"short": 1000.0, "medium": 2000.0, "long": 4000.0, "longest": 32_000.0}
    jobs = [job(ref, size) for ref, size in sizes.items()]

    answer = rank(client, job("new", workload="nobody"), *jobs, unknown=unknown)

    assert refs(answer) == expected
    assert answer["failed"] == 1
    [problem] = [entry["problem"] for entry in answer["ranked"] if entry["problem"]]
    assert problem["code"] == "unknown_workload"


def test_deadline_of_a_job_that_cannot_be_forecast_still_counts(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    soon = (clock() + timedelta(hours=2)).isoformat()
    late = (clock() + timedelta(days=2)).isoformat()
    jobs = [
        job("known", deadline=late),
        job("new", workload="nobody", deadline=soon),
        job("bad", configuration={"gpu_type": "H1000X"}),
    ]

    answer = rank(client, *jobs, policy="deadline_risk")

    assert refs(answer) == ["new", "known", "bad"]


def test_missed_deadline_of_a_job_that_cannot_be_forecast_blocks_no_other(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    late = (clock() + timedelta(days=2)).isoformat()
    jobs = [
        job("new", workload="nobody", deadline=clock().isoformat()),
        job("known", deadline=late),
        job("free", 1000.0),
    ]

    answer = rank(client, *jobs, policy="deadline_risk")

    assert refs(answer) == ["known", "new", "free"]


def test_queue_that_nothing_is_known_of_goes_by_submission(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    older = (clock() - timedelta(hours=2)).isoformat()

    answer = rank(
        client,
        job("new", workload="nobody"),
        job("old", workload="nobody", submitted_at=older),
        policy="deadline_risk",
    )

    assert refs(answer) == ["old", "new"]


def test_spot_that_cannot_end_is_a_problem_of_its_job(
    client: TestClient, published: Services
) -> None:
    terms = {"interruptions_per_hour": 600, "restart_s": 600}
    pricing = {"purchase": "spot", "price_per_hour": "1.00", "spot": terms}

    answer = rank(client, job("spot", pricing=pricing), job("plain"))

    problem = next(entry["problem"] for entry in answer["ranked"] if entry["ref"] == "spot")
    assert problem["code"] == "spot_infeasible"


def test_spot_is_believed_as_it_is_forecast(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    terms = {"interruptions_per_hour": 0.5, "checkpoint_interval_s": 600, "restart_s": 1800}
    pricing = {"purchase": "spot", "price_per_hour": "1.00", "spot": terms}
    asked = job("spot", 4000.0, workers=1, pricing=pricing)
    question = {name: asked[name] for name in asked if name != "ref"}
    forecast = client.post("/v1/forecasts", json=question).json()["duration_seconds"]
    deadline = (clock() + timedelta(seconds=forecast["upper"])).isoformat()

    [ranked] = rank(client, {**asked, "deadline": deadline})["ranked"]

    service = ranked["expected_service_gpu_seconds"]
    for name in ("lower", "median", "upper"):
        assert service[name] == pytest.approx(forecast[name], rel=1e-3), name
    assert ranked["deadline_probability"] == pytest.approx(0.95, abs=2e-3)


def test_table_reads_well(client: TestClient, published: Services, clock: FakeClock) -> None:
    body = {
        "jobs": [
            job("nightly", 4000.0, deadline=(clock() + timedelta(days=1)).isoformat()),
            job("trial", 1000.0),
            job("new", workload="nobody"),
        ]
    }

    answer = client.post("/v1/schedules:rank", json=body, headers={"Accept": "text/plain"})
    empty = client.post("/v1/schedules:rank", json={"jobs": []}, headers={"Accept": "text/plain"})
    alone = {"jobs": body["jobs"][1:2]}
    one = client.post("/v1/schedules:rank", json=alone, headers={"Accept": "text/plain"})

    lines = answer.text.splitlines()
    assert lines[0] == "3 jobs, shortest service first:"
    assert lines[2].split()[:4] == ["ref", "workload", "priority", "GPU-hours"]
    assert lines[3].startswith("trial")
    assert "new cannot be forecast: There is no workload 'nobody'." in lines
    assert empty.text == "The queue is empty.\n"
    assert one.text.startswith("1 job, ")


def test_thousands_of_hours_are_told_without_an_exponent(
    client: TestClient, published: Services
) -> None:
    body = {"jobs": [job("vast", 2e7)]}

    answer = client.post("/v1/schedules:rank", json=body, headers={"Accept": "text/plain"})

    [vast] = [line for line in answer.text.splitlines() if line.startswith("vast ")]
    assert re.search(r" [\d,]+,\d{3} {2}[\d.,]+ \.\. [\d,]+,\d{3} {2}", vast), vast


def test_deadline_that_is_all_but_lost_is_told_plainly(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    question = {"jobs": [job("a", 4000.0, deadline=(clock() + timedelta(minutes=2)).isoformat())]}

    (ranked,) = client.post("/v1/schedules:rank", json=question).json()["ranked"]
    answer = client.post("/v1/schedules:rank", json=question, headers={"Accept": "text/plain"})

    assert 0 < ranked["deadline_probability"] < 1e-4
    assert answer.text.rstrip().endswith("under 0.01%")


def test_two_jobs_with_one_ref_are_refused(client: TestClient, published: Services) -> None:
    answer = client.post("/v1/schedules:rank", json={"jobs": [job("a"), job("a")]})

    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_request"
    (error,) = answer.json()["errors"]
    assert (error["pointer"], error["field"], error["value"]) == ("/jobs/1/ref", "ref", "a")
    assert "'a'" in error["message"]
