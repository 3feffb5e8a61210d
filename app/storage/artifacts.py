"""The store that removes artefacts of regressor versions that are no longer needed."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.identifiers import ProjectId, WorkloadId
from app.storage.regressors import HAS_ARTIFACT, IS_PUBLISHED
from app.storage.tables import PublicationEventRow, PublicationRow, RegressorRow, WorkloadRow


def _is_removable(workload_id: WorkloadId, before: datetime) -> sa.ColumnElement[bool]:
    """Return the condition for versions that do not and may not soon answer, by subqueries."""
    version, of_workload = RegressorRow.version, RegressorRow.workload_id == workload_id
    published = sa.select(PublicationRow.version).where(PublicationRow.workload_id == workload_id)
    newest = sa.select(sa.func.max(version)).where(of_workload).correlate(None).scalar_subquery()
    return sa.and_(
        of_workload,
        HAS_ARTIFACT,
        RegressorRow.created_at < before,
        version < newest,
        version.not_in(published),
        version.not_in(_answering_since(workload_id, before)),
        version.not_in(_last_of_each_format(workload_id)),
    )


def _answering_since(workload_id: WorkloadId, before: datetime) -> sa.Select[int]:
    """Select the version that answered at an instant, and those published later."""
    event = PublicationEventRow
    of_workload = event.workload_id == workload_id
    standing = sa.select(sa.func.max(event.id)).where(of_workload, event.published_at < before)
    first = sa.func.coalesce(standing.correlate(None).scalar_subquery(), 0)
    return sa.select(event.version).where(of_workload, event.id >= first)


def _last_of_each_format(workload_id: WorkloadId) -> sa.Select[int]:
    """Select the versions with which processes of each release answer (ADR 52)."""
    event, regressor = PublicationEventRow, sa.orm.aliased(RegressorRow)
    is_published = sa.and_(
        regressor.workload_id == event.workload_id, regressor.version == event.version
    )
    last = (
        sa.select(sa.func.max(event.id))
        .join(regressor, is_published)
        .where(event.workload_id == workload_id)
        .group_by(regressor.format_version)
        .correlate(None)
    )
    return sa.select(event.version).where(event.id.in_(last))


class ArtifactStore:
    """Counts and removes artefacts of old regressor versions in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def next_workload(
        self, before: datetime, project_id: ProjectId | None, *, after: WorkloadId
    ) -> WorkloadId | None:
        """Return the next workload with an artefact from before an instant that may be removable.

        It neither answers nor is the newest: few of those that remain after a removal. Of one
        project, or of all if it is None. None after the last workload.
        """
        row, newer = RegressorRow, sa.orm.aliased(RegressorRow)
        with_old_artifact = sa.select(row.workload_id).where(
            row.workload_id > after,
            row.created_at < before,
            HAS_ARTIFACT,
            sa.exists().where(newer.workload_id == row.workload_id, newer.version > row.version),
            ~sa.exists().where(IS_PUBLISHED),
        )
        if project_id is not None:
            of_project = sa.select(WorkloadRow.id).where(WorkloadRow.project_id == project_id)
            with_old_artifact = with_old_artifact.where(row.workload_id.in_(of_project))
        workload_id = self._session.scalars(
            with_old_artifact.order_by(row.workload_id).limit(1)
        ).one_or_none()
        return None if workload_id is None else WorkloadId(workload_id)

    def count(self, workload_id: WorkloadId, before: datetime) -> int:
        """Return how many of a workload's artefacts `remove` would remove in total."""
        removable = sa.select(sa.func.count()).where(_is_removable(workload_id, before))
        return self._session.scalars(removable).one()

    def remove(
        self, workload_id: WorkloadId, before: datetime, *, after: int, limit: int
    ) -> tuple[int, int] | None:
        """Remove the unneeded ones among a workload's next artefacts.

        Kept are the artefacts that were computed or answered since an instant, that answer now,
        that were published last in their format, and the newest.

        Parameters
        ----------
        workload_id
            The workload.
        before
            What was computed or answered since then is kept.
        after
            The last version examined before.
        limit
            How many are examined.

        Returns
        -------
        tuple or None
            The last version examined and how many were removed; None if none was left.
        """
        row, is_removable = RegressorRow, _is_removable(workload_id, before)
        removable = sa.select(row.version).where(is_removable, row.version > after)
        locked = removable.order_by(row.version).limit(limit).with_for_update(key_share=True)
        versions = self._session.scalars(locked).all()
        if not versions:
            return None
        # PostgreSQL checks again, now that nobody can publish these versions: the first query may
        # have waited for a publication that it does not see.
        removed = (
            sa.update(row)
            .where(is_removable, row.version.in_(versions))
            .values(artifact=b"")
            .returning(row.version)
            .execution_options(synchronize_session=False)
        )
        return versions[-1], len(self._session.scalars(removed).all())
