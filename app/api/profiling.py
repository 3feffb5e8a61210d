"""Routes of profiling plans."""

from typing import Annotated

from fastapi import Body, Request, Response

from app.api.accepted import accepted_type
from app.api.dependencies import Reader, ServicesDep, WorkloadPath
from app.api.negotiation import JSON, PLAIN_TEXT, TEXT
from app.api.problems import problem_responses
from app.api.requests.bodies import json_response
from app.api.requests.routers import ApiRouter
from app.api.schemas.profiling import PLAN_EXAMPLES, ProfilingPlanIn, ProfilingPlanOut
from app.domain.errors import (
    AmbiguousGpuError,
    RegressorUnavailableError,
    UnknownFieldError,
    UnknownGpuError,
    UnknownWorkloadError,
)

router = ApiRouter("/v1/workloads/{workload}/profiling-plans", "profiling")


@router.post(
    "",
    summary="Plan which configurations to measure next",
    description="Chooses runs that narrow the targets' intervals most for their price, within a"
    " budget and until a stop rule holds. Works without a regressor too. `Accept: text/plain`"
    " answers with a table.",
    responses={
        **problem_responses(
            UnknownWorkloadError,
            UnknownFieldError,
            UnknownGpuError,
            AmbiguousGpuError,
            RegressorUnavailableError,
        ),
        200: {
            "model": ProfilingPlanOut,
            "content": {TEXT: PLAIN_TEXT},
            "description": "The runs in the order to make them",
        },
    },
)
def plan_profiling(
    workload: WorkloadPath,
    body: Annotated[ProfilingPlanIn, Body(openapi_examples=PLAN_EXAMPLES)],
    services: ServicesDep,
    caller: Reader,
    request: Request,
) -> Response:
    # Imported with the service itself: a process without plans spares the memory.
    from app.api.documents.profiling import plan_document, plan_text  # noqa: PLC0415

    plan = services.profiling.plan(caller.project_id, body.to_domain(workload))
    document = plan_document(plan, body.model_dump(mode="json", exclude_unset=True))
    if accepted_type(request, (JSON, TEXT)) == TEXT:
        return Response(plan_text(document), media_type=TEXT)
    return json_response(document)
