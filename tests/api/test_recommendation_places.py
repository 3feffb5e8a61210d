"""Recommendations over places, the next worker, and the reasons that are counted."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit, publish_regressor

TEXT = {"Accept": "text/plain"}
BODY: dict[str, Any] = {
    "workload": "fitted",
    "work": {"dataset_size": 2000},
    "parameters": {"precision": "fp16"},
}


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def recommend(client: TestClient, **changes: Any) -> dict[str, Any]:
    answer = client.post("/v1/recommendations", json={**BODY, **changes})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def store_prices(client: TestClient) -> None:
    prices = [
        {"gpu_type": "T4", "gpu_count": 1, "price_per_hour": price, "provider": "lab", "region": at}
        for at, price in (("north", "1.00"), ("south", "0.80"), ("west", "0.90"))
    ]
    assert client.post("/v1/prices", json=prices).status_code == 201


def store_spot_prices(client: TestClient) -> None:
    machine = {"gpu_type": "T4", "gpu_count": 1, "region": "here"}
    prices = [
        {**machine, "provider": provider, "purchase": purchase, "price_per_hour": price}
        for provider, purchase, price in (
            ("spare", "spot", "0.01"),
            ("both", "spot", "0.02"),
            ("both", "on_demand", "2.00"),
        )
    ]
    assert client.post("/v1/prices", json=prices).status_code == 201


def test_open_search_names_the_cheapest_place(client: TestClient, published: Services) -> None:
    store_prices(client)

    answer = recommend(client, search={"gpu_types": ["T4"], "workers": [1]})

    configuration = answer["recommended"]["forecast"]["configuration"]
    assert (configuration["provider"], configuration["region"]) == ("lab", "south")
    assert answer["considered"] == 1


def test_star_makes_every_place_on_sale_a_candidate(
    client: TestClient, published: Services
) -> None:
    store_prices(client)
    search = {"gpu_types": ["T4"], "workers": [1], "providers": ["LAB"], "regions": ["*"]}

    answer = recommend(client, search=search)

    places = [entry["forecast"]["configuration"]["region"] for entry in answer["ranked"]]
    assert places[:3] == ["south", "west", "north"]


def test_price_of_all_regions_of_a_provider_is_no_place_beside_them(
    client: TestClient, published: Services
) -> None:
    store_prices(client)
    anywhere = {"gpu_type": "T4", "gpu_count": 1, "price_per_hour": "0.85", "provider": "lab"}
    assert client.post("/v1/prices", json=anywhere).status_code == 201
    search = {"gpu_types": ["T4"], "workers": [1], "providers": ["lab"], "regions": ["*"]}

    answer = recommend(client, search=search)

    told = [entry["forecast"] for entry in answer["ranked"]]
    regions = {each["configuration"]["region"]: each["cost"]["price_per_hour"] for each in told}
    assert regions == {"north": "0.85", "south": "0.80", "west": "0.85"}
    assert answer["considered"] == 3


@pytest.mark.parametrize(
    ("price", "places"),
    [("2.00", ["south", "west", "north"]), ("0.50", [None, "north", "south", "west"])],
)
def test_price_of_any_place_is_a_candidate_of_its_own_only_where_it_is_the_cheapest(
    client: TestClient, published: Services, price: str, places: list[str | None]
) -> None:
    store_prices(client)
    anywhere = {"gpu_type": "T4", "gpu_count": 1, "price_per_hour": price}
    assert client.post("/v1/prices", json=anywhere).status_code == 201

    answer = recommend(client, search={"workers": [1], "providers": ["*"]}, limit=100)

    own = [entry["forecast"]["configuration"] for entry in answer["ranked"]]
    assert [each["region"] for each in own if each["provider"] in {None, "lab"}] == places
    assert answer["considered"] == len(own)


def places_and_ways(answer: dict[str, Any]) -> list[tuple[str, str]]:
    bought = [entry["forecast"]["configuration"] for entry in answer["ranked"]]
    return [(entry["provider"], entry["purchase"]) for entry in bought]


def test_place_that_sells_spot_alone_is_found_by_a_search_of_spot(
    client: TestClient, published: Services
) -> None:
    store_spot_prices(client)
    search = {"gpu_types": ["T4"], "workers": [1], "purchase": ["spot"]}

    anywhere = recommend(client, search={**search, "providers": ["*"]}, limit=2)

    assert places_and_ways(anywhere) == [("spare", "spot"), ("both", "spot")]


def test_open_search_by_carbon_finds_the_place_that_sells_spot_alone(
    client: TestClient, published: Services
) -> None:
    store_spot_prices(client)
    factors = [
        {"provider": provider, "kg_co2e_per_kwh": factor, "source": "the utility"}
        for provider, factor in (("spare", "0.001"), ("both", "0.5"))
    ]
    assert client.post("/v1/grid-factors", json=factors).status_code == 201
    search = {"gpu_types": ["T4"], "workers": [1], "purchase": ["spot"]}

    answer = recommend(client, search=search, objective="carbon")

    assert places_and_ways(answer)[0] == ("spare", "spot")


def test_places_are_combined_with_the_ways_in_which_they_sell(
    client: TestClient, published: Services
) -> None:
    store_spot_prices(client)
    search = {
        "gpu_types": ["T4"],
        "workers": [1],
        "providers": ["spare", "both", "*"],
        "regions": ["here"],
        "purchase": ["on_demand", "spot"],
    }

    answer = recommend(client, search=search)

    assert sorted(places_and_ways(answer)) == [
        ("both", "on_demand"),
        ("both", "spot"),
        ("spare", "spot"),
    ]
    assert answer["considered"] == 3


def test_next_worker_tells_seconds_and_money(client: TestClient, published: Services) -> None:
    pricing = {"price_per_hour": "3.00"}

    answer = recommend(client, search={"workers": [2]}, pricing=pricing)
    more = recommend(client, search={"workers": [3]}, pricing=pricing)

    gain = answer["next_worker"]
    best, beyond = (each["recommended"]["forecast"] for each in (answer, more))
    saved = best["duration_seconds"]["median"] - beyond["duration_seconds"]["median"]
    extra = float(beyond["cost"]["median"]) - float(best["cost"]["median"])
    assert gain["workers"] == 3
    assert gain["seconds_saved"] == pytest.approx(saved, rel=1e-5)
    assert float(gain["extra_cost"]) == pytest.approx(extra, abs=1e-9)
    assert gain["seconds_per_money"] == pytest.approx(saved / extra, rel=1e-4)


def test_next_worker_of_an_unknown_price_tells_seconds_only(
    client: TestClient, services: Services
) -> None:
    runs = [
        {"workload": "plain", "duration_seconds": 100.0 / workers, "workers": workers, "nodes": 1}
        for workers in (1, 2, 3)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "plain")

    answer = recommend(
        client, workload="plain", work={}, parameters={}, objective="duration", limit=1
    )

    assert answer["next_worker"]["seconds_saved"] > 0
    assert answer["next_worker"]["extra_cost"] is None


def test_text_tells_the_next_worker_and_counts_reasons(
    client: TestClient, published: Services
) -> None:
    body = {**BODY, "search": {"workers": [1, 8]}, "pricing": {"price_per_hour": "3"}}

    text = client.post("/v1/recommendations", json={**body, "deadline_s": 500}, headers=TEXT).text

    assert "One more worker (9) saves" in text
    assert "Not qualified: deadline 1." in text


def test_rejected_limit_names_fewer_and_counts_all(client: TestClient, published: Services) -> None:
    answer = recommend(
        client, search={"workers": [1, 2, 3]}, objective="duration", deadline_s=1, rejected_limit=1
    )

    assert len(answer["rejected"]) == 1
    assert answer["rejected_by_reason"] == {"deadline": 3}
    assert answer["next_worker"] is None


def test_workers_of_a_processor_cluster_are_no_graphics_cards(
    client: TestClient, published: Services
) -> None:
    answer = client.post(
        "/v1/forecasts",
        json={
            **BODY,
            "configuration": {"nodes": 1, "workers": 2},
            "pricing": {"price_per_hour": "0.20"},
        },
    ).json()

    assert "workers_exceed_gpus" not in {warning["code"] for warning in answer["warnings"]}
