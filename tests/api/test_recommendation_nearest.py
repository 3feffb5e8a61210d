"""When nothing qualifies, the nearest candidate tells what would have to change, and it is true."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.api.documents.needed_changes import change_document
from app.domain.recommendations import NeededChange
from app.services.wiring import Services
from tests.support.regressors import fit, publish_regressor

GIB = 2**30
FITTED: dict[str, Any] = {
    "workload": "fitted",
    "work": {"dataset_size": 2000},
    "parameters": {"precision": "fp16"},
    "search": {"workers": [1, 2]},
}
HUNGRY: dict[str, Any] = {
    "workload": "hungry",
    "work": {"dataset_size": 1000, "batch_size": 1024},
    "search": {"workers": [1, 2]},
    "objective": "duration",
}


@pytest.fixture
def published(client: TestClient, services: Services) -> TestClient:
    publish_regressor(services)
    return client


@pytest.fixture
def hungry(client: TestClient, services: Services) -> TestClient:
    """A workload that takes one GiB and a sixteenth for each sample."""
    store_peaks(client, {batch: 1 + batch / 16 for batch in (16, 32, 64, 128)})
    fit(services, "hungry")
    return client


def store_peaks(client: TestClient, peaks: dict[int, float]) -> None:
    """Store runs with their peaks in GiB, and one that did not fit."""
    shared = {"workload": "hungry", "configuration": {"gpu_type": "T4", "workers": 1}}
    runs: list[dict[str, Any]] = [
        {
            **shared,
            "duration_seconds": 100.0 + 3200.0 / batch,
            "work": {"dataset_size": 1000, "batch_size": batch},
            "resources": {"peak_gpu_memory_bytes": GIB * peak},
        }
        for batch, peak in peaks.items()
    ]
    failed = {"status": "out_of_memory", "work": {"dataset_size": 1000, "batch_size": 512}}
    runs.append({**shared, **failed, "duration_seconds": 5.0})
    assert client.post("/v1/runs", json=runs).status_code == 201


def recommend(client: TestClient, asked: dict[str, Any], **changes: Any) -> dict[str, Any]:
    answer = client.post("/v1/recommendations", json={**asked, **changes})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def changes_of(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    assert answer["recommended"] is None
    return {change["constraint"]: change for change in answer["nearest"]["changes"]}


def test_without_a_price_the_nearest_asks_for_one(published: TestClient) -> None:
    answer = recommend(published, FITTED, pricing={"region": "mars-1"})

    changes = changes_of(answer)
    nearest = answer["nearest"]["forecast"]
    assert list(changes) == ["pricing.price_per_hour"]
    assert changes["pricing.price_per_hour"]["needed"] is None
    assert "POST /v1/prices" in changes["pricing.price_per_hour"]["message"]
    assert nearest["configuration"]["workers"] == 2
    assert nearest["cost"] is None


@pytest.mark.parametrize("step", [None, 3600])
def test_without_a_price_the_highest_that_keeps_the_budget_is_told(
    published: TestClient, step: int | None
) -> None:
    pricing = {"region": "mars-1", "billing_step_s": step}
    question = {**FITTED, "search": {"workers": [2]}, "budget": "10"}

    price = changes_of(recommend(published, question, pricing=pricing))["pricing.price_per_hour"]

    at_it = recommend(published, question, pricing={**pricing, "price_per_hour": price["needed"]})
    above = recommend(
        published, question, pricing={**pricing, "price_per_hour": 1.001 * price["needed"]}
    )
    assert at_it["recommended"] is not None
    assert above["recommended"] is None
    assert price["message"].endswith(f" Up to {price['needed']} an hour would keep the budget.")


@pytest.mark.parametrize(("per_gb", "budget"), [("5", "10"), ("0", "0")])
def test_charges_that_leave_nothing_for_a_price_name_the_budget_that_covers_them(
    published: TestClient, per_gb: str, budget: str
) -> None:
    """Without a price and with nothing left to pay it, only hardware that is free would do."""
    pricing = {"region": "mars-1", "extras": {"egress_gb": 10, "egress_per_gb": per_gb}}

    changes = changes_of(recommend(published, FITTED, budget=budget, pricing=pricing))

    needed = {name: change["needed"] for name, change in changes.items()}
    charged = 10 * int(per_gb)
    assert needed == {"pricing.price_per_hour": 0, **({"budget": charged} if charged else {})}
    free = {"budget": str(charged), "pricing": {**pricing, "price_per_hour": "0"}}
    assert recommend(published, FITTED, **free)["recommended"] is not None


def test_tiny_amounts_are_told_without_an_exponent(published: TestClient) -> None:
    budget = recommend(published, FITTED, budget="0.000001", pricing={"price_per_hour": "1"})

    message = changes_of(budget)["budget"]["message"]
    assert message.startswith("The budget would have to be 0.3")
    assert message.endswith(" instead of 0.000001.")


def test_a_price_in_another_currency_names_that_currency(published: TestClient) -> None:
    answer = recommend(published, FITTED, pricing={"currency": "CHF"})

    change = changes_of(answer)["pricing.currency"]
    assert (change["asked"], change["needed"]) == ("CHF", "USD")
    assert recommend(published, FITTED, pricing={"currency": change["needed"]})["recommended"]


@pytest.mark.parametrize("objective", ["cost", "duration"])
def test_a_price_in_another_currency_names_the_budget_in_it(
    published: TestClient, objective: str
) -> None:
    search = {"workers": [2]}
    question = {**FITTED, "search": search, "objective": objective, "budget": "0.0001"}

    answer = recommend(published, question, pricing={"currency": "CHF"})

    changes = changes_of(answer)
    assert list(changes) == ["pricing.currency", "budget"]
    assert changes["budget"]["message"].startswith("In USD the budget would have to be 0.")
    assert answer["nearest"]["forecast"]["cost"]["currency"] == "USD"
    in_dollars = {"pricing": {"currency": changes["pricing.currency"]["needed"]}}
    enough, short = (
        recommend(published, {**question, **in_dollars}, budget=share * changes["budget"]["needed"])
        for share in (1.0, 0.99)
    )
    assert enough["recommended"] is not None
    assert short["recommended"] is None


def test_what_does_not_fit_names_the_batch_that_does(hungry: TestClient) -> None:
    answer = recommend(hungry, HUNGRY)

    change = changes_of(answer)["work.batch_size"]
    work = {**HUNGRY["work"], "batch_size": change["needed"]}
    fitting = recommend(hungry, HUNGRY, work=work)
    nearest = answer["nearest"]["forecast"]
    assert change["asked"] == 1024
    assert 64 < change["needed"] < 512
    assert nearest["work"]["batch_size"] == change["needed"]
    assert fitting["recommended"]["forecast"]["configuration"] == nearest["configuration"]


def test_the_batch_that_fits_has_to_keep_the_deadline_too(hungry: TestClient) -> None:
    changes = changes_of(recommend(hungry, HUNGRY, deadline_s=1.0))

    assert list(changes) == ["work.batch_size", "deadline_s"]
    work = {**HUNGRY["work"], "batch_size": changes["work.batch_size"]["needed"]}
    relaxed = recommend(hungry, HUNGRY, work=work, deadline_s=changes["deadline_s"]["needed"])
    assert relaxed["recommended"] is not None


def test_spot_capacity_that_cannot_end_names_the_batch_that_fits_too(hungry: TestClient) -> None:
    spot = {"interruptions_per_hour": 3600, "checkpoint_s": 600}
    question = {**HUNGRY, "pricing": {"price_per_hour": "1.00", "purchase": "spot", "spot": spot}}

    changes = changes_of(recommend(hungry, question))

    assert list(changes) == ["work.batch_size", "pricing.purchase"]
    work = {**HUNGRY["work"], "batch_size": changes["work.batch_size"]["needed"]}
    on_demand = {**question["pricing"], "purchase": changes["pricing.purchase"]["needed"]}
    assert recommend(hungry, question, work=work, pricing=on_demand)["recommended"] is not None


def test_a_deadline_is_said_rounded_up_so_that_it_is_enough() -> None:
    document = change_document(NeededChange("deadline_s", 30.0, 34.2354))

    assert document["message"] == "The deadline would have to be 35 s instead of 30 s."
    assert document["needed"] == 34.2354


def test_memory_that_no_batch_fits_names_the_confidence(
    client: TestClient, services: Services
) -> None:
    store_peaks(client, {batch: 14.0 + batch / 256 for batch in (16, 32, 64)})
    fit(services, "hungry")
    question = {**HUNGRY, "confidence": 0.999, "search": {"workers": [1]}}

    changes = changes_of(recommend(client, question, work={"dataset_size": 1000, "batch_size": 1}))

    needed = changes["confidence"]["needed"]
    assert list(changes) == ["confidence"]
    assert 0.0 < needed < 0.999
    relaxed = recommend(
        client, {**question, "confidence": needed}, work={"dataset_size": 1000, "batch_size": 1}
    )
    assert relaxed["recommended"] is not None


def test_memory_that_no_confidence_grants_names_none(
    client: TestClient, services: Services
) -> None:
    store_peaks(client, {batch: 14.0 + batch / 256 for batch in (16, 32, 64)})
    fit(services, "hungry")
    question = {**HUNGRY, "search": {"workers": [1], "gpu_types": ["M60"]}}

    answer = recommend(client, question, work={"dataset_size": 1000, "batch_size": 16})

    change = changes_of(answer)["confidence"]
    assert change["needed"] is None
    assert change["message"].startswith("It does not fit into memory, at whatever confidence: take")


def test_spot_that_cannot_end_names_the_checkpoint_interval_that_would_do(
    published: TestClient,
) -> None:
    spot = {"interruptions_per_hour": 60, "checkpoint_interval_s": 36000, "checkpoint_s": 1}
    pricing = {"price_per_hour": "1.00", "purchase": "spot", "spot": spot}
    work = {"dataset_size": 100000}

    answer = recommend(published, FITTED, work=work, pricing=pricing)

    change = changes_of(answer)["pricing.spot.checkpoint_interval_s"]
    better = {**spot, "checkpoint_interval_s": change["needed"]}
    repeated = recommend(published, FITTED, work=work, pricing={**pricing, "spot": better})
    assert change["asked"] == 36000
    assert answer["nearest"]["forecast"]["spot"]["checkpoint_interval_s"] == change["needed"]
    assert repeated["recommended"] is not None


@pytest.mark.parametrize("constraint", ["search.purchase", "pricing.purchase"])
def test_spot_that_no_checkpoint_saves_is_bought_on_demand(
    published: TestClient, constraint: str
) -> None:
    spot = {"interruptions_per_hour": 3600, "checkpoint_s": 600}
    pricing = {"price_per_hour": "1.00", "spot": spot}
    question: dict[str, Any] = {
        "pricing.purchase": {**FITTED, "pricing": {**pricing, "purchase": "spot"}},
        "search.purchase": {
            **FITTED,
            "pricing": pricing,
            "search": {**FITTED["search"], "purchase": ["spot"]},
        },
    }[constraint]

    answer = recommend(published, question)

    changes = changes_of(answer)
    assert set(changes) == {constraint}
    assert (changes[constraint]["asked"], changes[constraint]["needed"]) == ("spot", "on_demand")
    assert answer["nearest"]["forecast"]["cost"]["price"]["purchase"] == "on_demand"


def test_spot_that_both_pricing_and_search_name_is_bought_on_demand_by_both(
    published: TestClient,
) -> None:
    spot = {"interruptions_per_hour": 3600, "checkpoint_s": 600}
    pricing = {"price_per_hour": "1.00", "spot": spot, "purchase": "spot"}
    search = {**FITTED["search"], "purchase": ["spot"]}

    answer = recommend(published, {**FITTED, "pricing": pricing, "search": search})

    assert set(changes_of(answer)) == {"pricing.purchase", "search.purchase"}
    search["purchase"] = ["spot", "on_demand"]
    answer = recommend(published, {**FITTED, "pricing": pricing, "search": search})
    assert set(changes_of(answer)) == {"pricing.purchase"}
    pricing["purchase"] = "on_demand"
    repeated = recommend(published, {**FITTED, "pricing": pricing, "search": search})
    assert repeated["recommended"] is not None


@pytest.mark.parametrize(
    ("objective", "energy", "constraints"),
    [
        ("energy", {}, ["energy.watts_per_worker"]),
        ("carbon", {}, ["energy.watts_per_worker", "energy.kg_co2e_per_kwh"]),
        ("carbon", {"watts_per_worker": 100}, ["energy.kg_co2e_per_kwh"]),
        ("carbon", {"kg_co2e_per_kwh": 0}, ["energy.watts_per_worker"]),
    ],
)
def test_unknown_energy_names_what_would_have_to_be_known(
    client: TestClient,
    services: Services,
    objective: str,
    energy: dict[str, Any],
    constraints: list[str],
) -> None:
    runs = [
        {"workload": "plain", "duration_seconds": 100.0 / workers, "workers": workers}
        for workers in (1, 2, 3)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "plain")

    answer = recommend(client, {"workload": "plain"}, objective=objective, energy=energy)

    assert list(changes_of(answer)) == constraints


def test_sentences_say_each_change(published: TestClient) -> None:
    answer = published.post(
        "/v1/recommendations",
        json={**FITTED, "deadline_s": 1, "budget": "0.0001"},
        headers={"Accept": "text/plain"},
    )

    lines = answer.text.splitlines()
    assert lines[1] == "The nearest one, and what would have to change:"
    assert lines[2].startswith("- The deadline would have to be ")
    assert lines[3].startswith("- The budget would have to be ")


@pytest.mark.parametrize("size", [1e9, 1e18])
@pytest.mark.parametrize("objective", ["cost", "energy"])
def test_work_of_any_size_tells_what_it_would_need(
    published: TestClient, size: float, objective: str
) -> None:
    question: dict[str, Any] = {
        **FITTED,
        "work": {"dataset_size": size},
        "search": {"workers": [1_000_000]},
        "pricing": {"price_per_hour": "100000000"},
        "objective": objective,
        "energy": {"watts_per_worker": 100},
    }

    changes = changes_of(recommend(published, question, budget="1", deadline_s=1))

    assert list(changes) == ["deadline_s", "budget"]
    assert changes["budget"]["needed"] > changes["deadline_s"]["needed"] > 1
