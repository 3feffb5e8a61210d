"""A second project tries every operation of the OpenAPI document and never meets the first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from httpx2 import Response

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.quotas import Limit
from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.tables import Base
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor, store_runs

pytestmark = pytest.mark.lengthy

_MARK = "sesame"
"""A word that only the first project ever wrote."""
_SCENARIO: dict[str, Any] = {
    "workload": "theirs",
    "configuration": {"gpu_type": "T4", "workers": 4},
    "work": {"dataset_size": 2000},
    "parameters": {"precision": "fp16"},
}
_JOB = {"ref": "a", **_SCENARIO}
_ELASTIC = {name: value for name, value in _JOB.items() if name != "configuration"}
_RUN = {**_SCENARIO, "duration_seconds": 260.0}
_PRICED = {"pricing": {"price_per_hour": "1.00"}}
_PRICE = {"gpu_type": "T4", "price_per_hour": "1.00", "source": "list"}
_RATE = {"from_currency": "EUR", "to_currency": "USD", "rate": "1.25", "source": "bank"}
_GRID = {"kg_co2e_per_kwh": "0.4", "source": "grid"}
_PROFILING = {
    "target": {name: value for name, value in _SCENARIO.items() if name != "workload"},
    **_PRICED,
}
BODIES: dict[str, Any] = {
    "PUT /v1/workloads/{workload}": {"description": "mine"},
    "PATCH /v1/runs/{run}": {"excluded": True, "reason": "mine"},
    "POST /v1/runs": _RUN,
    "POST /v1/workloads/{workload}/fits": {"regressors": ["log_linear"]},
    "POST /v1/forecasts": {**_SCENARIO, "record": False},
    "POST /v1/forecasts:batch": {"requests": [_JOB]},
    "POST /v1/forecasts:remaining": {**_SCENARIO, "progress": 0.5, "elapsed_s": 130.0},
    "POST /v1/ci/reports": {"workload": "theirs", "runs": [_RUN]},
    "POST /v1/ci/reports/{report}:acknowledge": {"author": "eve", "reason": "mine"},
    "POST /v1/recommendations": {
        **{name: _SCENARIO[name] for name in ("workload", "work", "parameters")},
        "search": {"gpu_types": ["T4"], "workers": [4]},
    },
    "POST /v1/schedules:rank": {"jobs": [_JOB]},
    "POST /v1/schedules:allocate": {"capacity": {"T4": 4}, "jobs": [_ELASTIC]},
    "POST /v1/schedules:capacity": {"running": [_JOB], "capacity": {"T4": 8}, "hours": 6},
    "POST /v1/workloads/{workload}/profiling-plans": _PROFILING,
    "POST /v1/prices": _PRICE,
    "POST /v1/exchange-rates": _RATE,
    "POST /v1/grid-factors": _GRID,
}
_QUERIES = {
    "GET /v1/workloads/{workload}/forecast": {
        "gpu_type": "T4", "workers": "4", "dataset_size": "2000", "param.precision": "fp16",
    },
    "GET /v1/workloads/{workload}/curve": {
        "over": "workers", "from": "1", "to": "8", "gpu_type": "T4", "dataset_size": "2000",
        "param.precision": "fp16",
    },
}  # fmt: skip
_OF_EVERYBODY = {"GET /v1/gpus", "GET /v1/gpus/{gpu}", "GET /healthz", "GET /readyz",
                 "GET /metrics"}  # fmt: skip
_OF_THE_CALLER = {
    "PUT /v1/workloads/{workload}", "POST /v1/runs", "POST /v1/ci/reports", "POST /v1/prices",
    "POST /v1/exchange-rates", "POST /v1/grid-factors", "GET /v1/workloads", "GET /v1/prices",
    "GET /v1/exchange-rates", "GET /v1/grid-factors", "GET /v1/ci/reports",
}  # fmt: skip
"""What a project does to, or sees of, its own data alone; names are no secret between projects."""
_STATELESS = {"POST /v1/schedules:rank", "POST /v1/schedules:allocate",
              "POST /v1/schedules:capacity", "POST /v1/forecasts:batch"}  # fmt: skip
"""Requests of many workloads: they may answer 200 and name the unknown workload inside."""


@dataclass(frozen=True)
class _World:
    """An application with two projects; the first has one of everything."""

    client: TestClient
    services: Services
    owner: dict[str, str]
    intruder: dict[str, str]
    ids: dict[str, str]

    def operations(self) -> list[str]:
        """Return all operations, those first that make nothing."""
        document = self.client.get("/openapi.json").json()
        routes = [
            f"{method.upper()} {path}"
            for path, operations in document["paths"].items()
            for method in operations
        ]
        return sorted(routes, key=lambda each: (each in _OF_THE_CALLER, each))

    def send(self, operation: str, headers: dict[str, str]) -> Response:
        """Send a good request for an operation, about what the first project owns."""
        method, path = operation.split(" ")
        needs_body = method in {"PUT", "PATCH", "POST"} and not path.endswith(
            (":cancel", ":publish", ":promote")
        )
        body = BODIES[operation] if needs_body else None
        return self.client.request(
            method, path.format_map(self.ids), json=body, headers=headers,
            params=_QUERIES.get(operation),
        )  # fmt: skip


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _fill(services: Services, client: TestClient, owner: dict[str, str]) -> dict[str, str]:
    """Give the first project one of everything; return the identifiers by path parameter."""

    def post(path: str, body: Any) -> Any:
        answer = client.post(path, json=body, headers=owner)
        assert answer.is_success, answer.text
        return answer.json()

    publish_regressor(services, "theirs")
    client.put("/v1/workloads/theirs", json={"description": _MARK}, headers=owner)
    run = post("/v1/runs", {**_RUN, "external_id": _MARK, "labels": {_MARK: _MARK}})
    price = post("/v1/prices", {**_PRICE, "source": _MARK})
    rate = post("/v1/exchange-rates", {**_RATE, "source": _MARK})
    factor = post("/v1/grid-factors", {**_GRID, "source": _MARK})
    report = post("/v1/ci/reports", {"workload": "theirs", "runs": [_RUN], "branch": _MARK,
                                     "base_branch": "main"})  # fmt: skip
    forecast = post("/v1/forecasts", _SCENARIO)
    # The ledger is written behind: reading it makes sure that it is there.
    client.get(f"/v1/forecasts/{forecast['forecast_id']}", headers=owner)
    fits = client.get("/v1/workloads/theirs/fits", headers=owner).json()["fits"]
    return {
        "workload": "theirs", "version": "1", "gpu": "T4", "fit": fits[0]["fit_id"],
        "run": run["runs"][0]["run_id"], "forecast": forecast["forecast_id"],
        "report": report["report_id"], "price": price["prices"][0]["price_id"],
        "rate": rate["exchange_rates"][0]["rate_id"],
        "factor": factor["grid_factors"][0]["factor_id"],
    }  # fmt: skip


@pytest.fixture
def world(database: Database, settings: Settings, clock: FakeClock) -> Iterator[_World]:
    keyed = settings.model_copy(update={"require_keys": True})
    services = Services(ServiceContext(database, keyed, clock))
    owner = _bearer(services.access.create_key("a", [Scope.ADMIN])[1])
    intruder = _bearer(services.access.create_key("b", [Scope.ADMIN], project="second")[1])
    with TestClient(build_app(keyed, services), raise_server_exceptions=False) as client:
        ids = _fill(services, client, owner)
        with services.context.database.transaction() as stores:
            stores.leases.fitter_seen("fitter-1", started_at=clock(), now=clock())
        yield _World(client, services, owner, intruder, ids)


def _rows_of_the_first(database: Database) -> dict[str, set[str]]:
    with database.engine.connect() as connection:
        ours = sa.select(Base.metadata.tables["workload"].c.id).where(
            Base.metadata.tables["workload"].c.project_id == DEFAULT_PROJECT
        )
        rows = {}
        for name, table in Base.metadata.tables.items():
            query = sa.select(table)
            if "project_id" in table.c:
                query = query.where(table.c.project_id == DEFAULT_PROJECT)
            elif "workload_id" in table.c:
                query = query.where(table.c.workload_id.in_(ours))
            else:
                continue
            rows[name] = {repr(row) for row in connection.execute(query)}
        rows["api_key"] = set()  # the use of a key is noted whenever it is used
        return rows


def test_second_project_meets_nothing_of_the_first(
    world: _World, subtests: pytest.Subtests
) -> None:
    database = world.services.context.database
    before = _rows_of_the_first(database)

    for operation in world.operations():
        answer = world.send(operation, world.intruder)
        with subtests.test(operation):
            assert _MARK not in answer.text + str(answer.headers)
            if operation in _OF_EVERYBODY | _OF_THE_CALLER:
                assert answer.is_success, answer.text
            elif operation in _STATELESS:
                assert answer.status_code == 404 or "unknown_workload" in answer.text
            else:
                assert answer.status_code == 404, answer.text

    assert _rows_of_the_first(database) == before


def test_same_requests_are_good_ones_for_their_owner(
    world: _World, subtests: pytest.Subtests
) -> None:
    operations = sorted(world.operations(), key=lambda each: (each.startswith("DELETE"), each))

    for operation in operations:
        answer = world.send(operation, world.owner)
        with subtests.test(operation):
            assert answer.is_success, answer.text


def test_workload_of_the_same_name_is_another_one(world: _World) -> None:
    world.client.post("/v1/forecasts", json=_SCENARIO, headers=world.owner)
    [second] = [
        project.project_id
        for _key, project in world.services.access.list_keys()
        if project.name == "second"
    ]
    store_runs(world.services.context, "theirs", project_id=second)

    refused = world.client.post("/v1/forecasts", json=_SCENARIO, headers=world.intruder)
    shown = world.client.get("/v1/workloads/theirs", headers=world.intruder).json()

    assert (refused.status_code, refused.json()["code"]) == (409, "no_regressor")
    assert _MARK not in str(shown)


def test_answer_is_not_replayed_to_another_project(world: _World) -> None:
    key = {"Idempotency-Key": "the-same"}
    body = {"workload": "theirs", "duration_seconds": 3.0, "external_id": "one"}
    first = world.client.post("/v1/runs", json=body, headers={**world.owner, **key})

    second = world.client.post("/v1/runs", json=body, headers={**world.intruder, **key})
    again = world.client.post("/v1/runs", json=body, headers={**world.owner, **key})

    assert "idempotent-replayed" not in second.headers
    assert first.json()["runs"][0]["run_id"] != second.json()["runs"][0]["run_id"]
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()


def test_runs_take_no_room_of_another_project(world: _World) -> None:
    for name, runs in {"default": 1000, "second": 1}.items():
        world.services.projects.limit(name, {Limit("runs"): runs})

    answers = [
        world.client.post("/v1/runs", json=_RUN, headers=caller)
        for caller in (world.owner, world.intruder, world.intruder)
    ]

    assert [answer.status_code for answer in answers] == [201, 201, 429]


def test_removal_of_a_workload_leaves_the_reports_on_its_namesake(world: _World) -> None:
    path = f"/v1/ci/reports/{world.ids['report']}"
    before = world.client.get(path, headers=world.owner).json()
    world.client.post("/v1/runs", json=_RUN, headers=world.intruder)

    removed = world.client.delete("/v1/workloads/theirs", headers=world.intruder)

    assert removed.status_code == 204
    assert world.client.get(path, headers=world.owner).json() == before


def test_run_does_not_link_a_forecast_of_another_project(world: _World, clock: FakeClock) -> None:
    clock.advance(86_400)
    body = {**_RUN, "forecast_id": world.ids["forecast"]}

    stored = world.client.post("/v1/runs", json=body, headers=world.intruder).json()
    ledger = world.client.get(f"/v1/forecasts/{world.ids['forecast']}", headers=world.owner)

    assert [warning["code"] for warning in stored["warnings"]] == ["unknown_forecast"]
    assert ledger.is_success
    assert ledger.json()["runs"] == []


def test_forecast_is_priced_by_nothing_of_another_project(world: _World, clock: FakeClock) -> None:
    clock.advance(2 * 86_400)
    question = {**_SCENARIO, "pricing": {"currency": "EUR"}, "record": False}

    def answer() -> Any:
        # A price of something else, so that all prices, rates and factors are read again.
        other = {**_PRICE, "gpu_type": "A10G"}
        assert world.client.post("/v1/prices", json=other, headers=world.owner).is_success
        return world.client.post("/v1/forecasts", json=question, headers=world.owner).json()

    before = answer()
    for kind, fact in {
        "prices": {**_PRICE, "price_per_hour": "9.00"},
        "exchange-rates": {**_RATE, "rate": "9"},
        "grid-factors": {**_GRID, "kg_co2e_per_kwh": "0.9"},
    }.items():
        assert world.client.post(f"/v1/{kind}", json=fact, headers=world.intruder).is_success

    assert (before["cost"]["price_per_hour"], before["cost"]["currency"]) == ("0.80", "EUR")
    assert before["energy"]["kg_co2e_per_kwh"] == 0.4
    assert answer() == before
