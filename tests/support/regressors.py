"""Workloads whose runs follow a known law, and regressors fitted to them."""

import threading
from datetime import datetime
from hashlib import sha256

from sqlalchemy.orm import Session

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import Fit, FitRequest
from app.domain.identifiers import ProjectId, Slug, WorkloadId, earliest_identifier
from app.fitter import Fitter
from app.services.context import ServiceContext
from app.services.fitting import FittingService
from app.services.wiring import Services
from app.storage.tables import RunRow, WorkloadRow
from tests.support.remembering import CachingComputer

_OWN_CHARACTERS = 11
QUICK = FitRequest(regressors=("log_linear",))
"""A fit that takes milliseconds."""


def law_seconds(workers: int, dataset_size: float) -> float:
    """Return the duration of a run stored by `store_runs`."""
    return 20.0 + 0.5 * dataset_size / workers


def store_runs(
    context: ServiceContext,
    slug: str,
    *,
    project_id: ProjectId = DEFAULT_PROJECT,
    sizes: tuple[float, ...] = (1000.0, 2000.0, 4000.0),
    excluded: bool = False,
    gpu_type: str = "T4",
) -> WorkloadId:
    """Store a new workload with runs on 1 to 8 workers for each dataset size; return its id."""
    now = context.now()
    points = [(workers, size) for size in sizes for workers in (1, 2, 4, 8)]
    names = _run_names(project_id, slug, now, len(points))
    with Session(context.database.engine) as session, session.begin():
        workload = WorkloadRow(project_id=project_id, slug=slug, created_at=now, updated_at=now)
        session.add(workload)
        session.flush()
        for name, (workers, size) in zip(names, points, strict=True):
            session.add(
                RunRow(
                    id=name,
                    workload_id=workload.id,
                    content_sha256=sha256(name.encode()).hexdigest(),
                    status="succeeded",
                    duration_seconds=law_seconds(workers, size),
                    gpu_type=gpu_type,
                    workers=workers,
                    dataset_size=size,
                    parameters={"precision": "fp16"},
                    excluded=excluded,
                    created_at=now,
                )
            )
        return WorkloadId(workload.id)


def _run_names(project_id: ProjectId, slug: str, now: datetime, count: int) -> list[str]:
    """Return run names that are the same in all tests, so that their fits are identical too."""
    prefix = earliest_identifier("run", now)
    digest = sha256(f"{project_id}/{slug}".encode()).hexdigest()[:_OWN_CHARACTERS]
    return [f"{prefix}{digest}{number:04}" for number in range(count)]


def make_fitter(context: ServiceContext, stop: threading.Event | None = None) -> Fitter:
    """Return a fitter that computes each fit once, and renews its lease at each progress."""
    computer, fitting = CachingComputer(), FittingService(context)
    return Fitter(fitting, computer, context.settings, stop=stop, beat_s=0.0)


def fit(
    services: Services,
    workload: str,
    request: FitRequest = QUICK,
    *,
    project_id: ProjectId = DEFAULT_PROJECT,
) -> Fit:
    """Request a fit, compute it and return it once ended."""
    requested, _ = services.fits.request_fit(project_id, Slug(workload), request)
    context = services.context
    fitter = Fitter(FittingService(context), CachingComputer(), context.settings)
    while fitter.step():
        pass
    return services.fits.get(project_id, requested.fit_id)


def publish_regressor(
    services: Services, workload: str = "fitted", request: FitRequest = QUICK
) -> int:
    """Store a workload with runs, fit and publish a regressor; return the version."""
    store_runs(services.context, workload)
    version = fit(services, workload, request).regressor_version
    assert version is not None
    return version
