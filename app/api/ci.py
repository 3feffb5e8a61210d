"""Routes of CI reports: create, read, acknowledge, promote."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final

import orjson
from fastapi import Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.accepted import accepted_type
from app.api.dependencies import Reader, RunsWriter, ServicesDep
from app.api.documents.stored_reports import stored_document
from app.api.negotiation import JSON, PLAIN_TEXT, TEXT
from app.api.paths import allow_segments
from app.api.problems import problem_responses
from app.api.requests.bodies import check, json_response, read_json, request_body
from app.api.requests.routers import ApiRouter
from app.api.schemas.base import PageQuery
from app.api.schemas.ci import (
    CI_REPORT_EXAMPLE,
    CI_REPORT_IN,
    AcknowledgeIn,
    CiReportIn,
    CiReportOut,
    CiReportsOut,
)
from app.api.schemas.headers import headed
from app.domain.ci import CiReport
from app.domain.errors import (
    InvalidRowsError,
    NotFoundError,
    RunConflictError,
    SchemaDriftError,
    UnknownFieldError,
)
from app.domain.idempotency import Replay

allow_segments()
router = ApiRouter("/v1/ci/reports", "ci")
_MARKDOWN: Final = "text/markdown"
_ReportPath = Annotated[str, Path(description="the report's id", max_length=100)]
_REPORTED: dict[int | str, dict[str, Any]] = {
    201: {
        "model": CiReportOut,
        "content": {TEXT: PLAIN_TEXT, _MARKDOWN: PLAIN_TEXT},
        "description": "The verdict; the runs are stored",
        **headed("Location", "Trainfare-Verdict"),
    }
}


@router.post(
    "",
    status_code=201,
    summary="Report fresh runs and learn whether they became slower",
    description="Stores the runs (all or none) and judges each by the prediction interval of the"
    " published regressor: a failure must be statistically and practically significant, an"
    " improvement never"
    " fails, the runs of a report share the error budget, small shifts that add up are a warning."
    " Runs of another branch than `base_branch` are kept out of fits until they are promoted."
    " `Accept: text/plain` answers the summary, `text/markdown` the comment.",
    responses={
        **problem_responses(
            InvalidRowsError, UnknownFieldError, SchemaDriftError, RunConflictError
        ),
        **_REPORTED,
    },
    openapi_extra=request_body(CiReportIn, CI_REPORT_EXAMPLE),
)
async def report_runs(request: Request, services: ServicesDep, caller: RunsWriter) -> Response:
    report_request = check(CI_REPORT_IN, await read_json(request)).to_domain()
    media_type = accepted_type(request, (JSON, TEXT, _MARKDOWN))
    render = partial(_rendered, media_type=media_type)
    ticket = request.scope["state"].get("idempotency")
    document = await run_in_threadpool(
        services.ci.report,
        caller.project_id,
        report_request,
        _new_document,
        ticket,
        render,
        key_id=caller.key_id,
    )
    answer = render(document)
    return Response(answer.body, answer.status, answer.headers)


def _new_document(report: CiReport) -> dict[str, Any]:
    from app.api.documents.ci import report_document  # noqa: PLC0415 - with the first report

    return report_document(report)


def _rendered(document: Mapping[str, Any], media_type: str) -> Replay:
    texts = {TEXT: f"{document['summary']}\n", _MARKDOWN: document["comment_markdown"]}
    body = texts[media_type].encode() if media_type in texts else orjson.dumps(document)
    headers = {
        "content-type": media_type if media_type == JSON else f"{media_type}; charset=utf-8",
        "location": f"/v1/ci/reports/{document['report_id']}",
        "trainfare-verdict": document["verdict"],
    }
    return Replay(201, headers, body)


@router.get(
    "", summary="List CI reports", description="Newest first.", responses=problem_responses()
)
def list_reports(
    services: ServicesDep, caller: Reader, query: Annotated[PageQuery, Query()]
) -> CiReportsOut:
    page = services.ci.list_page(
        caller.project_id, page_size=query.page_size, page_token=query.page_token
    )
    reports = [CiReportOut.model_validate(stored_document(stored)) for stored in page.items]
    return CiReportsOut(reports=reports, next_page_token=page.next_key)


@router.get(
    "/{report:segment}",
    summary="Show a CI report",
    description="Its verdicts and comment, and who acknowledged it.",
    response_model=CiReportOut,
    responses=problem_responses(NotFoundError),
)
def get_report(report: _ReportPath, services: ServicesDep, caller: Reader) -> Response:
    return json_response(stored_document(services.ci.get(caller.project_id, report)))


@router.post(
    "/{report:segment}:acknowledge",
    summary="Take a report's durations as the new normal",
    description="Its runs are promoted, drift is counted from them on, and until the next"
    " fit later runs are compared with forecasts adjusted by the change that these runs show."
    " Audited.",
    response_model=CiReportOut,
    responses=problem_responses(NotFoundError, UnknownFieldError),
)
def acknowledge_report(
    report: _ReportPath, body: AcknowledgeIn, services: ServicesDep, caller: RunsWriter
) -> Response:
    acknowledged = services.ci.acknowledge(caller, report, author=body.author, reason=body.reason)
    return json_response(stored_document(acknowledged))


@router.post(
    "/{report:segment}:promote",
    summary="Take a report's runs into fits",
    description="To be called when its branch has been merged. Audited.",
    response_model=CiReportOut,
    responses=problem_responses(NotFoundError),
)
def promote_report(report: _ReportPath, services: ServicesDep, caller: RunsWriter) -> Response:
    return json_response(stored_document(services.ci.promote(caller, report)))
