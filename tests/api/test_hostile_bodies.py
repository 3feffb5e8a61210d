"""No body that is deep, wide, huge or absurd harms the service, whatever operation it goes to."""

import gzip
import tracemalloc
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import orjson
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from app.api.documents import records
from app.domain.spelling import nearest_field
from app.domain.zstd import zstd
from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.api.test_isolation import BODIES
from tests.support.clock import FakeClock
from tests.support.engines import before_any_row
from tests.support.regressors import publish_regressor

_LIMIT = 1 << 20
_PARAMETERS = {"workload": "theirs", "run": "run_1", "report": "rep_1"}
_ABSURD: tuple[object, ...] = (1e308, 5e-324, -1, 10**400, "1e999", [])
_MISFITS: tuple[object, ...] = ([{}], {"?": [None]}, {"n" * 200: 1}, None, "\0", True)
_DEEP = 100_000
_RECORDS = {f"POST /v1/{name}" for name in ("runs", "prices", "exchange-rates", "grid-factors")}
"""Operations that read other formats too, and record by record."""


@pytest.fixture
def services(database: Database, settings: Settings, clock: FakeClock) -> Services:
    small = settings.model_copy(update={"max_body_bytes": _LIMIT})
    services = Services(ServiceContext(database, small, clock))
    publish_regressor(services, "theirs")
    return services


@pytest.fixture
def client(services: Services) -> Iterator[TestClient]:
    app = build_app(services.context.settings, services)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def _places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each value stands that is no container."""
    members = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for name, value in members:
        if isinstance(value, (dict, list)):
            yield from _places(value, (*path, name))
        else:
            yield (*path, name)


def _changed(document: Any, path: tuple[Any, ...], value: object) -> Any:
    changed = deepcopy(document)
    place = changed
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return changed


def _send(client: TestClient, operation: str, **content: Any) -> Any:
    method, path = operation.split(" ")
    return client.request(method, path.format_map(_PARAMETERS), **content)


def _check(answer: Any) -> None:
    assert answer.status_code < 500, answer.text[:500]
    if not answer.is_success:
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("operation", BODIES)
def test_absurd_values_are_answered_or_refused(client: TestClient, operation: str) -> None:
    for place in _places(BODIES[operation]):
        for value in _ABSURD:
            _check(_send(client, operation, json=_changed(BODIES[operation], place, value)))


@pytest.mark.parametrize("depth", [300, 1000])
@pytest.mark.parametrize("operation", BODIES)
@before_any_row
def test_values_that_can_be_read_but_not_written_are_refused(
    client: TestClient, operation: str, depth: int
) -> None:
    headers, nested = {"Content-Type": "application/json"}, b"[" * depth + b"]" * depth
    for place in _places(BODIES[operation]):
        document = orjson.dumps(_changed(BODIES[operation], place, "nested"))
        body = document.replace(b'"nested"', nested)
        _check(_send(client, operation, content=body, headers=headers))


@pytest.mark.parametrize(
    "body",
    [b'{"a": NaN}', b'{"a": 1,}', '{"a": 1}'.encode("utf-16"), b'{"a": "\xff"}', b"PK\x03\x04"],
)
@before_any_row
def test_operations_say_the_same_of_a_body_that_is_not_json(
    client: TestClient, body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    said = {
        operation: _send(client, operation, content=body, headers=headers).json()
        for operation in BODIES.keys() - _RECORDS
    }

    faults = {(said["code"], said["detail"], str(said.get("errors"))) for said in said.values()}
    assert len(faults) == 1, said
    assert {code for code, *_ in faults} == {"invalid_request"}


@before_any_row
def test_body_without_a_type_is_read_as_json(client: TestClient) -> None:
    for operation in BODIES.keys() - _RECORDS:
        answer = _send(client, operation, content=orjson.dumps(BODIES[operation]))
        assert answer.status_code != 415, (operation, answer.text)
        _check(answer)


@pytest.mark.parametrize("text", [b"[", b'{"a":', b'{"parameters":[', b'[{"runs":'])
@pytest.mark.parametrize("ends", [True, False])
@before_any_row
def test_deep_json_is_a_problem_everywhere(client: TestClient, text: bytes, *, ends: bool) -> None:
    closing = {"[": b"]", "{": b"}"}
    tail = b"".join(closing[chr(c)] for c in reversed(text) if chr(c) in closing)
    body = text * (_DEEP // len(text)) + (b"1" + tail * (_DEEP // len(text)) if ends else b"")

    for operation in BODIES:
        answer = _send(
            client, operation, content=body, headers={"Content-Type": "application/json"}
        )
        assert 400 <= answer.status_code < 500, (operation, answer.text[:300])
        _check(answer)
    assert client.get("/healthz").is_success


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_bombs_are_refused_everywhere(client: TestClient, encoding: str) -> None:
    zeros = b"0" * (64 * _LIMIT)
    bomb = gzip.compress(zeros, 6) if encoding == "gzip" else zstd.compress(zeros)
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}

    for operation in BODIES:
        answer = _send(client, operation, content=bomb, headers=headers)
        assert answer.json()["code"] == "payload_too_large", operation
    assert len(bomb) < _LIMIT
    assert client.get("/healthz").is_success


def test_rows_of_500_columns_are_named_not_stored(client: TestClient) -> None:
    columns = ["workload", "duration_seconds", *(f"param.p{n}" for n in range(498))]
    text = ",".join(columns) + "\n" + ",".join(["theirs", "3", *["1"] * 498]) + "\n"
    run = {
        "workload": "theirs",
        "duration_seconds": 3,
        "parameters": {f"p{n}": n for n in range(500)},
    }

    table = client.post("/v1/runs", content=text, headers={"Content-Type": "text/csv"})
    document = client.post("/v1/runs", json=run)

    assert (table.status_code, document.status_code) == (422, 422)
    assert len(table.content) + len(document.content) < 100_000


@pytest.mark.parametrize("value", [b"{}", b"[]", b"1", b'""'])
def test_more_values_than_are_read_at_once_are_refused(
    settings: Settings, database: Database, value: bytes
) -> None:
    application = build_app(settings, Services(ServiceContext(database, settings)))
    body = b'{"requests":[' + (value + b",") * 1_100_000 + value + b"]}"

    with TestClient(application, raise_server_exceptions=False) as client:
        answer = client.post(
            "/v1/forecasts:batch", content=body, headers={"Content-Type": "application/json"}
        )

    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert "1000000 values" in answer.json()["detail"]


def _stands_in(document: Any, pointer: str) -> bool:
    """Return whether a pointer leads into a document; its last part may be what is missing."""
    names = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    for number, name in enumerate(names):
        if isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        elif isinstance(document, dict) and name in document:
            document = document[name]
        else:
            return number == len(names) - 1 and isinstance(document, dict)
    return True


@pytest.mark.parametrize("operation", BODIES)
def test_pointers_lead_into_the_document_that_was_sent(client: TestClient, operation: str) -> None:
    for place in _places(BODIES[operation]):
        for value in _MISFITS:
            sent = _changed(BODIES[operation], place, value)
            faults = _send(client, operation, json=sent).json().get("errors", [])
            told = [fault["pointer"] for fault in faults if "pointer" in fault]
            assert all(_stands_in(sent, pointer) for pointer in told), (place, value, told)


@pytest.mark.parametrize("path", ["/v1/prices", "/v1/exchange-rates", "/v1/grid-factors"])
@pytest.mark.parametrize(
    ("file", "told"),
    [
        (b"\n" * 101_000, "more than 100000 lines"),
        (b"source\n" + b"x\n" * 10_001, "more than 10000"),
        (b"," * 200 + b"\n", "no header"),
        (b"a," * 200 + b"\n", "200 columns"),
    ],
)
@before_any_row
def test_tables_of_records_are_bounded_in_every_direction(
    application: FastAPI, monkeypatch: pytest.MonkeyPatch, path: str, file: bytes, told: str
) -> None:
    monkeypatch.setattr(records, "_MAX_LINES", 100_000)
    with TestClient(application) as client:
        answer = client.post(path, content=file, headers={"Content-Type": "text/csv"})

    assert answer.status_code == 422
    assert told in answer.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/v1/runs", "/v1/prices", "/v1/exchange-rates", "/v1/grid-factors"]
)
@pytest.mark.parametrize("rows", [2, 5000])
@before_any_row
def test_table_that_lost_its_line_breaks_is_told_how_curl_keeps_them(
    client: TestClient, path: str, rows: int
) -> None:
    body = "workload,duration_seconds" + "a,5" * rows

    answer = client.post(path, content=body, headers={"Content-Type": "text/csv"})

    assert answer.status_code == 422
    assert "no line breaks" in answer.json()["detail"]
    assert "--data-binary, not with -d" in answer.json()["detail"]


@pytest.mark.parametrize(
    "table",
    ["w,12.5,4\nw,13,4\n", "# exported\nworkload,duration_seconds\nw,5\n", "My runs,,\n\nw,5,\n"],
)
@before_any_row
def test_table_without_header_is_told_to_begin_with_one(client: TestClient, table: str) -> None:
    answer = client.post("/v1/runs", content=table, headers={"Content-Type": "text/csv"})

    assert answer.status_code == 422
    assert "The first line is no header" in answer.json()["detail"]
    assert [fault["field"] for fault in answer.json()["errors"]] == ["workload", "duration_seconds"]


@pytest.mark.parametrize("number", ["12,5", "1,234.5", "1.234,5", "1'234", "10%"])
@pytest.mark.parametrize("field", ["duration_seconds", "workers"])
@before_any_row
def test_number_in_another_notation_is_told_how_to_be_written(
    client: TestClient, field: str, number: str
) -> None:
    cells = {"workload": "w", "duration_seconds": "5", "workers": "4"} | {field: f'"{number}"'}
    table = f"{','.join(cells)}\n{','.join(cells.values())}\n"

    answer = client.post("/v1/runs", content=table, headers={"Content-Type": "text/csv"})

    (fault,) = answer.json()["errors"]
    assert fault["field"] == field
    assert fault["remedy"].startswith("Write it with a decimal point")


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/prices", "/v1/forecasts", "/v1/schedules:rank"])
@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}], ids=["once", "twice"])
@before_any_row
def test_compressed_body_is_told_its_header(
    client: TestClient, path: str, headers: dict[str, str]
) -> None:
    media_type = "text/csv" if path in {"/v1/runs", "/v1/prices"} else "application/json"
    body = gzip.compress(b"workload,duration_seconds\nw,5\n")
    sent = gzip.compress(body) if headers else body

    answer = client.post(path, content=sent, headers={"Content-Type": media_type, **headers})

    assert answer.status_code == 422
    detail = answer.json()["detail"]
    assert "compress it once, and send it with the header Content-Encoding: gzip" in detail


def test_json_in_another_charset_is_told_the_one_to_send(client: TestClient) -> None:
    answers = [
        client.request(
            method,
            path,
            content='{"description": "\u00e9t\u00e9"}'.encode("latin-1"),
            headers={"Content-Type": "application/json"},
        )
        for method, path in (("PUT", "/v1/workloads/w"), ("POST", "/v1/forecasts"))
    ]

    for answer in answers:
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["remedy"] == "Send one JSON document in UTF-8."


def test_type_may_have_other_parameters_than_a_charset(client: TestClient) -> None:
    table = "workload,duration_seconds\nw,5\n"

    answers = [
        client.post(
            "/v1/runs",
            content=table,
            headers={"Content-Type": f"text/csv; header=present; charset={charset}"},
        )
        for charset in ("utf-8", "latin-1")
    ]

    assert [answer.status_code for answer in answers] == [201, 415]


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/prices", "/v1/forecasts"])
@pytest.mark.parametrize(
    "form", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
@before_any_row
def test_form_of_curl_is_told_how_to_send_a_file(client: TestClient, path: str, form: str) -> None:
    answer = client.post(path, content="workload,5", headers={"Content-Type": form})

    assert answer.status_code == 415
    assert "-H 'Content-Type: application/json'" in answer.json()["detail"]
    assert "--data-binary @FILE" in answer.json()["detail"]


def test_lines_that_lost_their_line_breaks_are_told_how_curl_keeps_them(
    client: TestClient,
) -> None:
    body = '{"workload":"w","duration_seconds":5}' * 2

    answer = client.post("/v1/runs", content=body, headers={"Content-Type": "application/x-ndjson"})

    (fault,) = answer.json()["errors"]
    assert fault["remedy"].startswith("Put each run on a line of its own")
    assert "--data-binary, not with -d" in fault["remedy"]


def test_name_of_megabytes_is_compared_with_no_field() -> None:
    tracemalloc.start()
    try:
        assert nearest_field("workers" * 200_000, ["workers", "nodes"]) is None
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
