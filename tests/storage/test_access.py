"""Projects, keys and the audit log read back as they were written."""

from datetime import timedelta

from app.domain.access import DEFAULT_PROJECT, ApiKey, AuditEntry, Project, Scope
from app.domain.identifiers import KeyId, ProjectId
from app.storage.database import Database
from tests.support.clock import FakeClock

_TEAM = Project(ProjectId("prj_1"), "team")


def _key(clock: FakeClock, project_id: ProjectId = DEFAULT_PROJECT) -> ApiKey:
    return ApiKey(
        key_id=KeyId("k1"),
        project_id=project_id,
        name="ci",
        scopes=frozenset({Scope.READ, Scope.RUNS_WRITE}),
        created_at=clock(),
        expires_at=clock() + timedelta(days=1),
    )


def test_key_reads_back_with_its_hash(database: Database, clock: FakeClock) -> None:
    key = _key(clock)
    with database.transaction() as stores:
        stores.access.add_key(key, "f" * 64)

    with database.reading() as stores:
        stored_key = stores.access.find_key(key.key_id)
        unknown = stores.access.find_key(KeyId("other"))

    assert stored_key == (key, "f" * 64)
    assert unknown is None


def test_revoked_key_keeps_its_first_instant(database: Database, clock: FakeClock) -> None:
    key = _key(clock)
    with database.transaction() as stores:
        stores.access.add_key(key, "f" * 64)
        stores.access.revoke_key(key.key_id, clock())
        stores.access.revoke_key(key.key_id, clock() + timedelta(hours=1))
        stores.access.touch_key(key.key_id, clock())

    with database.reading() as stores:
        [listed] = stores.access.list_keys()

    assert listed.revoked_at == listed.last_used_at == clock()
    assert not listed.is_usable(clock())


def test_keys_are_listed_with_their_project(database: Database, clock: FakeClock) -> None:
    with database.transaction() as stores:
        stores.access.add_project(_TEAM, clock())
        stores.access.add_key(_key(clock, _TEAM.project_id), "f" * 64)

    with database.reading() as stores:
        assert [key.project_id for key in stores.access.list_keys()] == [_TEAM.project_id]
        assert stores.access.find_project("team") == _TEAM
        assert stores.access.find_project("nobody") is None
        assert [project.name for project in stores.access.list_projects()] == ["default", "team"]


def test_audit_lists_the_newest_first(database: Database, clock: FakeClock) -> None:
    with database.transaction() as stores:
        stores.access.record_audit(
            DEFAULT_PROJECT, None, clock(), "run.exclude", "run_1", {"reason": "slow disk"}
        )
        stores.access.record_audit(DEFAULT_PROJECT, KeyId("k1"), clock(), "run.delete", "run_1")

    with database.reading() as stores:
        entries = stores.access.list_audit(DEFAULT_PROJECT)

    assert entries == [
        AuditEntry(DEFAULT_PROJECT, KeyId("k1"), clock(), "run.delete", "run_1"),
        AuditEntry(DEFAULT_PROJECT, None, clock(), "run.exclude", "run_1", {"reason": "slow disk"}),
    ]
