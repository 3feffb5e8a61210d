"""The request of the documentation's page on prices is answered as it says."""

import json
import re
from decimal import Decimal
from pathlib import Path

from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import publish_regressor

PAGE = (Path(__file__).parents[2] / "docs" / "pricing.md").read_text()


def test_documented_charges_are_the_line_items_of_an_answer(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services)
    shown, *_ = re.findall(r"/v1/forecasts .*?-d '(.*?)'", PAGE, re.DOTALL)
    documented = re.findall(r"^\| (\w+) \| [\d.]+ \| ([\w-]+) \| ([\d.]+) \|", PAGE, re.MULTILINE)
    pricing = json.loads(shown)["pricing"]

    answer = client.post("/v1/forecasts", json={"workload": "fitted", "pricing": pricing})

    cost = answer.json()["cost"]
    items = [(item["kind"], item["unit"], item["unit_price"]) for item in cost["line_items"]]
    assert items == documented
    assert sum(Decimal(item["amount"]) for item in cost["line_items"]) == Decimal(cost["median"])
