"""Routes of scheduling: queue order, GPU allocation to elastic jobs, GPU demand."""

from fastapi import Request, Response

from app.api import problems
from app.api.accepted import accepted_type
from app.api.dependencies import Reader, ServicesDep
from app.api.negotiation import JSON, PLAIN_TEXT, TEXT
from app.api.requests.bodies import json_response
from app.api.requests.routers import ApiRouter
from app.api.schemas.allocations import AllocateIn, AllocateOut
from app.api.schemas.capacity import CapacityIn, CapacityOut
from app.api.schemas.schedules import RankIn, RankOut
from app.domain.errors import InsufficientCapacityError, UnknownFieldError

router = ApiRouter("/v1/schedules", "schedules")
_PROBLEMS = problems.problem_responses(UnknownFieldError)


@router.post(
    ":rank",
    summary="Order a queue",
    description="By expected service in GPU-seconds, by what is left of it, or by the risk of"
    " missing deadlines; waiting jobs age. Jobs that cannot be forecast carry their problem and"
    " are placed where `unknown` says. `Accept: text/plain` answers an aligned table.",
    responses={
        **_PROBLEMS,
        200: {"model": RankOut, "content": {TEXT: PLAIN_TEXT}, "description": "The queue in order"},
    },
)
def rank(request: Request, body: RankIn, services: ServicesDep, caller: Reader) -> Response:
    # Here and below imported with the service itself: a process without it spares the memory.
    from app.api.documents.schedules import ranking_document, ranking_text  # noqa: PLC0415

    document = ranking_document(services.schedules.rank(caller.project_id, body.to_domain()))
    if accepted_type(request, (JSON, TEXT)) == TEXT:
        return Response(ranking_text(document), media_type=TEXT)
    return json_response(document)


@router.post(
    ":allocate",
    summary="Allocate GPUs to elastic jobs",
    description="One GPU type is allocated exactly by dynamic programming, several by a"
    " mixed-integer program within `time_limit_s`; `exact` and `gap` say how good the answer is."
    " Deadlines are kept at `confidence`. A running job without an option `keeps` its GPUs."
    " `Accept: text/plain` answers an aligned table.",
    responses={
        **problems.problem_responses(UnknownFieldError, InsufficientCapacityError),
        200: {
            "model": AllocateOut,
            "content": {TEXT: PLAIN_TEXT},
            "description": "What each job gets, and which get nothing",
        },
    },
)
def allocate(request: Request, body: AllocateIn, services: ServicesDep, caller: Reader) -> Response:
    from app.api.documents.allocations import allocation_document, allocation_text  # noqa: PLC0415

    allocation = services.allocations.allocate(caller.project_id, body.to_domain())
    document = allocation_document(allocation)
    if accepted_type(request, (JSON, TEXT)) == TEXT:
        return Response(allocation_text(document, body.confidence), media_type=TEXT)
    return json_response(document)


@router.post(
    ":capacity",
    summary="Forecast how many GPUs will be needed hour by hour",
    description="Running jobs hold their GPUs, queued ones start in their order as soon as enough"
    " are free; durations are drawn from the forecasts with a fixed seed. What lies beyond the"
    " upper bound of an hour's peak may be switched off. `Accept: text/plain` answers a table.",
    responses={
        **_PROBLEMS,
        200: {
            "model": CapacityOut,
            "content": {TEXT: PLAIN_TEXT},
            "description": "Demand by GPU type, hour by hour",
        },
    },
)
def capacity(request: Request, body: CapacityIn, services: ServicesDep, caller: Reader) -> Response:
    from app.api.documents.capacity import capacity_document, capacity_text  # noqa: PLC0415

    document = capacity_document(services.capacity.view(caller.project_id, body.to_domain()))
    if accepted_type(request, (JSON, TEXT)) == TEXT:
        return Response(capacity_text(document), media_type=TEXT)
    return json_response(document)
