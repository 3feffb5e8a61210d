"""Were the forecasts right: the ledger against a direct computation, and the drift alarm."""

from datetime import timedelta
from typing import Any, NoReturn

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.domain.availability_errors import StorageUnavailableError
from app.domain.identifiers import Slug
from app.services.serving import RegressorCache
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.queries import recorded_queries
from tests.support.regressors import QUICK, fit, law_seconds, publish_regressor

pytestmark = pytest.mark.lengthy

POINTS = [(workers, size) for size in (1000.0, 2000.0, 4000.0) for workers in (1, 2, 4, 8)]


def scenario(workers: int, size: float) -> dict[str, Any]:
    return {
        "workload": "fitted",
        "configuration": {"gpu_type": "T4", "workers": workers},
        "work": {"dataset_size": size},
        "parameters": {"precision": "fp16"},
    }


def run(workers: int, size: float, seconds: float, **fields: object) -> dict[str, Any]:
    return scenario(workers, size) | {"duration_seconds": seconds} | fields


def fall_silent(*_arguments: object, **_named: object) -> NoReturn:
    raise StorageUnavailableError("gone")


def upload(client: TestClient, runs: list[dict[str, Any]]) -> None:
    assert client.post("/v1/runs", json=runs).status_code == 201


def noisy_runs(rng: np.random.Generator, count: int, factor: float = 1.0) -> list[dict[str, Any]]:
    points = [POINTS[row] for row in rng.integers(0, len(POINTS), count)]
    return [
        run(workers, size, law_seconds(workers, size) * factor * float(np.exp(noise)))
        for (workers, size), noise in zip(points, rng.normal(0, 0.05, count), strict=True)
    ]


def accuracy(client: TestClient, **query: str) -> dict[str, Any]:
    answer = client.get("/v1/workloads/fitted/accuracy", params=query)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_figures_equal_a_direct_computation_over_the_same_runs(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    clock.advance(seconds=60)
    rng = np.random.default_rng(1)
    forecasts, seconds = [], []
    for workers, size in POINTS:
        answer = client.post("/v1/forecasts", json=scenario(workers, size)).json()
        observed = law_seconds(workers, size) * float(np.exp(rng.normal(0, 0.2)))
        clock.advance(seconds=60)
        upload(client, [run(workers, size, observed, forecast_id=answer["forecast_id"])])
        forecasts.append(answer["duration_seconds"])
        seconds.append(observed)

    measured = accuracy(client)

    errors = [
        (each["median"] - observed) / observed
        for each, observed in zip(forecasts, seconds, strict=True)
    ]
    inside = [
        each["lower"] <= observed <= each["upper"]
        for each, observed in zip(forecasts, seconds, strict=True)
    ]
    assert measured["overall"]["runs"] == len(POINTS)
    assert measured["overall"]["mape"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-4)
    assert measured["overall"]["bias"] == pytest.approx(np.mean(errors), rel=1e-4)
    assert measured["overall"]["coverage"]["0.9"] == pytest.approx(np.mean(inside), abs=1e-6)
    assert list(measured["by_source"]) == ["named"]
    coverage = list(measured["overall"]["coverage"].values())
    assert coverage == sorted(coverage)


def test_runs_like_a_recorded_forecast_are_held_against_it(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    client.post("/v1/forecasts", json=scenario(4, 2000.0))
    clock.advance(seconds=60)
    upload(client, [run(4, 2000.0, 300.0), run(2, 2000.0, 500.0)])

    measured = accuracy(client)

    assert {name: each["runs"] for name, each in measured["by_source"].items()} == {
        "matched": 1,
        "standing": 1,
    }


def test_questions_are_held_against_the_runs_that_arrive_next(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    asked = client.post("/v1/forecasts", json=scenario(4, 2000.0)).json()
    slower = 1.5 * law_seconds(4, 2000.0)
    for _ in range(3):
        clock.advance(seconds=60)
        upload(client, [run(4, 2000.0, slower), run(4, 2000.0, slower)])
        fit(services, "fitted", QUICK)

    by_source = accuracy(client)["by_source"]
    clock.advance(seconds=60)
    upload(client, [run(4, 2000.0, slower, forecast_id=asked["forecast_id"])])
    named_only = accuracy(client, window="90s")["by_source"]

    assert {name: each["runs"] for name, each in by_source.items()} == {
        "matched": 2,
        "standing": 4,
    }
    assert by_source["standing"]["mape"] < by_source["matched"]["mape"]
    assert {name: each["runs"] for name, each in named_only.items()} == {
        "named": 1,
        "standing": 2,
    }


def test_runs_are_held_against_the_version_of_their_time(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    before = accuracy(client)
    clock.advance(seconds=60)
    upload(client, [run(4, 2000.0, 10 * law_seconds(4, 2000.0)) for _ in range(20)])
    early = accuracy(client)
    clock.advance(seconds=60)
    fit(services, "fitted", QUICK)

    late = accuracy(client)

    assert before["overall"] is None
    assert before["not_judged"] == len(POINTS)
    assert early["overall"]["mape"] == pytest.approx(0.9, abs=0.05)
    assert late["overall"] == early["overall"]


def test_the_range_divides_the_runs(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    clock.advance(seconds=60)
    upload(client, [run(4, 2000.0, 300.0), run(64, 2000.0, 60.0), run(64, 2000.0, 61.0)])

    measured = accuracy(client)

    assert measured["within_range"]["runs"] == 1
    assert measured["outside_range"]["runs"] == 2


def test_excluded_failed_and_old_runs_are_left_out(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    clock.advance(seconds=60)
    upload(client, [run(4, 2000.0, 300.0, external_id="old")])
    clock.advance(seconds=7200)
    upload(client, [run(4, 2000.0, 300.0, external_id=name) for name in ("kept", "dropped")])
    upload(client, [run(4, 2000.0, 300.0, status="failed")])
    runs = client.get("/v1/workloads/fitted/runs").json()["runs"]
    dropped = next(each["run_id"] for each in runs if each["external_id"] == "dropped")
    client.patch(f"/v1/runs/{dropped}", json={"excluded": True, "reason": "another job ran"})

    assert accuracy(client, window="1h")["overall"]["runs"] == 1
    assert accuracy(client, window="3h")["overall"]["runs"] == 2


def test_a_shift_raises_the_alarm_within_twenty_runs(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    rng = np.random.default_rng(5)
    clock.advance(seconds=60)
    upload(client, noisy_runs(rng, 100))
    quiet = accuracy(client)["drift"]
    clock.advance(seconds=60)
    upload(client, noisy_runs(rng, 20, factor=1.4))

    measured = accuracy(client)["drift"]

    assert not quiet["alarm"]
    assert measured["alarm"]
    assert measured["direction"] == "slower"
    assert measured["change_ratio"] == pytest.approx(1.4, rel=0.1)
    assert measured["since"].startswith(clock.instant.isoformat()[:19])


def test_a_fit_after_the_alarm_takes_the_new_level_as_normal(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    rng = np.random.default_rng(6)
    clock.advance(seconds=60)
    upload(client, noisy_runs(rng, 300, factor=3.0))
    alarmed = accuracy(client)["drift"]
    clock.advance(seconds=60)
    fit(services, "fitted", QUICK)
    fresh = accuracy(client)["drift"]
    clock.advance(seconds=60)
    upload(client, noisy_runs(rng, 20, factor=3.0))

    assert alarmed["alarm"]
    assert fresh is None
    assert accuracy(client)["drift"]["regressor_version"] == 2


def test_it_reads_well_as_text(client: TestClient, services: Services, clock: FakeClock) -> None:
    publish_regressor(services)
    empty = client.get("/v1/workloads/fitted/accuracy", headers={"accept": "text/plain"}).text
    rng = np.random.default_rng(7)
    clock.advance(seconds=60)
    upload(client, noisy_runs(rng, 60))
    calm = client.get("/v1/workloads/fitted/accuracy", headers={"accept": "text/plain"}).text
    clock.advance(seconds=60)
    upload(client, noisy_runs(rng, 20, factor=1.4))

    query = {"window": "36h"}
    answer = client.get(
        "/v1/workloads/fitted/accuracy", params=query, headers={"accept": "text/plain"}
    )
    text = answer.text

    assert "runs of the last 1 d 12 h" in text
    assert "could be compared with an earlier forecast (12 not judged)" in empty
    assert "No drift" in calm
    assert "inside 90%" in calm
    assert "% slower since" in text


@pytest.mark.parametrize(
    "window", ["", "90", "d", "0d", "9999999d", "999999999w", "-3d", "1y", "3m", "3M"]
)
def test_a_window_that_is_no_span_is_refused(
    client: TestClient, services: Services, window: str
) -> None:
    publish_regressor(services)

    answer = client.get("/v1/workloads/fitted/accuracy", params={"window": window})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "window"
    assert "90d" in answer.json()["errors"][0]["remedy"]


def test_an_unknown_workload_is_named(client: TestClient) -> None:
    answer = client.get("/v1/workloads/none/accuracy")

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_workload")


def test_what_is_read_does_not_grow_with_the_versions(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    for size in (1000.0, 2000.0, 4000.0):
        clock.advance(seconds=60)
        upload(client, [run(4, size, law_seconds(4, size))])
        clock.advance(seconds=60)
        fit(services, "fitted", QUICK)
    clock.advance(seconds=60)
    upload(client, [run(4, 2000.0, law_seconds(4, 2000.0))])
    cold = Services(services.context)

    with recorded_queries(services.context.database) as queries:
        measured = cold.accuracy.accuracy(DEFAULT_PROJECT, Slug("fitted"), timedelta(days=1))

    assert measured.overall is not None
    assert measured.overall.runs == 4
    # The runs, what they measured of power, their forecasts; nothing for each version.
    assert sum("FROM run" in query for query in queries) == 2
    assert sum("FROM forecast" in query for query in queries) == 1
    # No run names machines whose GPUs prices tell.
    assert not any("FROM price" in query for query in queries)


def test_a_version_that_cannot_be_read_judges_nothing(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    clock.advance(seconds=60)
    upload(client, [run(4, 2000.0, 300.0)])
    with services.context.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE regressor SET artifact_sha256 = 'altered'")
    cold = Services(services.context)

    measured = cold.accuracy.accuracy(DEFAULT_PROJECT, Slug("fitted"), timedelta(days=1))

    assert (measured.overall, measured.drift, measured.not_judged) == (None, None, len(POINTS) + 1)


def test_a_database_that_falls_silent_is_told_instead_of_runs_that_are_not_judged(
    client: TestClient, services: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_regressor(services)
    clock.advance(seconds=60)
    upload(client, [run(4, 2000.0, 300.0)])
    monkeypatch.setattr(RegressorCache, "get", fall_silent)

    answer = client.get("/v1/workloads/fitted/accuracy")

    assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
