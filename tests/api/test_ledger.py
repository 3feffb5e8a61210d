"""The ledger of recorded forecasts, with the runs that refer to them."""

import pytest
from fastapi.testclient import TestClient

from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.forecasts import ForecastStore
from tests.support.clock import FakeClock
from tests.support.overtaking import after_first
from tests.support.realised import QUESTION, ask
from tests.support.regressors import publish_regressor


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def test_recorded_forecast_is_read_back_with_its_runs(
    client: TestClient, published: Services
) -> None:
    forecast = ask(client)
    run = {
        "workload": "fitted",
        "duration_seconds": 2 * forecast["duration_seconds"]["median"],
        "gpu_type": "T4",
        "workers": 4,
        "dataset_size": 1000,
        "param.precision": "fp16",
        "forecast_id": forecast["forecast_id"],
    }
    failed = {**run, "status": "failed"}
    assert client.post("/v1/runs", json=[run, failed]).status_code == 201

    entry = client.get(f"/v1/forecasts/{forecast['forecast_id']}").json()

    assert entry["request"] == QUESTION
    assert entry["forecast"] == forecast
    assert entry["regressor_version"] == 1
    good, bad = entry["runs"]
    assert good["ratio"] == pytest.approx(2.0)
    assert good["error"] == pytest.approx(-0.5)
    assert good["inside"] is False
    assert (bad["status"], bad["ratio"], bad["inside"]) == ("failed", None, None)
    assert good["differs_in"] == bad["differs_in"] == []


def test_run_of_something_else_is_no_error_of_the_forecast_that_it_names(
    client: TestClient, published: Services
) -> None:
    forecast = ask(client)
    run = {
        "workload": "fitted",
        "duration_seconds": forecast["duration_seconds"]["median"],
        "gpu_type": "T4",
        "nodes": 1,
        "workers": 2,
        "dataset_size": 1000,
        "param.precision": "fp32",
        "forecast_id": forecast["forecast_id"],
    }
    assert client.post("/v1/runs", json=[run]).status_code == 201

    entry = client.get(f"/v1/forecasts/{forecast['forecast_id']}").json()

    [linked] = entry["runs"]
    assert linked["differs_in"] == ["workers", "param.precision"]
    assert (linked["ratio"], linked["error"], linked["inside"]) == (None, None, None)


@pytest.mark.parametrize(
    ("ran_on", "differences"),
    [("V100-16GB", []), ("V100", []), ("V100-16GB-PCIe", ["gpu_type"])],
)
def test_run_on_another_board_is_something_else_than_was_asked(
    ran_on: str, differences: list[str], client: TestClient, published: Services
) -> None:
    forecast = ask(client, configuration={"gpu_type": "V100-16GB", "workers": 4})
    run = {
        **QUESTION,
        "configuration": {"gpu_type": ran_on, "workers": 4},
        "duration_seconds": 60,
        "forecast_id": forecast["forecast_id"],
    }
    assert client.post("/v1/runs", json=run).status_code == 201

    [linked] = client.get(f"/v1/forecasts/{forecast['forecast_id']}").json()["runs"]

    assert linked["differs_in"] == differences


@pytest.mark.parametrize(("nodes", "differences"), [({}, []), ({"nodes": 2}, ["nodes"])])
def test_run_on_other_nodes_is_something_else_where_nodes_were_asked(
    nodes: dict[str, int], differences: list[str], client: TestClient, published: Services
) -> None:
    configuration = {"gpu_type": "T4", "workers": 4}
    ask(client)
    forecast = ask(client, configuration={**configuration, **nodes})
    run = {
        **QUESTION,
        "configuration": {**configuration, "nodes": 1},
        "duration_seconds": 60,
        "forecast_id": forecast["forecast_id"],
    }
    assert client.post("/v1/runs", json=run).status_code == 201

    [linked] = client.get(f"/v1/forecasts/{forecast['forecast_id']}").json()["runs"]

    assert linked["differs_in"] == differences


def test_forecast_that_is_not_recorded_has_no_identifier(
    client: TestClient, published: Services
) -> None:
    assert ask(client, record=False)["forecast_id"] is None


@pytest.mark.parametrize("name", ["fc_nothing", "fc_01m6bfp5g01xrgzcr1whg1j2s", "x"])
def test_unknown_forecast_is_not_found(client: TestClient, name: str) -> None:
    answer = client.get(f"/v1/forecasts/{name}")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_forecast_that_another_process_has_just_made_is_found(
    client: TestClient,
    published: Services,
    settings: Settings,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is written when this process has looked for it once."""
    other = Services(ServiceContext(published.context.database, settings, clock))
    with TestClient(build_app(settings, other)) as asked:
        forecast = ask(asked)
        after_first(monkeypatch, ForecastStore, "workloads_of", other.ledger.flush)

        answer = client.get(f"/v1/forecasts/{forecast['forecast_id']}")

    assert answer.status_code == 200
    assert answer.json()["forecast"] == forecast


def test_run_of_another_workload_is_no_outcome(client: TestClient, published: Services) -> None:
    forecast = ask(client)
    published.ledger.flush()
    run = {"workload": "other", "duration_seconds": 7, "forecast_id": forecast["forecast_id"]}

    assert client.post("/v1/runs", json=run).status_code == 201
    assert client.get(f"/v1/forecasts/{forecast['forecast_id']}").json()["runs"] == []
