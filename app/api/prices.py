"""Routes of prices: list, add, withdraw."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.dependencies import PricesWriter, Reader, ServicesDep
from app.api.negotiation import CSV, JSON, preferred
from app.api.price_files import price_body, price_csv, read_prices
from app.api.problems import problem_responses
from app.api.schemas.prices import CreatedPricesOut, PriceOut, PricesOut, PricesQuery
from app.domain.errors import InvalidRowsError, NotFoundError, UnknownFieldError
from app.domain.identifiers import PriceId

router = APIRouter(prefix="/v1/prices", tags=["prices"])
_AS_CSV: dict[str, Any] = {CSV: {"schema": {"type": "string"}}}


@router.get(
    "",
    summary="List prices",
    description="A project's own prices, the newest first, then the built-in catalogue."
    " `Accept: text/csv` exports the page in the form of an upload; the token of the next page"
    " stands in the header `Next-Page-Token`.",
    responses={
        **problem_responses(),
        200: {"model": PricesOut, "content": _AS_CSV, "description": "A page of prices"},
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
    if preferred(request.headers.get("accept"), (JSON, CSV)) == CSV:
        headers = {"Next-Page-Token": page.next_key} if page.next_key else {}
        return Response(price_csv(page.items), media_type=CSV, headers=headers)
    return Response(PricesOut.of(page).model_dump_json(), media_type=JSON)


@router.post(
    "",
    status_code=201,
    summary="Add prices",
    description="One, an array, or a CSV file; all or none. Own prices go before the built-in"
    " catalogue.",
    responses={
        **problem_responses(UnknownFieldError, InvalidRowsError),
        201: {"model": CreatedPricesOut, "description": "The stored prices"},
    },
    openapi_extra=price_body(),
)
async def add_prices(request: Request, services: ServicesDep, caller: PricesWriter) -> Response:
    body = await request.body()
    content_type = request.headers.get("content-type")
    now = services.context.now()
    prices = await run_in_threadpool(read_prices, content_type, body, now)
    stored = await run_in_threadpool(services.prices.add, caller, prices)
    created = CreatedPricesOut(created=len(stored), prices=[PriceOut.of(price) for price in stored])
    return Response(created.model_dump_json(), 201, media_type=JSON)


@router.delete(
    "/{price}",
    status_code=204,
    summary="Withdraw a price",
    description="It counts no longer, and stays on record for past costs. Audited.",
    responses=problem_responses(NotFoundError),
)
def withdraw_price(
    price: Annotated[str, Path(description="the price's id", max_length=100)],
    services: ServicesDep,
    caller: PricesWriter,
) -> None:
    services.prices.withdraw(caller, PriceId(price))
