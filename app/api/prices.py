"""Routes of prices: list, add, withdraw."""

from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.accepted import accepted_type
from app.api.dependencies import PricesWriter, Reader, ServicesDep
from app.api.documents.records import RecordFile
from app.api.negotiation import CSV, JSON
from app.api.problems import problem_responses
from app.api.requests.routers import ApiRouter
from app.api.schemas.headers import headed
from app.api.schemas.prices import (
    PRICE_EXAMPLE,
    PRICES_CSV,
    CreatedPricesOut,
    PriceIn,
    PriceOut,
    PricesOut,
    PricesQuery,
    function_columns,
)
from app.domain.errors import InvalidRowsError, NotFoundError, UnknownFieldError
from app.domain.identifiers import PriceId
from app.domain.prices import Price

router = ApiRouter("/v1/prices", "prices")
_FILE = RecordFile(
    PriceIn,
    "prices",
    ("price_id", "origin", "withdrawn_at"),
    PRICE_EXAMPLE,
    csv_example=PRICES_CSV,
    withdrawn_at="withdrawn_at",
)
_AS_CSV: dict[str, Any] = {CSV: {"schema": {"type": "string"}}}


def _row(price: Price) -> dict[str, object]:
    """Return the cells of a price; a function's price has no hourly price."""
    functions = function_columns(price)
    cells = {name: getattr(price, name, None) for name in _FILE.exported}
    return {**cells, **functions, **({"price_per_hour": None} if functions else {})}


@router.get(
    "",
    summary="List prices",
    description="A project's own prices, the newest first, then the built-in catalogue."
    " `Accept: text/csv` exports the page in the form of an upload; the token of the next page"
    " is in the header `Next-Page-Token`.",
    responses={
        **problem_responses(),
        200: {
            "model": PricesOut,
            "content": _AS_CSV,
            "description": "A page of prices",
            **headed("Next-Page-Token"),
        },
    },
)
def list_prices(
    request: Request,
    services: ServicesDep,
    caller: Reader,
    query: Annotated[PricesQuery, Query()],
) -> Response:
    page = services.prices.list_page(
        caller.project_id,
        query.to_filter(),
        page_size=query.page_size,
        page_token=query.page_token,
    )
    if accepted_type(request, (JSON, CSV)) == CSV:
        headers = {"Next-Page-Token": page.next_key} if page.next_key else {}
        rows = [_row(price) for price in page.items]
        return Response(_FILE.write(rows), media_type=CSV, headers=headers)
    return Response(PricesOut.of(page).model_dump_json(), media_type=JSON)


@router.post(
    "",
    status_code=201,
    summary="Add prices",
    description="One, an array, or a CSV file; all or none. Own prices take precedence over the"
    " built-in catalogue.",
    responses={
        **problem_responses(UnknownFieldError, InvalidRowsError),
        201: {"model": CreatedPricesOut, "description": "The stored prices"},
    },
    openapi_extra=_FILE.body(),
)
async def add_prices(request: Request, services: ServicesDep, caller: PricesWriter) -> Response:
    body, now = await request.body(), services.context.now()
    records = await run_in_threadpool(_FILE.read, request.headers.get("content-type"), body)
    prices = [price.to_domain(now) for price in records]
    stored = await run_in_threadpool(services.prices.add, caller, prices)
    created = CreatedPricesOut(created=len(stored), prices=[PriceOut.of(price) for price in stored])
    return Response(created.model_dump_json(), 201, media_type=JSON)


@router.delete(
    "/{price}",
    status_code=204,
    summary="Withdraw a price",
    description="It no longer counts, but stays on record for past costs. Audited.",
    responses=problem_responses(NotFoundError),
)
def withdraw_price(
    price: Annotated[str, Path(description="the price's id", max_length=100)],
    services: ServicesDep,
    caller: PricesWriter,
) -> None:
    services.prices.withdraw(caller, PriceId(price))
