"""Runs tell how many samples their target took; forecasts say what the target takes elsewhere."""

from math import copysign, hypot, log
from statistics import NormalDist
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.domain.fits import FitRequest
from app.services.wiring import Services
from tests.support.regressors import fit
from tests.support.uploads import JsonRun, faults, list_runs, make_json_run, post_csv, post_json

pytestmark = pytest.mark.lengthy

NOISE_SCALE, SIZE = 500.0, 10_000.0


def needed(batch: float) -> float:
    """Return the samples of the known law."""
    return 2e5 * (1 + batch / NOISE_SCALE)


def measured(workload: str = "resnet50") -> list[JsonRun]:
    """Return an epoch's duration on 1 to 8 workers, each with what its target took."""
    return [
        make_json_run(
            workload=workload,
            duration_seconds=2 + SIZE / workers * (0.002 + 0.2 / batch),
            configuration={"gpu_type": "T4", "workers": workers},
            work={"dataset_size": SIZE, "epochs": 1, "batch_size": batch},
            resources={"samples_to_target": needed(batch)},
        )
        for workers in (1, 2, 4, 8)
        for batch in (64, 256, 1024)
    ]


@pytest.fixture
def learned(client: TestClient, services: Services) -> TestClient:
    """Return a client of a service that has fitted such runs."""
    post_json(client, measured())
    fit(services, "resnet50", FitRequest(regressors=("scaling_law",)))
    return client


def ask(client: TestClient, batch: float, workers: int = 4, **more: Any) -> dict[str, Any]:
    question = {
        "workload": "resnet50",
        "configuration": {"gpu_type": "T4", "workers": workers},
        "work": {"dataset_size": SIZE, "epochs": 1, "batch_size": batch},
        **more,
    }
    answer = client.post("/v1/forecasts", json=question)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_target_takes_more_epochs_with_a_larger_batch(learned: TestClient) -> None:
    small, large = ask(learned, 64)["to_target"], ask(learned, 1024)["to_target"]

    for batch, target in ((64, small), (1024, large)):
        assert target["samples"]["median"] == pytest.approx(needed(batch), rel=0.1)
        assert target["epochs"]["median"] == pytest.approx(needed(batch) / SIZE, rel=0.1)
        band = target["duration_seconds"]
        assert band["lower"] < band["median"] < band["upper"]
    assert large["epochs"]["median"] > 2 * small["epochs"]["median"]


def test_time_to_the_target_is_the_time_of_its_epochs(learned: TestClient) -> None:
    work = {"dataset_size": SIZE, "epochs": 3, "batch_size": 256}

    answer = ask(learned, 256, work=work, confidence=0.8, pricing={"price_per_hour": "36"})

    target, asked = answer["to_target"], answer["duration_seconds"]
    reached = target["duration_seconds"]
    ratio = reached["median"] / asked["median"]
    assert ratio == pytest.approx(target["epochs"]["median"] / 3, rel=1e-5)
    assert float(target["cost"]["median"]) == pytest.approx(reached["median"] / 25, abs=0.01)
    for side in ("lower", "upper"):
        halves = [log(band[side] / band["median"]) for band in (asked, target["samples"])]
        width = log(reached[side] / reached["median"])
        assert width == pytest.approx(copysign(hypot(*halves), halves[0]), rel=1e-4)
        assert target["epochs"][side] == pytest.approx(target["samples"][side] / SIZE)


def test_samples_to_the_target_lie_evenly_around_their_median(learned: TestClient) -> None:
    sure, unsure = ask(learned, 256), ask(learned, 256, confidence=0.5)

    widths = []
    for answer, confidence in ((sure, 0.9), (unsure, 0.5)):
        samples = answer["to_target"]["samples"]
        assert samples["confidence"] == confidence
        assert samples["lower"] * samples["upper"] == pytest.approx(samples["median"] ** 2)
        widths.append(log(samples["upper"] / samples["median"]))
    quantiles = NormalDist().inv_cdf(0.95), NormalDist().inv_cdf(0.75)
    assert widths[0] / widths[1] == pytest.approx(quantiles[0] / quantiles[1], rel=1e-3)


def test_more_workers_reach_the_target_sooner(learned: TestClient) -> None:
    seconds = [
        ask(learned, 512, workers)["to_target"]["duration_seconds"]["median"]
        for workers in (1, 2, 4, 8)
    ]

    assert seconds == sorted(seconds, reverse=True)


def test_questions_that_leave_the_work_open_have_no_target(learned: TestClient) -> None:
    question = {"workload": "resnet50", "work": {"dataset_size": SIZE, "epochs": 1}}

    answer = learned.post("/v1/forecasts", json=question).json()

    assert answer["to_target"] is None


def test_text_tells_what_the_target_takes(learned: TestClient) -> None:
    path = f"/v1/workloads/resnet50/forecast?gpu_type=T4&workers=4&dataset_size={SIZE}&epochs=1"

    text = learned.get(f"{path}&batch_size=256", headers={"Accept": "text/plain"}).text

    assert "To the target it takes about 3" in text
    assert " epochs: " in text


def test_regressor_shows_the_noise_scale_it_rests_on(learned: TestClient) -> None:
    regressor = learned.get("/v1/workloads/resnet50/regressors/1").json()

    found = regressor["evidence"]["convergence"]
    assert found["runs"] == 12
    assert (found["smallest_batch"], found["largest_batch"]) == (64, 1024)
    assert found["noise_scale_lower"] < NOISE_SCALE < found["noise_scale_upper"]


def test_epochs_to_target_count_by_their_data_set(client: TestClient, services: Services) -> None:
    runs = measured()
    for run in runs:
        run["epochs_to_target"] = run.pop("resources")["samples_to_target"] / SIZE
    post_json(client, runs)
    fit(services, "resnet50")

    answer = client.get("/v1/workloads/resnet50/regressors/1").json()["evidence"]["convergence"]

    assert answer["runs"] == 12
    assert answer["noise_scale"] == pytest.approx(NOISE_SCALE, rel=0.3)


def test_runs_without_a_target_leave_it_out(client: TestClient, services: Services) -> None:
    runs = measured()
    for run in runs:
        del run["resources"]
    post_json(client, runs)
    fit(services, "resnet50")

    assert ask(client, 256)["to_target"] is None
    regressor = client.get("/v1/workloads/resnet50/regressors/1").json()
    assert regressor["evidence"]["convergence"] is None


def test_short_names_are_columns_and_fields_too(client: TestClient) -> None:
    created = post_csv(
        client, "workload,duration_seconds,batch_size,samples_to_target", "resnet50,9,64,120000"
    )
    json_run = {"workload": "resnet50", "duration_seconds": 9.5, "samples_to_target": 130_000}

    assert created.status_code == 201, created.text
    assert post_json(client, json_run).status_code == 201
    stored = [run["resources"]["samples_to_target"] for run in list_runs(client)]
    assert sorted(stored) == [120_000, 130_000]


@pytest.mark.parametrize("value", [0, -1, "many"])
def test_targets_are_positive_numbers(client: TestClient, value: object) -> None:
    answer = post_json(client, make_json_run(samples_to_target=value))

    assert answer.status_code == 422
    assert faults(answer)[0]["field"] == "resource.samples_to_target"


def test_elastic_jobs_choose_the_batch_by_what_the_runs_showed(learned: TestClient) -> None:
    job = {
        "ref": "a",
        "workload": "resnet50",
        "work": {"dataset_size": SIZE, "epochs": 20, "batch_size": 64},
        "batch_sizes": [64, 1024],
        "worker_counts": [4],
    }

    def batch(**more: object) -> float:
        question = {"capacity": {"T4": 4}, "jobs": [{**job, **more}], "objective": "makespan"}
        answer = learned.post("/v1/schedules:allocate", json=question)
        assert answer.status_code == 200, answer.text
        chosen: float = answer.json()["allocated"][0]["batch_size"]
        return chosen

    assert batch() == 64
    assert batch(gradient_noise_scale=1e6) == 1024


def test_elastic_job_without_a_batch_size_needs_the_same_samples_at_any_noise_scale(
    learned: TestClient,
) -> None:
    job = {
        "ref": "a",
        "workload": "resnet50",
        "work": {"dataset_size": SIZE, "epochs": 20},
        "worker_counts": [4],
    }

    def completion(**more: object) -> object:
        question = {"capacity": {"T4": 4}, "jobs": [{**job, **more}], "objective": "makespan"}
        answer = learned.post("/v1/schedules:allocate", json=question)
        assert answer.status_code == 200, answer.text
        return answer.json()["allocated"][0]["expected_completion_seconds"]

    assert completion(gradient_noise_scale=50) == completion()
