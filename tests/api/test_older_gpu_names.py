"""Names of GPUs that were stored when the catalogue did not know them yet."""

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import PriceId, new_identifier
from app.services.wiring import Services
from tests.support.prices import make_price
from tests.support.regressors import fit, store_runs

_OLDER = "Tesla T4"
_QUESTION: dict[str, Any] = {"dataset_size": 2000, "param.precision": "fp16"}


@pytest.fixture(autouse=True)
def stored_before(services: Services) -> None:
    """Runs and a price of a T4 under a name that an older catalogue kept as it came."""
    store_runs(services.context, "fitted", gpu_type=_OLDER)
    fit(services, "fitted")
    now = services.context.now()
    price = make_price(
        price_id=PriceId(new_identifier("price", now=now)),
        gpu_type=_OLDER,
        instance_type=None,
        valid_from=now - timedelta(days=1),
    )
    with services.context.database.transaction() as stores:
        stores.prices.add_many(DEFAULT_PROJECT, [price], now)


@pytest.mark.parametrize("name", ["T4", _OLDER])
def test_own_price_applies_under_todays_name(client: TestClient, name: str) -> None:
    query = {**_QUESTION, "workers": 2, "gpu_type": name}

    forecast = client.get("/v1/workloads/fitted/forecast", params=query).json()

    assert forecast["configuration"]["gpu_type"] == "T4"
    assert forecast["cost"]["price"]["gpu_type"] == "T4"
    assert forecast["cost"]["price"]["source"] == make_price().source


@pytest.mark.parametrize("name", ["T4", _OLDER])
def test_curve_shows_the_runs(client: TestClient, name: str) -> None:
    query = {**_QUESTION, "over": "workers", "from": 1, "to": 8, "gpu_type": name}

    curve = client.get("/v1/workloads/fitted/curve", params=query).json()

    assert [point["value"] for point in curve["measured"]] == [1, 2, 4, 8]


def test_runs_are_listed_by_the_name_that_they_show(client: TestClient) -> None:
    listed = client.get("/v1/workloads/fitted/runs", params={"gpu_type": _OLDER}).json()["runs"]

    assert [run["configuration"]["gpu_type"] for run in listed] == [_OLDER] * 12
