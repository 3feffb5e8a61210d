"""Energy and carbon through the door: what is known of power and grid, and its reasons."""

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.pricing.grid import STALE_FACTOR_AFTER
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import fit, publish_regressor

CSV = {"Content-Type": "text/csv"}


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def ask(client: TestClient, **changes: Any) -> dict[str, Any]:
    body = {
        "workload": "fitted",
        "configuration": {"gpu_type": "T4", "workers": 2},
        "work": {"dataset_size": 2000},
        "parameters": {"precision": "fp16"},
        "pricing": {"price_per_hour": "1.00"},
        **changes,
    }
    answer = client.post("/v1/forecasts", json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_design_power_is_an_upper_estimate_and_carbon_says_what_is_missing(
    client: TestClient, published: Services
) -> None:
    answer = ask(client)
    energy, seconds = answer["energy"], answer["duration_seconds"]["median"]

    assert energy["kilowatt_hours"] == pytest.approx(70 * 2 * seconds / 3.6e6, rel=1e-3)
    assert (energy["basis"], energy["watts_per_worker"]) == ("data_sheet", 70.0)
    assert energy["kg_co2e"] is None
    assert "Neither provider nor region" in energy["reason"]


def test_utilisation_and_building_scale_the_design_power(
    client: TestClient, published: Services
) -> None:
    whole = ask(client)["energy"]["kilowatt_hours"]

    energy = ask(client, energy={"utilization": 0.5, "power_usage_effectiveness": 1.2})["energy"]

    assert energy["kilowatt_hours"] == pytest.approx(0.6 * whole, rel=1e-3)
    assert energy["basis"] == "utilization"
    assert energy["power_usage_effectiveness"] == 1.2


def test_given_power_and_intensity_go_before_everything(
    client: TestClient, published: Services
) -> None:
    answer = ask(client, energy={"watts_per_worker": 100, "kg_co2e_per_kwh": 0.5})
    energy = answer["energy"]

    assert energy["basis"] == "given"
    assert energy["kg_co2e"] == pytest.approx(energy["kilowatt_hours"] / 2, rel=1e-3)
    assert energy["grid_factor"] is None
    assert energy["reason"] is None


def test_energy_of_unknown_hardware_is_unknown_and_says_what_to_give(
    client: TestClient, services: Services
) -> None:
    runs = [
        {"workload": "plain", "duration_seconds": 100.0 / workers, "workers": workers}
        for workers in (1, 2, 4)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "plain")
    question = {"workload": "plain", "configuration": {"workers": 2}, "work": {}, "parameters": {}}

    terms = {"kg_co2e_per_kwh": 0.4, "power_usage_effectiveness": 1.5}
    energy = ask(client, **question, energy=terms)["energy"]

    assert (energy["kilowatt_hours"], energy["kg_co2e"], energy["basis"]) == (None, None, None)
    assert energy["power_usage_effectiveness"] == 1.5
    assert "give energy.watts_per_worker" in energy["reason"]


def test_measured_energy_of_runs_goes_before_the_data_sheet(
    client: TestClient, services: Services
) -> None:
    runs = [
        {
            "workload": "metered",
            "duration_seconds": 100.0 / workers,
            "gpu_type": gpu,
            "workers": workers,
            "resources": resources,
        }
        for workers in (1, 2, 4)
        for gpu, resources in (("T4", {"energy_joules": 4000.0}), ("L4", {"gpu_utilization": 0.5}))
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "metered")
    question = {"workload": "metered", "work": {}, "parameters": {}}

    metered = ask(client, **question)["energy"]
    busy = ask(client, **question, configuration={"gpu_type": "L4"})["energy"]

    assert (metered["basis"], metered["watts_per_worker"]) == ("measured", 40.0)
    assert (busy["basis"], busy["watts_per_worker"]) == ("utilization", 36.0)


def test_built_in_factor_holds_where_its_provider_tells_it(
    client: TestClient, published: Services
) -> None:
    place = {"gpu_type": "T4", "workers": 2, "provider": "gcp", "region": "europe-west9"}

    energy = ask(client, configuration=place)["energy"]
    elsewhere = ask(client, configuration={**place, "region": "moon-1"})["energy"]

    assert energy["kg_co2e_per_kwh"] == 0.0163
    assert energy["kg_co2e"] == pytest.approx(energy["kilowatt_hours"] * 0.0163, rel=1e-2)
    assert "region-carbon-info" in energy["grid_factor"]["source"]
    assert elsewhere["kg_co2e"] is None
    assert "gcp moon-1" in elsewhere["reason"]


@pytest.mark.parametrize(
    ("of_configuration", "of_pricing", "factor"),
    [
        ({"region": "europe-west9"}, {}, 0.0163),
        ({"region": "elsewhere"}, {"region": "europe-west9"}, 0.0163),
        ({}, {"region": "lab"}, 0.05),
        ({}, {}, 0.05),
    ],
)
def test_region_of_the_question_goes_before_that_of_the_offer(
    client: TestClient,
    published: Services,
    of_configuration: dict[str, str],
    of_pricing: dict[str, str],
    factor: float,
) -> None:
    own = {"provider": "gcp", "region": "lab"}
    price = {**own, "gpu_type": "T4", "gpu_count": 1, "price_per_hour": "0.000001"}
    stored = client.post("/v1/prices", json=price)
    client.post("/v1/grid-factors", json={**own, "kg_co2e_per_kwh": "0.05"})

    answer = ask(
        client,
        configuration={"gpu_type": "T4", "workers": 2, **of_configuration},
        pricing={"provider": "gcp", **of_pricing},
    )

    assert stored.status_code == 201, stored.text
    assert answer["energy"]["kg_co2e_per_kwh"] == factor


def test_own_factor_that_names_most_of_the_place_counts(
    client: TestClient, published: Services
) -> None:
    body = (
        "provider,region,kg_co2e_per_kwh,valid_from,source\n"
        "gcp,,0.9,2026-01-01,all of it\n"
        "gcp,europe-west9,0.2,2026-01-01,ours\n"
        "gcp,europe-west9,0.3,2026-02-01,ours later\n"
    )
    created = client.post("/v1/grid-factors", content=body, headers=CSV)
    place = {"gpu_type": "T4", "provider": "gcp", "region": "europe-west9"}

    found = [
        ask(client, configuration={**place, **changes}, **more)["energy"]["kg_co2e_per_kwh"]
        for changes, more in (
            ({}, {}),
            ({"region": "moon-1"}, {}),
            ({}, {"pricing": {"price_per_hour": "1", "as_of": "2026-01-15"}}),
        )
    ]

    assert created.json()["created"] == 3
    assert found == [0.3, 0.9, 0.2]


@pytest.mark.parametrize(("valid_from", "is_warned"), [("2020-01-01", True), ("2026-01-01", False)])
def test_old_factor_is_applied_with_its_age(
    client: TestClient, published: Services, valid_from: str, *, is_warned: bool
) -> None:
    factor = {"region": "lab", "kg_co2e_per_kwh": "0.05", "source": "a contract"}
    stored = client.post("/v1/grid-factors", json={**factor, "valid_from": valid_from})

    answer = ask(client, pricing={"price_per_hour": "1.00", "region": "lab"})

    messages = {warning["code"]: warning["message"] for warning in answer["warnings"]}
    assert stored.status_code == 201
    assert answer["energy"]["kg_co2e"] is not None
    assert ("stale_grid_factor" in messages) is is_warned
    assert "a contract" in messages.get("stale_grid_factor", "a contract")


def test_factor_grows_old_with_the_day(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    an_hour_before = clock() - STALE_FACTOR_AFTER + timedelta(hours=1)
    factor = {"region": "lab", "kg_co2e_per_kwh": "0.05", "source": "a contract"}
    client.post("/v1/grid-factors", json={**factor, "valid_from": an_hour_before.isoformat()})

    def is_told(workers: int) -> bool:
        pricing = {"price_per_hour": "1.00", "region": "lab"}
        answer = ask(client, pricing=pricing, configuration={"gpu_type": "T4", "workers": workers})
        return "stale_grid_factor" in {warning["code"] for warning in answer["warnings"]}

    first = is_told(2)
    clock.advance(2 * 3600)
    on_the_same_day = is_told(2), is_told(4)
    clock.advance(24 * 3600)
    on_the_next = is_told(2), is_told(4)

    assert first is False
    assert on_the_same_day == (False, False)
    assert on_the_next == (True, True)


def test_factors_are_listed_exported_and_withdrawn(client: TestClient) -> None:
    body = {"provider": "lab", "kg_co2e_per_kwh": "0.05"}
    [stored] = client.post("/v1/grid-factors", json=body).json()["grid_factors"]
    exported = client.get("/v1/grid-factors", headers={"Accept": "text/csv"})
    built_in = client.get("/v1/grid-factors?origin=built_in").json()["grid_factors"]

    repeated = client.post("/v1/grid-factors", content=exported.content, headers=CSV)
    gone = client.delete(f"/v1/grid-factors/{stored['factor_id']}")
    missing = client.delete("/v1/grid-factors/grid_1")

    assert (repeated.status_code, gone.status_code, missing.status_code) == (201, 204, 404)
    assert len(client.get("/v1/grid-factors").json()["grid_factors"]) == 1
    assert len(built_in) == 41
    assert {factor["factor_id"] for factor in built_in} == {None}


@pytest.mark.parametrize("value", ["-1", "1000", "x"])
def test_bad_factor_is_refused(client: TestClient, value: str) -> None:
    answer = client.post("/v1/grid-factors", json={"kg_co2e_per_kwh": value})

    assert answer.status_code == 422


def test_carbon_objective_looks_at_every_place(client: TestClient, published: Services) -> None:
    answer = client.post(
        "/v1/recommendations",
        json={
            "workload": "fitted",
            "work": {"dataset_size": 2000},
            "parameters": {"precision": "fp16"},
            "search": {"gpu_types": ["T4"], "workers": [1]},
            "objective": "carbon",
            "rejected_limit": 10_000,
        },
    ).json()

    carbon = [entry["forecast"]["energy"]["kg_co2e"] for entry in answer["ranked"]]
    assert carbon == sorted(carbon)
    assert answer["recommended"]["forecast"]["configuration"]["provider"] == "gcp"
    assert set(answer["rejected_by_reason"]) == {"carbon_unknown"}
    assert (
        answer["considered"]
        == len(answer["rejected"])
        + answer["considered"]
        - (answer["rejected_by_reason"]["carbon_unknown"])
    )


def test_energy_objective_tells_machines_without_gpus_apart(
    client: TestClient, services: Services
) -> None:
    machines = (("c5.2xlarge", 100.0, 40.0), ("c5.18xlarge", 80.0, 100.0))
    runs = [
        {
            "workload": "forest",
            "duration_seconds": seconds * size / workers,
            "instance_type": name,
            "workers": workers,
            "dataset_size": size,
            "resources": {"energy_joules": watts * seconds * size},
        }
        for name, seconds, watts in machines
        for size in (1, 2, 4)
        for workers in (1, 4)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "forest")

    question = {"workload": "forest", "work": {"dataset_size": 2}, "search": {"workers": [1, 4]}}
    answer = client.post("/v1/recommendations", json={**question, "objective": "energy"}).json()

    ranked = [entry["forecast"] for entry in answer["ranked"]]
    names = [forecast["configuration"]["instance_type"] for forecast in ranked]
    assert names == ["c5.2xlarge", "c5.2xlarge", "c5.18xlarge", "c5.18xlarge"]
    energies = [forecast["energy"]["kilowatt_hours"] for forecast in ranked]
    assert energies == pytest.approx([8000 / 3.6e6] * 2 + [16_000 / 3.6e6] * 2, rel=0.1)


@pytest.mark.parametrize(
    ("objective", "member"), [("energy", "kilowatt_hours"), ("carbon", "kg_co2e")]
)
def test_objectives_count_the_power_of_all_workers(
    client: TestClient, published: Services, objective: str, member: str
) -> None:
    question = {
        "workload": "fitted",
        "work": {"dataset_size": 2000},
        "parameters": {"precision": "fp16"},
        "search": {"gpu_types": ["T4"], "workers": [8, 1, 2]},
        "pricing": {"provider": "aws", "region": "us-east-1"},
        "energy": {"kg_co2e_per_kwh": 0.4},
    }

    answer = client.post("/v1/recommendations", json={**question, "objective": objective}).json()

    ranked = [entry["forecast"] for entry in answer["ranked"]]
    values = [forecast["energy"][member] for forecast in ranked]
    assert [forecast["configuration"]["workers"] for forecast in ranked] == [1, 2, 8]
    assert values == sorted(values)
