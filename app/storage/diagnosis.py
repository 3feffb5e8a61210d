"""What the database shows of its own health."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.fits import FitState
from app.domain.health import FitActivity
from app.domain.identifiers import ProjectId, Slug
from app.storage.dialects import is_sqlite
from app.storage.regressors import HAS_ARTIFACT, IS_PUBLISHED
from app.storage.tables import Base, FitRow, PublicationRow, RegressorRow, RunRow, WorkloadRow

_FEW = 100
_MANY = 10_000
_ARTIFACTS_AT_ONCE = 10
"""Each has up to several megabytes."""
_ACTIVE = (
    sa.select(
        FitRow.state,
        sa.func.count(),
        sa.func.coalesce(sa.func.sum(FitRow.attempts - 1).filter(FitRow.attempts > 1), 0),
    )
    .where(FitRow.state.in_([FitState.QUEUED.value, FitState.RUNNING.value]))
    .group_by(FitRow.state)
)
"""States of the fits that have not ended, how many there are, and how often each was restarted."""
_VERSION = sa.table("alembic_version", sa.column("version_num", sa.String))
_PUBLISHED = (
    sa.select(WorkloadRow.project_id, WorkloadRow.slug, RegressorRow.version)
    .select_from(RegressorRow)
    .join(WorkloadRow, WorkloadRow.id == RegressorRow.workload_id)
    .join(PublicationRow, IS_PUBLISHED)
    .order_by(WorkloadRow.id)
)
"""Project, workload and version of each published regressor."""
_REFUSED_SEQUENCES = sa.text(
    "SELECT relname FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid"
    " WHERE relnamespace = CAST(current_schema() AS regnamespace)"
    " AND NOT has_sequence_privilege(seqrelid, 'USAGE') ORDER BY relname"
)
"""The sequences that this user may not use: rows that take their ids from one cannot be added."""


class DiagnosisStore:
    """Reads signs of damage; changes nothing."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_sqlite = is_sqlite(session)

    def corruption(self) -> str | None:
        """Return what SQLite finds wrong with its file; None if it is sound."""
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

    def recorded_revisions(self) -> list[str] | None:
        """Return all rows of the table of the revision, one if all is well; None without a schema.

        A schema that was migrated down to nothing leaves this table, empty.
        """
        tables = set(sa.inspect(self._session.connection()).get_table_names())
        if _VERSION.name not in tables or not tables & Base.metadata.tables.keys():
            return None
        return sorted(self._session.scalars(sa.select(_VERSION.c.version_num)))

    def is_read_only(self) -> bool:
        """Whether PostgreSQL accepts no changes: a standby, or a read-only database."""
        if self._is_sqlite:
            return False
        mode = self._session.scalar(sa.text("SHOW transaction_read_only"))
        return bool(mode == "on")

    def newest_record(self) -> datetime | None:
        """Return the instant of the last run or fit, by identifiers, which begin with the time."""
        queries = (
            sa.select(moment).order_by(identifier.desc()).limit(1)
            for moment, identifier in (
                (RunRow.created_at, RunRow.id),
                (FitRow.requested_at, FitRow.id),
            )
        )
        moments = (self._session.scalar(query) for query in queries)
        return max((moment for moment in moments if moment is not None), default=None)

    def change_nothing(self) -> str:
        """Insert, update and delete zero rows in each table, to see whether that is allowed.

        Returns
        -------
        str
            What it would refuse besides; refused statements raise, as they do for users.
        """
        never = sa.false()
        for table in Base.metadata.sorted_tables:
            nothing = sa.select(*table.columns).where(never)
            self._session.execute(sa.insert(table).from_select(list(table.columns), nothing))
            unchanged = {column: column for column in table.columns}
            self._session.execute(sa.update(table).where(never).values(unchanged))
            self._session.execute(sa.delete(table).where(never))
        refused = () if self._is_sqlite else self._session.scalars(_REFUSED_SEQUENCES)
        return ", ".join(f"permission denied for sequence {name}" for name in refused)

    def damaged_artifacts(self) -> Iterator[tuple[ProjectId, Slug, int]]:
        """Yield project, workload and version of each artefact that does not match its hash."""
        query = (
            sa.select(
                WorkloadRow.project_id,
                WorkloadRow.slug,
                RegressorRow.version,
                RegressorRow.artifact,
                RegressorRow.artifact_sha256,
            )
            .join(WorkloadRow, WorkloadRow.id == RegressorRow.workload_id)
            .where(HAS_ARTIFACT)
        )
        rows = self._session.execute(query.execution_options(yield_per=_ARTIFACTS_AT_ONCE))
        for project_id, slug, version, artifact, expected in rows:
            if hashlib.sha256(artifact).hexdigest() != expected:
                yield ProjectId(project_id), Slug(slug), version

    def orphaned_fits(self, expired_before: datetime) -> list[str]:
        """Return the running fits whose lease ended before an instant and that nobody took over."""
        query = (
            sa.select(FitRow.id)
            .where(FitRow.state == FitState.RUNNING.value, FitRow.lease_expires_at < expired_before)
            .order_by(FitRow.id)
            .limit(_FEW)
        )
        return list(self._session.scalars(query))

    def published_formats(self) -> list[tuple[ProjectId, Slug, int, int]]:
        """Return project, workload, version and format of each published regressor."""
        rows = self._session.execute(_PUBLISHED.add_columns(RegressorRow.format_version))
        return [
            (ProjectId(project_id), Slug(slug), version, format_version)
            for project_id, slug, version, format_version in rows
        ]

    def published_artifacts(
        self, format_version: int
    ) -> Iterator[tuple[ProjectId, Slug, int, bytes]]:
        """Yield project, workload, version and artefact of each published regressor of a format."""
        query = _PUBLISHED.add_columns(RegressorRow.artifact).where(
            RegressorRow.format_version == format_version
        )
        rows = self._session.execute(query.execution_options(yield_per=_ARTIFACTS_AT_ONCE))
        for project_id, slug, version, artifact in rows:
            yield ProjectId(project_id), Slug(slug), version, artifact

    def fit_activity(self, since: datetime, now: datetime) -> FitActivity:
        """Return what became of the fits that ended since an instant, of the last 10,000.

        Fits that wait or run count whenever they were asked for: those of a long queue end hours
        later.
        """
        ended = (
            sa.select(FitRow.state, FitRow.attempts, FitRow.started_at, FitRow.ended_at)
            .where(FitRow.ended_at >= since)
            .order_by(FitRow.ended_at.desc())
            .limit(_MANY)
        )
        rows = self._session.execute(ended).all()
        spans = [(end - start).total_seconds() for _, _, start, end in rows if start and end]
        active = self._session.execute(_ACTIVE).all()
        oldest = self._session.scalar(
            sa.select(sa.func.min(FitRow.requested_at)).where(FitRow.state == FitState.QUEUED.value)
        )
        counts = Counter(row.state for row in rows)
        counts.update({state: fits for state, fits, _ in active})
        return FitActivity(
            by_state={state: counts[state] for state in FitState},
            takeovers=sum(max(0, row.attempts - 1) for row in rows)
            + sum(takeovers for _, _, takeovers in active),
            mean_duration_s=sum(spans) / len(spans) if spans else None,
            longest_wait_s=0.0 if oldest is None else (now - oldest).total_seconds(),
        )
