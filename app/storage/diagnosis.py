"""What the database tells about its own soundness."""

import hashlib
from collections.abc import Iterator
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.fits import FitState
from app.storage.tables import FitRow, RegressorRow, WorkloadRow

_FEW = 100


class DiagnosisStore:
    """Reads what shows damage; writes nothing."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_sqlite = session.get_bind().dialect.name == "sqlite"

    def corruption(self) -> str | None:
        """Return what SQLite finds wrong with its file; None when it is sound."""
        if not self._is_sqlite:
            return None
        try:
            rows = self._session.execute(sa.text("PRAGMA integrity_check")).scalars().all()
            broken = self._session.execute(sa.text("PRAGMA foreign_key_check")).all()
        except sa.exc.DatabaseError as error:
            return str(error.orig)
        faults = [str(row) for row in rows if row != "ok"]
        faults += [f"{row[0]} row {row[1]} refers to nothing" for row in broken]
        return "; ".join(faults[:_FEW]) or None

    def clock(self) -> datetime | None:
        """Return the database server's time; None for SQLite, which has none of its own."""
        if self._is_sqlite:
            return None
        moment: datetime = self._session.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return moment

    def damaged_artifacts(self) -> Iterator[tuple[str, int]]:
        """Yield workload and version of each artefact that does not match its hash."""
        query = sa.select(
            WorkloadRow.slug,
            RegressorRow.version,
            RegressorRow.artifact,
            RegressorRow.artifact_sha256,
        ).join(WorkloadRow, WorkloadRow.id == RegressorRow.workload_id)
        rows = self._session.execute(query.execution_options(yield_per=_FEW))
        for slug, version, artifact, expected in rows:
            if hashlib.sha256(artifact).hexdigest() != expected:
                yield slug, version

    def orphaned_fits(self, expired_before: datetime) -> list[str]:
        """Return the running fits whose lease ended before an instant and was not taken over."""
        query = (
            sa.select(FitRow.id)
            .where(FitRow.state == FitState.RUNNING.value, FitRow.lease_expires_at < expired_before)
            .order_by(FitRow.id)
            .limit(_FEW)
        )
        return list(self._session.scalars(query))
