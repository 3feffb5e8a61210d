"""Where pricing names one place or purchase and a search or a configuration another."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import publish_regressor

WORK: dict[str, Any] = {"work": {"dataset_size": 2000}, "parameters": {"precision": "fp16"}}
HUT, LAB = ("hut", "a", "on_demand"), ("lab", "a", "on_demand")
T4: dict[str, Any] = {"gpu_types": ["T4"], "workers": [1]}


@pytest.fixture(autouse=True)
def on_sale(client: TestClient, services: Services) -> None:
    """T4 in two regions of two laboratories, and spot capacity in one."""
    publish_regressor(services)
    prices = [
        {
            "gpu_type": "T4",
            "gpu_count": 1,
            "provider": at,
            "region": region,
            "price_per_hour": price,
        }
        for at, region, price in (("lab", "a", "8"), ("lab", "b", "6"), ("hut", "a", "7"))
    ]
    prices.append({**prices[0], "purchase": "spot", "price_per_hour": "2"})
    assert client.post("/v1/prices", json=prices).status_code == 201


def recommend(client: TestClient, search: dict[str, Any], pricing: dict[str, Any]) -> Any:
    body = {"workload": "fitted", **WORK, "search": {**T4, **search}, "pricing": pricing}
    return client.post("/v1/recommendations", json=body)


def plan(client: TestClient, search: dict[str, Any], pricing: dict[str, Any]) -> Any:
    body = {
        "target": {"configuration": {"gpu_type": "T4", "workers": 16, "provider": "hut"}, **WORK},
        "search": {**T4, **search},
        "pricing": pricing,
        "repeat": True,
        "stop": {"min_narrowing": 0},
    }
    return client.post("/v1/workloads/fitted/profiling-plans", json=body)


@pytest.mark.parametrize(
    ("search", "pricing", "expected"),
    [
        ({"regions": ["a", "b"], "providers": ["lab"]}, {"region": "A"}, LAB),
        ({"providers": ["Hut", "lab"], "regions": ["a"]}, {"provider": "hut"}, HUT),
        ({"providers": ["*"]}, {"provider": "lab", "region": "b"}, ("lab", "b", "on_demand")),
        ({"purchase": ["on_demand", "spot"]}, {"purchase": "spot"}, ("lab", "a", "spot")),
    ],
)
def test_search_is_narrowed_to_what_pricing_allows(
    client: TestClient, search: dict[str, Any], pricing: dict[str, Any], expected: tuple[str, ...]
) -> None:
    answer = recommend(client, search, pricing)

    (forecast,) = (entry["forecast"] for entry in answer.json()["ranked"])
    asked, price = forecast["configuration"], forecast["cost"]["price"]
    assert tuple(price[name] for name in ("provider", "region", "purchase")) == expected
    assert (asked["provider"].casefold(), asked["region"]) == expected[:2]
    assert asked["purchase"] in {None, expected[2]}
    assert "pricing_overrules" not in {warning["code"] for warning in forecast["warnings"]}


@pytest.mark.parametrize("ask", [recommend, plan])
@pytest.mark.parametrize(
    ("name", "single", "searched", "priced"),
    [
        ("purchase", "purchase", ["on_demand"], "spot"),
        ("regions", "region", ["a", "c"], "b"),
        ("providers", "provider", ["hut"], "lab"),
    ],
)
def test_search_and_pricing_without_anything_in_common_are_refused(
    client: TestClient, ask: Any, name: str, single: str, searched: list[str], priced: str
) -> None:
    answer = ask(client, {name: searched}, {single: priced})

    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_request"
    faults = {fault["pointer"]: fault for fault in answer.json()["errors"]}
    assert set(faults) == {f"/search/{name}", f"/pricing/{single}"}
    assert priced in faults[f"/search/{name}"]["remedy"]


def test_planned_runs_are_where_pricing_buys_them(client: TestClient) -> None:
    answer = plan(
        client, {"regions": ["a", "b"], "purchase": ["spot", "on_demand"]}, {"region": "a"}
    )
    elsewhere = plan(client, {}, {"provider": "lab"})

    places = {run["configuration"]["region"] for run in answer.json()["runs"]}
    assert places == {"a"}
    assert {run["configuration"]["provider"] for run in elsewhere.json()["runs"]} == {None}


@pytest.mark.parametrize(
    ("configuration", "pricing", "told"),
    [
        ({"purchase": "spot"}, {"purchase": "on_demand"}, ["purchase on_demand", "purchase spot"]),
        ({"provider": "hut"}, {"provider": "lab"}, ["provider lab", "provider hut"]),
        ({"region": "a", "provider": "LAB"}, {"region": "b", "provider": "lab"}, ["region b"]),
        ({"region": "A", "provider": "lab"}, {"region": "a", "purchase": "spot"}, []),
    ],
)
def test_forecast_warns_where_pricing_overrules_its_configuration(
    client: TestClient, configuration: dict[str, str], pricing: dict[str, str], told: list[str]
) -> None:
    body = {
        "workload": "fitted",
        **WORK,
        "configuration": {"gpu_type": "T4", "workers": 1, **configuration},
        "pricing": pricing,
    }

    answer = client.post("/v1/forecasts", json=body).json()

    warned = [each for each in answer["warnings"] if each["code"] == "pricing_overrules"]
    assert len(warned) == bool(told)
    assert all(each in warned[0]["message"] for each in told)
    assert not warned or "LAB" not in warned[0]["message"]
    assert pricing.items() <= answer["cost"]["price"].items()
