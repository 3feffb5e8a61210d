"""A database that neither answers nor refuses does not keep what is known from answering."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.availability_errors import StorageUnavailableError
from app.domain.identifiers import Slug
from app.domain.quotas import Limit
from app.main import build_app
from app.services.context import ServiceContext
from app.services.renewals import Renewals
from app.services.serving import RegressorCache
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.realised import QUESTION
from tests.support.regressors import publish_regressor

FITTED = Slug("fitted")
TOO_OLD_S = 5.5


def test_what_is_known_waits_for_a_reading_no_longer_than_patience() -> None:
    renewals, may_go_on = Renewals(patience_s=0), Event()
    with pytest.raises(StorageUnavailableError):
        renewals.wait_for("one", may_go_on.wait)

    may_go_on.set()
    renewals.close()

    with pytest.raises(StorageUnavailableError):
        renewals.wait_for("one", may_go_on.wait)


def test_whoever_waits_is_told_why_a_reading_failed() -> None:
    renewals = Renewals(patience_s=60)
    reads: list[int] = []

    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        renewals.wait_for("one", fail)
    renewals.wait_for("one", lambda: reads.append(1))
    renewals.close()

    assert reads == [1]


def test_regressor_at_hand_is_stale_until_the_database_speaks(
    services: Services, settings: Settings, database: Database, clock: FakeClock
) -> None:
    publish_regressor(services)
    hasty = settings.model_copy(update={"database_patience_s": 0})
    cache, may_go_on = RegressorCache(ServiceContext(database, hasty, clock)), Event()
    cache.get(DEFAULT_PROJECT, FITTED)
    cache._renewals.renew("before", may_go_on.wait)
    clock.advance(TOO_OLD_S)

    silent = [cache.get(DEFAULT_PROJECT, FITTED) for _ in range(2)]
    may_go_on.set()
    cache._renewals._thread.submit(lambda: None).result()
    spoken = cache.get(DEFAULT_PROJECT, FITTED)
    cache.close()

    assert [each.is_stale for each in silent] == [True, True]
    assert not spoken.is_stale


@contextmanager
def _silent(database: Database) -> Iterator[None]:
    """Let whoever reads wait, as if the server were stopped."""
    tables = "workload, publication, regressor, price, project, api_key"
    with database.engine.connect() as connection:
        connection.execute(sa.text(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE"))
        yield
        connection.rollback()


def test_forecasts_go_on_while_the_server_is_silent(
    settings: Settings, database: Database, clock: FakeClock
) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite's readers wait for nobody")
    hasty = settings.model_copy(update={"database_patience_s": 0.5})
    services = Services(ServiceContext(database, hasty, clock))
    publish_regressor(services)
    services.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 1000})
    _, token = services.access.create_key("ci", [Scope.READ])
    headers = {"Authorization": f"Bearer {token}"}
    question = {**QUESTION, "record": False}
    with TestClient(build_app(hasty, services), raise_server_exceptions=False) as client:
        client.post("/v1/forecasts", json=question, headers=headers)
        clock.advance(60)

        with _silent(database):
            answers = [
                client.post("/v1/forecasts", json=question, headers=headers) for _ in range(3)
            ]
        clock.advance(60)
        spoken = client.post("/v1/forecasts", json=question, headers=headers)

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    codes = [warning["code"] for warning in answers[-1].json()["warnings"]]
    assert "stale_regressor" in codes
    assert spoken.status_code == 200
