"""Forecast requests are read by their fields; the model decides what is one."""

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from app.api.requests.forecasts import read_forecast, read_forecasts
from app.api.schemas.forecasts import FORECAST_IN
from app.domain.configurations import Configuration, Purchase, Scenario, Work
from app.domain.energy import EnergyTerms
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest, SpotTerms
from app.domain.identifiers import Slug
from app.domain.prices import PriceQuery

GOOD: list[dict[str, Any]] = [
    {"workload": " ResNet50 "},
    {"workload": "a", "configuration": {}, "work": {}, "parameters": {}, "pricing": {}},
    {"workload": "a", "configuration": {"gpu_type": "T4", "workers": 8, "nodes": None}},
    {"workload": "a", "configuration": {"workers": "8", "purchase": "spot"}},
    {"workload": "a", "configuration": {"workers": 8.0, "region": "r", "provider": "p"}},
    {"workload": "a", "work": {"dataset_size": 10, "batch_size": "2.5", "epochs": None}},
    {"workload": "a", "parameters": {"flag": True, "n": 3, "word": "x", "number": "3"}},
    {"workload": "a", "parameters": {"as_long_as_uploads_take_it": 500 * "x"}},
    {"workload": "a", "confidence": "0.8", "deadline_s": 10, "budget": "1.5", "record": False},
    {"workload": "a", "regressor_version": 3, "time_limit_quantile": 0.5, "explain": True},
    {"workload": "a", "deadline_s": None, "budget": None, "regressor_version": None},
    {"workload": "a", "pricing": {"price_per_hour": 2, "spot": {"restart_s": 1}}},
    {
        "workload": "a",
        "pricing": {"extras": {"egress_gb": "3", "egress_per_gb": 0}, "currency": "EUR"},
    },
    {"workload": "a", "energy": {"utilization": 0.5}},
]
BAD: list[Any] = [
    {},
    [],
    "text",
    None,
    {"workload": "a b"},
    {"workload": "a", "worck": 1},
    {"workload": "a", "parameters": {"longer": 501 * "x"}},
    {"workload": "a", "configuration": {"gpu": "T4"}},
    {"workload": "a", "configuration": {"gpu_type": ""}},
    {"workload": "a", "configuration": {"gpu_type": "x" * 101}},
    {"workload": "a", "configuration": {"gpu_type": "T4\nT4"}},
    {"workload": "a", "configuration": None},
    {"workload": "a", "configuration": {"workers": 0}},
    {"workload": "a", "configuration": {"workers": 1.5}},
    {"workload": "a", "configuration": {"purchase": "stolen"}},
    {"workload": "a", "work": {"dataset_size": float("inf")}},
    {"workload": "a", "work": {"dataset_size": float("nan")}},
    {"workload": "a", "work": {"batch_size": -1}},
    {"workload": "a", "work": {"batchsize": 1}},
    {"workload": "a", "parameters": {"n": None}},
    {"workload": "a", "parameters": {"n": float("inf")}},
    {"workload": "a", "parameters": {"n" * 101: 1}},
    {"workload": "a", "parameters": {str(n): 1 for n in range(301)}},
    {"workload": "a", "confidence": 1},
    {"workload": "a", "budget": "-1"},
    {"workload": "a", "pricing": {"price_per_hour": "x"}},
    {"workload": "a", "pricing": {"spot": {"rate": 1}}},
    {"workload": "a", "energy": {"utilization": 2}},
    {"workload": "a", "regressor_version": 0},
]


@pytest.mark.parametrize("document", GOOD, ids=str)
def test_what_the_model_accepts_is_read_as_the_model_reads_it(document: dict[str, Any]) -> None:
    model = FORECAST_IN.validate_python(document)
    told = model.model_dump(include={"confidence", "deadline_s", "budget", "record", "explain"})

    asked = read_forecast(document)

    assert asked.workload == model.workload
    assert asked.scenario.configuration == model.configuration.to_domain()
    assert asked.scenario.work == model.work.to_domain()
    assert asked.pricing == model.pricing.to_domain()
    assert asked.spot == model.pricing.spot.to_domain()
    assert asked.energy == model.energy.to_domain()
    assert {name: getattr(asked, name) for name in told} == told
    assert read_forecasts([document]) == [asked]


@pytest.mark.parametrize("document", BAD, ids=lambda document: str(document)[:60])
def test_what_the_model_refuses_is_refused_by_name(document: Any) -> None:
    with pytest.raises(ValidationError):
        FORECAST_IN.validate_python(document)

    with pytest.raises(DomainError) as refusal:
        read_forecast(document)

    (beside,) = read_forecasts([document])
    assert isinstance(beside, DomainError)
    assert str(beside) == str(refusal.value)


def test_everything_that_can_be_asked_arrives() -> None:
    document = {
        "workload": "a",
        "configuration": {"gpu_type": "T4", "purchase": "spot", "workers": 2},
        "work": {"dataset_size": 5},
        "parameters": {"flag": False},
        "pricing": {"price_per_hour": "2", "spot": {"restart_s": 9}},
        "energy": {"utilization": 0.5},
    }

    assert read_forecast(document) == ForecastRequest(
        Slug("a"),
        Scenario(
            Configuration("T4", purchase=Purchase.SPOT, workers=2), Work(5.0), {"flag": "false"}
        ),
        pricing=PriceQuery(price_per_hour=Decimal(2)),
        spot=SpotTerms(restart_s=9.0),
        energy=EnergyTerms(utilization=0.5),
    )


def test_one_bad_document_leaves_the_others_as_they_are() -> None:
    read = read_forecasts([*GOOD, BAD[0], *GOOD])

    assert isinstance(read[len(GOOD)], DomainError)
    assert read[: len(GOOD)] == read[len(GOOD) + 1 :] == [read_forecast(each) for each in GOOD]
