"""A backup holds everything, and a restore brings all of it back on either database."""

import hashlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.backups import BackupError
from app.domain.identifiers import Slug
from app.domain.zstd import zstd
from app.main import build_app
from app.services.backups import BackupService
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import current_revision, head_revision, migrate
from app.storage.tables import Base, WorkloadRow
from tests.conftest import Administer, _postgresql_url
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor, store_runs

pytestmark = pytest.mark.lengthy

_QUESTION = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 6},
    "work": {"dataset_size": 3000},
    "parameters": {"precision": "fp16"},
    "record": False,
}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database without a schema, on each engine in turn."""
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path / 'empty.db'}")
        yield database
        database.close()
        return
    administer: Administer = request.getfixturevalue("administer")
    name = f"empty_{uuid.uuid4().hex[:12]}"
    administer(f"CREATE DATABASE {name}")
    database = Database(_postgresql_url(name))
    yield database
    database.close()
    administer(f"DROP DATABASE {name} WITH (FORCE)")


def _context(database: Database, services: Services) -> ServiceContext:
    return ServiceContext(database, services.context.settings, services.context.now)


def _fill(services: Services) -> str:
    publish_regressor(services)
    store_runs(services.context, "unfitted")
    _, token = services.access.create_key("ci", [Scope.READ])
    with TestClient(build_app(services.context.settings, services)) as client:
        client.post("/v1/prices", json={"gpu_type": "T4", "price_per_hour": "0.350001",
            "currency": "USD", "source": "contract", "valid_from": "2026-01-01T00:00:00Z"},
            headers={"Idempotency-Key": "price-1"}).raise_for_status()  # fmt: skip
        client.post("/v1/forecasts", json={**_QUESTION, "record": True}).raise_for_status()
    return token


def _rows(database: Database) -> dict[str, list[str]]:
    with database.engine.connect() as connection:
        return {
            table.name: sorted(
                json.dumps(list(row), sort_keys=True, default=repr)
                for row in connection.execute(sa.select(table))
            )
            for table in Base.metadata.sorted_tables
        }


def _answer(services: Services) -> object:
    with TestClient(build_app(services.context.settings, services)) as client:
        document = client.post("/v1/forecasts", json=_QUESTION).raise_for_status().json()
    document.pop("forecast_id", None)
    return document


def test_restored_database_has_every_row_and_forecasts_the_same(
    database: Database, services: Services, empty: Database, tmp_path: Path
) -> None:
    _fill(services)
    asked = Services(_context(Database(services.context.settings.url), services))
    before = _answer(asked)

    written = BackupService(_context(database, services)).create(tmp_path / "all.tfb")
    restored = BackupService(_context(empty, services)).restore(tmp_path / "all.tfb")

    rows = _rows(database)
    assert _rows(empty) == rows
    assert written == restored
    assert written.rows == sum(len(rows_of_table) for rows_of_table in rows.values())
    assert len(rows["regressor"]) == len(rows["price"]) == len(rows["forecast"]) == 1
    assert _answer(Services(_context(empty, services))) == before


@pytest.mark.parametrize(
    "document",
    [
        '{"size": 12345678901234567890123, "rate": 1e-7, "größe": "a\\nb", "none": null}',
        '{\n  "several": ["lines"],\r\n  "é": 0.1\n}',
    ],
)
def test_documents_are_restored_as_they_are(
    database: Database, services: Services, empty: Database, tmp_path: Path, document: str
) -> None:
    store_runs(services.context, "plain")
    with database.engine.begin() as connection:
        text = ":document" if database.is_sqlite else "CAST(:document AS jsonb)"
        changed = sa.text(f"UPDATE workload SET labels = {text}")
        connection.execute(changed, {"document": document})
        before = connection.scalar(sa.select(WorkloadRow.labels))

    BackupService(_context(database, services)).create(tmp_path / "all.tfb")
    BackupService(_context(empty, services)).restore(tmp_path / "all.tfb")

    with empty.engine.connect() as connection:
        assert connection.scalar(sa.select(WorkloadRow.labels)) == before == json.loads(document)


def test_restored_database_takes_new_rows(
    services: Services, empty: Database, tmp_path: Path
) -> None:
    _fill(services)
    BackupService(services.context).create(tmp_path / "all.tfb")
    BackupService(_context(empty, services)).restore(tmp_path / "all.tfb")
    again = Services(_context(empty, services))

    publish_regressor(again, "another")

    found = {json.loads(row)[2] for row in _rows(empty)["workload"]}
    assert found == {"fitted", "unfitted", "another"}


def test_backup_is_of_one_instant(services: Services, tmp_path: Path) -> None:
    _fill(services)
    with services.context.database.reading() as stores:
        stores.dumps.freeze()
        tables = {table.name: table for table in stores.dumps.tables()}
        before = len(list(stores.dumps.read(tables["workload"])))
        store_runs(services.context, "later")
        after = len(list(stores.dumps.read(tables["workload"])))
        runs = len(list(stores.dumps.read(tables["run"])))

    assert (before, after, runs) == (2, 2, 24)


def test_backup_is_made_while_an_upload_writes(
    database: Database, services: Services, clock: FakeClock, tmp_path: Path
) -> None:
    impatient = database.with_own_connection(0.1)

    with database.transaction() as stores:
        stores.workloads.claim(DEFAULT_PROJECT, [Slug("late")], clock())
        BackupService(_context(impatient, services)).create(tmp_path / "all.tfb")
    impatient.close()

    assert (tmp_path / "all.tfb").exists()


def test_restore_removes_data_only_when_told_so(
    database: Database, services: Services, tmp_path: Path
) -> None:
    backups, path = BackupService(services.context), tmp_path / "all.tfb"
    backups.create(path)
    before = _rows(database)
    _fill(services)
    database = Database(services.context.settings.url)
    backups = BackupService(_context(database, services))

    with pytest.raises(BackupError, match="holds data"):
        backups.restore(path)
    backups.restore(path, overwrite=True)

    assert _rows(database) == before
    database.close()


def test_backup_of_an_earlier_version_is_brought_to_head(
    settings: Settings, empty: Database, tmp_path: Path, clock: FakeClock
) -> None:
    path, old = tmp_path / "old.tfb", "0001"
    header = {"format": "trainfare backup 1", "revision": old,
              "created_at": "2026-01-01T00:00:00+00:00"}  # fmt: skip
    project = {"table": "project", "columns": ["id", "name", "created_at"],
               "kinds": ["plain", "plain", "instant"]}  # fmt: skip
    _write(path, [header, project, ["prj_1", "team", "2025-12-31T23:59:59.123456+00:00"]])

    summary = BackupService(ServiceContext(empty, settings, clock)).restore(path)

    assert (summary.revision, summary.rows) == (old, 1)
    assert current_revision(empty) == head_revision()
    with empty.reading() as stores:
        assert [each.name for each in stores.access.list_projects()] == ["team"]


def _old_backup(path: Path, key_name: str | None) -> None:
    """Write a backup of an earlier schema with one key."""
    header = {"format": "trainfare backup 1", "revision": "0015",
              "created_at": "2026-01-01T00:00:00+00:00"}  # fmt: skip
    project = {"table": "project", "columns": ["id", "name", "created_at"],
               "kinds": ["plain", "plain", "instant"]}  # fmt: skip
    key = {"table": "api_key",
           "columns": ["id", "project_id", "name", "secret_sha256", "scopes", "created_at"],
           "kinds": ["plain", "plain", "plain", "plain", "json", "instant"]}  # fmt: skip
    made = "2025-12-31T23:59:59.123456+00:00"
    _write(path, [header, project, ["prj_1", "team", made],
                  key, ["k1", "prj_1", "ci", "aa", ["read"], made],
                  ["k2", "prj_1", key_name, "bb", ["read"], made]])  # fmt: skip


@pytest.mark.parametrize("name", ["n" * 110, None], ids=["too-long", "missing"])
def test_restore_of_a_row_that_is_refused_changes_nothing(
    database: Database, services: Services, tmp_path: Path, name: str | None
) -> None:
    if name is not None and database.is_sqlite:
        pytest.skip("SQLite takes names of any length")
    _fill(services)
    database = Database(services.context.settings.url)
    _old_backup(tmp_path / "old.tfb", name)
    before = _rows(database)

    with pytest.raises(BackupError, match="row 2 of table 'api_key'") as refused:
        BackupService(_context(database, services)).restore(tmp_path / "old.tfb", overwrite=True)

    assert name is None or "column 'name'" in str(refused.value)
    assert current_revision(database) == head_revision()
    assert _rows(database) == before
    database.close()


def test_failed_restore_leaves_the_numbering_as_it_was(
    database: Database, services: Services, tmp_path: Path
) -> None:
    _fill(services)
    database = Database(services.context.settings.url)
    header = {"format": "trainfare backup 1", "revision": head_revision(),
              "created_at": "2026-01-01T00:00:00+00:00"}  # fmt: skip
    audit = {"table": "audit", "columns": ["id", "project_id", "at", "action", "subject"],
             "kinds": ["plain", "plain", "instant", "plain", "plain"]}  # fmt: skip
    key = {"table": "api_key", "columns": ["id"], "kinds": ["plain"]}
    _write(tmp_path / "odd.tfb", [header, audit, key, [None]])

    with pytest.raises(BackupError, match="row 1 of table 'api_key'"):
        BackupService(_context(database, services)).restore(tmp_path / "odd.tfb", overwrite=True)

    again = Services(_context(database, services))
    again.access.create_key("next", [Scope.READ])
    assert len(again.access.list_audit("default", limit=10)) >= 2
    database.close()


def _write(path: Path, lines: list[object]) -> None:
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    rows = sum(isinstance(line, list) for line in lines)
    end = {"end": {"rows": rows, "sha256": hashlib.sha256(text).hexdigest()}}
    path.write_bytes(zstd.compress(text + json.dumps(end).encode() + b"\n"))


def test_backup_of_a_newer_version_is_refused(services: Services, tmp_path: Path) -> None:
    _write(tmp_path / "new.tfb", [{"format": "trainfare backup 1", "revision": "9999",
                                   "created_at": "2026-01-01T00:00:00+00:00"}])  # fmt: skip

    with pytest.raises(BackupError, match="does not know"):
        BackupService(services.context).restore(tmp_path / "new.tfb")


def _cut(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def _flip(whole: bytes) -> bytes:
    middle = len(whole) // 2
    return whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]


def _reword(whole: bytes) -> bytes:
    plain = zstd.ZstdDecompressor().decompress(whole)
    return zstd.compress(plain.replace(b'"fitted"', b'"fatted"'))


def _drop_end(whole: bytes) -> bytes:
    plain = zstd.ZstdDecompressor().decompress(whole)
    return zstd.compress(plain[: plain.rindex(b'{"end"')])


def _lengthen(whole: bytes) -> bytes:
    return whole + b"junk"


def _add_frame(whole: bytes) -> bytes:
    return whole + zstd.compress(b"[1]\n")


def _other(_whole: bytes) -> bytes:
    return zstd.compress(b'["no backup"]\n')


def _scalar(_whole: bytes) -> bytes:
    return zstd.compress(
        b'{"format":"trainfare backup 1","revision":"0001",'
        b'"created_at":"2026-01-01T00:00:00+00:00"}\n7\n'
    )


@pytest.mark.parametrize(
    "damage",
    [_cut, _flip, _reword, _drop_end, _lengthen, _add_frame, _other, _scalar, bytes.lower],
)
def test_damaged_backup_is_refused_and_changes_nothing(
    database: Database, services: Services, tmp_path: Path, damage: "object"
) -> None:
    assert callable(damage)
    _fill(services)
    database = Database(services.context.settings.url)
    backups, path = BackupService(_context(database, services)), tmp_path / "all.tfb"
    backups.create(path)
    path.write_bytes(damage(path.read_bytes()))
    before = _rows(database)

    with pytest.raises(BackupError, match="damaged"):
        backups.restore(path, overwrite=True)

    assert _rows(database) == before
    database.close()


def test_line_that_does_not_end_is_refused_before_it_is_read(
    services: Services, tmp_path: Path
) -> None:
    path, part = tmp_path / "bomb.tfb", b" " * (1 << 24)
    with path.open("wb") as file, zstd.ZstdFile(file, "wb") as stream:
        for _ in range(33):
            stream.write(part)

    with pytest.raises(BackupError, match="too long for any table"):
        BackupService(services.context).restore(path)


def test_missing_backup_is_refused(services: Services, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="Cannot read"):
        BackupService(services.context).restore(tmp_path / "nothing.tfb")


def test_outdated_schema_is_neither_backed_up_nor_filled(
    database: Database, services: Services, tmp_path: Path
) -> None:
    backups = BackupService(services.context)
    backups.create(tmp_path / "all.tfb")
    migrate(database, "0003")

    with pytest.raises(BackupError, match="schema 0003"):
        backups.create(tmp_path / "old.tfb")
    with pytest.raises(BackupError, match="schema 0003"):
        backups.restore(tmp_path / "all.tfb")
    backups.restore(tmp_path / "all.tfb", overwrite=True)

    assert current_revision(database) == head_revision()
