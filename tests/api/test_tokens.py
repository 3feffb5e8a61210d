"""Tokens of an issuer are taken beside keys: verified, mapped, and never trusted beyond that."""

import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi.testclient import TestClient
from httpx2 import Response

from app.domain.access import Scope
from app.domain.quotas import Limit
from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.issuer import AUDIENCE, Issuer, running_issuer
from tests.support.log_lines import log_lines
from tests.support.outage import make_available, make_unavailable

pytestmark = pytest.mark.lengthy

_RUN = {"workload": "w", "duration_seconds": 10.0}


@pytest.fixture
def issuer(clock: FakeClock) -> Iterator[Issuer]:
    with running_issuer(clock()) as issuer:
        yield issuer


Serve = Callable[..., Services]


@pytest.fixture
def serve(database: Database, settings: Settings, clock: FakeClock, issuer: Issuer) -> Serve:
    """Makes services that take the issuer's tokens and demand credentials."""

    def serve(**changes: Any) -> Services:
        changed = settings.model_copy(
            update={
                "require_keys": True,
                "oidc_issuer": issuer.url,
                "oidc_audience": AUDIENCE,
                **changes,
            }
        )
        return Services(ServiceContext(database, changed, clock))

    return serve


@pytest.fixture
def protected(serve: Serve) -> Services:
    return serve()


@pytest.fixture
def client(protected: Services) -> Iterator[TestClient]:
    app = build_app(protected.context.settings, protected)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def _list(client: TestClient, token: str) -> Response:
    return client.get("/v1/workloads", headers={"Authorization": f"Bearer {token}"})


def _upload(client: TestClient, token: str) -> Response:
    return client.post("/v1/runs", json=_RUN, headers={"Authorization": f"Bearer {token}"})


def test_token_allows_what_its_scopes_name(client: TestClient, issuer: Issuer) -> None:
    token = issuer.token()

    assert _list(client, token).status_code == 200
    assert _upload(client, token).json()["code"] == "forbidden"
    assert _upload(client, issuer.token(scope=["runs:write"])).status_code == 201


def test_keys_go_on_beside_tokens(client: TestClient, protected: Services) -> None:
    _, key = protected.access.create_key("ci", [Scope.READ])

    assert _list(client, key).status_code == 200
    assert client.get("/v1/workloads").status_code == 401


def test_token_of_another_project_sees_nothing_of_this_one(
    client: TestClient, protected: Services, issuer: Issuer
) -> None:
    protected.access.create_key("other", [Scope.READ], project="other")
    _upload(client, issuer.token(scope="runs:write"))

    assert _list(client, issuer.token()).json()["workloads"]
    assert not _list(client, issuer.token(project="other")).json()["workloads"]


def test_one_who_removes_is_in_the_audit_log(
    client: TestClient, protected: Services, issuer: Issuer
) -> None:
    for subject in ("ada", "x" * 200, "\ud800"):
        token = issuer.token(scope="admin", sub=subject)
        _upload(client, token)
        client.delete("/v1/workloads/w", headers={"Authorization": f"Bearer {token}"})

    callers = {entry.key_id for entry in protected.access.list_audit("default", limit=10)}
    assert "oidc:ada" in callers
    assert all(caller is None or len(caller) <= 40 for caller in callers)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "somebody-else"},
        {"aud": None},
        {"iss": "https://elsewhere"},
        {"iss": None},
        {"sub": None},
        {"sub": 7},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": 10**400},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"nbf": "yesterday"},
        {"nbf": -(10**400)},
        {"nbf": float("nan")},
        {"nbf": float("-inf")},
        {"project": None},
        {"project": ["default"]},
        {"project": "nobody"},
        {"project": "a\0b"},
        {"project": "\ud800"},
    ],
)
def test_token_that_says_the_wrong_thing_is_refused(
    client: TestClient, issuer: Issuer, claims: dict[str, Any]
) -> None:
    # What the library refuses to sign is signed as it is.
    answer = _list(
        client, issuer.token(**claims) if claims != {"sub": 7} else _badly_signed(issuer)
    )

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"aud": "somebody-else"}, "its `aud` does not name this service"),
        ({"iss": "https://elsewhere"}, "its `iss` is not the issuer that this service trusts"),
        ({"exp": None}, "it has no `exp`"),
    ],
)
def test_refusal_says_what_is_wrong_with_a_token(
    client: TestClient, issuer: Issuer, claims: dict[str, Any], words: str
) -> None:
    answer = _list(client, issuer.token(**claims)).json()

    assert words in answer["detail"]
    assert "token of the issuer" in answer["remedy"]


def _badly_signed(issuer: Issuer) -> str:
    head, _, _ = issuer.token().split(".")
    payload = base64.urlsafe_b64encode(json.dumps({"sub": 7}).encode()).rstrip(b"=").decode()
    return f"{head}.{payload}.AAAA"


def test_tokens_hold_for_their_time_and_the_leeway(
    client: TestClient, issuer: Issuer, clock: FakeClock
) -> None:
    seconds = int(clock().timestamp())
    early, brief = issuer.token(nbf=seconds + 100), issuer.token(exp=seconds + 100)

    at_first = [_list(client, early).status_code, _list(client, brief).status_code]
    clock.advance(129)
    within = [_list(client, early).status_code, _list(client, brief).status_code]
    clock.advance(2)
    after = [_list(client, early).status_code, _list(client, brief).status_code]

    assert at_first == [401, 200]
    assert within == [200, 200]
    assert after == [200, 401]


def _public_pem(issuer: Issuer) -> bytes:
    public: bytes = (
        issuer.private["first"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return public


def _forged(issuer: Issuer, header: dict[str, Any]) -> str:
    def part(document: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()

    _, payload, _ = issuer.token().split(".")
    return f"{part(header)}.{payload}."


def test_forged_tokens_are_refused(client: TestClient, issuer: Issuer) -> None:
    stranger = rsa.generate_private_key(65537, 2048)
    unsigned = _forged(issuer, {"alg": "none", "kid": "first"})
    by_public_key = _forged(issuer, {"alg": "HS256", "kid": "first"})
    signed = by_public_key.rstrip(".").encode()
    mac = hmac.new(_public_pem(issuer), signed, hashlib.sha256).digest()
    good = issuer.token()
    forged = [
        unsigned,
        by_public_key + base64.urlsafe_b64encode(mac).rstrip(b"=").decode(),
        issuer.token(key=stranger),
        issuer.token(algorithm="RS384"),
        f"{good}x" * 400,
        good[:-6] + "AAAAAA",
        "a.b.c",
        "..",
    ]

    answers = [_list(client, token) for token in forged]

    assert [answer.status_code for answer in answers] == [401] * len(forged)
    assert _list(client, good).status_code == 200


def test_key_that_is_meant_for_one_algorithm_verifies_no_other(
    serve: Serve, issuer: Issuer
) -> None:
    services = serve(oidc_algorithms=("RS256", "RS512"))
    with TestClient(build_app(services.context.settings, services)) as client:
        assert _list(client, issuer.token(algorithm="RS512")).status_code == 401
        assert _list(client, issuer.token()).status_code == 200


def test_new_key_of_the_issuer_is_fetched_when_a_token_names_it(
    client: TestClient, issuer: Issuer, clock: FakeClock
) -> None:
    assert _list(client, issuer.token()).status_code == 200
    issuer.add_curve_key("second")
    token = issuer.token("second", algorithm="ES256")

    at_once = _list(client, token).status_code
    clock.advance(31)
    later = _list(client, token).status_code

    assert (at_once, later) == (401, 200)


def test_invented_keys_do_not_make_the_issuer_busy(
    client: TestClient, issuer: Issuer, clock: FakeClock
) -> None:
    issuer.private["invented"] = issuer.private["first"]
    for _ in range(5):
        assert _list(client, issuer.token("invented")).status_code == 401
    clock.advance(31)
    _list(client, issuer.token("invented"))

    assert issuer.fetched.count("/keys") == 2


def test_token_without_a_key_id_is_that_of_the_only_key(
    client: TestClient, issuer: Issuer, clock: FakeClock
) -> None:
    token = issuer.token(None)
    assert _list(client, token).status_code == 200

    issuer.add_curve_key("second")
    clock.advance(3601)
    issuer.now = clock()
    assert _list(client, issuer.token(None)).status_code == 401


def test_keys_go_on_serving_while_the_issuer_is_away(
    client: TestClient, issuer: Issuer, clock: FakeClock
) -> None:
    assert _list(client, issuer.token()).status_code == 200
    issuer.documents["/keys"] = b"out of order"
    clock.advance(3601)
    issuer.now = clock()

    assert _list(client, issuer.token()).status_code == 200


def test_key_that_an_issuer_out_of_order_cannot_tell_is_asked_for_again_later(
    client: TestClient, issuer: Issuer, clock: FakeClock
) -> None:
    assert _list(client, issuer.token()).status_code == 200
    issuer.add_curve_key("second")
    token = issuer.token("second", algorithm="ES256")
    issuer.documents["/keys"] = b"out of order"
    clock.advance(31)

    meanwhile = _list(client, token)
    del issuer.documents["/keys"]
    clock.advance(31)

    assert (meanwhile.status_code, meanwhile.json()["code"]) == (503, "issuer_unavailable")
    assert _list(client, token).status_code == 200


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/keys", b"no json"),
        ("/keys", b"[]"),
        ("/keys", b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}'),
        ("/keys", b'{"keys": [7, {"kty": "RSA"}, {"kty": "RSA", "use": "enc"}]}'),
        ("/keys", b'{"keys": 7}'),
        ("/keys", b" " * (1 << 21)),
        ("/.well-known/openid-configuration", b'{"issuer": "https://elsewhere"}'),
    ],
)
def test_issuer_whose_keys_cannot_be_had_is_told(
    client: TestClient, issuer: Issuer, path: str, document: bytes
) -> None:
    issuer.documents[path] = document

    with log_lines() as lines:
        answer = _list(client, issuer.token())

    assert (answer.status_code, answer.json()["code"]) == (503, "issuer_unavailable")
    assert answer.headers["retry-after"]
    assert any("not fetched" in event["event"] for event in lines.events)


def test_discovery_that_names_an_unsafe_address_is_refused(
    client: TestClient, issuer: Issuer
) -> None:
    issuer.discovery["jwks_uri"] = "http://keys.example/keys"

    assert _list(client, issuer.token()).status_code == 503


def test_groups_are_mapped_to_scopes_and_projects_by_settings(serve: Serve, issuer: Issuer) -> None:
    services = serve(
        oidc_jwks_url=f"{issuer.url}/keys",
        oidc_scope_claim="groups",
        oidc_scope_map={"ml-platform": (Scope.READ, Scope.RUNS_WRITE)},
        oidc_project="default",
    )
    with TestClient(build_app(services.context.settings, services)) as client:
        member = issuer.token(groups=["ml-platform", "staff"], project=None)
        assert _upload(client, member).status_code == 201
        # With a map, words mean what it says alone.
        assert _list(client, issuer.token(groups=["read", 7, {}])).status_code == 403
        assert _list(client, issuer.token(groups=None)).status_code == 403

    assert "/.well-known/openid-configuration" not in issuer.fetched


def test_limit_of_a_project_holds_for_its_tokens(
    client: TestClient, protected: Services, issuer: Issuer
) -> None:
    protected.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 2})

    statuses = [_list(client, issuer.token()).status_code for _ in range(3)]

    assert statuses == [200, 200, 429]


def test_known_tokens_are_taken_while_the_database_is_away(
    client: TestClient, protected: Services, issuer: Issuer, clock: FakeClock
) -> None:
    token = issuer.token()
    _list(client, token)
    make_unavailable(protected.context.database)
    clock.advance(60)
    try:
        known, unknown = _list(client, token), _list(client, issuer.token(project="other"))
    finally:
        make_available(protected.context.database)

    assert known.json()["code"] == unknown.json()["code"] == "database_unavailable"
    assert _list(client, token).status_code == 200


def test_no_line_tells_a_token(client: TestClient, issuer: Issuer) -> None:
    tokens = [issuer.token(), issuer.token(aud="x"), issuer.token("first", algorithm="RS512")]

    with log_lines(logging.DEBUG) as lines:
        for token in tokens:
            _list(client, token)
        issuer.documents["/keys"] = b"?"

    assert not any(token.split(".")[2] in "".join(lines.lines) for token in tokens)


def test_issuer_is_enough_to_listen_beyond_this_machine(protected: Services) -> None:
    assert protected.access.has_usable_key()
