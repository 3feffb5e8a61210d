"""Routes of what-if questions by query string: a point, a grid, a curve."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from fastapi import Query, Request, Response

from app.api.accepted import accepted_type
from app.api.batches.responses import list_response
from app.api.dependencies import Reader, ServicesDep, WorkloadPath
from app.api.documents.curves import curve_document, curve_text
from app.api.documents.forecast_tables import forecast_csv
from app.api.documents.forecasts import FORECAST_MEMBERS, Document
from app.api.forecasts import FORECAST_PROBLEMS
from app.api.negotiation import CSV, JSON, TEXT
from app.api.requests.bodies import json_response
from app.api.requests.columns import NotColumnsError
from app.api.requests.forecasts import read_columns, read_forecast
from app.api.requests.routers import ApiRouter
from app.api.schemas.curves import CurveOut, CurveQuery
from app.api.schemas.flat_queries import Grid, query_parameters, read_grid, read_point
from app.api.schemas.forecast_answers import ForecastOut, GridOut
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest

if TYPE_CHECKING:
    from app.services.answering.rows import AllAnswered

router = ApiRouter("/v1/workloads/{workload}", "forecasts")
_TEXTS: dict[str, Any] = {name: {"schema": {"type": "string"}} for name in (TEXT, CSV)}


@router.get(
    "/forecast",
    summary="Ask what if",
    description="The fields are the columns of an upload, `param.NAME` for parameters; a comma"
    " list makes a grid, in which a value with commas stands in double quotes. `Accept:"
    " text/plain` answers a sentence or an aligned table, `text/csv` rows. One point is answered by"
    " the forecast itself, a grid by `forecasts`.",
    responses={
        **FORECAST_PROBLEMS,
        200: {"model": ForecastOut | GridOut, "content": _TEXTS, "description": "The forecasts"},
    },
    openapi_extra={"parameters": query_parameters(has_lists=True)},
)
def ask_what_if(
    request: Request, workload: WorkloadPath, services: ServicesDep, caller: Reader
) -> Response:
    from app.services.answering.rows import (  # noqa: PLC0415 - numpy and models are not for the start
        AllAnswered,
    )

    grid = read_grid(request.query_params.multi_items(), workload)
    media_type = _media_type(request)
    requests = _read_all(grid)
    if len(grid) == 1 and media_type == TEXT:
        requests = [replace(requests[0], explain=True)]
    _, answers = next(services.forecasts.ask_parts(caller.project_id, requests))
    if not isinstance(answers, AllAnswered):
        raise next(answer for answer in answers if isinstance(answer, DomainError))
    return _response(answers, services.context.now(), media_type)


def _read_all(grid: Grid) -> Sequence[ForecastRequest]:
    """Return the questions of a grid.

    Raises
    ------
    DomainError
        If a point is refused; names each field of the first that is.
    """
    try:
        return read_columns(next(grid.points()), grid.varied(), len(grid))
    except NotColumnsError:
        return [read_forecast(point, location="query") for point in grid.points()]


def _media_type(request: Request) -> str:
    return accepted_type(request, (JSON, TEXT, CSV))


def _response(answers: "AllAnswered", now: datetime, media_type: str) -> Response:
    from app.api.batches.forecasts import (  # noqa: PLC0415 - as above
        forecast_blocks,
        forecast_texts,
    )

    if media_type == JSON and len(answers) > 1:
        blocks = forecast_blocks(answers, b",", now, FORECAST_MEMBERS)
        return list_response(b'{"forecasts":[', blocks, b",", b"]}")
    texts = forecast_texts(answers, now, FORECAST_MEMBERS)
    if media_type == JSON:
        return Response(texts[0], media_type=JSON)
    documents: list[Document] = orjson.loads(b"[%b]" % b",".join(texts))
    if media_type == CSV:
        return Response(forecast_csv(documents), media_type=CSV)
    return Response(_text(documents), media_type=TEXT)


def _text(documents: list[Document]) -> str:
    from app.api.documents import plain_text  # noqa: PLC0415 - programs ask for JSON

    if len(documents) == 1:
        return plain_text.forecast_sentences(documents[0])
    return plain_text.forecast_table(documents)


_CURVE_FIELDS = {"over", "from", "to", "points"}


@router.get(
    "/curve",
    summary="Draw a curve",
    description="Forecasts along one axis with their bands, the runs measured there, cost,"
    " speed-up, efficiency and the seconds that the last unit of money saved. The other fields"
    " are those of the what-if, one value each.",
    responses={
        **FORECAST_PROBLEMS,
        200: {"model": CurveOut, "content": _TEXTS, "description": "The curve"},
    },
    openapi_extra={"parameters": query_parameters(has_lists=False)},
)
def draw_curve(
    request: Request,
    workload: WorkloadPath,
    services: ServicesDep,
    caller: Reader,
    query: Annotated[CurveQuery, Query()],
) -> Response:
    others = [item for item in request.query_params.multi_items() if item[0] not in _CURVE_FIELDS]
    point = read_point(others, workload)
    forecast_request = read_forecast(point, location="query")
    curve = services.curves.curve(caller.project_id, forecast_request, query.to_axis())
    document = curve_document(curve, services.context.now())
    media_type = _media_type(request)
    if media_type == CSV:
        return Response(forecast_csv([p["forecast"] for p in document["points"]]), media_type=CSV)
    if media_type == TEXT:
        return Response(curve_text(document), media_type=TEXT)
    return json_response(document)
