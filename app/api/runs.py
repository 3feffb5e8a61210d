"""Routes of runs: upload, list, read, change, remove."""

from tempfile import SpooledTemporaryFile
from typing import IO, Annotated, Any, Final

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from app.api.accepted import accepted_type
from app.api.dependencies import Reader, RunsWriter, ServicesDep, WorkloadPath
from app.api.documents.run_exports import csv_blocks
from app.api.negotiation import CSV, JSON
from app.api.problems import problem_responses
from app.api.requests.routers import ApiRouter
from app.api.schemas.headers import headed
from app.api.schemas.runs import (
    AssessmentOut,
    RunOut,
    RunPatch,
    RunsOut,
    RunsQuery,
    UploadOut,
    UploadQuery,
)
from app.api.schemas.upload_document import UPLOAD_BODY
from app.domain.access import Principal
from app.domain.errors import (
    InvalidRowsError,
    NotFoundError,
    RunConflictError,
    SchemaDriftError,
    TooManyRowsError,
    UnknownFieldError,
    UnknownWorkloadError,
    UnsupportedMediaTypeError,
)
from app.domain.idempotency import IdempotencyTicket, Replay
from app.domain.identifiers import RunId, Slug
from app.domain.pages import DEFAULT_PAGE_SIZE
from app.services.uploads.terms import KeptAnswer, UploadFormat, UploadOptions, UploadResult
from app.services.wiring import Services

router = ApiRouter("/v1", "runs")
_IN_MEMORY_BYTES: Final = 4 << 20
_FORMATS: Final = {
    JSON: UploadFormat.JSON,
    "application/x-ndjson": UploadFormat.NDJSON,
    "application/ndjson": UploadFormat.NDJSON,
    "application/jsonl": UploadFormat.NDJSON,
    "application/x-jsonlines": UploadFormat.NDJSON,
    CSV: UploadFormat.CSV,
}
_CHARSETS: Final = {"", "utf-8", "utf8", "us-ascii", "ascii"}
_RunPath = Annotated[RunId, Path(description="the run's id", max_length=100)]
_CSV_ANSWER: Final = {CSV: {"schema": {"type": "string"}}}
_UPLOADED: dict[int | str, dict[str, Any]] = {
    200: {
        "model": UploadOut,
        "description": "All runs were duplicates, or it was a dry run",
        **headed("Location"),
    },
    201: {"model": UploadOut, "description": "Runs were stored", **headed("Location")},
}


def _format_of(request: Request) -> UploadFormat:
    header = request.headers.get("content-type", "")
    media_type, *parameters = header.casefold().split(";")
    named = dict(parameter.strip().partition("=")[::2] for parameter in parameters)
    upload_format = _FORMATS.get(media_type.strip())
    if upload_format is None or named.get("charset", "utf-8").strip("\"'") not in _CHARSETS:
        found = f"Content-Type {header[:100]!r}" if header else ""
        raise UnsupportedMediaTypeError(found, [*map(str, UploadFormat), "in UTF-8"])
    return upload_format


@router.post(
    "/runs",
    status_code=201,
    summary="Upload runs",
    description="One run, an array, one JSON run per line, or a CSV file; all rows are stored or"
    " none. Rows with an `external_id` that is stored with the same content are duplicates.",
    responses={
        **problem_responses(
            InvalidRowsError,
            UnknownFieldError,
            SchemaDriftError,
            RunConflictError,
            TooManyRowsError,
        ),
        **_UPLOADED,
    },
    openapi_extra={"requestBody": UPLOAD_BODY},
)
async def upload_runs(
    request: Request,
    services: ServicesDep,
    caller: RunsWriter,
    query: Annotated[UploadQuery, Query()],
) -> Response:
    upload_format = _format_of(request)
    with SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as body:
        async for piece in request.stream():
            body.write(piece)
        return await run_in_threadpool(
            _store,
            services,
            caller,
            body,
            upload_format=upload_format,
            options=query.to_options(),
            ticket=request.scope["state"].get("idempotency"),
        )


def _store(
    services: Services,
    caller: Principal,
    body: IO[bytes],
    *,
    upload_format: UploadFormat,
    options: UploadOptions,
    ticket: IdempotencyTicket | None,
) -> Response:
    kept = None if ticket is None else KeptAnswer(ticket, _render)
    result = services.uploads.upload(
        caller.project_id, body, upload_format, options, key_id=caller.key_id, finish=kept
    )
    rendered = _render(result)
    return Response(rendered.body, rendered.status, rendered.headers)


def _render(result: UploadResult) -> Replay:
    headers = {"content-type": "application/json"}
    if result.runs is not None and len(result.runs) == 1 and result.runs[0].accepted.run_id:
        headers["location"] = f"/v1/runs/{result.runs[0].accepted.run_id}"
    status = 201 if result.created and not result.dry_run else 200
    return Replay(status, headers, UploadOut.of(result).model_dump_json().encode())


@router.get(
    "/workloads/{workload}/runs",
    summary="List a workload's runs",
    description="Newest first. `Accept: text/csv` exports them in the form of an upload.",
    response_model=RunsOut,
    responses={
        **problem_responses(UnknownWorkloadError),
        200: {"content": _CSV_ANSWER, **headed("Next-Page-Token")},
    },
)
def list_runs(
    request: Request,
    workload: WorkloadPath,
    services: ServicesDep,
    caller: Reader,
    query: Annotated[RunsQuery, Query()],
) -> RunsOut | Response:
    if accepted_type(request, (JSON, CSV)) == CSV:
        return _export(services, caller, workload, query)
    page = services.runs.list_page(
        caller.project_id,
        workload,
        query.to_filter(),
        page_size=query.page_size or DEFAULT_PAGE_SIZE,
        page_token=query.page_token,
    )
    return RunsOut.of(page)


def _export(services: Services, caller: Principal, workload: Slug, query: RunsQuery) -> Response:
    export = services.runs.export(
        caller.project_id,
        workload,
        query.to_filter(),
        page_size=query.page_size,
        page_token=query.page_token,
    )
    headers = {} if export.next_page_token is None else {"Next-Page-Token": export.next_page_token}
    blocks = csv_blocks(export.columns, export.pages)
    return StreamingResponse(blocks, media_type=CSV, headers=headers)


@router.get(
    "/runs/{run}",
    summary="Show a run",
    description="All that was uploaded, and whether fits use it.",
    responses=problem_responses(NotFoundError),
)
def get_run(run: _RunPath, services: ServicesDep, caller: Reader) -> RunOut:
    return RunOut.of(services.runs.get(caller.project_id, run))


@router.patch(
    "/runs/{run}",
    summary="Exclude a run from fits, or change its labels",
    description="`excluded` keeps the run out of fits (audited); labels are merged, null or an"
    " empty text removes one. What was measured never changes.",
    responses=problem_responses(NotFoundError, UnknownFieldError),
)
def change_run(run: _RunPath, patch: RunPatch, services: ServicesDep, caller: RunsWriter) -> RunOut:
    return RunOut.of(services.runs.change(caller, run, patch.to_change()))


@router.delete(
    "/runs/{run}",
    status_code=204,
    summary="Remove a run",
    description="Regressors that learned from it stay as they are. Audited.",
    responses=problem_responses(NotFoundError),
)
def delete_run(run: _RunPath, services: ServicesDep, caller: RunsWriter) -> None:
    services.runs.delete(caller, run)


@router.get(
    "/runs/{run}/assessment",
    summary="Judge a run",
    description="The run against what the published regressor forecasts for its configuration.",
    responses=problem_responses(NotFoundError),
)
def assess_run(run: _RunPath, services: ServicesDep, caller: Reader) -> AssessmentOut:
    return AssessmentOut.of(services.runs.assess(caller.project_id, run))
