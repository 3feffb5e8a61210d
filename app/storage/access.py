"""The store of projects, API keys and the audit log."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.access import ApiKey, AuditEntry, Project, Scope
from app.domain.identifiers import KeyId, ProjectId
from app.storage.tables import ApiKeyRow, AuditRow, ProjectRow
from app.storage.upserts import insert_into

# Without the limits: doctor also reads schemas of earlier versions.
_PROJECT: Final = sa.select(ProjectRow.id, ProjectRow.name)

_AUDITED: Final = (
    AuditRow.project_id,
    AuditRow.key_id,
    AuditRow.at,
    AuditRow.action,
    AuditRow.subject,
    AuditRow.detail,
)
_AUDITED_AT_ONCE: Final = 1000


def _to_key(row: ApiKeyRow) -> ApiKey:
    return ApiKey(
        key_id=KeyId(row.id),
        project_id=ProjectId(row.project_id),
        name=row.name,
        scopes=frozenset(Scope(scope) for scope in row.scopes),
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )


def _to_entry(row: sa.Row[*tuple[Any, ...]]) -> AuditEntry:
    return AuditEntry(
        project_id=ProjectId(row.project_id),
        key_id=None if row.key_id is None else KeyId(row.key_id),
        at=row.at,
        action=row.action,
        subject=row.subject,
        detail=row.detail,
    )


class AccessStore:
    """Reads and writes projects, API keys and the audit log in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add_project(self, project: Project, created_at: datetime) -> Project:
        """Store a project and return it, or the one that has its name already.

        Nobody removes it until the transaction ends.
        """
        values = {"id": project.project_id, "name": project.name, "created_at": created_at}
        statement = insert_into(self._session, ProjectRow).values(values).on_conflict_do_nothing()
        held: list[Project] = []
        # One that exists may be removed before it is locked.
        while not held:
            self._session.execute(statement)
            held = self.hold_projects(project.name)
        return held[0]

    def hold_projects(self, name: str | None = None) -> list[Project]:
        """Return the project with a name, if there is one, or all, by name.

        Nobody removes them until the transaction ends.
        """
        wanted = _PROJECT if name is None else _PROJECT.where(ProjectRow.name == name)
        held = wanted.order_by(ProjectRow.name).with_for_update(read=True, key_share=True)
        return [Project(ProjectId(row.id), row.name) for row in self._session.execute(held)]

    def find_project(self, name: str) -> Project | None:
        """Return the project with a name, None if there is none."""
        row = self._session.execute(_PROJECT.where(ProjectRow.name == name)).one_or_none()
        return None if row is None else Project(ProjectId(row.id), row.name)

    def list_projects(self) -> list[Project]:
        """Return all projects by name."""
        rows = self._session.execute(_PROJECT.order_by(ProjectRow.name))
        return [Project(ProjectId(row.id), row.name) for row in rows]

    def add_key(self, key: ApiKey, secret_sha256: str) -> None:
        """Store a new key with the hash of its secret."""
        self._session.add(
            ApiKeyRow(
                id=key.key_id,
                project_id=key.project_id,
                name=key.name,
                secret_sha256=secret_sha256,
                scopes=sorted(key.scopes),
                created_at=key.created_at,
                expires_at=key.expires_at,
            )
        )

    def find_key(self, key_id: KeyId, *, hold: bool = False) -> tuple[ApiKey, str] | None:
        """Return a key and the SHA-256 of its secret, None if there is none.

        With `hold`, nobody removes it or its project until the transaction ends.
        """
        how = {"read": True, "key_share": True} if hold else None
        row = self._session.get(ApiKeyRow, key_id, with_for_update=how)
        return None if row is None else (_to_key(row), row.secret_sha256)

    def list_keys(self) -> list[ApiKey]:
        """Return the keys of all projects, in order of creation."""
        query = sa.select(ApiKeyRow).order_by(ApiKeyRow.created_at, ApiKeyRow.id)
        return [_to_key(row) for row in self._session.scalars(query)]

    def revoke_key(self, key_id: KeyId, at: datetime) -> None:
        """Make a key invalid from `at` on; a revoked key keeps its first instant."""
        self._session.execute(
            sa.update(ApiKeyRow)
            .where(ApiKeyRow.id == key_id, ApiKeyRow.revoked_at.is_(None))
            .values(revoked_at=at)
        )

    def touch_key(self, key_id: KeyId, at: datetime) -> None:
        """Record that a key was used."""
        self._session.execute(
            sa.update(ApiKeyRow).where(ApiKeyRow.id == key_id).values(last_used_at=at)
        )

    def record_audit(
        self,
        project_id: ProjectId,
        key_id: KeyId | None,
        at: datetime,
        action: str,
        subject: str,
        detail: Mapping[str, object] | None = None,
    ) -> None:
        """Record who changed what: `action` such as `run.exclude`, `subject` an identifier."""
        self._session.add(
            AuditRow(
                project_id=project_id,
                key_id=key_id,
                at=at,
                action=action,
                subject=subject,
                detail=None if detail is None else dict(detail),
            )
        )

    def list_audit(self, project_id: ProjectId, *, limit: int = 100) -> list[AuditEntry]:
        """Return the newest entries of a project's audit log, the newest first."""
        rows = self._session.execute(
            sa.select(*_AUDITED)
            .where(AuditRow.project_id == project_id)
            .order_by(AuditRow.id.desc())
            .limit(limit)
        )
        return [_to_entry(row) for row in rows.yield_per(_AUDITED_AT_ONCE)]
