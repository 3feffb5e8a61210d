"""How every fit enters the queue: one per workload, and recorded in the audit log."""

from collections.abc import Iterable
from datetime import datetime

from app.domain.access import FIT_REQUESTED
from app.domain.fits import Fit, FitReason, FitRequest
from app.domain.identifiers import KeyId, ProjectId, WorkloadId
from app.storage.stores import Stores


def queue_fit(
    stores: Stores,
    project_id: ProjectId,
    workload_id: WorkloadId,
    request: FitRequest,
    now: datetime,
    *,
    key_id: KeyId | None = None,
    reason: FitReason | None = None,
) -> tuple[Fit, bool]:
    """Return a new queued fit and True, or the workload's active fit and False.

    A new fit is audited with the key that requested it and, where no caller named it, the reason.
    """
    fit, is_new = stores.fits.request(workload_id, request, now)
    if is_new:
        detail: dict[str, object] = {"workload": fit.workload}
        if reason is not None:
            detail["reason"] = reason.value
        stores.access.record_audit(project_id, key_id, now, FIT_REQUESTED, fit.fit_id, detail)
    return fit, is_new


def queue_fits(
    stores: Stores,
    owned: Iterable[tuple[WorkloadId, ProjectId]],
    now: datetime,
    *,
    time_budget_s: float,
    reason: FitReason,
) -> int:
    """Queue a fit for each workload without an active one; return how many are new."""
    request, owners = FitRequest(time_budget_s=time_budget_s), dict(owned)
    held = sorted(stores.workloads.hold(owners))
    queued = (queue_fit(stores, owners[key], key, request, now, reason=reason) for key in held)
    return sum(is_new for _, is_new in queued)
