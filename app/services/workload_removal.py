"""Removes what belongs to a workload, in portions."""

from typing import Final

from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.services.quotas import release_runs
from app.storage.stores import Stores

AT_ONCE: Final = 2_000
"""How many rows are removed in one transaction, for which other writers on SQLite wait."""


def remove_some(
    stores: Stores, project_id: ProjectId, workload_id: WorkloadId, slug: Slug, limit: int
) -> int:
    """Remove up to `limit` runs, forecasts, publications, regressors or fits of a workload.

    Returns how many; 0 if only the workload itself is left.
    """
    # Lock workloads before what belongs to them, as everybody does.
    stores.workloads.lock(project_id, slug)
    removed = stores.removal.remove_runs(workload_id, limit)
    release_runs(stores, project_id, removed)
    return removed or stores.removal.remove_learned(workload_id, limit)
