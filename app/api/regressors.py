"""Routes of the registry of regressor versions."""

from typing import Annotated

from fastapi import Path, Query

from app.api.dependencies import FitsWriter, Reader, ServicesDep, WorkloadPath
from app.api.paths import allow_segments
from app.api.problems import problem_responses
from app.api.requests.routers import ApiRouter
from app.api.schemas.base import PageQuery
from app.api.schemas.regressors import RegressorOut, RegressorsOut
from app.domain.errors import NotFoundError, UnknownWorkloadError

allow_segments()
router = ApiRouter("/v1/workloads/{workload}/regressors", "regressors")
_VersionPath = Annotated[int, Path(description="the version's number", ge=1, lt=2**31)]
_PROBLEMS = problem_responses(UnknownWorkloadError, NotFoundError)


@router.get(
    "",
    summary="List a workload's regressor versions",
    description="Newest first.",
    responses=problem_responses(UnknownWorkloadError),
)
def list_regressors(
    workload: WorkloadPath,
    services: ServicesDep,
    caller: Reader,
    query: Annotated[PageQuery, Query()],
) -> RegressorsOut:
    page = services.regressors.list_page(
        caller.project_id, workload, page_size=query.page_size, page_token=query.page_token
    )
    return RegressorsOut.of(page)


@router.get(
    "/{version:segment}",
    summary="Show a regressor version",
    description="What it was fitted on, how accurate it was on what it had not seen.",
    responses=_PROBLEMS,
)
def get_regressor(
    workload: WorkloadPath, version: _VersionPath, services: ServicesDep, caller: Reader
) -> RegressorOut:
    return RegressorOut.of(services.regressors.get(caller.project_id, workload, version))


@router.post(
    "/{version:segment}:publish",
    summary="Publish a regressor version",
    description="Forecasts are answered by this version from now on; publishing an older one"
    " rolls back."
    " One whose artefact was removed (`artifact_kept`) is refused: 422.",
    responses=_PROBLEMS,
)
def publish_regressor(
    workload: WorkloadPath, version: _VersionPath, services: ServicesDep, caller: FitsWriter
) -> RegressorOut:
    return RegressorOut.of(services.regressors.publish(caller, workload, version))
