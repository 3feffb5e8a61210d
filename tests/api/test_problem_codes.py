"""Each problem code of the contract is answered by the request it stands for, with a remedy."""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.idempotency import IdempotencyTicket
from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor

RUN = {
    "workload": "resnet",
    "external_id": "r1",
    "duration_seconds": 100.0,
    "configuration": {"gpu_type": "H100", "workers": 2},
    "work": {"dataset_size": 1000},
    "parameters": {"depth": 50},
}
FORECAST = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 2},
    "work": {"dataset_size": 1000},
}


@dataclass(frozen=True)
class Bad:
    """A request that must be refused with one code."""

    code: str
    status: int
    path: str
    method: str = "POST"
    body: object = None
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


SPOT = {
    "purchase": "spot",
    "price_per_hour": "1",
    "spot": {"interruptions_per_hour": 40.0, "checkpoint_interval_s": 36000.0, "restart_s": 600.0},
}

_RUNNING = b'[{"workload": "resnet", "duration_seconds": 3}]'

REQUESTS = [
    Bad("unknown_workload", 404, "/v1/workloads/nobody", "GET"),
    Bad("unknown_workload", 404, "/v1/workloads/nobody/fits"),
    Bad("unknown_workload", 404, "/v1/forecasts", body={**FORECAST, "workload": "nobody"}),
    Bad("not_found", 404, "/v1/runs/run_nothing", "GET"),
    Bad("not_found", 404, "/v1/fits/fit_nothing", "GET"),
    Bad("not_found", 404, "/v1/forecasts/fc_nothing", "GET"),
    Bad("not_found", 404, "/v1/no/such/thing", "GET"),
    Bad("no_regressor", 409, "/v1/forecasts", body={**FORECAST, "workload": "resnet"}),
    Bad("run_conflict", 409, "/v1/runs", body={**RUN, "duration_seconds": 200.0}),
    Bad("unit_change", 409, "/v1/workloads/resnet", "PUT", body={"dataset_unit": "tokens"}),
    Bad(
        "schema_drift",
        422,
        "/v1/runs",
        body={**RUN, "external_id": "r2", "parameters": {"depth": "deep"}},
    ),
    Bad("invalid_rows", 422, "/v1/runs", body=[{**RUN, "duration_seconds": -1.0}]),
    Bad("invalid_request", 422, "/v1/forecasts", body={**FORECAST, "confidence": 2}),
    Bad("invalid_request", 422, "/v1/forecasts", content=b'{"workload": '),
    Bad("invalid_request", 422, "/v1/workloads/fitted/forecast?workers=many", "GET"),
    Bad("unknown_field", 422, "/v1/forecasts", body={**FORECAST, "work": {"batchsize": 8}}),
    Bad("unknown_field", 422, "/v1/runs", body={**RUN, "external_id": "r3", "duraton": 1}),
    Bad("unknown_field", 422, "/v1/workloads/fitted/forecast?batchsize=8", "GET"),
    Bad(
        "unknown_gpu",
        422,
        "/v1/forecasts",
        body={**FORECAST, "configuration": {"gpu_type": "H1000X"}},
    ),
    Bad(
        "ambiguous_gpu",
        422,
        "/v1/forecasts",
        body={**FORECAST, "configuration": {"gpu_type": "A100"}},
    ),
    Bad("spot_infeasible", 422, "/v1/forecasts", body={**FORECAST, "pricing": SPOT}),
    Bad(
        "idempotency_key_reused",
        422,
        "/v1/runs",
        body={**RUN, "external_id": "r9"},
        headers={"Idempotency-Key": "used"},
    ),
    Bad(
        "in_progress",
        409,
        "/v1/runs",
        content=_RUNNING,
        headers={"Idempotency-Key": "running"},
    ),
    Bad(
        "payload_too_large",
        413,
        "/v1/runs",
        content=gzip.compress(b" " * 3_000_000),
        headers={"Content-Encoding": "gzip"},
    ),
    Bad("payload_too_large", 413, "/v1/forecasts", content=b" " * 3_000_000),
    Bad(
        "unsupported_media_type",
        415,
        "/v1/runs",
        content=b"<runs/>",
        headers={"Content-Type": "application/xml"},
    ),
    Bad(
        "unsupported_media_type",
        415,
        "/v1/runs",
        content=b"{}",
        headers={"Content-Encoding": "br"},
    ),
    Bad(
        "unsupported_media_type",
        415,
        "/v1/forecasts",
        content=b"workload=x",
        headers={"Content-Type": "text/plain"},
    ),
    Bad("unauthenticated", 401, "/v1/workloads", "GET", headers={"Authorization": ""}),
    Bad(
        "unauthenticated",
        401,
        "/v1/workloads",
        "GET",
        headers={"Authorization": "Bearer tf_none_0"},
    ),
    Bad("forbidden", 403, "/v1/prices", body=[], headers={"Authorization": "reader"}),
    Bad("method_not_allowed", 405, "/v1/runs", "PUT", body={}),
]


@pytest.fixture
def keyed_client(
    database: Database, settings: Settings, clock: FakeClock
) -> Iterator[tuple[TestClient, str]]:
    strict = settings.model_copy(update={"require_keys": True, "max_body_bytes": 1 << 21})
    services = Services(ServiceContext(database, strict, clock))
    _, writer = services.access.create_key("all", [Scope.ADMIN])
    _, reader = services.access.create_key("read", [Scope.READ])
    with TestClient(build_app(strict, services), raise_server_exceptions=False) as client:
        client.headers["Authorization"] = f"Bearer {writer}"
        publish_regressor(services, workload="fitted")
        assert client.put("/v1/workloads/resnet", json={"dataset_unit": "samples"}).is_success
        assert client.post("/v1/runs", json=RUN).status_code == 201
        first = client.post(
            "/v1/runs", json={**RUN, "external_id": "r8"}, headers={"Idempotency-Key": "used"}
        )
        assert first.status_code == 201
        with database.transaction() as stores:
            ticket = IdempotencyTicket(DEFAULT_PROJECT, "/v1/runs", "running")
            digest = sha256(b"\0application/json\0" + _RUNNING).hexdigest()
            stores.idempotency.begin(ticket, digest, clock(), 300.0)
        yield client, reader


@pytest.mark.parametrize("bad", REQUESTS, ids=lambda bad: f"{bad.code}-{bad.method}-{bad.path}")
def test_malformed_request_gives_exactly_its_code(
    keyed_client: tuple[TestClient, str], bad: Bad
) -> None:
    client, reader = keyed_client
    headers = dict(bad.headers)
    if headers.get("Authorization") == "reader":
        headers["Authorization"] = f"Bearer {reader}"
    if bad.content is not None:
        headers.setdefault("Content-Type", "application/json")

    answer = client.request(
        bad.method,
        bad.path,
        headers=headers,
        **({"content": bad.content} if bad.content is not None else {"json": bad.body}),
    )

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (bad.status, bad.code), problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"] == f"/problems/{bad.code}"
    assert problem["remedy"]
    assert problem["instance"] == bad.path.partition("?")[0]
