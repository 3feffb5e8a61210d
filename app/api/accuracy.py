"""Routes of the accuracy of past forecasts."""

from typing import Annotated, Any, Final

from fastapi import Query, Request, Response

from app.api.accepted import accepted_type
from app.api.dependencies import Reader, ServicesDep, WorkloadPath
from app.api.documents.accuracy import accuracy_text
from app.api.negotiation import JSON, PLAIN_TEXT, TEXT
from app.api.problems import problem_responses
from app.api.requests.routers import ApiRouter
from app.api.schemas.accuracy import AccuracyOut, AccuracyQuery
from app.domain.errors import UnknownWorkloadError

router = ApiRouter("/v1/workloads", "forecasts")
_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {TEXT: PLAIN_TEXT}, "description": "Errors, coverage and drift"}
}


@router.get(
    "/{workload}/accuracy",
    summary="Compare forecasts with later runs",
    description="Compares the succeeded runs that arrived in the window with earlier forecasts:"
    " the recorded one of what it did that a run names, else the latest recorded one of the same"
    " configuration and work in the window that no run has followed yet, else that of the regressor"
    " published at the time. Excluded runs are left out. `Accept: text/plain` answers in"
    " sentences.",
    response_model=AccuracyOut,
    responses={**problem_responses(UnknownWorkloadError), **_ANSWER},
)
def get_accuracy(
    request: Request,
    workload: WorkloadPath,
    services: ServicesDep,
    caller: Reader,
    query: Annotated[AccuracyQuery, Query()],
) -> AccuracyOut | Response:
    report = services.accuracy.accuracy(caller.project_id, workload, query.to_window())
    if accepted_type(request, (JSON, TEXT)) == TEXT:
        return Response(accuracy_text(report), media_type=TEXT)
    return AccuracyOut.of(report)
