"""Instants through every door: written out, never digits that would be read as Unix seconds."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.engines import before_any_row
from tests.support.regressors import publish_regressor

FORECAST: dict[str, Any] = {"workload": "fitted", "configuration": {"gpu_type": "T4"}}
JOB: dict[str, Any] = {"ref": "a", **FORECAST}
ELASTIC: dict[str, Any] = {"ref": "a", "workload": "fitted"}
RATE = {"from_currency": "EUR", "to_currency": "USD", "rate": "1.1", "source": "bank"}
PRICE = {"provider": "we", "instance_type": "box", "price_per_hour": "1", "source": "we"}
FACTOR = {"provider": "we", "region": "here", "kg_co2e_per_kwh": 0.4, "source": "we"}
DIGITS = ["20261101", "2026", "1767225600.5", "-1", "1e9", 1767225600, 1.5]


def bodies(value: object) -> dict[str, tuple[str, dict[str, Any]]]:
    pricing = {"pricing": {"as_of": value}}
    return {
        "price": ("/v1/prices", {**PRICE, "valid_from": value}),
        "rate": ("/v1/exchange-rates", {**RATE, "valid_from": value}),
        "factor": ("/v1/grid-factors", {**FACTOR, "valid_from": value}),
        "forecast": ("/v1/forecasts", {**FORECAST, **pricing}),
        "recommendation": ("/v1/recommendations", {"workload": "fitted", **pricing}),
        "fit": ("/v1/workloads/fitted/fits", {"runs_since": value}),
        "remaining": ("/v1/forecasts:remaining", {**FORECAST, "deadline": value}),
        "deadline": ("/v1/schedules:rank", {"jobs": [{**JOB, "deadline": value}]}),
        "submission": ("/v1/schedules:rank", {"jobs": [{**JOB, "submitted_at": value}]}),
        "elastic": (
            "/v1/schedules:allocate",
            {"capacity": {"T4": 1}, "jobs": [{**ELASTIC, "deadline": value}]},
        ),
    }


def refuse(client: TestClient, door: str, value: object) -> None:
    path, body = bodies(value)[door]

    answer = client.post(path, json=body)

    assert answer.status_code == 422, answer.text
    [fault] = answer.json()["errors"]
    assert (fault["message"], fault["value"]) == ("A number is not an instant", value)
    assert "2026-11-01T00:00:00Z" in fault["remedy"]


@pytest.mark.parametrize("value", DIGITS)
@before_any_row
def test_digits_are_no_instant(client: TestClient, value: object) -> None:
    refuse(client, "price", value)
    refuse(client, "fit", value)


@pytest.mark.parametrize(
    "value", ["2026-11-01T10:00:00", "01.11.2026", "2026-13-01T10:00:00Z", "2026-W44-7"]
)
@before_any_row
def test_text_that_is_no_instant_is_told_how_one_is_written(client: TestClient, value: str) -> None:
    path, body = bodies(value)["submission"]

    [fault] = client.post(path, json=body).json()["errors"]

    assert fault["remedy"] == "Send an instant with its offset, such as 2026-11-01T10:00:00Z."


@pytest.mark.parametrize("door", bodies(None))
@before_any_row
def test_no_door_takes_digits_for_an_instant(client: TestClient, door: str) -> None:
    refuse(client, door, "20261101")


@pytest.mark.parametrize("door", bodies(None))
def test_instant_that_is_written_out_is_taken(
    client: TestClient, services: Services, door: str
) -> None:
    publish_regressor(services)
    path, body = bodies("2026-11-01T00:00:00Z")[door]

    assert client.post(path, json=body).status_code < 300


def test_batch_names_the_digits_of_an_entry(client: TestClient, services: Services) -> None:
    publish_regressor(services)
    body = {"requests": [{**FORECAST, "ref": "a", "pricing": {"as_of": "20261101"}}, JOB]}

    answer = client.post("/v1/forecasts:batch", json=body).json()

    assert "A number is not an instant" in str(answer)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/prices?as_of=20261101", "as_of"),
        ("/v1/workloads/fitted/runs?created_after=20261101", "created_after"),
        ("/v1/workloads/fitted/runs?created_before=2026", "created_before"),
        ("/v1/workloads/fitted/forecast?gpu_type=T4&as_of=20261101", "as_of"),
        ("/v1/workloads/fitted/curve?over=workers&gpu_type=T4&as_of=20261101", "as_of"),
    ],
)
def test_digits_in_a_query_are_no_instant(
    client: TestClient, services: Services, path: str, field: str
) -> None:
    publish_regressor(services)

    answer = client.get(path)

    assert answer.status_code == 422
    [fault] = answer.json()["errors"]
    assert (fault["field"], fault["message"]) == (field, "A number is not an instant")


def test_digits_in_a_file_of_prices_are_named_with_their_row(client: TestClient) -> None:
    header = "provider,instance_type,price_per_hour,source,valid_from"
    file = f"{header}\nwe,box,1,we,2026-11-01\nwe,box,2,we,20261101\n"

    answer = client.post("/v1/prices", content=file, headers={"Content-Type": "text/csv"})

    [fault] = answer.json()["errors"]
    assert (fault["row"], fault["field"], fault["value"]) == (2, "valid_from", "20261101")


def test_plain_date_is_its_first_moment(client: TestClient) -> None:
    answer = client.post("/v1/prices", json={**PRICE, "valid_from": "2026-11-01"})

    assert answer.json()["prices"][0]["valid_from"] == "2026-11-01T00:00:00Z"


@pytest.mark.parametrize("offset", ["+05:30", "+0530", "+05"])
@pytest.mark.parametrize(
    "question",
    [
        "prices?as_of",
        "workloads/fitted/runs?created_after",
        "workloads/fitted/forecast?gpu_type=T4&as_of",
    ],
)
def test_plus_that_a_query_string_turned_into_a_space_is_named(
    client: TestClient, services: Services, question: str, offset: str
) -> None:
    publish_regressor(services)
    written = f"/v1/{question}=2026-11-01T10:00:00"

    refused, taken = client.get(written + offset), client.get(f"{written}%2B05:30")

    assert (refused.status_code, taken.status_code) == (422, 200), taken.text
    [fault] = refused.json()["errors"]
    assert fault["message"] == "The offset has no sign"
    assert "2026-11-01T10:00:00%2B05:30" in fault["remedy"]


@pytest.mark.parametrize(
    ("value", "is_taken"),
    [
        ("1969-12-31T20:00:00-05:00", True),
        ("1970-01-01T04:00:00+05:00", False),
        ("3000-01-01T04:00:00+05:00", True),
        ("2999-12-31T20:00:00-05:00", False),
        ("9999-12-31T20:00:00-05:00", False),
    ],
)
def test_years_are_those_of_the_instant_in_utc(
    client: TestClient, value: str, *, is_taken: bool
) -> None:
    path, body = bodies(value)["price"]

    answer = client.post(path, json=body)
    exported = client.get("/v1/prices?origin=own", headers={"Accept": "text/csv"}).text
    again = client.post(path, content=exported, headers={"Content-Type": "text/csv"})

    assert answer.status_code == (201 if is_taken else 422), answer.text
    assert "outside the years" in answer.text or is_taken
    assert again.is_success == is_taken, again.text
