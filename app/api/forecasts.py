"""Routes of forecasts: one, a batch, the ledger."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from app.api import problems
from app.api.accepted import accepted_type
from app.api.batches.answers import answer_batch
from app.api.dependencies import Reader, ServicesDep, services_and_reader
from app.api.documents.forecasts import ledger_document
from app.api.encoded.forecasts import encode_forecast
from app.api.negotiation import JSON, PLAIN_TEXT, TEXT
from app.api.paths import allow_segments
from app.api.requests.bodies import json_response, read_body, read_json, request_body
from app.api.requests.forecasts import read_forecast
from app.api.requests.routers import ApiRouter
from app.api.schemas.forecast_answers import BatchOut, ForecastOut, LedgerOut
from app.api.schemas.forecasts import FORECAST_EXAMPLE, BatchIn, ForecastIn
from app.domain.errors import (
    AmbiguousGpuError,
    NoRegressorError,
    NotFoundError,
    RegressorUnavailableError,
    SpotInfeasibleError,
    UnknownFieldError,
    UnknownGpuError,
    UnknownWorkloadError,
)
from app.domain.identifiers import ProjectId
from app.services.wiring import Services


async def _reserved_body(request: Request, _caller: Reader) -> AsyncIterator[bytes]:
    """Yield the body of a batch and reserve room for it until its answer is sent."""
    body = await read_body(request)
    with request.app.state.batch_room.reserve_for(body):
        yield body


ReservedBody = Annotated[bytes, Depends(_reserved_body)]
allow_segments()
PATH = "/v1/forecasts"
router = ApiRouter(PATH, "forecasts")
FORECAST_PROBLEMS = problems.problem_responses(
    UnknownWorkloadError,
    NoRegressorError,
    NotFoundError,
    UnknownFieldError,
    UnknownGpuError,
    AmbiguousGpuError,
    SpotInfeasibleError,
    RegressorUnavailableError,
)


@router.post(
    "",
    summary="Forecast duration and cost",
    description="Of one configuration and its work. `Accept: text/plain` answers in sentences.",
    responses={
        **FORECAST_PROBLEMS,
        200: {"model": ForecastOut, "content": {TEXT: PLAIN_TEXT}, "description": "The forecast"},
    },
    openapi_extra=request_body(ForecastIn, FORECAST_EXAMPLE),
)
async def make_forecast(request: Request) -> Response:
    # No dependencies: schedulers call this route thousands of times a second.
    services, caller = services_and_reader(request)
    body = await read_json(request)
    forecast_request = read_forecast(body)
    is_text = accepted_type(request, (JSON, TEXT)) == TEXT
    if is_text:
        forecast_request = replace(forecast_request, explain=True)
    forecasts, project_id = services.forecasts, caller.project_id
    grounds = forecasts.grounds(
        project_id, forecast_request.workload, forecast_request.regressor_version
    )
    if grounds is None:
        forecast = await run_in_threadpool(forecasts.forecast, project_id, forecast_request)
    else:
        forecast = forecasts.forecast_on(grounds, forecast_request)
    encoded_forecast = encode_forecast(forecasts, forecast, forecast_request, body)
    if is_text:
        from app.api.documents import plain_text  # noqa: PLC0415 - programs ask for JSON

        return Response(plain_text.forecast_sentences(encoded_forecast.document), media_type=TEXT)
    if grounds is not None:
        encoded_answer = encoded_forecast.encoded(grounds)
        request.app.state.answers.keep(project_id, await request.body(), encoded_answer)
    return Response(encoded_forecast.answer, media_type=JSON)


@router.post(
    ":batch",
    summary="Forecast many configurations",
    description="Up to 10,000 requests of any workloads; each answer is a forecast or a problem."
    " Nothing of it is recorded.",
    responses={
        **problems.problem_responses(UnknownFieldError),
        200: {"model": BatchOut, "description": "The answers in the order of the requests"},
    },
    openapi_extra=request_body(
        BatchIn,
        {
            "defaults": {"workload": "resnet50", "work": {"dataset_size": 1281167, "epochs": 90}},
            "requests": [
                {"ref": "a", "configuration": {"gpu_type": "T4", "workers": 4}},
                {"ref": "b", "configuration": {"gpu_type": "T4", "workers": 8}},
            ],
            "fields": ["duration_seconds", "cost"],
        },
    ),
)
async def make_batch(body: ReservedBody, services: ServicesDep, caller: Reader) -> Response:
    return await run_in_threadpool(answer_batch, services, caller.project_id, body)


@router.get(
    "/{forecast:segment}",
    summary="Show a recorded forecast",
    description="What was asked and answered, and the runs that were uploaded with its"
    " `forecast_id`, with their errors.",
    responses={
        **problems.problem_responses(NotFoundError),
        200: {"model": LedgerOut, "description": "The entry of the ledger"},
    },
)
async def get_forecast(
    forecast: Annotated[str, Path(description="the forecast's id", max_length=100)],
    services: ServicesDep,
    caller: Reader,
) -> Response:
    await services.forecasts.until_written(caller.project_id, forecast)
    return await run_in_threadpool(_recorded, services, caller.project_id, forecast)


def _recorded(services: Services, project_id: ProjectId, forecast_id: str) -> Response:
    return json_response(ledger_document(services.forecasts.recorded(project_id, forecast_id)))
