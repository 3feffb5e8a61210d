"""Currencies, their exchange rates with dates and sources, and the conversion of a price."""

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from app.domain.identifiers import ExchangeRateId

CURRENCY_PATTERN: Final = "^[A-Za-z]{3}$"
NO_CURRENCY: Final = "It is not a currency."
CURRENCY_REMEDY: Final = "Send an ISO 4217 code such as USD."
_CODE: Final = re.compile("[A-Za-z]{3}")


def currency_code(text: str) -> str | None:
    """Return an ISO 4217 code in capitals, None where the text is none.

    Examples
    --------
    >>> currency_code("EUR"), currency_code("usd"), currency_code("euro")
    ('EUR', 'USD', None)
    """
    return text.upper() if _CODE.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class ExchangeRate:
    """How many units of `to_currency` one unit of `from_currency` buys from `valid_from` on."""

    from_currency: str
    to_currency: str
    rate: Decimal
    valid_from: datetime
    source: str
    rate_id: ExchangeRateId | None = None
    withdrawn_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Conversion:
    """A rate that was applied: as stored, inverted, or by way of a third currency.

    `valid_from` is the date of its oldest part; `source` names all of them.
    """

    from_currency: str
    to_currency: str
    rate: Decimal
    valid_from: datetime
    source: str
