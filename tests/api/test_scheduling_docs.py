"""The requests of the documentation's page on scheduling are answered as it says."""

import json
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scheduling.md").read_text()
EXAMPLES = re.findall(
    r"\$ curl -X POST localhost:8000(\S+)(.*?)-d '(.*?)'\n(.*?)```", PAGE, re.DOTALL
)


@pytest.fixture
def measured(client: TestClient, services: Services) -> TestClient:
    profile = (ROOT / "examples" / "profiles" / "ddp-cpu-2core.csv").read_bytes()
    client.post("/v1/runs", content=profile, headers={"Content-Type": "text/csv"})
    fit(services, "ddp-cnn-cpu")
    return client


def words(text: str) -> list[str]:
    """Return the words of an answer; its figures change with the engine and the hour."""
    return re.findall(r"[A-Za-z][A-Za-z_-]+", re.sub(r"\d{4}-\d\d-\d\dT\S+|[\d.,]+", "", text))


def test_page_shows_every_endpoint_of_schedulers() -> None:
    paths = {path for path, _, _, _ in EXAMPLES}

    assert paths == {
        "/v1/schedules:rank",
        "/v1/schedules:allocate",
        "/v1/schedules:capacity",
        "/v1/forecasts:remaining",
    }
    assert any('"segments"' in body for _, _, body, _ in EXAMPLES)


def test_answers_begin_as_those_shown(measured: TestClient) -> None:
    for path, options, body, shown in EXAMPLES:
        headers = {"Accept": "text/plain"} if "text/plain" in options else {}

        answer = measured.post(path, json=json.loads(body), headers=headers)

        if headers:
            first, begun = answer.text.splitlines()[0], shown.splitlines()[0]
            assert answer.status_code == 200
            assert words(first)[:4] == words(begun)[:4]
            assert len(answer.text.splitlines()) > 3
        else:
            assert answer.status_code == 422
            assert answer.json()["detail"] in shown
