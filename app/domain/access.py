"""Who calls: projects, keys and their scopes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from app.domain.errors import InvalidNameError
from app.domain.identifiers import KeyId, ProjectId

DEFAULT_PROJECT: Final = ProjectId("default")
FIT_REQUESTED: Final = "fit.request"
"""The action in the audit log by which limits of fits are counted."""
MAX_NAME: Final = 100
"""Most characters of the name of a key or a project."""


def check_name(kind: str, name: str) -> None:
    """Check the name of a key or a project (the `kind`).

    Raises
    ------
    InvalidNameError
        If it is blank, longer than `MAX_NAME`, or has unprintable characters.
    """
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidNameError(kind, name)


class Scope(StrEnum):
    """What a key may do; `admin` includes all others."""

    READ = "read"
    RUNS_WRITE = "runs:write"
    FITS_WRITE = "fits:write"
    PRICES_WRITE = "prices:write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Project:
    """A tenant; what belongs to another project is invisible to it."""

    project_id: ProjectId
    name: str


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request: a project, its rate limit, and what its key allows."""

    project_id: ProjectId
    scopes: frozenset[Scope]
    key_id: KeyId | None = None
    requests_per_minute: int | None = None

    def allows(self, scope: Scope) -> bool:
        """Return whether the caller has a scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored key, without its secret."""

    key_id: KeyId
    project_id: ProjectId
    name: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def is_usable(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who changed what, and when."""

    project_id: ProjectId
    key_id: KeyId | None
    at: datetime
    action: str
    subject: str
    detail: Mapping[str, object] | None = None
