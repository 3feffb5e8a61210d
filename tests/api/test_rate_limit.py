"""Rate limits hold per key and tell the caller how much is left."""

import time
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from app.domain.access import Scope
from app.domain.quotas import Limit
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.echo import echoing_client


@pytest.fixture
def limited(database: Database, settings: Settings, clock: FakeClock) -> Services:
    changed = settings.model_copy(update={"rate_limit_per_minute": 2})
    return Services(ServiceContext(database, changed, clock))


@pytest.fixture
def client(limited: Services) -> Iterator[TestClient]:
    with echoing_client(limited.context.settings, limited) as (client, _echo):
        yield client


def test_headers_tell_what_is_left(client: TestClient) -> None:
    answer = client.post("/v1/echo")

    assert answer.headers["ratelimit-limit"] == "2"
    assert answer.headers["ratelimit-remaining"] == "1"
    assert 1 <= int(answer.headers["ratelimit-reset"]) <= 61
    assert answer.headers["ratelimit-policy"] == '"minute";q=2;w=60'
    assert answer.headers["ratelimit"].startswith('"minute";r=1;t=')


def test_more_requests_are_refused_until_the_reset(client: TestClient) -> None:
    client.post("/v1/echo")
    client.post("/v1/echo")

    answer = client.post("/v1/echo")

    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["ratelimit-remaining"] == "0"


def test_address_without_a_key_has_one_limit_for_all_its_connections(client: TestClient) -> None:
    addresses = [("192.0.2.1", 1), ("192.0.2.1", 2), ("192.0.2.1", 3), ("192.0.2.2", 1)]

    statuses = [
        TestClient(client.app, client=address).post("/v1/echo").status_code for address in addresses
    ]

    assert statuses == [201, 201, 429, 201]


def test_each_key_has_its_own_limit(client: TestClient, limited: Services) -> None:
    for name in ("a", "b"):
        _, token = limited.access.create_key(name, [Scope.READ])
        headers = {"Authorization": f"Bearer {token}"}
        assert [client.post("/v1/echo", headers=headers).status_code for _ in range(3)] == [
            201,
            201,
            429,
        ]


def test_clock_that_is_set_back_starts_the_count_anew(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = time.time()
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda: present + 86_400)
        client.post("/v1/echo")

    answers = [client.post("/v1/echo") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert int(answers[-1].headers["retry-after"]) <= 60


def test_health_is_not_limited(client: TestClient) -> None:
    answers = [client.get("/healthz") for _ in range(4)]

    assert all("ratelimit-limit" not in answer.headers for answer in answers)
    assert all(answer.status_code != 429 for answer in answers)


@pytest.fixture
def replicas(limited: Services, settings: Settings, clock: FakeClock) -> Iterator[list[TestClient]]:
    """Two applications beside one database, the second without a limit of its own."""
    other_services = Services(ServiceContext(limited.context.database, settings, clock))
    with (
        echoing_client(limited.context.settings, limited) as (one, _),
        echoing_client(settings, other_services) as (other, _),
    ):
        yield [one, other]


def test_project_shares_its_limit_over_keys_and_replicas(
    replicas: list[TestClient], limited: Services
) -> None:
    tokens = [limited.access.create_key(name, [Scope.READ])[1] for name in ("a", "b", "c")]
    limited.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 3})

    def ask(client: TestClient, token: str) -> int:
        answer = client.post("/v1/echo", headers={"Authorization": f"Bearer {token}"})
        assert answer.headers["ratelimit-limit"] in {"2", "3"}
        return answer.status_code

    one, other = replicas
    asked = [ask(one, tokens[0]), ask(other, tokens[1]), ask(other, tokens[1])]
    refused = [ask(other, tokens[2]), ask(one, tokens[0])]

    assert asked == [201, 201, 201]
    assert refused == [429, 429]


def test_limit_of_the_key_holds_within_that_of_the_project(
    client: TestClient, limited: Services
) -> None:
    _, token = limited.access.create_key("a", [Scope.READ])
    limited.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 100})
    headers = {"Authorization": f"Bearer {token}"}

    statuses = [client.post("/v1/echo", headers=headers).status_code for _ in range(3)]

    assert statuses == [201, 201, 429]


def test_refused_storage_is_a_problem_without_a_time(client: TestClient, limited: Services) -> None:
    limited.projects.limit("default", {Limit.RUNS: 0})

    answer = client.post("/v1/runs", json={"workload": "w", "duration_seconds": 1.0})

    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
    assert "retry-after" not in answer.headers


def test_callers_without_a_key_share_the_limit_of_the_default_project(
    replicas: list[TestClient], limited: Services
) -> None:
    limited.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 3})
    one, other = replicas
    _, token = limited.access.create_key("a", [Scope.READ])

    asked = [client.post("/v1/echo").status_code for client in (one, other, other)]
    refused = other.post("/v1/echo")
    keyed = other.post("/v1/echo", headers={"Authorization": f"Bearer {token}"})

    assert asked == [201, 201, 201]
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
    assert refused.headers["ratelimit-limit"] == "3"
    assert keyed.status_code == 429


def test_limit_of_the_project_is_reset_at_the_end_of_the_minute(
    database: Database, settings: Settings, clock: FakeClock
) -> None:
    # Callers have no limit of their own: its minutes are those of the machine's clock.
    services = Services(ServiceContext(database, settings, clock))
    services.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 1})
    clock.advance(20)

    with echoing_client(settings, services) as (client, _echo):
        first, refused = (client.post("/v1/echo") for _ in range(2))
        clock.advance(40)
        later = client.post("/v1/echo")

    told = [answer.headers["ratelimit"] for answer in (first, refused, later)]
    assert told == [f'"minute";r=0;t={seconds}' for seconds in (40, 40, 60)]
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "40")
    assert later.status_code == 201
