"""Routes of grid factors: list, add, withdraw."""

from typing import Annotated, Any, Final

from fastapi import Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.accepted import accepted_type
from app.api.dependencies import PricesWriter, Reader, ServicesDep
from app.api.documents.records import RecordFile
from app.api.negotiation import CSV, JSON
from app.api.problems import problem_responses
from app.api.requests.routers import ApiRouter
from app.api.schemas.grid_factors import (
    FACTOR_EXAMPLE,
    FACTORS_CSV,
    CreatedGridFactorsOut,
    FactorOrigin,
    GridFactorIn,
    GridFactorOut,
    GridFactorsOut,
    GridFactorsQuery,
)
from app.api.schemas.headers import headed
from app.domain.errors import InvalidRowsError, NotFoundError, UnknownFieldError
from app.domain.pages import Page
from app.pricing.grid import built_in_factors

router = ApiRouter("/v1/grid-factors", "prices")
_FILE = RecordFile(
    GridFactorIn, "grid factors", ("factor_id",), FACTOR_EXAMPLE, csv_example=FACTORS_CSV
)
_ID: Final = "grid_01m7za73620z6zjt03tpq4mwe"
_LISTED: dict[str, Any] = {
    JSON: {
        "example": {"grid_factors": [{"factor_id": _ID, **FACTOR_EXAMPLE}], "next_page_token": _ID}
    },
    CSV: {"schema": {"type": "string"}, "example": FACTORS_CSV},
}


@router.get(
    "",
    summary="List grid factors",
    description="The project's factors, the newest first; with `origin=built_in` the built-in"
    " table, whole. `Accept: text/csv` exports the page in the"
    " form of an upload; the token of the next page is in the header `Next-Page-Token`.",
    responses={
        **problem_responses(),
        200: {
            "model": GridFactorsOut,
            "content": _LISTED,
            "description": "A page of factors",
            **headed("Next-Page-Token"),
        },
    },
)
def list_grid_factors(
    request: Request,
    services: ServicesDep,
    caller: Reader,
    query: Annotated[GridFactorsQuery, Query()],
) -> Response:
    page = (
        Page(list(built_in_factors()))
        if query.origin is FactorOrigin.BUILT_IN
        else services.grid_factors.list_page(
            caller.project_id, page_size=query.page_size, page_token=query.page_token
        )
    )
    listing = GridFactorsOut.of(page)
    if accepted_type(request, (JSON, CSV)) == CSV:
        headers = {"Next-Page-Token": page.next_key} if page.next_key else {}
        rows = [factor.model_dump() for factor in listing.grid_factors]
        return Response(_FILE.write(rows), media_type=CSV, headers=headers)
    return Response(listing.model_dump_json(), media_type=JSON)


@router.post(
    "",
    status_code=201,
    summary="Add grid factors",
    description="One, an array, or a CSV file; all or none. Of the factors that match a place"
    " the most specific one counts, then the latest; own ones take precedence over the built-in.",
    responses={
        **problem_responses(UnknownFieldError, InvalidRowsError),
        201: {"model": CreatedGridFactorsOut, "description": "The stored factors"},
    },
    openapi_extra=_FILE.body(),
)
async def add_grid_factors(
    request: Request, services: ServicesDep, caller: PricesWriter
) -> Response:
    body, now = await request.body(), services.context.now()
    records = await run_in_threadpool(_FILE.read, request.headers.get("content-type"), body)
    factors = [factor.to_domain(now) for factor in records]
    stored = await run_in_threadpool(services.grid_factors.add, caller, factors)
    created = CreatedGridFactorsOut(
        created=len(stored), grid_factors=[GridFactorOut.of(factor) for factor in stored]
    )
    return Response(created.model_dump_json(), 201, media_type=JSON)


@router.delete(
    "/{factor}",
    status_code=204,
    summary="Withdraw a grid factor",
    description="It no longer counts, but stays on record. Audited.",
    responses=problem_responses(NotFoundError),
)
def withdraw_grid_factor(
    factor: Annotated[str, Path(description="the factor's id", max_length=100, examples=[_ID])],
    services: ServicesDep,
    caller: PricesWriter,
) -> None:
    services.grid_factors.withdraw(caller, factor)
