"""Hardware that recommendations and profiling plans search, measured on machines of one's own."""

from math import ceil
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit

pytestmark = pytest.mark.lengthy

V100: dict[str, Any] = {"gpu_type": "V100-16GB", "instance_type": "q4"}
A100: dict[str, Any] = {"gpu_type": "A100-40GB", "instance_type": "q8"}
GPUS = {"q4": 4, "q8": 8}
WORK = {"dataset_size": 50_000}
TARGET = {"configuration": {"gpu_type": "A100-40GB", "workers": 16}, "work": WORK}


@pytest.fixture(autouse=True)
def own_machines(client: TestClient, services: Services) -> None:
    """Runs on machines of four V100 and of eight A100, which one laboratory sells."""
    runs = [
        {
            "workload": "dense",
            "duration_seconds": 20.0 + size * 0.02 / workers / share,
            "configuration": {
                **hardware,
                "workers": workers,
                "nodes": ceil(workers / GPUS[hardware["instance_type"]]),
            },
            "work": {"dataset_size": size},
        }
        for hardware, share in ((V100, 1), (A100, 2))
        for size in (10_000, 40_000, 100_000)
        for workers in (1, 2, 4, 8)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    prices = [
        {
            **hardware,
            "gpu_count": GPUS[hardware["instance_type"]],
            "provider": "lab",
            "region": region,
            "price_per_hour": price,
        }
        for hardware, region, price in ((V100, "a", "8"), (V100, "b", "6"), (A100, "a", "20"))
    ]
    assert client.post("/v1/prices", json=prices).status_code == 201
    fit(services, "dense")


def recommend(client: TestClient, search: dict[str, Any], **more: Any) -> Any:
    body = {"workload": "dense", "work": WORK, "search": search, **more}
    return client.post("/v1/recommendations", json=body)


def plan(client: TestClient, search: dict[str, Any], **more: Any) -> Any:
    body = {
        "target": TARGET,
        "repeat": True,
        "stop": {"min_narrowing": 0},
        "search": search,
        **more,
    }
    return client.post("/v1/workloads/dense/profiling-plans", json=body)


def configurations(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    document = answer.json()
    found = document.get("runs") or [each["forecast"] for each in document.get("ranked", ())]
    return [each["configuration"] for each in found]


BOTH = pytest.mark.parametrize("ask", [recommend, plan])


@BOTH
def test_instance_types_are_searched_with_the_gpus_that_are_named(
    client: TestClient, ask: Any
) -> None:
    search = {"instance_types": ["q4", "Q8"], "gpu_types": ["A100-40GB"], "workers": [4]}

    searched = configurations(ask(client, search))

    assert {
        (configuration["gpu_type"], configuration["instance_type"]) for configuration in searched
    } == {("A100-40GB", "q8")}


@BOTH
@pytest.mark.parametrize("name", ["lab-chip", "A100"])
def test_hardware_that_only_newer_runs_name_keeps_no_other_from_being_searched(
    client: TestClient, ask: Any, name: str
) -> None:
    run = {"workload": "dense", "duration_seconds": 200.0, "work": WORK}
    new = {**run, "configuration": {"gpu_type": name, "workers": 2}}
    assert client.post("/v1/runs", json=new).status_code == 201

    searched = configurations(ask(client, {"workers": [2]}))

    assert {configuration["gpu_type"] for configuration in searched} <= {"V100-16GB", "A100-40GB"}
    assert searched


@pytest.mark.parametrize(
    "search",
    [
        {"gpu_types": ["H100", "nvidia h100", "h100"]},
        {"gpu_types": ["V100-16GB", "Tesla V100-SXM2-16GB"]},
        {"instance_types": ["q4", "Q4"]},
        {"instance_types": ["p3.2xlarge", "P3.2xlarge"]},
        {"gpu_types": ["V100-16GB"], "providers": ["lab", "LAB", "Lab"]},
    ],
)
def test_what_is_named_in_several_spellings_is_searched_once(
    client: TestClient, search: dict[str, list[str]]
) -> None:
    question = {"workload": "dense", "work": WORK, "objective": "duration"}
    once = {name: values[:1] for name, values in search.items()}

    answers = [
        client.post("/v1/recommendations", json={**question, "search": {**each, "workers": [4]}})
        for each in (search, once)
    ]

    considered = [answer.json()["considered"] for answer in answers]
    assert considered == [1, 1]
    assert answers[0].json() == answers[1].json()


@BOTH
@pytest.mark.parametrize("instance_type", ["q4", "p3.16xlarge"])
def test_instance_types_without_any_of_the_gpus_named_are_refused(
    client: TestClient, ask: Any, instance_type: str
) -> None:
    search = {"instance_types": [instance_type], "gpu_types": ["A100-80GB"], "workers": [4]}

    answer = ask(client, search)

    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert (fault["field"], fault["pointer"]) == ("search.gpu_types", "/search/gpu_types")
    assert instance_type in fault["message"]
    assert "A100-80GB" in fault["message"]
    assert "leave one of the two lists out" in fault["remedy"]


def places(answer: Any) -> set[tuple[str | None, str | None, str | None]]:
    searched = configurations(answer)
    return {
        (configuration["instance_type"], configuration["provider"], configuration["region"])
        for configuration in searched
    }


@pytest.mark.parametrize(
    "search", [{"providers": ["*"]}, {"regions": ["*"]}, {"providers": ["*"], "regions": ["b"]}]
)
def test_plan_expands_places_and_measures_at_the_cheapest(
    client: TestClient, search: dict[str, Any]
) -> None:
    answer = plan(client, {"instance_types": ["q4"], "workers": [4], **search})

    assert places(answer) == {("q4", "lab", "b")}
    assert all(run["price"] is not None for run in answer.json()["runs"])


def test_plan_expands_places_in_each_way_in_which_they_sell(client: TestClient) -> None:
    spot = {**V100, "gpu_count": 4, "provider": "hut", "price_per_hour": "1", "purchase": "spot"}
    assert client.post("/v1/prices", json=spot).status_code == 201
    search = {"instance_types": ["q4"], "workers": [4], "providers": ["*"]}

    answer = plan(client, {**search, "purchase": ["on_demand", "spot"]})

    assert places(answer) == {("q4", "hut", None)}
    assert {run["purchase"] for run in configurations(answer)} == {"spot"}


@BOTH
def test_search_that_is_too_large_is_refused_before_places_are_looked_up(
    client: TestClient, ask: Any
) -> None:
    named = [f"p{number}" for number in range(1000)]

    answer = ask(client, {"providers": named, "regions": named})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/search"


def store_cloud_price(client: TestClient, **changes: Any) -> None:
    machine = {"gpu_type": "A100-40GB", "instance_type": "their-8x", "gpu_count": 8}
    price = {"provider": "aws", "region": "here", "price_per_hour": "30", **changes}
    assert client.post("/v1/prices", json={**machine, **price}).status_code == 201


@BOTH
@pytest.mark.parametrize("search", [{"gpu_types": ["a100-40gb"]}, {}])
@pytest.mark.parametrize("is_priced", [True, False])
def test_measured_gpu_is_searched_where_its_own_machines_are_not_sold(
    client: TestClient, ask: Any, search: dict[str, Any], *, is_priced: bool
) -> None:
    store_cloud_price(client)
    place = {"region": "here"} if is_priced else {}
    named = {} if is_priced else {"providers": ["AWS"], "regions": ["here"]}

    answer = ask(client, {**search, **named, "workers": [8]}, pricing=place)

    found = [each for each in configurations(answer) if each["gpu_type"] == "A100-40GB"]
    assert {each["instance_type"] for each in found} == {None}
    reasons = answer.json()["rejected"]
    assert not [each for each in reasons if each["configuration"]["gpu_type"] == "A100-40GB"]


def test_gpu_is_recommended_elsewhere_as_it_is_forecast(client: TestClient) -> None:
    store_cloud_price(client)
    search = {"gpu_types": ["A100-40GB"], "workers": [8], "providers": ["aws"], "regions": ["here"]}
    configuration = {"gpu_type": "A100-40GB", "workers": 8, "provider": "aws", "region": "here"}

    (ranked,) = recommend(client, search).json()["ranked"]
    question = {"workload": "dense", "work": WORK, "configuration": configuration}
    forecast = client.post("/v1/forecasts", json=question).json()

    for part in ("duration_seconds", "cost", "warnings", "basis"):
        assert ranked["forecast"][part] == forecast[part]


@BOTH
def test_star_adds_places_that_sell_the_gpu_alone(client: TestClient, ask: Any) -> None:
    store_cloud_price(client, price_per_hour="0.1")
    search = {"gpu_types": ["A100-40GB"], "workers": [8], "providers": ["*"]}

    answer = ask(client, search, runs=100) if ask is plan else ask(client, search, limit=100)

    found_places = places(answer)
    assert {("q8", "lab", "a"), (None, "aws", "here")} <= found_places
    assert not {place for place in found_places if place[0] is None and place[1] == "lab"}


@BOTH
def test_instance_types_that_are_named_are_searched_alone(client: TestClient, ask: Any) -> None:
    store_cloud_price(client)
    search = {"instance_types": ["q8"], "gpu_types": ["A100-40GB"], "workers": [8]}

    everywhere = ask(client, {**search, "providers": ["*"]})
    elsewhere = recommend(client, {**search, "providers": ["aws"]}).json()

    assert places(everywhere) == {("q8", "lab", "a")}
    assert elsewhere["rejected_by_reason"] == {"price_unknown": 1}


def test_place_that_sells_no_machine_of_the_gpu_leaves_the_measured_one(
    client: TestClient,
) -> None:
    search = {"gpu_types": ["A100-40GB"], "workers": [8], "regions": ["mars-1"]}

    answer = recommend(client, search).json()

    (rejected,) = answer["rejected"]
    assert rejected["configuration"]["instance_type"] == "q8"
    assert rejected["reason"] == "price_unknown"


def test_price_of_the_question_is_that_of_the_measured_machines(client: TestClient) -> None:
    search = {"gpu_types": ["A100-40GB"], "workers": [8], "providers": ["aws"]}

    answer = recommend(client, search, pricing={"price_per_hour": "5"})

    assert places(answer) == {("q8", "aws", None)}


def test_machines_without_a_price_are_replaced_where_a_cost_is_needed(
    client: TestClient, services: Services
) -> None:
    runs = [
        {
            "workload": "unpriced",
            "duration_seconds": 100.0 / workers,
            "configuration": {**A100, "instance_type": "rack", "workers": workers},
        }
        for workers in (1, 2, 4)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "unpriced")

    by_cost, by_duration = (
        recommend(client, {"workers": [2]}, workload="unpriced", work={}, objective=objective)
        for objective in ("cost", "duration")
    )

    assert {configuration["instance_type"] for configuration in configurations(by_cost)} == {None}
    assert {configuration["instance_type"] for configuration in configurations(by_duration)} == {
        "rack"
    }
