"""Intervals of profiling plans: those of the forecasts now, and narrowed on both sides after."""

from math import log
from statistics import NormalDist

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.api.test_profiling import TARGET, ask
from tests.support.regressors import fit, publish_regressor
from tests.support.uploads import make_json_run, post_json


def test_target_now_is_its_forecast_and_the_expected_interval_lies_inside(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services)
    plan = ask(client)

    forecast = client.post("/v1/forecasts", json={"workload": "fitted", **TARGET}).json()
    now, expected = plan["targets"][0]["now"], plan["targets"][0]["expected"]
    band = forecast["duration_seconds"]
    assert [now["median"], now["lower"], now["upper"]] == pytest.approx(
        [band["median"], band["lower"], band["upper"]], rel=1e-5
    )
    assert now["lower"] < expected["lower"] < expected["upper"] < now["upper"]


def test_interval_that_reaches_further_up_than_down_is_narrowed_on_both_sides(
    client: TestClient, services: Services
) -> None:
    runs = [
        make_json_run(
            workload="batches",
            configuration={"workers": workers},
            work={"dataset_size": 1e6, "batch_size": batch},
            duration_seconds=20 + 1e3 * (1 + 300 / batch) / workers,
        )
        for batch in (2048, 4096, 8192)
        for workers in (1, 2, 4, 8)
    ]
    assert post_json(client, runs).status_code == 201
    fit(services, "batches")
    small = {"configuration": {"workers": 4}, "work": {"dataset_size": 1e6, "batch_size": 64}}

    (target,) = ask(client, "batches", target=small)["targets"]

    now, expected = target["now"], target["expected"]
    assert now["upper"] / now["median"] > 1.5 * now["median"] / now["lower"]
    assert now["lower"] < expected["lower"] < expected["upper"] < now["upper"]
    for band, width in ((now, target["width"]), (expected, target["expected_width"])):
        assert (band["upper"] - band["lower"]) / band["median"] == pytest.approx(width, rel=1e-3)


def test_intervals_before_the_first_fit_hold_the_confidence_that_is_asked_for(
    client: TestClient,
) -> None:
    run = make_json_run(workload="cold", configuration={"gpu_type": "T4", "workers": 2})
    assert post_json(client, [run]).status_code == 201

    bands = [
        ask(client, "cold", confidence=confidence)["targets"][0]["now"] for confidence in (0.5, 0.9)
    ]

    deviations = [log(band["upper"] / band["median"]) for band in bands]
    quantiles = [NormalDist().inv_cdf(probability) for probability in (0.75, 0.95)]
    assert deviations[0] / deviations[1] == pytest.approx(quantiles[0] / quantiles[1], rel=1e-3)
    assert [log(band["median"] / band["lower"]) for band in bands] == pytest.approx(deviations)
