"""The use cases of the registry of regressor versions: list, show, publish."""

import logging

from app.domain.access import Principal
from app.domain.errors import (
    Fault,
    InvalidRequestError,
    NotFoundError,
)
from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.domain.pages import DEFAULT_PAGE_SIZE, Page
from app.domain.regressors import ArtifactRemovedError, RegressorVersion
from app.services.context import ServiceContext
from app.services.expiry import Expire, expire_nothing
from app.services.page_tokens import number_of
from app.services.publications import publish_version
from app.services.workload_names import require_workload
from app.storage.stores import Stores

_logger = logging.getLogger(__name__)
_MAX_DIGITS = 9


def _workload_id(stores: Stores, project_id: ProjectId, slug: Slug) -> WorkloadId:
    return require_workload(stores, project_id, slug).workload_id


def _require(stores: Stores, workload_id: WorkloadId, slug: Slug, version: int) -> RegressorVersion:
    stored = stores.regressors.get(workload_id, version)
    if stored is None:
        raise NotFoundError("regressor version", f"{slug}/{version}")
    return stored


def _require_readable(stored: RegressorVersion) -> None:
    from models import FORMAT_VERSION  # noqa: PLC0415 - heavy: not for lists

    if stored.format_version != FORMAT_VERSION:
        fault = Fault(
            message=f"Its artefact has format {stored.format_version}, not {FORMAT_VERSION}.",
            remedy="Publish a version that this release computed, or fit the workload again.",
            field="version",
            value=stored.version,
        )
        raise InvalidRequestError(
            f"Version {stored.version} was computed by another release, and cannot answer.", [fault]
        )


class RegressorService:
    """Use cases of the registry of regressor versions: list, show, publish.

    Parameters
    ----------
    context
        The process's database, settings and clock.
    expire
        Told of each version that was published.
    """

    def __init__(self, context: ServiceContext, *, expire: Expire = expire_nothing) -> None:
        self._context = context
        self._expire = expire

    def list_page(
        self,
        project_id: ProjectId,
        slug: Slug,
        *,
        page_size: int = DEFAULT_PAGE_SIZE,
        page_token: str | None = None,
    ) -> Page[RegressorVersion]:
        """Return versions of a workload's regressor, newest first.

        Raises
        ------
        InvalidRequestError
            If the page token is not one of this list.
        UnknownWorkloadError
            If there is no such workload.
        """
        before = number_of(page_token, max_digits=_MAX_DIGITS)
        with self._context.database.reading() as stores:
            workload_id = _workload_id(stores, project_id, slug)
            return stores.regressors.page(workload_id, limit=page_size, before=before)

    def get(self, project_id: ProjectId, slug: Slug, version: int) -> RegressorVersion:
        """Return one version.

        Raises
        ------
        UnknownWorkloadError
            If there is no such workload.
        NotFoundError
            If the workload has no such version.
        """
        with self._context.database.reading() as stores:
            workload_id = _workload_id(stores, project_id, slug)
            return _require(stores, workload_id, slug, version)

    def publish(self, caller: Principal, slug: Slug, version: int) -> RegressorVersion:
        """Make a version, newer or older, the one that answers forecasts; audited.

        Raises
        ------
        UnknownWorkloadError
            If there is no such workload.
        NotFoundError
            If the workload has no such version.
        ArtifactRemovedError
            If the version's artefact was removed.
        InvalidRequestError
            If this release does not read the version's artefact.
        """
        with self._context.database.transaction() as stores:
            workload_id = _workload_id(stores, caller.project_id, slug)
            stores.regressors.hold(workload_id, version)
            stored = _require(stores, workload_id, slug, version)
            if stored.is_published:
                return stored
            if not stored.is_artifact_kept:
                raise ArtifactRemovedError(slug, version)
            _require_readable(stored)
            # By the clock that dates runs: they are compared with the version of their time.
            now = self._context.lease_now(stores)
            publish_version(
                stores,
                caller.project_id,
                workload_id,
                slug,
                version,
                now,
                key_id=caller.key_id,
            )
            published = _require(stores, workload_id, slug, version)
        self._expire(caller.project_id, slug, version)
        _logger.info("regressor published", extra={"workload": slug, "version": version})
        return published
