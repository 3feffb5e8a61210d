"""Keys say who calls; without them nothing beyond this machine is served."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from app.api.middleware import authentication
from app.domain.access import ApiKey, Principal, Scope
from app.domain.addresses import is_loopback
from app.domain.errors import NotFoundError
from app.domain.identifiers import KeyId
from app.main import build_app
from app.services.access import keys_required
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.echo import echoing_client
from tests.support.engines import before_any_row
from tests.support.outage import make_unavailable


@pytest.fixture
def keyed(database: Database, settings: Settings, clock: FakeClock) -> Services:
    required = settings.model_copy(update={"require_keys": True})
    return Services(ServiceContext(database, required, clock))


@pytest.fixture
def client(keyed: Services) -> Iterator[TestClient]:
    with echoing_client(keyed.context.settings, keyed) as (client, _echo):
        yield client


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _create(services: Services, **options: object) -> tuple[ApiKey, str]:
    lifetime = options.get("lifetime")
    assert lifetime is None or isinstance(lifetime, timedelta)
    return services.access.create_key("ci", [Scope.READ], lifetime=lifetime)


def test_request_without_a_key_is_unauthenticated(client: TestClient) -> None:
    answer = client.post("/v1/echo")

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_valid_key_is_let_in(client: TestClient, keyed: Services) -> None:
    _, token = _create(keyed)

    assert client.post("/v1/echo", headers=_bearer(token)).status_code == 201
    assert client.post("/v1/echo", headers={"Authorization": f"bearer  {token}"}).is_success


@pytest.mark.parametrize(("require_keys", "advised"), [(None, False), (True, True)])
def test_unknown_key_is_only_asked_for_where_one_is_needed(
    database: Database,
    settings: Settings,
    clock: FakeClock,
    *,
    require_keys: bool | None,
    advised: bool,
) -> None:
    chosen = settings.model_copy(update={"require_keys": require_keys})
    services = Services(ServiceContext(database, chosen, clock))

    with echoing_client(chosen, services) as (client, _echo):
        answers = [client.post("/v1/echo", headers=_bearer(key)) for key in ("", "nonsense")]

    for answer in answers:
        remedy = answer.json()["remedy"]
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert ("Send `Authorization: Bearer KEY`" in remedy) is advised
        assert ("Leave the `Authorization` header out" in remedy) is not advised


def test_token_has_256_secret_bits_and_is_not_stored(keyed: Services, database: Database) -> None:
    key, token = _create(keyed)

    with database.reading() as stores:
        stored_key = stores.access.find_key(key.key_id)

    assert re.fullmatch(rf"tf_{key.key_id}_[0-9a-f]{{64}}", token)
    assert stored_key is not None
    assert token.rpartition("_")[2] not in stored_key[1]


@pytest.mark.parametrize(
    "header",
    ["Basic dXNlcjpwYXNz", "Bearer", "Bearer nonsense", "Bearer tf_a_b", "Bearer tf_\u00fc_b",
     "Bearer " + "x" * 5000],
)  # fmt: skip
def test_other_credentials_are_refused(client: TestClient, header: str) -> None:
    answer = client.post("/v1/echo", headers={b"Authorization": header.encode("latin-1")})

    assert answer.json()["code"] == "unauthenticated"


def test_right_key_id_with_another_secret_is_refused(client: TestClient, keyed: Services) -> None:
    key, _ = _create(keyed)

    answer = client.post("/v1/echo", headers=_bearer(f"tf_{key.key_id}_{'0' * 64}"))

    assert answer.status_code == 401


def test_expired_key_is_refused(client: TestClient, keyed: Services, clock: FakeClock) -> None:
    _, token = _create(keyed, lifetime=timedelta(seconds=2))
    assert client.post("/v1/echo", headers=_bearer(token)).is_success

    clock.advance(3)
    answer = client.post("/v1/echo", headers=_bearer(token))

    assert "expired" in answer.json()["detail"]


def test_revoked_key_is_refused_within_seconds(
    client: TestClient, keyed: Services, clock: FakeClock
) -> None:
    key, token = _create(keyed)
    assert client.post("/v1/echo", headers=_bearer(token)).is_success

    keyed.access.revoke_key(key.key_id)
    clock.advance(6)
    answer = client.post("/v1/echo", headers=_bearer(token))

    assert "revoked" in answer.json()["detail"]


@pytest.mark.lengthy
@pytest.mark.parametrize(("long_s", "status"), [(-1.0, 401), (60.0, 201)])
def test_key_that_was_revoked_while_a_body_was_sent_is_refused(
    keyed: Services,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    long_s: float,
    status: int,
) -> None:
    key, token = _create(keyed)
    admit = keyed.access.authenticate

    async def admit_and_revoke(authorization: str | None) -> Principal:
        caller = await admit(authorization)
        keyed.access.revoke_key(key.key_id)
        clock.advance(6)
        return caller

    monkeypatch.setattr(keyed.access, "authenticate", admit_and_revoke)
    monkeypatch.setattr(authentication, "_SLOW_BODY_S", long_s)
    with echoing_client(keyed.context.settings, keyed) as (client, _echo):
        answer = client.post("/v1/echo", headers=_bearer(token), content=b"[1]")

    assert answer.status_code == status
    if status == 401:
        assert "revoked" in answer.json()["detail"]


def test_body_that_took_long_is_taken_while_the_database_is_away(
    client: TestClient, keyed: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = _create(keyed)
    monkeypatch.setattr(authentication, "_SLOW_BODY_S", -1.0)
    assert client.post("/v1/echo", headers=_bearer(token)).is_success
    make_unavailable(keyed.context.database)

    assert client.post("/v1/echo", headers=_bearer(token), content=b"[1]").is_success


def test_revoking_an_unknown_key_says_so(keyed: Services) -> None:
    with pytest.raises(NotFoundError):
        keyed.access.revoke_key(KeyId("nothing"))


def test_known_key_is_let_in_while_the_database_is_away(
    database: Database, settings: Settings, clock: FakeClock
) -> None:
    required = settings.model_copy(update={"require_keys": True})
    services = Services(ServiceContext(database, required, clock))
    with echoing_client(required, services) as (client, _echo):
        _, token = _create(services)
        _, unseen = _create(services)
        assert client.post("/v1/echo", headers=_bearer(token)).is_success
        make_unavailable(database)
        clock.advance(20)
        known = client.post("/v1/echo", headers=_bearer(token))
        unknown = client.post("/v1/echo", headers=_bearer(unseen))

    assert known.status_code == 201
    assert unknown.status_code == 503


def test_use_is_noted_at_most_once_a_minute(
    client: TestClient, keyed: Services, clock: FakeClock
) -> None:
    _, token = _create(keyed)
    first_use = clock()
    client.post("/v1/echo", headers=_bearer(token))
    clock.advance(30)
    client.post("/v1/echo", headers=_bearer(token))

    keyed.access.close()

    [(key, project)] = keyed.access.list_keys()
    assert key.last_used_at == first_use
    assert project.name == "default"


def test_key_carries_its_project_and_scopes(keyed: Services) -> None:
    key, _ = keyed.access.create_key("x", [Scope.READ], project="team")
    again, _ = keyed.access.create_key("y", [Scope.ADMIN], project="team")

    assert key.project_id == again.project_id != "default"
    assert Principal(key.project_id, key.scopes).allows(Scope.READ)
    assert not Principal(key.project_id, key.scopes).allows(Scope.RUNS_WRITE)
    assert keyed.access.has_usable_key()


def test_without_required_keys_a_wrong_key_is_still_refused(
    settings: Settings, services: Services
) -> None:
    with echoing_client(settings, services) as (client, _echo):
        assert client.post("/v1/echo").is_success
        assert client.post("/v1/echo", headers=_bearer("tf_wrong_key")).status_code == 401


def test_health_needs_no_key(client: TestClient) -> None:
    assert client.get("/healthz").status_code != 401


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("[::1]", True), ("localhost", True), ("127.9.9.9", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.org", False)],
)  # fmt: skip
def test_keys_are_required_beyond_loopback(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected
    assert keys_required(Settings(host=host)) is not expected
    assert keys_required(Settings(host=host, require_keys=False)) is False


@pytest.mark.parametrize(("said", "expected"), [(None, True), (False, False), (True, True)])
def test_issuer_demands_authentication_everywhere(*, said: bool | None, expected: bool) -> None:
    issuer = {"oidc_issuer": "https://sso.example.org", "oidc_audience": "trainfare"}

    assert keys_required(Settings(require_keys=said, **issuer)) is expected  # type: ignore[arg-type] # texts


def test_refused_requests_count_under_the_route_that_they_were_for(keyed: Services) -> None:
    with TestClient(build_app(keyed.context.settings, keyed)) as client:
        client.get("/v1/workloads/mine")
        client.get("/v1/nothing")
        text = client.get("/metrics").text

    assert 'method="GET",route="/v1/workloads/{workload}",status="401"} 1.0' in text
    assert 'method="GET",route="(none)",status="401"} 1.0' in text


@pytest.mark.parametrize(
    ("site", "method", "status"),
    [
        ("cross-site", "POST", 403),
        ("same-site", "POST", 403),
        ("cross-site", "GET", 201),
        ("same-origin", "POST", 201),
        ("none", "POST", 201),
    ],
)
@before_any_row
def test_page_of_another_site_changes_nothing_without_a_key(
    database: Database, settings: Settings, site: str, method: str, status: int
) -> None:
    open_to_all = settings.model_copy(update={"require_keys": False})
    services = Services(ServiceContext(database, open_to_all))

    with echoing_client(open_to_all, services) as (client, echo):
        answer = client.request(method, "/v1/echo", headers={"Sec-Fetch-Site": site})

    assert (answer.status_code, echo.calls) == (status, int(status != 403))


def test_page_of_another_site_may_send_a_key(client: TestClient, keyed: Services) -> None:
    _, token = _create(keyed)
    headers = {**_bearer(token), "Sec-Fetch-Site": "cross-site"}

    assert client.post("/v1/echo", headers=headers).status_code == 201


@pytest.mark.parametrize(
    ("host", "require_keys", "status"),
    [
        ("fare.example:8000", None, 403),
        ("127.0.0.1.fare.example", None, 403),
        ("", None, 403),
        ("127.0.0.1:8000", None, 201),
        ("[::1]:8000", None, 201),
        ("localhost:8000", None, 201),
        ("trainfare", None, 201),
        ("fare.example:8000", False, 201),
        ("fare.example:8000", True, 401),
    ],
)
@before_any_row
def test_name_that_others_can_give_this_machine_is_refused_without_a_key(
    database: Database, settings: Settings, *, host: str, require_keys: bool | None, status: int
) -> None:
    chosen = settings.model_copy(update={"require_keys": require_keys})
    services = Services(ServiceContext(database, chosen))

    with echoing_client(chosen, services) as (client, echo):
        answer = client.get("/v1/echo", headers={"Host": host})

    assert (answer.status_code, echo.calls) == (status, int(status == 201))


@pytest.mark.parametrize("authorization", ["Basic YWRhOg==", "Bearer", "", "Bearer x"])
@before_any_row
def test_header_that_names_no_key_makes_no_name_good(
    database: Database, settings: Settings, authorization: str
) -> None:
    headers = {"Host": "fare.example:8000", "Authorization": authorization}

    with echoing_client(settings, Services(ServiceContext(database, settings))) as (client, echo):
        answer = client.get("/v1/echo", headers=headers)

    assert (answer.status_code, echo.calls) == (401 if authorization[:6] == "Bearer" else 403, 0)


@before_any_row
def test_refused_name_is_told_with_what_helps(database: Database, settings: Settings) -> None:
    services = Services(ServiceContext(database, settings))

    with echoing_client(settings, services) as (client, _):
        document = client.get("/v1/workloads", headers={"Host": "fare.example"}).json()

    assert "'fare.example'" in document["detail"]
    assert "TRAINFARE_REQUIRE_KEYS" in document["remedy"]


@pytest.mark.parametrize(
    ("host", "require_keys", "status"),
    [
        ("fare.example:8000", None, 403),
        ("localhost:9090", None, 200),
        ("fare.example:8000", False, 200),
        ("trainfare.monitoring.svc:8000", True, 200),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer x"}])
@before_any_row
def test_metrics_are_told_to_the_names_that_the_api_answers_to(
    database: Database,
    settings: Settings,
    headers: dict[str, str],
    *,
    host: str,
    require_keys: bool | None,
    status: int,
) -> None:
    chosen = settings.model_copy(update={"require_keys": require_keys})

    with echoing_client(chosen, Services(ServiceContext(database, chosen))) as (client, _):
        answer = client.get("/metrics", headers={**headers, "Host": host})

    assert answer.status_code == status
