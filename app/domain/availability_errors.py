"""Refusals of a service that cannot answer, now or as it is installed."""

from collections.abc import Sequence

from app.domain.errors import DomainError, Fault


class StorageUnavailableError(DomainError):
    """The database does not answer."""

    remedy = "Retry; nothing of the request was stored."

    def __init__(self, reason: str = "") -> None:
        super().__init__("The database does not answer at the moment.")
        self.reason = reason
        """The driver's message, for operators only, since it names servers and files."""


class StorageUnusableError(StorageUnavailableError):
    """The configured database does not exist or cannot be used, and no retry helps."""

    remedy = "Check TRAINFARE_DATABASE_URL or TRAINFARE_DATA_DIR, and who may write there."

    def __init__(self, reason: str) -> None:
        DomainError.__init__(self, "The database cannot be used.")
        self.reason = reason


class SharedSessionsError(StorageUnusableError):
    """A pooler gives each transaction of a connection another session of PostgreSQL."""

    remedy = (
        "Add ?pool_mode=transaction to TRAINFARE_DATABASE_URL, or let the pooler keep sessions"
        " (PgBouncer: pool_mode = session)."
    )

    def __init__(
        self, reason: str = "a pooler gives each transaction another session of PostgreSQL"
    ) -> None:
        super().__init__(reason)


class ForeignEncodingError(StorageUnusableError):
    """The PostgreSQL database does not store text as UTF-8."""

    remedy = (
        "Create the database anew with UTF-8"
        " (CREATE DATABASE trainfare ENCODING 'UTF8' TEMPLATE template0)."
    )

    def __init__(self, encoding: str) -> None:
        super().__init__(f"its encoding is {encoding}, not UTF8")


class ForeignOrderError(StorageUnusableError):
    """The PostgreSQL database sorts text by the rules of a language that reorders identifiers."""

    remedy = (
        "Create the database anew (CREATE DATABASE trainfare LOCALE 'C' ENCODING 'UTF8' TEMPLATE"
        " template0); pg_dump moves what the old one holds."
    )

    def __init__(self, locale: str) -> None:
        super().__init__(
            f"its locale {locale} has an order of its own for some letters or pairs of letters, so"
            " that identifiers do not sort by their creation"
        )


class OldSqliteError(StorageUnusableError):
    """The SQLite library of this Python lacks statements that the service needs."""

    remedy = (
        "Use a Python that brings a newer SQLite (the container image; `uv python install`), or"
        " PostgreSQL (TRAINFARE_DATABASE_URL)."
    )

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(f"this Python's SQLite is {found}, {needed} or newer is needed")


class SchemaMismatchError(DomainError):
    """The schema of the database is not the one that this release needs."""

    remedy = "Run `trainfare migrate` (or serve with --migrate)."

    def __init__(self, *, found: str | None, needed: str) -> None:
        super().__init__(
            f"The database is at schema {found or 'none'}, this release needs {needed}."
        )


class SchemaAheadError(SchemaMismatchError):
    """A later release migrated the database."""

    remedy = "Use the release that migrated the database, or restore a backup from before."

    def __init__(self, *, found: str, needed: str) -> None:
        DomainError.__init__(
            self,
            f"The database is at schema {found} of a later release; this one knows up to {needed}.",
        )


class ForeignTablesError(SchemaMismatchError):
    """The database has tables with the service's names but no recorded schema."""

    remedy = (
        "Set TRAINFARE_DATABASE_URL or TRAINFARE_DATA_DIR to an empty database, or one of"
        " Trainfare's."
    )

    def __init__(self, names: Sequence[str]) -> None:
        DomainError.__init__(
            self,
            f"The database has {', '.join(names)} already, but no schema of Trainfare: it is"
            " another program's, or its table alembic_version was lost.",
        )


class DeadlineExceededError(DomainError):
    """A request was not answered within its time."""

    remedy = "Retry with the same Idempotency-Key, later or with less at once."

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"The request was not answered within {limit_s:g} s and was given up;"
            " what it had not stored by then is not stored."
        )


class StoppingError(DeadlineExceededError):
    """A request was not answered before the process that handled it had to end."""

    def __init__(self) -> None:
        DomainError.__init__(
            self,
            "The process that handled the request was told to stop before it had answered;"
            " what it had not stored by then is not stored.",
        )


class OverloadedError(DomainError):
    """More requests are waiting than the process allows."""

    remedy = "Retry as Retry-After says; nothing of the request was begun."

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} requests are waiting already.")


class BatchesUnderWayError(OverloadedError):
    """With this batch, more entries would be in progress than the process allows at once."""

    def __init__(self, entries: int) -> None:
        DomainError.__init__(self, f"Batches of about {entries} entries are under way already.")


class MissingExtraError(DomainError):
    """A setting needs an optional part of the installation that is missing."""

    remedy = "Install the named extra (in a clone: pip install '.[EXTRA]'), or unset the setting."

    def __init__(self, extra: str, setting: str) -> None:
        super().__init__(f"{setting} is set, but the extra '{extra}' is not installed.")


class NotReadyError(DomainError):
    """The service runs but cannot do all of its work; the faults name what is missing."""

    remedy = "Fix what the errors name; `trainfare doctor` tells more."

    def __init__(self, faults: Sequence[Fault]) -> None:
        names = ", ".join(str(fault.field) for fault in faults)
        super().__init__(f"The service is not ready: {names}.", faults=faults)
