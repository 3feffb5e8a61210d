"""Profiling plans as plain text."""

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.api.test_profiling import PRICED, TARGET
from tests.support.regressors import publish_regressor


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def test_text_answer_reads_as_a_table(client: TestClient, published: Services) -> None:
    answer = client.post(
        "/v1/workloads/fitted/profiling-plans",
        json={**PRICED, "budget": "3"},
        headers={"Accept": "text/plain"},
    )

    text = answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    assert text.startswith("fitted: measure ")
    assert "width after" in text
    assert "expected" in text


def test_text_answer_of_an_empty_plan_says_so(client: TestClient, published: Services) -> None:
    answer = client.post(
        "/v1/workloads/fitted/profiling-plans",
        json={**PRICED, "budget": "0.000001", "target": [TARGET] * 7},
        headers={"Accept": "text/plain"},
    )

    assert "nothing to measure" in answer.text
    assert "2 more targets" in answer.text


def test_text_answer_of_a_cold_start_shows_what_is_unknown(client: TestClient) -> None:
    client.put("/v1/workloads/new", json={"dataset_unit": "samples"})

    answer = client.post(
        "/v1/workloads/new/profiling-plans", json=PRICED, headers={"Accept": "text/plain"}
    )

    assert "nothing is known about its duration yet" in answer.text
    assert "Warning (cold_start)" in answer.text
