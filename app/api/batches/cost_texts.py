"""Writes the costs of many forecasts as JSON: the text that bills share once per offer.

The format is that of `app.api.documents.forecasts.cost_document`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from itertools import compress
from typing import Final, NamedTuple

import numpy as np
import orjson

from app.api.batches.column_texts import (
    Piece,
    decimal_texts,
    filled,
    overwritten,
    parts_around,
    parts_of,
    plain_texts,
)
from app.api.documents.forecasts import Document, cost_document
from app.api.schemas.quantities import number_text
from app.domain.ages import day_of
from app.domain.columns import Repeated
from app.pricing.billing import Bill, bill, is_plain, plain_bills
from app.pricing.offers import Offer
from app.services.answering.columns import AnswerColumns
from app.services.answering.costs import billed

_CACHE_SIZE: Final = 1024
"""Documents with holes that are cached."""

_MIN_ROWS_OF_COLUMNS: Final = 64
"""Fewer bills are computed faster one by one than in arrays."""

_MONEY_HOLES: Final = tuple(f"0.{figure}7{'3' * 38}" for figure in range(1, 6))
"""Placeholders for figures: no amount and no quantity has forty digits."""

_NO_TEXTS: Final = ("", "", "", "")


class _BillTexts(NamedTuple):
    """The figures of bills as texts; undefined in rows where `is_defined` is false."""

    is_defined: Sequence[bool]
    hours: Piece
    median: Piece
    lower: Piece
    upper: Piece


def cost_pieces(columns: AnswerColumns, now: datetime) -> Iterable[Piece]:
    """Return the JSON of costs; bills with more than one item are written row by row."""
    n_rows, offers = len(columns.requests), columns.offers
    texts = _few_bills(columns) if n_rows < _MIN_ROWS_OF_COLUMNS else _many_bills(columns)
    hours, median, day = texts.hours, texts.median, day_of(now)
    undefined: list[int] = []
    defined = set(offers.places)
    if not all(texts.is_defined):
        undefined = [row for row, is_defined in enumerate(texts.is_defined) if not is_defined]
        defined = set(compress(offers.places, texts.is_defined))
    no_parts = [b""] * (len(_MONEY_HOLES) + 1)
    around = [
        no_parts if offer is None or place not in defined else _around_bill(offer, day)
        for place, offer in enumerate(offers.distinct)
    ]
    pieces = filled(
        parts_of(Repeated(around, offers.places)), [median, texts.lower, texts.upper, hours, median]
    )
    others = {row: orjson.dumps(_row_cost(columns, row, now)) for row in undefined}
    return overwritten(pieces, others, n_rows)


def _few_bills(columns: AnswerColumns) -> _BillTexts:
    """Return bills of one item, computed one by one."""
    offers, refusals = columns.offers, columns.refusals
    seconds = list(zip(columns.figures.median, *columns.figures.bounds, strict=True))
    is_defined = [False] * len(seconds)
    texts = [_NO_TEXTS] * len(seconds)
    for place, offer in enumerate(offers.distinct):
        if offer is None or not is_plain(offer):
            continue
        rows = [row for row, offer_place in enumerate(offers.places) if offer_place == place]
        if refusals:
            rows = [row for row in rows if row not in refusals]
        bills = plain_bills(offer, map(seconds.__getitem__, rows))
        for row, (hours, median, lower, upper) in zip(rows, bills, strict=True):
            is_defined[row] = True
            texts[row] = number_text(hours), f"{median:f}", f"{lower:f}", f"{upper:f}"
    text_columns = (list(map(str.encode, column)) for column in zip(*texts, strict=True))
    return _BillTexts(is_defined, *text_columns)


def _many_bills(columns: AnswerColumns) -> _BillTexts:
    """Return bills of one item, computed as columns of integers where these are exact."""
    n_rows, bills = len(columns.requests), columns.bills
    money = (bills.median, bills.lower, bills.upper)
    texts = decimal_texts(
        np.concatenate([amounts.units for amounts in money]),
        np.concatenate([amounts.decimals for amounts in money]),
    )
    shown = (texts[place * n_rows : (place + 1) * n_rows] for place in range(3))
    return _BillTexts(bills.is_exact.tolist(), plain_texts(bills.hours.tolist()), *shown)


def _row_cost(columns: AnswerColumns, row: int, now: datetime) -> Document | None:
    cost = columns.cost_of(row)
    return None if cost is None else cost_document(cost, now)


@lru_cache(maxsize=_CACHE_SIZE)
def _around_bill(offer: Offer, day: datetime) -> Sequence[bytes]:
    """Return the document of a bill of one item, split at its amounts.

    It is the same for a whole day, as are the ages in it.
    """
    median, lower, upper, hours, amount = map(Decimal, _MONEY_HOLES)
    [item] = bill(offer, 1.0, 1.0, 1.0).line_items
    money = Bill(median, lower, upper, (replace(item, quantity=hours, amount=amount),))
    return parts_around(cost_document(billed(offer, money), day), _MONEY_HOLES)
