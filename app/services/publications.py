"""How every version becomes the one that answers forecasts, with its audit entry."""

from datetime import datetime

from app.domain.identifiers import FitId, KeyId, ProjectId, Slug, WorkloadId
from app.storage.stores import Stores


def publish_version(
    stores: Stores,
    project_id: ProjectId,
    workload_id: WorkloadId,
    slug: Slug,
    version: int,
    now: datetime,
    *,
    key_id: KeyId | None = None,
    fit_id: FitId | None = None,
) -> None:
    """Make a version the one that answers forecasts; audited.

    The audit log records which version answered before, and the key or fit that replaced it.
    """
    previous = stores.regressors.published_version(workload_id, lock=True)
    detail: dict[str, object] = {"previous": previous}
    if fit_id is not None:
        detail["fit"] = fit_id
    stores.regressors.publish(workload_id, version, now)
    stores.access.record_audit(
        project_id, key_id, now, "regressor.publish", f"{slug}/{version}", detail
    )
