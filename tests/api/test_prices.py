"""Prices through the door: list, add, withdraw, export."""

import csv
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.engines import before_any_row

PRICE: dict[str, Any] = {
    "provider": "aws",
    "region": "us-east-1",
    "instance_type": "p3.16xlarge",
    "gpu_type": "Tesla V100-SXM2-16GB",
    "gpu_count": 8,
    "price_per_hour": "19.10",
    "purchase": "reserved",
    "valid_from": "2026-07-01",
    "source": "contract",
}
CSV = {"Content-Type": "text/csv"}


def add(client: TestClient, body: object) -> list[dict[str, Any]]:
    answer = client.post("/v1/prices", json=body)
    assert answer.status_code == 201, answer.text
    prices: list[dict[str, Any]] = answer.json()["prices"]
    return prices


def names(client: TestClient, query: str) -> list[str]:
    listed = client.get(f"/v1/prices?{query}").json()["prices"]
    return [price["instance_type"] for price in listed]


def test_stored_price_is_listed_first_under_its_canonical_gpu(client: TestClient) -> None:
    [stored] = add(client, PRICE)

    listed = client.get("/v1/prices?page_size=2").json()["prices"]

    assert listed[0] == stored
    assert stored["origin"] == "own"
    assert stored["gpu_type"] == "V100-16GB"
    assert stored["price_per_hour"] == "19.10"
    assert stored["valid_from"] == "2026-07-01T00:00:00Z"
    assert listed[1]["origin"] == "catalogue"
    assert listed[1]["price_id"] is None


def test_pages_lead_through_own_prices_into_the_catalogue(client: TestClient) -> None:
    add(client, [{**PRICE, "instance_type": f"box.{number}"} for number in range(5)])
    seen, token = [], ""

    while token is not None:
        page = client.get(f"/v1/prices?page_size=300{token and '&page_token=' + token}").json()
        seen += [(price["price_id"], price["instance_type"]) for price in page["prices"]]
        token = page["next_page_token"]

    assert [name for _, name in seen[:5]] == [f"box.{number}" for number in (4, 3, 2, 1, 0)]
    assert len(seen) == 5 + 410 + 128


def test_small_pages_of_own_prices_are_stable(client: TestClient, clock: FakeClock) -> None:
    add(client, [{**PRICE, "instance_type": f"box.{number}"} for number in range(3)])

    first = client.get("/v1/prices?origin=own&page_size=2").json()
    clock.advance(1.0)
    add(client, {**PRICE, "instance_type": "late"})
    second = client.get(
        f"/v1/prices?origin=own&page_size=2&page_token={first['next_page_token']}"
    ).json()

    assert [price["instance_type"] for price in second["prices"]] == ["box.0"]
    assert second["next_page_token"] is None


@pytest.mark.parametrize(
    ("query", "listed"),
    [
        ("provider=AWS", ["p3.16xlarge"]),
        ("provider=gcp", []),
        ("region=us-east-1&purchase=reserved", ["p3.16xlarge"]),
        ("gpu_type=nvidia-tesla-v100", ["p3.16xlarge"]),
        ("instance_type=P3.16xlarge", ["p3.16xlarge"]),
        ("as_of=2026-07-01T00:00:00Z", ["p3.16xlarge"]),
        ("as_of=2026-06-30", []),
    ],
)
def test_filters_narrow_the_list(client: TestClient, query: str, listed: list[str]) -> None:
    add(client, PRICE)

    assert names(client, f"origin=own&{query}") == listed


def test_a_price_is_found_by_a_name_of_any_script(client: TestClient) -> None:
    add(client, {**PRICE, "region": "ÉU"})

    assert names(client, "origin=own&region=ÉU") == [PRICE["instance_type"]]


def test_filters_narrow_the_catalogue(client: TestClient) -> None:
    listed = client.get(
        "/v1/prices?origin=catalogue&gpu_type=T4&provider=aws&purchase=on_demand&as_of=2026-11-01"
        "&region=us-east-1&page_size=1000"
    ).json()

    assert {price["gpu_type"] for price in listed["prices"]} == {"T4"}
    assert {price["purchase"] for price in listed["prices"]} == {"on_demand"}
    assert names(client, "origin=catalogue&as_of=1999-01-01") == []


def test_price_of_a_gpu_without_gpus_is_refused(client: TestClient) -> None:
    problem = client.post("/v1/prices", json={**PRICE, "gpu_count": 0}).json()

    assert problem["errors"][0]["field"] == "gpu_count"
    assert "on_invalid" not in problem["remedy"]


def test_csv_upload_reads_dates_and_empty_cells(client: TestClient) -> None:
    body = (
        "provider,gpu_type,price_per_hour,purchase,valid_from,price_id\n"
        ",T4,0.35,Spot,2026-01-01,ignored\n"
        "\n"
        "lab,rig-7,0,owned,,\n"
    )

    answer = client.post("/v1/prices", content=body, headers=CSV)

    assert answer.status_code == 201
    first, second = answer.json()["prices"]
    assert (first["purchase"], first["provider"]) == ("spot", None)
    assert (second["gpu_type"], second["price_per_hour"]) == ("rig-7", "0.00")


def test_export_can_be_uploaded_again(client: TestClient) -> None:
    add(client, [PRICE, {"gpu_type": "=1+1", "price_per_hour": 1}])
    exported = client.get("/v1/prices?origin=own", headers={"Accept": "text/csv"})
    more = client.get("/v1/prices?page_size=1", headers={"Accept": "text/csv"})

    answer = client.post("/v1/prices", content=exported.content, headers=CSV)

    assert answer.status_code == 201
    assert {price["gpu_type"] for price in answer.json()["prices"]} == {"V100-16GB", "=1+1"}
    assert "'=1+1" in exported.text
    assert "next-page-token" not in exported.headers
    assert more.headers["next-page-token"].startswith("price_")


def test_withdrawn_price_stays_on_record(client: TestClient, services: Services) -> None:
    [stored] = add(client, PRICE)
    path = f"/v1/prices/{stored['price_id']}"

    first, again = client.delete(path), client.delete(path)

    assert (first.status_code, again.status_code) == (204, 404)
    assert names(client, "origin=own") == []
    query = "/v1/prices?origin=own&include_withdrawn=true"
    [kept] = client.get(query).json()["prices"]
    [row] = csv.DictReader(client.get(query, headers={"Accept": "text/csv"}).text.splitlines())
    assert kept["withdrawn_at"] is not None
    assert (row["origin"], row["withdrawn_at"]) == ("own", kept["withdrawn_at"])
    with services.context.database.reading() as stores:
        actions = [entry.action for entry in stores.access.list_audit(DEFAULT_PROJECT)]
    assert actions == ["price.withdraw", "price.add"]


def test_export_of_withdrawn_prices_does_not_bring_them_into_force(client: TestClient) -> None:
    _, stored = add(client, [{"gpu_type": "T4", "price_per_hour": 1}, PRICE])
    client.delete(f"/v1/prices/{stored['price_id']}")
    query = "/v1/prices?origin=own&include_withdrawn=true"
    exported = client.get(query, headers={"Accept": "text/csv"}).text

    refused = client.post("/v1/prices", content=exported, headers=CSV)
    [fault] = refused.json()["errors"]
    emptied = exported.replace(fault["value"], "")
    taken = client.post("/v1/prices", content=emptied, headers=CSV)

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_rows")
    assert fault["field"] == "withdrawn_at"
    assert "empty the cell" in fault["remedy"]
    assert exported.splitlines()[fault["row"]].count(fault["value"]) == 1
    assert taken.status_code == 201


@pytest.mark.parametrize(
    ("body", "code", "row"),
    [
        ([PRICE, {**PRICE, "price_per_hour": -1}], "invalid_rows", 2),
        ([{"price_per_hour": 1}], "invalid_rows", 1),
        ([{**PRICE, "price_per_hour": "1e30"}], "invalid_rows", 1),
        ([{**PRICE, "currency": "dollars"}], "invalid_rows", 1),
        ([PRICE, "price"], "invalid_rows", 2),
        ([PRICE, {**PRICE, "gpu_typ": "T4"}], "unknown_field", 2),
    ],
)
def test_one_bad_price_refuses_all_and_is_named(
    client: TestClient, body: object, code: str, row: int
) -> None:
    answer = client.post("/v1/prices", json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert answer.json()["errors"][0]["row"] == row
    assert code != "invalid_rows" or " is invalid; nothing was stored." in answer.json()["detail"]
    assert names(client, "origin=own") == []


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"gpu_typ,price_per_hour\nT4,1\n", "unknown_field"),
        (b"zzzzzz,price_per_hour\nT4,1\n", "unknown_field"),
        (b"gpu_type,gpu_type\nT4,1\n", "invalid_request"),
        (b"gpu_type,price_per_hour\nT4\n", "invalid_rows"),
        (b"gpu_type,price_per_hour\nT4,\xff\n", "invalid_request"),
        (b'gpu_type,price_per_hour\n"T4,1\n', "invalid_request"),
        (b"", "invalid_request"),
    ],
)
@before_any_row
def test_bad_file_is_refused(client: TestClient, content: bytes, code: str) -> None:
    answer = client.post("/v1/prices", content=content, headers=CSV)

    assert (answer.status_code, answer.json()["code"]) == (422, code)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
@before_any_row
def test_table_separated_otherwise_is_told_so(client: TestClient, mark: str) -> None:
    table = "gpu_type,price_per_hour\nT4,1\n".replace(",", mark)

    answer = client.post("/v1/prices", content=table.encode(), headers=CSV)

    assert "Separate them by commas" in answer.json()["detail"]


def test_body_of_another_kind_is_refused(client: TestClient) -> None:
    xml = client.post("/v1/prices", content=b"<p/>", headers={"Content-Type": "text/xml"})
    broken = client.post("/v1/prices", content=b"[", headers={"Content-Type": "application/json"})

    assert xml.json()["code"] == "unsupported_media_type"
    assert broken.json()["code"] == "invalid_request"


def test_too_many_prices_at_once_are_refused(client: TestClient) -> None:
    answer = client.post("/v1/prices", json=[PRICE] * 10_001)

    assert answer.json()["code"] == "invalid_request"


@pytest.mark.parametrize("path", ["prices", "exchange-rates", "grid-factors", "runs"])
@before_any_row
def test_uploads_of_nothing_are_refused(client: TestClient, path: str) -> None:
    answer = client.post(f"/v1/{path}", json=[])

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "The upload has no" in answer.json()["detail"]


def test_beginning_of_a_name_is_told_the_shortest(client: TestClient) -> None:
    answer = client.post("/v1/prices", json={"gpu_type": "T4", "price": 1})

    assert answer.json()["errors"][0]["remedy"] == "Use 'price_per_hour'."


def test_file_of_nothing_but_a_header_is_refused(client: TestClient) -> None:
    answer = client.post("/v1/prices", content=b"gpu_type,price_per_hour\n", headers=CSV)

    assert answer.json()["detail"] == "The upload has no prices."


@pytest.mark.parametrize("token", ["nonsense", "catalogue.x", "catalogue.-1"])
@before_any_row
def test_foreign_page_token_is_refused(client: TestClient, token: str) -> None:
    answer = client.get(f"/v1/prices?page_token={token}")

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize("name", ["price_01m6bfp5g00fsjq2aafvdf4y8", "x"])
def test_unknown_price_is_not_found(client: TestClient, name: str) -> None:
    assert client.delete(f"/v1/prices/{name}").json()["code"] == "not_found"


def test_billing_rules_survive_export_and_import(client: TestClient) -> None:
    rules = {"minimum_billed_s": 60, "billing_step_s": 3600}
    sent = {"gpu_type": "T4", "price_per_hour": "1.5", **rules}
    assert client.post("/v1/prices", json=sent).status_code == 201
    accept, kind = {"Accept": "text/csv"}, {"Content-Type": "text/csv"}
    exported = client.get("/v1/prices?origin=own", headers=accept).text

    assert client.post("/v1/prices", content=exported, headers=kind).status_code == 201

    own = client.get("/v1/prices?origin=own").json()["prices"]
    assert [{name: each[name] for name in rules} for each in own] == [rules, rules]


@pytest.mark.parametrize(
    "table",
    [
        "\ufeffgpu_type,price_per_hour,,\r\nT4,1.5,,\r\n,,,\r\nL4,2.5\r\n",
        "sep=,\r\ngpu_type,price_per_hour\r\nT4,1.5\r\nL4,2.5\r\n",
    ],
)
def test_tables_are_read_as_spreadsheets_save_them(client: TestClient, table: str) -> None:
    answer = client.post("/v1/prices", content=table.encode(), headers=CSV)

    assert answer.status_code == 201, answer.text
    assert [each["price_per_hour"] for each in answer.json()["prices"]] == ["1.50", "2.50"]


@pytest.mark.parametrize(
    ("row", "message", "remedy"),
    [
        ("T4,1,5,2,", "The row has 5 cells where the header has 4.", "decimals with a point"),
        ("T4", "The row has 1 cell where the header has 4.", "as many cells as the header"),
        ('T4,"1,5",,', "Input should be a valid decimal", "a point before decimals"),
    ],
)
@before_any_row
def test_rows_of_another_width_and_decimal_commas_are_refused(
    client: TestClient, row: str, message: str, remedy: str
) -> None:
    table = f"gpu_type,price_per_hour,gpu_count,provider\n{row}\n"

    answer = client.post("/v1/prices", content=table.encode(), headers=CSV)

    [fault] = answer.json()["errors"]
    assert (fault["row"], fault["message"]) == (1, message)
    assert remedy in fault["remedy"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PK\x03\x04\x14\x00", "a spreadsheet or another zip archive"),
        ("gpu_type,price_per_hour\n".encode("utf-16"), "text in UTF-16"),
        ("gpu_type,price_per_hour\n".encode("utf-16-le"), "text in UTF-16"),
    ],
)
@before_any_row
def test_other_files_are_recognised(client: TestClient, content: bytes, kind: str) -> None:
    answer = client.post("/v1/prices", content=content, headers=CSV)

    assert answer.json()["detail"].startswith(f"The body is {kind}: send text in UTF-8")
