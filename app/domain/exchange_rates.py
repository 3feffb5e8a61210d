"""Exchange rates with dates and sources, and the conversion that was applied to a price."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from app.domain.identifiers import ExchangeRateId


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
