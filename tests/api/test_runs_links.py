"""A run that names a forecast which nobody recorded is stored, and its sender told."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.identifiers import new_identifier
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.realised import QUESTION
from tests.support.regressors import publish_regressor
from tests.support.uploads import make_json_run, post_csv, post_json

pytestmark = pytest.mark.lengthy


def _record(client: TestClient, services: Services) -> str:
    publish_regressor(services)
    forecast_id: str = client.post("/v1/forecasts", json=QUESTION).json()["forecast_id"]
    services.forecasts.recorded(DEFAULT_PROJECT, forecast_id)
    return forecast_id


def _run(forecast_id: str | None, workload: str = "fitted") -> dict[str, Any]:
    return make_json_run(workload=workload, forecast_id=forecast_id)


def test_runs_of_recorded_forecasts_or_of_none_bring_no_warning(
    client: TestClient, services: Services
) -> None:
    forecast_id = _record(client, services)

    answer = post_json(client, [_run(forecast_id), _run(None), _run(forecast_id)])

    assert answer.json()["warnings"] == []


def test_runs_of_forecasts_that_nobody_recorded_are_named(
    client: TestClient, services: Services
) -> None:
    forecast_id = _record(client, services)
    runs = [_run(forecast_id), _run("fc_9x2"), _run(forecast_id, "other"), _run(None)]

    for query in ({"dry_run": "true"}, {}):
        [warning] = post_json(client, runs, **query).json()["warnings"]

        assert (warning["code"], warning["count"]) == ("unknown_forecast", 2)
        assert warning["rows"] == [2, 3]


def test_forecast_of_this_moment_is_not_called_unknown(
    client: TestClient, clock: FakeClock
) -> None:
    forecast_id = new_identifier("fc", now=clock())

    of_this_moment = post_json(client, [_run(forecast_id)]).json()["warnings"]
    clock.advance(60.0)
    of_a_minute_ago = post_json(client, [_run(forecast_id)]).json()["warnings"]

    assert of_this_moment == []
    assert [each["code"] for each in of_a_minute_ago] == ["unknown_forecast"]


def test_forecasts_of_another_project_are_unknown(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    forecast_id = _record(client, services)
    clock.advance(60.0)
    _, token = services.access.create_key("team", [Scope.ADMIN], project="team")
    headers = {"Authorization": f"Bearer {token}"}

    answer = client.post("/v1/runs", json=_run(forecast_id), headers=headers)

    assert [warning["code"] for warning in answer.json()["warnings"]] == ["unknown_forecast"]


def test_bad_rows_that_are_skipped_are_not_named_twice(client: TestClient) -> None:
    answer = post_csv(
        client,
        "workload,duration_seconds,forecast_id",
        "a,-5,fc_1",
        "a,5,fc_1",
        on_invalid="skip",
    )

    [warning] = answer.json()["warnings"]
    assert warning["rows"] == [2]


def test_forecast_id_that_no_forecast_can_have_is_a_fault_of_its_row(client: TestClient) -> None:
    answer = post_json(client, [_run("fc_9x2"), _run("fc_" + "9" * 38)])

    assert answer.status_code == 422
    [fault] = answer.json()["errors"]
    assert (fault["row"], fault["field"]) == (2, "forecast_id")
    assert "40 characters" in fault["message"]
