"""Routes of exchange rates: list, add, withdraw."""

from typing import Annotated, Any, Final

from fastapi import Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.accepted import accepted_type
from app.api.dependencies import PricesWriter, Reader, ServicesDep
from app.api.documents.records import RecordFile
from app.api.negotiation import CSV, JSON
from app.api.problems import problem_responses
from app.api.requests.routers import ApiRouter
from app.api.schemas.base import PageQuery
from app.api.schemas.exchange_rates import (
    RATE_EXAMPLE,
    RATES_CSV,
    CreatedExchangeRatesOut,
    ExchangeRateIn,
    ExchangeRateOut,
    ExchangeRatesOut,
)
from app.api.schemas.headers import headed
from app.domain.errors import InvalidRowsError, NotFoundError, UnknownFieldError

router = ApiRouter("/v1/exchange-rates", "prices")
_FILE = RecordFile(
    ExchangeRateIn, "exchange rates", ("rate_id",), RATE_EXAMPLE, csv_example=RATES_CSV
)
_ID: Final = "rate_01m7z23p891kwyath2cjcfkrz"
_LISTED: dict[str, Any] = {
    JSON: {
        "example": {"exchange_rates": [{"rate_id": _ID, **RATE_EXAMPLE}], "next_page_token": _ID}
    },
    CSV: {"schema": {"type": "string"}, "example": RATES_CSV},
}


@router.get(
    "",
    summary="List exchange rates",
    description="The project's rates, the newest first. `Accept: text/csv` exports the page in the"
    " form of an upload; the token of the next page is in the header `Next-Page-Token`.",
    responses={
        **problem_responses(),
        200: {
            "model": ExchangeRatesOut,
            "content": _LISTED,
            "description": "A page of rates",
            **headed("Next-Page-Token"),
        },
    },
)
def list_exchange_rates(
    request: Request,
    services: ServicesDep,
    caller: Reader,
    query: Annotated[PageQuery, Query()],
) -> Response:
    page = services.exchange_rates.list_page(
        caller.project_id, page_size=query.page_size, page_token=query.page_token
    )
    listing = ExchangeRatesOut.of(page)
    if accepted_type(request, (JSON, CSV)) == CSV:
        headers = {"Next-Page-Token": page.next_key} if page.next_key else {}
        rows = [rate.model_dump() for rate in listing.exchange_rates]
        return Response(_FILE.write(rows), media_type=CSV, headers=headers)
    return Response(listing.model_dump_json(), media_type=JSON)


@router.post(
    "",
    status_code=201,
    summary="Add exchange rates",
    description="One, an array, or a CSV file; all or none. The latest rate of a day or before it"
    " converts the prices of that day; a pair is also used in reverse, and through a third"
    " currency.",
    responses={
        **problem_responses(UnknownFieldError, InvalidRowsError),
        201: {"model": CreatedExchangeRatesOut, "description": "The stored rates"},
    },
    openapi_extra=_FILE.body(),
)
async def add_exchange_rates(
    request: Request, services: ServicesDep, caller: PricesWriter
) -> Response:
    body, now = await request.body(), services.context.now()
    records = await run_in_threadpool(_FILE.read, request.headers.get("content-type"), body)
    rates = [rate.to_domain(now) for rate in records]
    stored = await run_in_threadpool(services.exchange_rates.add, caller, rates)
    created = CreatedExchangeRatesOut(
        created=len(stored), exchange_rates=[ExchangeRateOut.of(rate) for rate in stored]
    )
    return Response(created.model_dump_json(), 201, media_type=JSON)


@router.delete(
    "/{rate}",
    status_code=204,
    summary="Withdraw an exchange rate",
    description="It is no longer used, but stays on record for past costs. Audited.",
    responses=problem_responses(NotFoundError),
)
def withdraw_exchange_rate(
    rate: Annotated[str, Path(description="the rate's id", max_length=100, examples=[_ID])],
    services: ServicesDep,
    caller: PricesWriter,
) -> None:
    services.exchange_rates.withdraw(caller, rate)
