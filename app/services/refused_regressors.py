"""Says why workloads cannot answer: they are unknown, or no regressor is published yet."""

from collections.abc import Collection
from typing import Final

from app.domain.errors import (
    DomainError,
    FitPendingError,
    NoRegressorError,
    UnknownWorkloadError,
)
from app.domain.fits import NEEDED_RUNS, Fit
from app.domain.identifiers import ProjectId, RegressorKey, Slug
from app.services.workload_names import unknown_workload
from app.storage.stores import Stores

_MAX_COMPARED: Final = 20
"""So many unknown names of one question are compared with those of the project."""


def refused_regressors(
    stores: Stores, project_id: ProjectId, keys: Collection[RegressorKey]
) -> dict[RegressorKey, DomainError]:
    """Return the refusals of those that are known not to answer, by few queries for all of them.

    The first unknown names name the nearest workload; to look for it is slow. A version asked for
    is taken to exist.
    """
    workloads = stores.workloads.find_many(project_id, {slug for slug, _ in keys})
    unpublished = {
        workload.workload_id: slug
        for slug, workload in workloads.items()
        if workload.published_version is None
    }
    fits = stores.fits.latest(unpublished)
    counts = stores.runs.count_usable_of(unpublished)
    refusals: dict[Slug, DomainError] = {
        slug: no_regressor(slug, counts.get(workload_id, 0), fits.get(workload_id))
        for workload_id, slug in unpublished.items()
    }
    unknown = dict.fromkeys(slug for slug, _ in keys if slug not in workloads)
    for position, slug in enumerate(unknown):
        refusals[slug] = (
            unknown_workload(stores, project_id, slug)
            if position < _MAX_COMPARED
            else UnknownWorkloadError(slug, None)
        )
    return {
        (slug, version): refusals[slug]
        for slug, version in keys
        if slug in unknown or (version is None and slug in refusals)
    }


def no_regressor(slug: Slug, n_usable: int, fit: Fit | None) -> NoRegressorError:
    """Return the refusal of a workload without a published regressor, with its newest fit."""
    if fit is None or fit.state.is_final:
        return NoRegressorError(slug, found=n_usable, needed=NEEDED_RUNS)
    return FitPendingError(
        slug, found=n_usable, needed=NEEDED_RUNS, fit_id=fit.fit_id, state=fit.state
    )
