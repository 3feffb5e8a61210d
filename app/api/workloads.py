"""Routes of workloads: declare, list, read, remove."""

from typing import Annotated, Any

from fastapi import Query, Response

from app.api.dependencies import FitsWriter, Reader, RunsWriter, ServicesDep, WorkloadPath
from app.api.problems import problem_responses
from app.api.requests.routers import ApiRouter
from app.api.schemas.base import PageQuery
from app.api.schemas.workloads import WorkloadDetailOut, WorkloadIn, WorkloadsOut
from app.domain.access import Scope
from app.domain.errors import (
    SchemaDriftError,
    UnitChangeError,
    UnknownFieldError,
    UnknownWorkloadError,
)

router = ApiRouter("/v1/workloads", "workloads")
_DECLARED: dict[int | str, dict[str, Any]] = {
    200: {"model": WorkloadDetailOut, "description": "The declaration was replaced"},
    201: {"model": WorkloadDetailOut, "description": "The workload was created"},
}


@router.get(
    "", summary="List workloads", description="Newest first.", responses=problem_responses()
)
def list_workloads(
    services: ServicesDep, caller: Reader, query: Annotated[PageQuery, Query()]
) -> WorkloadsOut:
    page = services.workloads.list_page(
        caller.project_id, page_size=query.page_size, page_token=query.page_token
    )
    return WorkloadsOut.of(page)


@router.put(
    "/{workload}",
    summary="Declare a workload",
    description="Creates it or replaces its declaration. A unit that is left out and parameters"
    " that runs use stay; neither the unit nor the type of a used parameter can change once runs"
    " exist. A workload that was never declared is created by its first upload. A change of"
    " `refit_policy` (left out, it is manual) takes `fits:write` besides `runs:write`.",
    responses={
        **problem_responses(UnitChangeError, SchemaDriftError, UnknownFieldError),
        **_DECLARED,
    },
)
def declare_workload(
    workload: WorkloadPath,
    body: WorkloadIn,
    services: ServicesDep,
    caller: RunsWriter,
    response: Response,
) -> WorkloadDetailOut:
    detail, is_new = services.workloads.declare(
        caller.project_id,
        workload,
        body.to_declaration(),
        key_id=caller.key_id,
        may_ask_for_fits=caller.allows(Scope.FITS_WRITE),
    )
    response.status_code = 201 if is_new else 200
    return WorkloadDetailOut.of_detail(detail)


@router.get(
    "/{workload}",
    summary="Show a workload",
    description="Its declaration, its runs by status, what they were measured on, the published"
    " regressor with its accuracy, and the last fit.",
    responses=problem_responses(UnknownWorkloadError),
)
def get_workload(
    workload: WorkloadPath, services: ServicesDep, caller: Reader
) -> WorkloadDetailOut:
    return WorkloadDetailOut.of_detail(services.workloads.get(caller.project_id, workload))


@router.delete(
    "/{workload}",
    status_code=204,
    summary="Remove a workload",
    description="With its runs, fits, regressors, forecasts, and its part of CI reports. Audited."
    " A large one is removed in several transactions: after a 503, the same request continues."
    " The key needs `runs:write` and `fits:write`.",
    responses=problem_responses(UnknownWorkloadError),
)
def delete_workload(
    workload: WorkloadPath, services: ServicesDep, caller: RunsWriter, _also: FitsWriter
) -> None:
    services.workloads.delete(caller, workload)
