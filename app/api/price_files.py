"""Reads and writes prices as JSON and CSV."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from pydantic import ValidationError

from app.api.bodies import inline_schema, malformed_json, refused
from app.api.negotiation import CSV, JSON
from app.api.schemas.prices import MAX_PRICES, PRICE_COLUMNS, PRICE_EXAMPLE, PRICE_IN, PriceIn
from app.api.schemas.quantities import money_text
from app.domain.errors import (
    Fault,
    InvalidRequestError,
    InvalidRowsError,
    UnknownFieldError,
    UnsupportedMediaTypeError,
)
from app.domain.prices import Price
from app.domain.spelling import nearest_field
from app.services.uploads.csv_rows import guard_formula

_CSV_EXAMPLE: Final = """\
provider,region,instance_type,gpu_type,gpu_count,price_per_hour,purchase,currency,valid_from,source
aws,us-east-1,p3.16xlarge,V100-16GB,8,19.10,reserved,USD,2026-07-01,our contract of June 2026
"""
_READ_ONLY: Final = ("price_id", "origin", "withdrawn_at")
"""Columns of an export that an upload passes over."""


def read_prices(content_type: str | None, body: bytes, now: datetime) -> list[Price]:
    """Return the prices of an upload.

    Raises
    ------
    UnsupportedMediaTypeError
        If the body is neither JSON nor CSV.
    InvalidRequestError
        If the body as a whole cannot be read.
    UnknownFieldError, InvalidRowsError
        If prices are bad; each row is named.
    """
    media_type = (content_type or JSON).partition(";")[0].strip().casefold()
    if media_type not in {JSON, CSV}:
        raise UnsupportedMediaTypeError(f"Content-Type {content_type!r}"[:100], (JSON, CSV))
    rows = _csv_rows(body) if media_type == CSV else _json_rows(body)
    if len(rows) > MAX_PRICES:
        raise InvalidRequestError(f"There are {len(rows)} prices; at most {MAX_PRICES} at once.")
    return [price.to_domain(now) for price in _check(rows)]


def _check(rows: Sequence[object]) -> list[PriceIn]:
    prices: list[PriceIn] = []
    faults: list[Fault] = []
    unknown: list[Fault] = []
    bad = 0
    for number, row in enumerate(rows, start=1):
        try:
            prices.append(PRICE_IN.validate_python(row))
        except ValidationError as error:
            refusal = refused(error, place="row")
            bad += 1
            named = unknown if isinstance(refusal, UnknownFieldError) else faults
            named += [replace(fault, row=number) for fault in refusal.faults]
    if unknown:
        raise UnknownFieldError(unknown)
    if bad:
        raise InvalidRowsError(faults, bad_rows=bad, total_rows=len(rows))
    return prices


def _json_rows(body: bytes) -> list[object]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise malformed_json(error) from error
    return document if isinstance(document, list) else [document]


def _csv_rows(body: bytes) -> list[object]:
    try:
        text = body.decode("utf-8-sig")
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except UnicodeDecodeError as error:
        raise InvalidRequestError("The file is not UTF-8.") from error
    except csv.Error as error:
        raise InvalidRequestError(f"The file is not valid CSV: {error}.") from error
    filled = [line for line in lines if any(cell.strip() for cell in line)]
    if not filled:
        raise InvalidRequestError("The file has no header line with column names.")
    header, *rows = filled
    names = [name.strip() for name in header]
    _check_header(names)
    uneven = [number for number, row in enumerate(rows, start=1) if len(row) != len(names)]
    if uneven:
        message = f"The header has {len(names)} cells."
        remedy = "Give every row as many cells as the header; quote cells with commas."
        faults = [Fault(message, remedy, row=number) for number in uneven]
        raise InvalidRowsError(faults, bad_rows=len(uneven), total_rows=len(rows))
    return [_filled(zip(names, row, strict=True)) for row in rows]


def _check_header(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in (*PRICE_COLUMNS, *_READ_ONLY)]
    if unknown:
        raise UnknownFieldError([_unknown(name) for name in unknown])
    if len(set(names)) < len(names):
        raise InvalidRequestError("A column comes more than once.")


def _unknown(name: str) -> Fault:
    nearest = nearest_field(name, PRICE_COLUMNS)
    remedy = f"Use {nearest!r}." if nearest else f"Known: {', '.join(PRICE_COLUMNS)}."
    shown = name[:100].encode("utf-8", "backslashreplace").decode()
    return Fault(f"There is no column {shown!r}.", remedy, field=shown)


def _filled(cells: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: cell.strip() for name, cell in cells if cell.strip() and name not in _READ_ONLY}


def price_csv(prices: Iterable[Price]) -> str:
    """Return prices in the form in which they can be uploaded again."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, ["price_id", *PRICE_COLUMNS], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_row(price) for price in prices)
    return buffer.getvalue()


def _row(price: Price) -> dict[str, object]:
    cells: Mapping[str, object] = {
        **{name: getattr(price, name) for name in ("price_id", *PRICE_COLUMNS)},
        "price_per_hour": money_text(price.price_per_hour),
        "valid_from": price.valid_from.astimezone(UTC).isoformat().replace("+00:00", "Z"),
    }
    return {
        name: guard_formula(str(cell)) if isinstance(cell, str) else cell
        for name, cell in cells.items()
    }


def price_body() -> dict[str, Any]:
    """Return the description of an upload's body for the OpenAPI document."""
    schema = inline_schema(PriceIn)
    content = {
        JSON: {
            "schema": {
                "anyOf": [schema, {"type": "array", "maxItems": MAX_PRICES, "items": schema}]
            },
            "example": PRICE_EXAMPLE,
        },
        CSV: {"schema": {"type": "string"}, "example": _CSV_EXAMPLE},
    }
    return {"requestBody": {"required": True, "content": content}}
