"""A removed project leaves no row, whatever happens meanwhile; other projects keep theirs."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from threading import Event

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Project, Scope
from app.domain.errors import DomainError, NotFoundError
from app.domain.identifiers import ProjectId, Slug, new_identifier
from app.domain.quotas import Limit, Quota
from app.domain.workloads import ParameterDeclaration, ParameterType, WorkloadDeclaration
from app.main import build_app
from app.services.context import ServiceContext
from app.services.project_removal import ProjectRemovalService
from app.services.retention import RetentionService
from app.services.wiring import Services
from app.storage.database import Database
from app.storage.tables import Base, BaselineRow
from tests.support.clock import FakeClock
from tests.support.kills import Killed, killed_after
from tests.support.ledger import record_forecasts
from tests.support.locks import require_several_writers, wait_for_a_lock
from tests.support.regressors import fit, store_runs

_KEPT = {"fitter", "project"}
_RUN = {"workload": "resnet", "duration_seconds": 9, "workers": 1}


def _belongs(table: sa.Table, project_id: ProjectId) -> sa.ColumnElement[bool]:
    if "project_id" in table.c:
        return table.c.project_id == project_id
    workload = Base.metadata.tables["workload"]
    own = sa.select(workload.c.id).where(workload.c.project_id == project_id)
    return table.c.workload_id.in_(own)


def _rows(database: Database, project_id: ProjectId) -> dict[str, int]:
    """Return how many rows of each table belong to a project."""
    tables = [table for name, table in Base.metadata.tables.items() if name not in _KEPT]
    with database.engine.connect() as connection:
        return {
            table.name: connection.scalar(
                sa.select(sa.func.count()).select_from(table).where(_belongs(table, project_id))
            )
            or 0
            for table in tables
        }


def _without_owner(database: Database) -> set[str]:
    """Return the tables with rows of workloads that do not exist."""
    workloads = sa.select(Base.metadata.tables["workload"].c.id)
    with database.engine.connect() as connection:
        return {
            name
            for name, table in Base.metadata.tables.items()
            if "workload_id" in table.c
            and connection.scalar(
                sa.select(sa.func.count())
                .select_from(table)
                .where(table.c.workload_id.not_in(workloads))
            )
        }


def _fill(services: Services, client: TestClient, token: str, project_id: ProjectId) -> None:
    """Give a project a row in each table."""
    context, headers = services.context, {"Authorization": f"Bearer {token}"}
    slug = Slug("resnet")
    workload_id = store_runs(context, slug, project_id=project_id)
    store_runs(context, "bert", project_id=project_id)
    for _ in range(2):
        fit(services, slug, project_id=project_id)
    record_forecasts(context, workload_id, *[context.now()] * 3)
    declared = {"width": ParameterDeclaration(ParameterType.NUMBER)}
    services.workloads.declare(project_id, slug, WorkloadDeclaration(parameters=declared))
    run = services.runs.list_page(project_id, slug).items[0]
    for change in ({"excluded": True, "reason": "slow disk"}, {"excluded": False}):
        path = f"/v1/runs/{run.run_id}"
        assert client.patch(path, json=change, headers=headers).is_success
    keyed = {**headers, "Idempotency-Key": "k"}
    for path, body in {
        "/v1/runs": {**_RUN, "external_id": "e"},
        "/v1/prices": {"gpu_type": "T4", "price_per_hour": "1.00", "source": "list"},
        "/v1/exchange-rates": {
            "from_currency": "EUR", "to_currency": "USD", "rate": "1.25", "source": "bank",
        },
        "/v1/grid-factors": {"kg_co2e_per_kwh": "0.4", "source": "grid"},
        "/v1/ci/reports": {"runs": [_RUN], "branch": "feat", "base_branch": "main"},
    }.items():  # fmt: skip
        assert client.post(path, json=body, headers=keyed).is_success
    with sa.orm.Session(context.database.engine) as session, session.begin():
        now = context.now()
        session.add(
            BaselineRow(
                workload_id=workload_id, since=now, author="ada", reason="meant",
                report_id="ci_1", created_at=now,
            )
        )  # fmt: skip
    with context.database.transaction() as stores:
        stores.quotas.take_requests(project_id, 1, wanted=1, limit=9)


@pytest.fixture
def keyed(database: Database, services: Services) -> Services:
    settings = services.context.settings.model_copy(update={"require_keys": True})
    return Services(replace(services.context, settings=settings))


@pytest.fixture
def keyed_client(keyed: Services) -> Iterator[TestClient]:
    application = build_app(keyed.context.settings, keyed)
    with TestClient(application, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def token(keyed: Services, keyed_client: TestClient) -> str:
    """The key of the project `vision`, which has all that a project can have; so has `other`."""
    token = ""
    for name in ("other", "vision"):
        token = keyed.access.create_key("ci", [Scope.ADMIN], project=name)[1]
        _fill(keyed, keyed_client, token, _project(keyed, name).project_id)
    return token


def _project(services: Services, name: str) -> Project:
    with services.context.database.reading() as stores:
        found = stores.access.find_project(name)
    assert found is not None
    return found


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_nothing_is_left_and_other_projects_keep_all(keyed: Services, at_once: int) -> None:
    database = keyed.context.database
    vision, other = (_project(keyed, name).project_id for name in ("vision", "other"))
    kept, removable = _rows(database, other), _rows(database, vision)
    assert all(removable.values()), "a table has no row: let _fill make one"
    service = ProjectRemovalService(keyed.context, at_once=at_once)

    counted = service.count("vision")
    service.remove("vision")

    tables = {"workloads": "workload", "runs": "run", "ci_reports": "ci_report", "keys": "api_key",
              "stored_answers": "idempotency", "audit_entries": "audit"}  # fmt: skip
    assert counted.items() >= {name: removable[table] for name, table in tables.items()}.items()
    assert not any(_rows(database, vision).values())
    assert not _without_owner(database)
    assert _rows(database, other) == kept
    assert [each.name for each, _ in keyed.projects.list_all()] == ["default", "other"]
    with pytest.raises(NotFoundError):
        service.remove("vision")


@pytest.mark.usefixtures("token")
def test_interrupted_removal_is_continued(keyed: Services) -> None:
    database, context = keyed.context.database, keyed.context
    vision = _project(keyed, "vision").project_id
    left = [sum(_rows(database, vision).values())]

    # Each one gets as far as it can: through the transactions of those before, and some more.
    for transactions in (0, 1, 3, 5, 20):
        dying = killed_after(context, transactions)
        with suppress(Killed):
            ProjectRemovalService(dying, at_once=2).remove("vision")
        dying.database.close()
        left.append(sum(_rows(database, vision).values()))
        with database.reading() as stores:
            assert stores.run_counts.wrong() == []
    ProjectRemovalService(context).remove("vision")

    assert left[0] == left[1]  # nothing was committed
    assert left[2:] == sorted(left[2:], reverse=True)
    assert len(set(left[2:])) == len(left[2:])
    assert not any(_rows(database, vision).values())


def test_keys_and_uploads_are_refused_from_the_beginning(
    keyed: Services, keyed_client: TestClient, token: str, clock: FakeClock
) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    dying = killed_after(keyed.context, 1)
    with suppress(Killed):
        ProjectRemovalService(dying).remove("vision")
    dying.database.close()

    remembered = keyed_client.post("/v1/runs", json=_RUN, headers=headers)
    clock.advance(6)
    read_anew = keyed_client.post("/v1/runs", json=_RUN, headers=headers)

    assert (remembered.status_code, remembered.json()["code"]) == (429, "quota_exceeded")
    assert (read_anew.status_code, read_anew.json()["code"]) == (401, "unauthenticated")


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/runs", _RUN),
        ("/v1/grid-factors", {"kg_co2e_per_kwh": "0.4", "source": "grid"}),
        ("/v1/ci/reports", {"runs": [_RUN], "branch": "feat", "base_branch": "main"}),
    ],
)
@pytest.mark.parametrize("more", [{}, {"Idempotency-Key": "new"}])
def test_key_that_is_still_remembered_stores_nothing(
    keyed: Services,
    keyed_client: TestClient,
    token: str,
    path: str,
    body: dict[str, object],
    more: dict[str, str],
) -> None:
    vision = _project(keyed, "vision").project_id
    headers = {"Authorization": f"Bearer {token}"}
    assert keyed_client.get("/v1/workloads", headers=headers).is_success
    ProjectRemovalService(keyed.context).remove("vision")

    answer = keyed_client.post(path, json=body, headers={**headers, **more})

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert not any(_rows(keyed.context.database, vision).values())


def test_limited_key_that_is_still_remembered_is_refused(
    keyed: Services, keyed_client: TestClient, token: str, clock: FakeClock
) -> None:
    keyed.projects.limit("vision", {Limit.REQUESTS_PER_MINUTE: 20})
    clock.advance(6)
    headers = {"Authorization": f"Bearer {token}"}
    assert keyed_client.get("/v1/workloads", headers=headers).is_success
    ProjectRemovalService(keyed.context).remove("vision")

    answers = [keyed_client.get("/v1/workloads", headers=headers) for _ in range(3)]

    assert [each.status_code for each in answers] == [401] * 3


def test_new_project_of_the_name_sees_nothing_of_the_old(
    keyed: Services, keyed_client: TestClient, token: str, clock: FakeClock
) -> None:
    question = {
        "workload": "resnet", "configuration": {"gpu_type": "T4", "workers": 2},
        "work": {"dataset_size": 1000}, "parameters": {"precision": "fp16"},
    }  # fmt: skip
    asked = keyed_client.post(
        "/v1/forecasts", json=question, headers={"Authorization": f"Bearer {token}"}
    )
    ProjectRemovalService(keyed.context).remove("vision")

    new = keyed.access.create_key("ci", [Scope.ADMIN], project="vision")[1]
    headers = {"Authorization": f"Bearer {new}"}
    again = keyed_client.post("/v1/forecasts", json=question, headers=headers)

    assert asked.is_success, asked.text
    assert (again.status_code, again.json()["code"]) == (404, "unknown_workload")
    assert keyed_client.get("/v1/prices?origin=own", headers=headers).json()["prices"] == []
    assert [entry.action for entry in keyed.access.list_audit("vision", limit=9)] == ["key.create"]


def test_default_project_stays_and_is_empty(services: Services, client: TestClient) -> None:
    key = services.access.create_key("ci", [Scope.ADMIN])[1]
    _fill(services, client, key, DEFAULT_PROJECT)
    services.projects.limit("default", {Limit.RUNS: 100, Limit.REQUESTS_PER_MINUTE: 600})

    ProjectRemovalService(services.context, at_once=3).remove("default")

    left = {name: count for name, count in _rows(services.context.database, DEFAULT_PROJECT).items()
            if count}  # fmt: skip
    assert left == {"rate_window": 1}
    assert services.projects.list_all()[0][1] == Quota(requests_per_minute=600)
    assert client.post("/v1/runs", json=_RUN).json()["created"] == 1


def _again_and_again(action: Callable[[], object], until: Event) -> int:
    done = 0
    while not until.is_set():
        with suppress(DomainError):
            action()
            done += 1
    return done


def _act_during_removal(
    context: ServiceContext, project_id: ProjectId, action: Callable[[], object]
) -> Future[object]:
    """Begin something just before a removal is committed; return it when it has ended."""
    with ThreadPoolExecutor(1) as pool:
        with context.database.transaction() as stores:
            stores.removal.remove_project(project_id)
            acting = pool.submit(action)
            wait_for_a_lock(context.database, acting)
        wait([acting])
    assert not any(_rows(context.database, project_id).values())
    return acting


_CHANGES: dict[str, Callable[[Services, str], object]] = {
    "limit": lambda services, _: services.projects.limit("vision", {Limit.RUNS: 1}),
    "retention": lambda services, _: RetentionService(services.context).prune_reports(
        timedelta(days=1), project="vision"
    ),
    "revocation": lambda services, token: services.access.revoke_key(token),
}


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_change_that_waits_for_a_removal_leaves_nothing(
    keyed: Services, token: str, change: Callable[[Services, str], object]
) -> None:
    require_several_writers(keyed.context.database)
    vision = _project(keyed, "vision").project_id
    keyed.access.revoke_key(token)

    acting = _act_during_removal(keyed.context, vision, lambda: change(keyed, token))

    with pytest.raises(NotFoundError):
        acting.result()


@pytest.mark.usefixtures("token")
def test_retention_of_all_projects_waits_for_one_that_is_being_removed(keyed: Services) -> None:
    require_several_writers(keyed.context.database)
    vision = _project(keyed, "vision").project_id
    retention = RetentionService(keyed.context)

    acting = _act_during_removal(
        keyed.context, vision, lambda: retention.prune_reports(timedelta(days=1))
    )

    assert acting.result() == 0


@pytest.mark.lengthy
def test_project_in_use_is_removed_too(
    keyed: Services, keyed_client: TestClient, token: str
) -> None:
    context, removed = keyed.context, Event()
    vision = _project(keyed, "vision").project_id
    headers = {"Authorization": f"Bearer {token}"}
    statuses: set[int] = set()

    def ask(path: str, body: object) -> None:
        statuses.add(keyed_client.post(path, json=body, headers=headers).status_code)

    def remove() -> None:
        try:
            ProjectRemovalService(context, at_once=2).remove("vision")
        finally:
            removed.set()

    actions = [
        lambda: ask("/v1/runs", [_RUN, {**_RUN, "workload": new_identifier("w")}]),
        lambda: ask("/v1/workloads/resnet/fits", {"regressors": ["log_linear"]}),
        lambda: ask("/v1/grid-factors", {"kg_co2e_per_kwh": "0.4", "source": "grid"}),
        lambda: ask("/v1/ci/reports", {"runs": [_RUN], "branch": "f", "base_branch": "main"}),
    ]
    with ThreadPoolExecutor(len(actions) + 1) as pool:
        asking = [pool.submit(_again_and_again, action, removed) for action in actions]
        pool.submit(remove).result()
    assert all(each.result() for each in asking)

    assert not any(_rows(context.database, vision).values())
    assert not _without_owner(context.database)
    assert not statuses & {500, 503}, statuses
