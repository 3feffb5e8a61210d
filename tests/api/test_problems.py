"""Every refusal has its place in the problem table, and every framework error its shape."""

import re
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient
from pydantic_core._pydantic_core import list_all_errors

from app.api import problem_kinds
from app.api.value_remedies import REMEDIES, remedy_of
from app.domain.errors import DomainError
from tests.support.engines import before_any_row


def _descendants(cls: type[DomainError]) -> set[type[DomainError]]:
    children = set(cls.__subclasses__())
    return children.union(*(_descendants(child) for child in children))


def test_every_domain_error_is_in_the_table_and_names_a_remedy() -> None:
    errors = _descendants(DomainError)

    assert errors
    assert errors == set(problem_kinds.KINDS)
    assert all(error.remedy for error in errors)


def test_codes_are_unique_words() -> None:
    codes = [kind.code for kind in problem_kinds.all_kinds()]

    assert len(codes) == len(set(codes))
    assert all(re.fullmatch("[a-z_]+", code) for code in codes)


@pytest.mark.parametrize(
    "path", ["/v1/workloads/no%20id%3F%0A", "/v1/n%C3%A9%23", "/v1/forecasts:batch%2F"]
)
@before_any_row
def test_instance_is_the_path_as_a_uri_has_it(client: TestClient, path: str) -> None:
    assert client.get(path).json()["instance"] == path.replace("%2F", "/")


def test_unknown_path_is_a_problem(client: TestClient) -> None:
    answer = client.get("/v1/nothing/here", headers={"X-Request-ID": "abc-1"})

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not_found"
    assert answer.headers["x-request-id"] == "abc-1"


@pytest.mark.parametrize("path", ["/v1/workloads/", "/docs/", "/workloads/some/", "/healthz/"])
@before_any_row
def test_path_with_a_slash_too_many_is_unknown_and_leads_nowhere(
    client: TestClient, path: str
) -> None:
    answer = client.get(path, headers={"Host": "evil"}, follow_redirects=False)

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "location" not in answer.headers
    assert "evil" not in answer.text


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/v1/v1/workloads", "/v1/workloads? The address given to a client ends before /v1."),
        ("/v1/v1/runs/", "/v1/runs? The address given to a client ends before /v1."),
        ("/workloads/some/runs", "/v1/workloads/some/runs?"),
        ("/v1/workloads/", "/v1/workloads?"),
    ],
)
@before_any_row
def test_path_with_its_base_twice_or_not_at_all_is_told_the_right_one(
    client: TestClient, path: str, remedy: str
) -> None:
    assert client.get(path).json()["remedy"] == f"Did you mean {remedy}"


@pytest.mark.parametrize("path", ["/nothing", "/v1/v1", "/v1/v1/nothing", "/v1/"])
@before_any_row
def test_path_that_is_like_none_is_told_where_they_stand(client: TestClient, path: str) -> None:
    assert client.get(path).json()["remedy"] == "See /docs."


def test_wrong_method_names_all_methods_of_the_resource(client: TestClient) -> None:
    answer = client.post("/v1/workloads/some")

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, PUT, DELETE"


@pytest.mark.parametrize("value", [None, [], {}, "", "x" * 501, "\0"])
def test_parameter_of_a_wrong_type_is_one_fault_at_its_own_place(
    client: TestClient, value: object
) -> None:
    question = {"workload": "some", "parameters": {"layers": value}}

    answer = client.post("/v1/forecasts", json=question)
    asked_many = client.post("/v1/forecasts:batch", json={"requests": [question]})

    [fault] = answer.json()["errors"]
    assert (fault["pointer"], fault["field"]) == ("/parameters/layers", "layers")
    assert "a finite number" in fault["message"]
    [answered] = asked_many.json()["forecasts"]
    assert answered["problem"]["errors"] == [fault]


def test_name_that_is_refused_is_told_as_the_caller_wrote_it(client: TestClient) -> None:
    long, odd = "x" * 101, "a/b~c\0"
    question = {"workload": "some", "parameters": {long: 1, odd: 2}}

    answer = client.post("/v1/forecasts", json=question)

    fields = [(fault["pointer"], fault["field"]) for fault in answer.json()["errors"]]
    assert fields == [(f"/parameters/{long}", long), ("/parameters/a~1b~0c\0", odd)]


def test_member_that_is_called_as_pydantic_calls_names_keeps_its_name(client: TestClient) -> None:
    question = {"workload": "some", "parameters": {"[key]": []}}

    answer = client.post("/v1/forecasts", json=question)

    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/parameters/[key]"]


def test_pull_request_that_is_neither_number_nor_text_is_one_fault(client: TestClient) -> None:
    report = {"runs": [{"workload": "some", "duration_seconds": 1}], "pull_request": [17]}

    answer = client.post("/v1/ci/reports", json=report)

    [fault] = answer.json()["errors"]
    assert fault["pointer"] == "/pull_request"
    assert "its number or a text" in fault["message"]


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"1"])
@pytest.mark.parametrize("path", ["/v1/forecasts", "/v1/forecasts:batch", "/v1/schedules:rank"])
@before_any_row
def test_body_that_is_no_object_is_told_in_words_of_json(
    client: TestClient, path: str, body: bytes
) -> None:
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})

    [fault] = answer.json()["errors"]
    assert (fault["pointer"], fault["message"]) == ("", "Input should be an object")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/forecasts", {"workload": "w"}),
        ("/v1/forecasts:batch", {"requests": []}),
        ("/v1/recommendations", {"workload": "w"}),
        ("/v1/schedules:rank", {"jobs": []}),
        ("/v1/prices", {"gpu_type": "T4", "price_per_hour": 1}),
        ("/v1/runs", {"workload": "w", "duration_seconds": 1}),
    ],
)
def test_body_after_a_byte_order_mark_is_read(
    client: TestClient, path: str, body: dict[str, Any]
) -> None:
    marked = b"\xef\xbb\xbf" + orjson.dumps(body)

    answer = client.post(path, content=marked, headers={"Content-Type": "application/json"})

    assert answer.status_code in {200, 201, 404}, answer.text


def test_every_kind_of_refusal_has_a_remedy_in_words() -> None:
    known: dict[str, dict[str, object]] = {
        error["type"]: error.get("example_context") or {} for error in list_all_errors()
    }

    assert known.keys() >= REMEDIES.keys()
    for kind in REMEDIES:
        remedy = remedy_of(kind, "deadline_s", known[kind]) or ""
        assert remedy.startswith("Send ")
        assert "None" not in remedy


@pytest.mark.parametrize(
    ("member", "remedy"),
    [
        ({"objective": "cheap"}, "Send 'cost', 'duration', 'cost_duration_product', 'energy' or"),
        ({"deadline_s": -1}, "Send a number above 0."),
        ({"search": []}, "Send an object: {...}."),
        ({"confidence": "high"}, "Send a plain number, with a point before decimals."),
    ],
)
@before_any_row
def test_value_that_is_refused_is_told_what_to_send(
    client: TestClient, member: dict[str, object], remedy: str
) -> None:
    answer = client.post("/v1/recommendations", json={"workload": "w", "work": {}, **member})

    (fault,) = answer.json()["errors"]
    assert answer.status_code == 422
    assert fault["field"] in member
    assert fault["remedy"].startswith(remedy)


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("", "The text is too short", "Send 1 or more characters."),
        ("x" * 1001, "The text is too long", "Send at most 40 characters."),
    ],
)
def test_length_of_a_text_is_told_in_characters(
    client: TestClient, text: str, message: str, remedy: str
) -> None:
    answer = client.put("/v1/workloads/some", json={"dataset_unit": text})

    (fault,) = answer.json()["errors"]
    assert (fault["message"], fault["remedy"]) == (message, remedy)


def test_long_value_is_shown_by_its_beginning(client: TestClient) -> None:
    long = "x" * 1_000_000
    row = {"workload": "some", "duration_seconds": 1, "labels": {"a": long}}

    declared = client.put("/v1/workloads/some", json={"description": long})
    unknown = client.put("/v1/workloads/some", json={long: 1})
    refused = client.post("/v1/runs", json=row)
    skipped = client.post("/v1/runs?on_invalid=skip", json=[row])

    assert (declared.status_code, refused.status_code) == (422, 422)
    assert declared.json()["errors"][0]["value"] == "x" * 200
    assert refused.json()["errors"][0]["value"] == "x" * 200
    assert unknown.json()["errors"][0]["field"] == "x" * 100
    answers = (declared, unknown, refused, skipped)
    assert max(len(answer.content) for answer in answers) < 3_000


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/workloads", "/v1/gpus", "/metrics"])
def test_head_is_answered_as_get_is(client: TestClient, path: str) -> None:
    asked, got = client.head(path), client.get(path)

    assert asked.status_code == got.status_code
    assert asked.headers["content-type"] == got.headers["content-type"]


def test_key_in_a_path_is_not_told_again(client: TestClient) -> None:
    secret = "0a" * 32

    for path in (f"/v1/tf_0123abc_{secret}", f"/v1/workloads/tf_0123abc_{secret}"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert secret not in answer.text
        assert answer.json()["instance"].endswith("/tf_0123abc_...")


def test_head_is_counted_for_its_route(client: TestClient) -> None:
    client.head("/v1/runs/run_1")

    counted = 'trainfare_http_requests_total{method="HEAD",route="/v1/runs/{run}",status="404"} 1.0'
    assert counted in client.get("/metrics").text
