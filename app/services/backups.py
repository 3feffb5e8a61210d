"""The use cases of backup and restore: one archive format for both databases.

An archive is a zstd stream of JSON lines: a header, then for each table its description and its
rows (one array per line), then an end with the number of rows and the SHA-256 of all lines before.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final

import orjson

from app.domain.availability_errors import (
    ForeignTablesError,
    SchemaAheadError,
    SchemaMismatchError,
)
from app.domain.backups import BackupError, BackupSummary, RefusedRowError, TableDump
from app.domain.zstd import zstd
from app.services.context import ServiceContext
from app.storage.migration import (
    MigrationBlockedError,
    current_revision,
    head_revision,
    known_revisions,
    rebuilding,
    require_head,
)

_FORMAT: Final = "trainfare backup 1"
_COMPRESSION: Final[Mapping[int, int]] = {
    zstd.CompressionParameter.compression_level: 6,
    zstd.CompressionParameter.checksum_flag: 1,
}
_PRIVATE: Final = 0o600
_LONGEST_LINE: Final = 1 << 29
"""Bytes; the largest artefact in base64 takes two thirds of this."""
_ROW_BEGINS: Final = b"["
_DAMAGED: Final = "Take another backup: this file is not complete."
_BACK_UP_BEFORE: Final = (
    "Take the backup with the release that has served so far; where there is none, run"
    " `trainfare migrate` first."
)
_FIX_ROW: Final = "Fix the row in the database that was backed up, and take another backup."


def _damaged(name: str, reason: object) -> BackupError:
    return BackupError(f"{name} is damaged or not a backup: {reason}.", _DAMAGED)


class _LineWriter:
    """Writes JSON lines and remembers their hash."""

    def __init__(self, file: zstd.ZstdFile) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, document: object) -> None:
        line = orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
        self._hash.update(line)
        self._file.write(line)

    def digest(self) -> str:
        return self._hash.hexdigest()


class _ArchiveReader:
    """Reads an archive from its start, once."""

    def __init__(self, name: str, lines: zstd.ZstdFile) -> None:
        self._name = name
        self._lines = lines
        self._hash = hashlib.sha256()
        self._rows = 0
        header = self._next()
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise _damaged(name, "it does not begin like a backup")
        self.revision = str(header["revision"])
        self.created_at = datetime.fromisoformat(header["created_at"])
        self._pending = self._next()

    def tables(self) -> Iterator[TableDump]:
        """Yield the description of each table; its `rows` come before the next one's."""
        while "table" in self._pending:
            table = self._pending
            yield TableDump(table["table"], tuple(table["columns"]), tuple(table["kinds"]))

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows of the table that was described last."""
        while isinstance(row := self._next(), list):
            self._rows += 1
            yield row
        self._pending = row

    def pass_rows(self) -> None:
        """Count the rows of the table that was described last; their hash tells what they are."""
        while (line := self._next_line()).startswith(_ROW_BEGINS):
            self._rows += 1
        self._pending = json.loads(line)

    def finish(self) -> BackupSummary:
        """Return a summary of what was read, after checking it against the archive's end."""
        expected = {"rows": self._rows, "sha256": self._digest_before}
        if self._pending.get("end") != expected:
            raise _damaged(self._name, "its end does not match its contents")
        if self._lines.read(1):
            raise _damaged(self._name, "it continues beyond its end")
        return BackupSummary(
            self._name, self.created_at, self.revision, self._rows, self._digest_before
        )

    def _next(self) -> Any:
        return json.loads(self._next_line())

    def _next_line(self) -> bytes:
        line = self._lines.readline(_LONGEST_LINE)
        if len(line) == _LONGEST_LINE:
            raise _damaged(self._name, "it has a line too long for any table")
        if not line.endswith(b"\n"):
            raise _damaged(self._name, "it ends too early")
        self._digest_before = self._hash.hexdigest()
        self._hash.update(line)
        return line


@contextmanager
def _reading(path: Path, name: str) -> Iterator[_ArchiveReader]:
    try:
        with path.open("rb") as file, zstd.ZstdFile(file) as stream:
            yield _ArchiveReader(name, stream)
    except OSError as error:
        raise BackupError(f"Cannot read {name}: {error.strerror}.", "Check the path.") from error
    except (zstd.ZstdError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(name, error) from error


def _tables_of(path: Path, name: str) -> tuple[BackupSummary, list[TableDump]]:
    with _reading(path, name) as archive:
        tables = []
        for table in archive.tables():
            tables.append(table)
            archive.pass_rows()
        return archive.finish(), tables


def check_backup(path: Path, name: str | None = None) -> BackupSummary:
    """Read an archive to its end and return what it holds.

    Messages and the summary call it `name`, by its path unless given.

    Raises
    ------
    BackupError
        If it cannot be read or is incomplete.
    """
    return _tables_of(path, name or str(path))[0]


class BackupService:
    """Use cases of backup and restore."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def create(self, path: Path, *, overwrite: bool = False) -> BackupSummary:
        """Write all rows as of one instant, while the service runs; the file appears when complete.

        Raises
        ------
        BackupError
            If the file exists and `overwrite` is false, is the database itself, no regular file or
            cannot be written, or if the schema is of an earlier version.
        SchemaMismatchError
            If the schema is of a later version, or another program's.
        """
        with _refusing_unwritable(path):
            self._check_file(path, overwrite=overwrite)
            self._require_head(_BACK_UP_BEFORE)
            with _complete_file(path) as file:
                self._write(file, str(path))
        return check_backup(path)

    def stream(self, file: IO[bytes], name: str) -> BackupSummary:
        """Write the same archive to an open stream, which has `name` in the summary.

        Raises
        ------
        BackupError
            If the schema is of an earlier version.
        SchemaMismatchError
            If the schema is of a later version, or another program's.
        OSError
            If the stream cannot be written.
        """
        self._require_head(_BACK_UP_BEFORE)
        return self._write(file, name)

    def _require_head(self, remedy: str) -> None:
        """Refuse an earlier version's schema, with the given remedy."""
        try:
            require_head(self._context.database, only_reads=True)
        except (SchemaAheadError, ForeignTablesError):
            raise
        except SchemaMismatchError as error:
            raise BackupError(str(error), remedy) from None

    def _check_file(self, path: Path, *, overwrite: bool) -> None:
        """Refuse what a backup must not replace."""
        if not path.exists():
            return
        if not overwrite:
            raise BackupError(f"{path} exists.", "Name another file, or pass --overwrite.")
        if not path.is_file():
            raise BackupError(f"{path} is no file.", "Name a file; - is standard output.")
        file = self._context.database.file
        parts = [] if file is None else [f"{file}{end}" for end in ("", "-wal", "-shm")]
        if any(Path(part).exists() and path.samefile(part) for part in parts):
            raise BackupError(f"{path} is the database itself.", "Name another file.")

    def _write(self, file: IO[bytes], name: str) -> BackupSummary:
        created_at, count = self._context.now(), 0
        with (
            zstd.ZstdFile(file, "wb", options=_COMPRESSION) as stream,
            self._context.database.reading() as stores,
        ):
            lines = _LineWriter(stream)
            stores.dumps.freeze()
            header = {"revision": head_revision(), "created_at": created_at.isoformat()}
            lines.write({"format": _FORMAT, **header})
            for table in stores.dumps.tables():
                lines.write({"table": table.name, "columns": table.columns, "kinds": table.kinds})
                for row in stores.dumps.read(table):
                    lines.write(row)
                    count += 1
            digest = lines.digest()
            lines.write({"end": {"rows": count, "sha256": digest}})
        return BackupSummary(name, created_at, head_revision(), count, digest)

    def restore(
        self, path: Path, name: str | None = None, *, overwrite: bool = False
    ) -> BackupSummary:
        """Fill the database with an archive's rows and bring it to head, in one transaction.

        The archive may come from an earlier version, and from the other kind of database. Any
        failure leaves the database as it was. Messages and the summary call the archive `name`, by
        its path unless given.

        Raises
        ------
        BackupError
            If the archive is incomplete or newer than this version; if the database holds data and
            `overwrite` is false, is in use, or rejects a row.
        """
        name = name or str(path)
        summary, tables = _tables_of(path, name)
        self._check_target(summary, overwrite=overwrite)
        try:
            with (
                rebuilding(self._context.database, summary.revision) as stores,
                _reading(path, name) as archive,
            ):
                stores.dumps.clear(tables)
                for table in archive.tables():
                    stores.dumps.write(table, archive.rows())
                archive.finish()
        except MigrationBlockedError as error:
            raise BackupError(
                f"{error} Nothing was changed.", "Stop the service and its fitters first."
            ) from None
        except RefusedRowError as error:
            raise BackupError(f"{error} Nothing was changed.", _FIX_ROW) from error
        return summary

    def _check_target(self, summary: BackupSummary, *, overwrite: bool) -> None:
        revisions, database = known_revisions(), self._context.database
        if summary.revision not in revisions:
            raise BackupError(
                f"The backup has schema {summary.revision}, which this version does not know.",
                "Restore it with the version that made it, or a newer one.",
            )
        revision = current_revision(database)
        if revision is None or overwrite:
            return
        self._require_head("Run `trainfare migrate`, or pass --overwrite.")
        with database.reading() as stores:
            if stores.dumps.holds_data():
                raise BackupError(
                    "The database holds data, which a restore would remove.",
                    "Restore into an empty database, or pass --overwrite.",
                )


@contextmanager
def _refusing_unwritable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise BackupError(
            f"Cannot write {path}: {reason}.", "Check the folder and the disk."
        ) from None


@contextmanager
def _complete_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that only its owner may read; it is on the disk, at `path`, after the block."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
