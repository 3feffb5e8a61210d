"""The store of regressor versions and of which one is published."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.errors import NotFoundError, RegressorUnavailableError
from app.domain.fits import Candidate
from app.domain.identifiers import FitId, ProjectId, Slug, WorkloadId
from app.domain.pages import Page, page_of
from app.domain.regressors import (
    ArtifactRemovedError,
    Convergence,
    Jitter,
    MemoryEvidence,
    OutlierRun,
    PoolingUse,
    Publication,
    RegressorReport,
    RegressorVersion,
    RunEvidence,
    Shift,
    UnfinishedUse,
)
from app.domain.workloads import Pooling
from app.storage.fit_rows import seen_until
from app.storage.tables import (
    FitRow,
    Json,
    PublicationEventRow,
    PublicationRow,
    RegressorRow,
    WorkloadRow,
)
from app.storage.upserts import insert_into

IS_PUBLISHED: Final = sa.and_(
    RegressorRow.workload_id == PublicationRow.workload_id,
    RegressorRow.version == PublicationRow.version,
)
"""Joins the published version of each workload to its publication."""

HAS_ARTIFACT: Final = sa.func.length(RegressorRow.artifact) > 0
"""Whether a version's artefact is still there; neither database reads its bytes for this."""


class StoredArtifact(NamedTuple):
    """The bytes of a version's artefact, when it was created, and until when its fit saw runs."""

    created_at: datetime
    seen_until: datetime
    data: bytes


_REPORT_FIELDS: Final = tuple(field.name for field in fields(RegressorReport))


def _to_range(bounds: Sequence[float]) -> tuple[float, float]:
    low, high = bounds
    return low, high


def _report_members(document: Json) -> dict[str, Any]:
    members = {name: document[name] for name in _REPORT_FIELDS if name in document}
    ranges, levels = document["numeric_ranges"], document["category_levels"]
    members["numeric_ranges"] = {name: _to_range(bounds) for name, bounds in ranges.items()}
    members["category_levels"] = {name: tuple(values) for name, values in levels.items()}
    if "evidence" in document:
        members["evidence"] = _to_evidence(document["evidence"])
    members["candidates"] = tuple(Candidate(**entry) for entry in document["candidates"])
    if "pooling" in document:
        members["pooling"] = _to_pooling(document["pooling"])
    return members


def _report_document(report: RegressorReport) -> Json:
    document = asdict(report)
    for change in document["evidence"]["change_points"]:
        change["at"] = change["at"].isoformat()
    return document


def _to_evidence(document: Json) -> RunEvidence:
    memory, convergence = document["memory"], document.get("convergence")
    jitter = document.get("jitter")
    return RunEvidence(
        memory=None if memory is None else MemoryEvidence(**memory),
        unfinished=UnfinishedUse(**document["unfinished"]),
        incomplete=document.get("incomplete", 0),
        change_points=tuple(
            Shift(datetime.fromisoformat(change["at"]), change["factor"])
            for change in document["change_points"]
        ),
        outliers=tuple(OutlierRun(**outlier) for outlier in document["outliers"]),
        convergence=None if convergence is None else Convergence(**convergence),
        jitter=None if jitter is None else Jitter(**jitter),
    )


def _to_pooling(document: Json) -> PoolingUse:
    return PoolingUse(
        mode=Pooling(document["mode"]),
        workloads=tuple(Slug(name) for name in document["workloads"]),
        factory_workloads=document["factory_workloads"],
        prior_sha256=document["prior_sha256"],
    )


def _to_version(
    row: RegressorRow, slug: str, published: int | None, *, is_kept: bool
) -> RegressorVersion:
    return RegressorVersion(
        workload=Slug(slug),
        version=row.version,
        fit_id=FitId(row.fit_id),
        created_at=row.created_at,
        is_published=row.version == published,
        artifact_sha256=row.artifact_sha256,
        artifact_bytes=row.artifact_bytes,
        is_artifact_kept=is_kept,
        format_version=row.format_version,
        **_report_members(row.report),
    )


class RegressorStore:
    """Reads and writes regressor versions in one session; only their artefacts may be removed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(
        self,
        workload_id: WorkloadId,
        fit_id: FitId,
        artifact: bytes,
        report: RegressorReport,
        summary: Mapping[str, Any] | None,
        now: datetime,
        *,
        format_version: int,
    ) -> int:
        """Store a new version and return its number, the next after the workload's highest."""
        highest = self._session.execute(
            sa.select(sa.func.max(RegressorRow.version)).where(
                RegressorRow.workload_id == workload_id
            )
        ).scalar_one()
        row = RegressorRow(
            workload_id=workload_id,
            version=(highest or 0) + 1,
            fit_id=fit_id,
            created_at=now,
            artifact=artifact,
            artifact_sha256=sha256(artifact).hexdigest(),
            artifact_bytes=len(artifact),
            report=_report_document(report),
            summary=None if summary is None else dict(summary),
            format_version=format_version,
        )
        self._session.add(row)
        self._session.flush()
        return row.version

    def publish(self, workload_id: WorkloadId, version: int, now: datetime) -> None:
        """Make a version the one that answers forecasts."""
        publication = {"version": version, "published_at": now}
        statement = insert_into(self._session, PublicationRow).values(
            workload_id=workload_id, **publication
        )
        self._session.execute(
            statement.on_conflict_do_update(
                index_elements=[PublicationRow.workload_id], set_=publication
            )
        )
        self._session.execute(
            sa.insert(PublicationEventRow).values(workload_id=workload_id, **publication)
        )

    def hold(self, workload_id: WorkloadId, version: int) -> None:
        """Keep a version's artefact from being removed until this transaction ends."""
        of_version = RegressorRow.workload_id == workload_id, RegressorRow.version == version
        held = sa.select(RegressorRow.version).where(*of_version)
        self._session.execute(held.with_for_update(read=True))

    def publications(self, workload_id: WorkloadId) -> list[Publication]:
        """Return which versions answered forecasts and since when, the oldest first."""
        rows = self._session.execute(
            sa.select(PublicationEventRow.published_at, PublicationEventRow.version)
            .where(PublicationEventRow.workload_id == workload_id)
            .order_by(PublicationEventRow.id)
        )
        return [Publication(published_at, version) for published_at, version in rows]

    def published_version(self, workload_id: WorkloadId, *, lock: bool = False) -> int | None:
        """Return the published version of a workload.

        `lock` prevents another publication until the transaction ends.
        """
        query = sa.select(PublicationRow.version).where(PublicationRow.workload_id == workload_id)
        if lock:
            query = query.with_for_update()
        return self._session.execute(query).scalar_one_or_none()

    def answering(
        self, project_id: ProjectId, slugs: Collection[Slug], format_version: int
    ) -> dict[Slug, tuple[WorkloadId, int, str]]:
        """Return workloads' keys, the versions that answer for them and their currencies.

        For a reader of one artefact format, that is the published version if it has this format,
        else the last published version that has it; if none has, the published version all the
        same. Workloads without a published version are left out.
        """
        rows = self._session.execute(
            sa.select(
                WorkloadRow.slug,
                PublicationRow.workload_id,
                PublicationRow.version,
                RegressorRow.format_version,
                WorkloadRow.currency,
            )
            .join(WorkloadRow, WorkloadRow.id == PublicationRow.workload_id)
            .join(RegressorRow, IS_PUBLISHED)
            .where(WorkloadRow.project_id == project_id, WorkloadRow.slug.in_(slugs))
        )
        answering = {}
        for row in rows:
            workload_id, version = WorkloadId(row.workload_id), row.version
            if row.format_version != format_version:
                version = self._last_published(workload_id, format_version) or version
            answering[Slug(row.slug)] = workload_id, version, row.currency
        return answering

    def _last_published(self, workload_id: WorkloadId, format_version: int) -> int | None:
        return self._session.execute(
            sa.select(PublicationEventRow.version)
            .join(
                RegressorRow,
                sa.and_(
                    RegressorRow.workload_id == PublicationEventRow.workload_id,
                    RegressorRow.version == PublicationEventRow.version,
                ),
            )
            .where(
                PublicationEventRow.workload_id == workload_id,
                RegressorRow.format_version == format_version,
            )
            .order_by(PublicationEventRow.id.desc())
            .limit(1)
        ).scalar_one_or_none()

    def load_artifact(self, workload_id: WorkloadId, version: int) -> StoredArtifact:
        """Return a version's artefact after checking its hash.

        Raises
        ------
        NotFoundError
            If the workload has no such version.
        RegressorUnavailableError
            If the workload does not exist any more, or the artefact's bytes were altered.
        ArtifactRemovedError
            If the version's artefact was removed.
        """
        is_wanted = sa.and_(
            RegressorRow.workload_id == WorkloadRow.id, RegressorRow.version == version
        )
        row = self._session.execute(
            sa.select(
                WorkloadRow.slug,
                RegressorRow.created_at,
                sa.func.coalesce(seen_until(FitRow), RegressorRow.created_at).label("seen_until"),
                RegressorRow.artifact,
                RegressorRow.artifact_sha256,
            )
            .outerjoin(RegressorRow, is_wanted)
            # By the fit's identifier: no index finds it by the version, and there may be thousands.
            .outerjoin(FitRow, RegressorRow.fit_id == FitRow.id)
            .where(WorkloadRow.id == workload_id)
        ).one_or_none()
        if row is None:
            raise RegressorUnavailableError(Slug("?"), version, "its workload was deleted")
        if row.artifact is None:
            raise NotFoundError("regressor version", f"{row.slug}/{version}")
        if not row.artifact:
            raise ArtifactRemovedError(Slug(row.slug), version)
        if sha256(row.artifact).hexdigest() != row.artifact_sha256:
            raise RegressorUnavailableError(Slug(row.slug), version, "its stored hash differs")
        return StoredArtifact(row.created_at, row.seen_until, bytes(row.artifact))

    def get(self, workload_id: WorkloadId, version: int) -> RegressorVersion | None:
        """Return one version of a workload."""
        versions = self._read(workload_id, RegressorRow.version == version, limit=1)
        return versions[0] if versions else None

    def page(
        self, workload_id: WorkloadId, *, limit: int, before: int | None = None
    ) -> Page[RegressorVersion]:
        """Return versions of a workload, the newest first, starting after the version `before`."""
        condition = sa.true() if before is None else RegressorRow.version < before
        versions = self._read(workload_id, condition, limit=limit + 1)
        return page_of(versions, limit, key=lambda version: version.version)

    def _read(
        self, workload_id: WorkloadId, condition: sa.ColumnElement[bool], *, limit: int
    ) -> list[RegressorVersion]:
        rows = self._session.execute(
            sa.select(RegressorRow, WorkloadRow.slug, PublicationRow.version, HAS_ARTIFACT)
            .join(WorkloadRow, WorkloadRow.id == RegressorRow.workload_id)
            .outerjoin(PublicationRow, PublicationRow.workload_id == RegressorRow.workload_id)
            .where(RegressorRow.workload_id == workload_id, condition)
            .order_by(RegressorRow.version.desc())
            .limit(limit)
        )
        return [
            _to_version(row, slug, published, is_kept=is_kept)
            for row, slug, published, is_kept in rows
        ]
