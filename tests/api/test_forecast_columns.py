"""Forecasts written in columns: each text is the document of its row."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.forecast_columns import forecast_texts
from app.api.forecast_documents import FORECAST_MEMBERS, forecast_document
from app.api.forecast_requests import read_forecasts
from app.domain.access import DEFAULT_PROJECT
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest
from app.services.answered import Answered
from app.services.wiring import Services
from tests.support.regressors import publish_regressor

configurations = st.fixed_dictionaries(
    {"workers": st.sampled_from([1, 2, 3, 8, 64, 4096])},
    optional={
        "gpu_type": st.sampled_from(["T4", "A100-40GB", "V100-16GB", "our own"]),
        "nodes": st.integers(1, 4),
        "purchase": st.sampled_from(["spot", "on_demand"]),
        "region": st.just("eu-west-1"),
    },
)
sizes = st.one_of(st.floats(1e-3, 1e18), st.integers(1, 10**9), st.just(2.0**53 + 2))
pricings = st.fixed_dictionaries(
    {},
    optional={
        "price_per_hour": st.sampled_from(["0", "3.06", "0.000001", "999999999.123456", "2E+2"]),
        "minimum_billed_s": st.sampled_from([0, 60, 3600]),
        "billing_step_s": st.sampled_from([1, 60]),
        "currency": st.sampled_from(["USD", "EUR"]),
        "extras": st.just({"egress_gb": "3", "egress_per_gb": "0.09"}),
        "spot": st.just({"interruptions_per_hour": 0.2}),
    },
)
documents = st.fixed_dictionaries(
    {
        "workload": st.sampled_from(["fitted", "other"]),
        "configuration": configurations,
        "work": st.fixed_dictionaries(
            {}, optional={"dataset_size": sizes, "batch_size": sizes, "epochs": sizes}
        ),
    },
    optional={
        "parameters": st.just({"precision": "fp32 ü"}),
        "confidence": st.sampled_from([0.5, 0.8, 0.99]),
        "deadline_s": st.floats(1.0, 1e6),
        "budget": st.sampled_from(["0", "5", "1000.55"]),
        "pricing": pricings,
        "energy": st.just({"kg_co2e_per_kwh": 0.4, "power_usage_effectiveness": 1.3}),
        "explain": st.booleans(),
    },
)


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    publish_regressor(services, workload="other")
    return services


def answered(services: Services, asked: list[dict[str, Any]]) -> list[Answered]:
    requests = [each for each in read_forecasts(asked) if isinstance(each, ForecastRequest)]
    answers = services.forecasts.ask_many(DEFAULT_PROJECT, requests)
    return [each for each in answers if not isinstance(each, DomainError)]


@settings(max_examples=60)
@given(asked=st.lists(documents, min_size=1, max_size=8))
def test_each_text_is_the_document_of_its_row(
    published: Services, asked: list[dict[str, Any]]
) -> None:
    answers, now = answered(published, asked), published.context.now()

    texts = forecast_texts(answers, now, FORECAST_MEMBERS)

    for answer, text in zip(answers, texts, strict=True):
        expected = orjson.dumps(forecast_document(answer, now))
        assert orjson.loads(text) == orjson.loads(expected)


def test_wanted_members_alone_are_written(published: Services) -> None:
    [answer] = answered(published, [{"workload": "fitted", "configuration": {"workers": 2}}])

    [text] = forecast_texts([answer], published.context.now(), ["basis", "workload"])

    assert orjson.loads(text) == {"basis": answer.basis, "workload": "fitted"}
    assert forecast_texts([answer], published.context.now(), []) == [b"{}"]
