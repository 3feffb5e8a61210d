"""Every refusal has its place in the problem table, and every framework error its shape."""

import re

from fastapi.testclient import TestClient

from app.api import problems
from app.domain.errors import DomainError


def _descendants(cls: type[DomainError]) -> set[type[DomainError]]:
    children = set(cls.__subclasses__())
    return children.union(*(_descendants(child) for child in children))


def test_every_domain_error_is_in_the_table_and_names_a_remedy() -> None:
    errors = _descendants(DomainError)

    assert errors
    assert errors == set(problems.KINDS)
    assert all(error.remedy for error in errors)


def test_codes_are_unique_words() -> None:
    codes = [kind.code for kind in problems.all_kinds()]

    assert len(codes) == len(set(codes))
    assert all(re.fullmatch("[a-z_]+", code) for code in codes)


def test_unknown_path_is_a_problem(client: TestClient) -> None:
    answer = client.get("/v1/nothing/here", headers={"X-Request-ID": "abc-1"})

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not_found"
    assert answer.headers["x-request-id"] == "abc-1"


def test_wrong_method_names_all_methods_of_the_resource(client: TestClient) -> None:
    answer = client.post("/v1/workloads/some")

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, PUT, DELETE"
