"""The disk is full: writes say so, nothing is half-done, and all goes on once there is room."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import httpx2
import pytest

from app.storage.database import Database
from app.storage.migration import migrate
from tests.conftest import POSTGRESQL_URL
from tests.support.disk import SmallDisk, small_disk
from tests.support.patient_http import PATIENCE_S
from tests.support.postgresql import running_postgresql
from tests.support.server import running_service

pytestmark = pytest.mark.lengthy

_DISK_BYTES = 512 * 2**20
_ROWS = 20_000
_CSV = "workload,external_id,duration_seconds,workers\n" + "".join(
    f"full,run-{row},{100 + row},{1 + row % 8}\n" for row in range(_ROWS)
)


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    with small_disk(_DISK_BYTES) as disk:
        if disk is None:
            pytest.skip("only root may mount a disk")
        yield disk


@contextmanager
def _sqlite(disk: SmallDisk) -> Iterator[str]:
    yield f"sqlite:///{disk.path / 'trainfare.db'}"


@contextmanager
def _postgresql(disk: SmallDisk) -> Iterator[str]:
    if POSTGRESQL_URL is None:
        pytest.skip("`make test` runs PostgreSQL too")
    with running_postgresql(synchronous_commit=True, parent=disk.path) as server:
        yield server.url


@pytest.mark.parametrize(
    "database_on",
    [_sqlite, pytest.param(_postgresql, marks=[pytest.mark.postgresql, pytest.mark.slow])],
)
def test_upload_onto_a_full_disk_stores_nothing_and_its_retry_stores_all(
    disk: SmallDisk, database_on: Callable[[SmallDisk], AbstractContextManager[str]]
) -> None:
    with database_on(disk) as url:
        database = Database(url)
        migrate(database)
        database.close()
        with (
            running_service(url) as running,
            httpx2.Client(base_url=running.url, timeout=PATIENCE_S) as client,
        ):
            disk.fill()
            refused = _upload(client)
            answer = client.get("/v1/workloads/full")
            disk.free()
            stored = _upload(client)

    assert refused.status_code == httpx2.codes.SERVICE_UNAVAILABLE, refused.text
    assert refused.json()["code"] == "database_unavailable"
    assert "retry-after" in refused.headers
    assert answer.status_code in {httpx2.codes.NOT_FOUND, httpx2.codes.SERVICE_UNAVAILABLE}
    assert stored.json()["created"] == _ROWS, stored.text


def _upload(client: httpx2.Client) -> httpx2.Response:
    headers = {"Content-Type": "text/csv", "Idempotency-Key": "full-1"}
    return client.post("/v1/runs", content=_CSV, headers=headers, timeout=60.0)
