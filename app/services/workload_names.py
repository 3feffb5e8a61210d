"""Looks up workloads by the names that callers give them."""

from app.domain.errors import UnknownWorkloadError
from app.domain.identifiers import ProjectId, Slug
from app.domain.spelling import nearest_field
from app.domain.workloads import Workload
from app.storage.stores import Stores


def require_workload(stores: Stores, project_id: ProjectId, slug: Slug) -> Workload:
    """Return the workload with a name.

    Raises
    ------
    UnknownWorkloadError
        If the project has no such workload.
    """
    workload = stores.workloads.get(project_id, slug)
    if workload is None:
        raise unknown_workload(stores, project_id, slug)
    return workload


def held_workload(stores: Stores, project_id: ProjectId, slug: Slug) -> Workload:
    """Return the workload with a name, which nobody removes until the transaction ends.

    Raises
    ------
    UnknownWorkloadError
        If the project has no such workload.
    """
    workload = require_workload(stores, project_id, slug)
    if not stores.workloads.hold([workload.workload_id]):
        raise unknown_workload(stores, project_id, slug)
    return workload


def unknown_workload(stores: Stores, project_id: ProjectId, slug: Slug) -> UnknownWorkloadError:
    """Return the refusal of a name that is no workload of the project."""
    return UnknownWorkloadError(slug, nearest_workload(stores, project_id, slug))


def nearest_workload(stores: Stores, project_id: ProjectId, slug: Slug) -> str | None:
    """Return the project's workload that a name most likely stands for, other than itself."""
    candidates = stores.workloads.slugs_like(project_id, slug)
    return nearest_field(slug, [candidate for candidate in candidates if candidate != slug])
