"""GPUs shared out through the door: objectives, limits, running jobs, what does not fit."""

import re
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.api.documents.allocations import allocation_text
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import fit, publish_regressor
from tests.support.uploads import make_json_run, post_json


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def job(ref: str, size: float = 2000.0, **changes: Any) -> dict[str, Any]:
    return {
        "ref": ref,
        "workload": "fitted",
        "work": {"dataset_size": size},
        "parameters": {"precision": "fp16"},
        **changes,
    }


def send(client: TestClient, *jobs: dict[str, Any], **changes: Any) -> Any:
    body = {"capacity": {"T4": 8}, "jobs": jobs, **changes}
    return client.post("/v1/schedules:allocate", json=body)


def allocate(client: TestClient, *jobs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    answer = send(client, *jobs, **changes)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def workers_of(document: dict[str, Any]) -> dict[str, int]:
    return {entry["ref"]: entry["workers"] for entry in document["allocated"]}


def reasons_of(document: dict[str, Any]) -> dict[str, str]:
    return {entry["ref"]: entry["reason"] for entry in document["left_out"]}


def test_longer_jobs_get_more_gpus_where_all_should_end_soon(
    client: TestClient, published: Services
) -> None:
    answer = allocate(client, job("long", 4000.0), job("short", 1000.0), objective="makespan")

    workers = workers_of(answer)
    assert workers["long"] > workers["short"]
    assert sum(workers.values()) <= 8
    assert (answer["exact"], answer["gap"], answer["method"]) == (True, 0.0, "dynamic_programming")
    upper = max(entry["expected_completion_seconds"]["upper"] for entry in answer["allocated"])
    assert answer["objective_value"] <= upper


@pytest.mark.parametrize("objective", ["throughput", "mean_completion", "makespan", "cost"])
@pytest.mark.parametrize("capacity", [{"T4": 6}, {"T4": 4, "L4": 2}])
def test_answer_states_its_quality_and_keeps_the_capacity(
    client: TestClient, published: Services, objective: str, capacity: dict[str, int]
) -> None:
    jobs = [job("a"), job("b", 1000.0, weight=3), job("c", 4000.0)]

    answer = allocate(client, *jobs, objective=objective, capacity=capacity)

    assert answer["exact"] is True
    assert len(answer["allocated"]) == 3
    assert all(answer["used"][name] <= gpus for name, gpus in capacity.items())
    ends = [entry["expected_completion_seconds"]["expected"] for entry in answer["allocated"]]
    hourly = sum(3600 * weight / end for weight, end in zip((1, 3, 1), ends, strict=True))
    if objective == "throughput":
        assert answer["objective_value"] == pytest.approx(hourly, rel=1e-5)
    has_cost = [entry["cost"] is not None for entry in answer["allocated"]]
    assert all(has_cost) == (objective == "cost")


def test_limits_and_named_counts_of_workers_are_kept(
    client: TestClient, published: Services
) -> None:
    jobs = [
        job("few", max_workers=2),
        job("even", worker_counts=[2, 4]),
        job("many", min_workers=3),
    ]

    workers = workers_of(allocate(client, *jobs, capacity={"T4": 9}))

    assert workers["few"] <= 2
    assert workers["even"] in {2, 4}
    assert workers["many"] >= 3


def test_deadline_takes_gpus_from_others(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    free = allocate(client, job("a", 4000.0), job("b", 4000.0))
    ends = free["allocated"][0]["expected_completion_seconds"]["expected"]
    deadline = (clock() + timedelta(seconds=0.8 * ends)).isoformat()

    pressed = allocate(client, job("a", 4000.0, deadline=deadline), job("b", 4000.0))

    assert workers_of(free) == {"a": 4, "b": 4}
    assert workers_of(pressed)["a"] > 4
    assert pressed["allocated"][0]["deadline_probability"] >= 0.9


def test_jobs_that_get_nothing_say_why(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    soon = (clock() + timedelta(seconds=1)).isoformat()

    answer = allocate(
        client,
        job("fine"),
        job("late", deadline=soon),
        job("new", workload="nobody"),
        job("huge", min_workers=9),
        job("elsewhere", gpu_types=["H100"]),
    )

    assert list(workers_of(answer)) == ["fine"]
    assert reasons_of(answer) == {
        "late": "deadline",
        "new": "no_forecast",
        "huge": "too_large",
        "elsewhere": "no_such_gpu",
    }
    problem = next(entry["problem"] for entry in answer["left_out"] if entry["ref"] == "new")
    assert problem["code"] == "unknown_workload"


def test_running_job_keeps_its_gpus_where_a_restart_costs_more_than_it_brings(
    client: TestClient, published: Services
) -> None:
    running = job(
        "run", progress=0.9, current={"gpu_type": "t4", "workers": 4}, worker_counts=[2, 4, 8]
    )

    dear = allocate(client, {**running, "restart_s": 500})
    cheap = allocate(client, {**running, "restart_s": 0})

    assert [entry["change"] for entry in dear["allocated"]] == ["keep"]
    assert workers_of(dear) == {"run": 4}
    assert [entry["change"] for entry in cheap["allocated"]] == ["grow"]
    assert workers_of(cheap) == {"run": 8}


def test_running_job_keeps_a_number_of_gpus_that_even_ratios_leave_out(
    client: TestClient, published: Services
) -> None:
    """On 200 GPUs, not every number is tried for other jobs; 77 is one of those left out."""
    current = {"gpu_type": "T4", "workers": 77}

    running = job("a", progress=0.95, current=current, restart_s=3600)
    answer = allocate(client, running, capacity={"T4": 200})

    assert answer["allocated"][0]["change"] == "keep"
    assert workers_of(answer) == {"a": 77}


def test_change_of_a_running_job_is_named(client: TestClient, published: Services) -> None:
    def change(**changes: Any) -> str:
        current = {"gpu_type": "T4", "workers": 4, **changes}
        running = job("run", current=current, worker_counts=[4], batch_sizes=[64])
        answer = allocate(client, {**running, "restart_s": 1})
        named: str = answer["allocated"][0]["change"]
        return named

    assert change(workers=8) == "shrink"
    assert change(workers=2) == "grow"
    assert change(gpu_type="L4") == "change"
    assert change(batch_size=32) == "change"
    assert change(batch_size=64) == change() == "keep"


def test_progress_shortens_the_completion(client: TestClient, published: Services) -> None:
    whole = allocate(client, job("a", worker_counts=[4]))
    rest = allocate(client, job("a", worker_counts=[4], progress=0.75))

    seconds = [
        each["allocated"][0]["expected_completion_seconds"]["expected"] for each in (whole, rest)
    ]
    assert seconds[1] == pytest.approx(seconds[0] / 4, rel=1e-6)


def test_cost_needs_prices_in_one_currency_or_rates(
    client: TestClient, published: Services
) -> None:
    price = {
        "provider": "own",
        "gpu_type": "T4",
        "gpu_count": 1,
        "price_per_hour": "0.10",
        "purchase": "owned",
        "currency": "EUR",
        "valid_from": "2026-01-01T00:00:00Z",
        "source": "invoice",
    }
    assert client.post("/v1/prices", json=price).is_success

    capacity = {"T4": 2, "L4": 2}
    unpriced = allocate(
        client, job("a"), objective="cost", pricing={"provider": "own"}, capacity={"L4": 2}
    )
    mixed = send(client, job("a"), objective="cost", capacity=capacity)
    owned = allocate(client, job("a"), objective="cost", capacity={"T4": 2})

    assert reasons_of(unpriced) == {"a": "price_unknown"}
    assert mixed.status_code == 422
    assert "several currencies: EUR, USD" in mixed.json()["detail"]
    assert owned["allocated"][0]["currency"] == "EUR"

    rate = {"from_currency": "EUR", "to_currency": "USD", "rate": "2", "source": "a bank"}
    rated = client.post("/v1/exchange-rates", json={**rate, "valid_from": "2026-01-01"})
    converted = allocate(client, job("a"), objective="cost", capacity=capacity)
    in_dollars = allocate(client, job("a"), objective="cost", capacity={"T4": 2})

    assert rated.status_code == 201
    assert converted["allocated"][0]["currency"] == "USD"
    assert float(in_dollars["allocated"][0]["cost"]) == pytest.approx(
        2 * float(owned["allocated"][0]["cost"]), rel=0.02
    )


def test_cost_below_a_cent_is_not_shown_as_nothing(client: TestClient, published: Services) -> None:
    pricing = {"price_per_hour": "0.0036"}

    answer = allocate(client, job("a"), objective="cost", pricing=pricing, capacity={"T4": 1})

    (placed,) = answer["allocated"]
    expected = placed["expected_completion_seconds"]["expected"] * 1e-6
    assert float(placed["cost"]) == pytest.approx(expected, rel=0.01)


def test_cpu_clusters_share_workers_without_a_type(client: TestClient, services: Services) -> None:
    runs = [
        make_json_run(
            workload="spark",
            duration_seconds=20.0 + 1000.0 / workers,
            configuration={"workers": workers},
            work={"dataset_size": 1000},
        )
        for workers in (1, 2, 4, 8)
    ]
    assert post_json(client, runs).is_success
    fit(services, "spark")

    answer = allocate(
        client, job("etl", 1000.0, workload="spark", parameters={}), capacity={"any": 6}
    )

    assert workers_of(answer) == {"etl": 6}


def test_larger_batches_pay_only_as_far_as_samples_are_not_wasted(
    client: TestClient, services: Services
) -> None:
    runs = [
        make_json_run(
            workload="elastic",
            duration_seconds=10.0 + 1e4 / workers / batch**0.5,
            configuration={"gpu_type": "T4", "workers": workers},
            work={"dataset_size": 1000, "batch_size": batch},
        )
        for workers in (1, 2, 4)
        for batch in (64, 256, 1024)
    ]
    assert post_json(client, runs).is_success
    fit(services, "elastic")
    elastic = job(
        "a",
        workload="elastic",
        parameters={},
        work={"dataset_size": 1000, "batch_size": 64},
        batch_sizes=[64, 256, 1024],
        worker_counts=[4],
    )

    free = allocate(client, elastic)
    noisy = allocate(client, {**elastic, "gradient_noise_scale": 50})

    assert free["allocated"][0]["batch_size"] == 1024
    assert noisy["allocated"][0]["batch_size"] == 64


def test_more_options_than_can_be_forecast_are_refused(
    client: TestClient, published: Services
) -> None:
    counts = list(range(1, 1001))
    batches = [float(size) for size in range(1, 101)]
    jobs = [job(f"j{n}", worker_counts=counts, batch_sizes=batches) for n in range(3)]

    answer = send(client, *jobs, capacity={"T4": 1000})

    assert answer.status_code == 422
    assert "options" in answer.json()["detail"]


@pytest.mark.parametrize(
    "changes",
    [
        {"jobs": [job("a", min_workers=4, max_workers=2)]},
        {"jobs": [job("a"), job("a")]},
        {"capacity": {"T4": 16_000, "L4": 16_000}},
        {"capacity": {}},
        {"jobs": [job("a", gpu_types=[])]},
        {"jobs": [job("a", worker_counts=[])]},
    ],
)
def test_contradictions_are_refused(
    client: TestClient, published: Services, changes: dict[str, Any]
) -> None:
    body = {"capacity": {"T4": 8}, "jobs": [job("a")], **changes}

    answer = client.post("/v1/schedules:allocate", json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_table_reads_well(client: TestClient, published: Services, clock: FakeClock) -> None:
    body = {
        "capacity": {"T4": 8},
        "objective": "cost",
        "jobs": [
            job("nightly", 4000.0, deadline=(clock() + timedelta(days=1)).isoformat()),
            job("trial", 1000.0),
            job("new", workload="nobody"),
        ],
    }

    answer = client.post("/v1/schedules:allocate", json=body, headers={"Accept": "text/plain"})
    empty = client.post(
        "/v1/schedules:allocate",
        json={"capacity": {"T4": 8}, "jobs": []},
        headers={"Accept": "text/plain"},
    )

    lines = answer.text.splitlines()
    assert lines[0].startswith("2 jobs on ")
    assert re.fullmatch(r"Expected cost: [\d.]+ USD; no other allocation is better\.", lines[1])
    assert lines[3].split()[:4] == ["ref", "GPU", "workers", "batch"]
    assert lines[-1].startswith("new gets nothing: it cannot be forecast (There is no workload")
    assert empty.text == "0 jobs on 0 of 8 x T4.\n"


@pytest.mark.parametrize(
    ("gap", "said"),
    [(0.0125, "another could be better by at most 1.25%"), (None, "is not known")],
)
def test_answer_that_is_not_proven_says_by_how_much_it_could_be_better(
    gap: float | None, said: str
) -> None:
    document = {
        "objective": "makespan",
        "objective_value": 7200.0,
        "exact": False,
        "gap": gap,
        "capacity": {"T4": 8},
        "used": {"T4": 6},
        "allocated": [],
        "left_out": [],
        "left_out_types": [],
    }

    text = allocation_text(document, 0.9)

    assert said in text


@pytest.mark.parametrize("name", ["Tesla T4", "NVIDIA T4", "t4"])
def test_a_gpu_is_one_type_in_every_spelling(
    client: TestClient, published: Services, name: str
) -> None:
    plain = allocate(client, job("a", gpu_types=["T4"]))["allocated"]
    current = {"gpu_type": name, "workers": plain[0]["workers"]}

    named = allocate(client, job("a", gpu_types=[name]))["allocated"]
    running = allocate(client, job("a", current=current, restart_s=60))["allocated"]
    refused = send(client, job("a"), capacity={"T4": 8, name: 8})

    assert named == plain
    assert [each["change"] for each in running] == ["keep"]
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
