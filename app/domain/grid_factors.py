"""Grid factors: CO2 equivalent of a place's electricity, with dates and sources."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from app.domain.identifiers import GridFactorId


@dataclass(frozen=True, slots=True)
class GridFactor:
    """Kilograms of CO2 equivalent per kilowatt-hour from `valid_from` on.

    Without a provider it applies to all of them, without a region everywhere. `factor_id` is None
    for a row of the built-in table.
    """

    kg_co2e_per_kwh: Decimal
    valid_from: datetime
    source: str
    provider: str | None = None
    region: str | None = None
    factor_id: GridFactorId | None = None
    withdrawn_at: datetime | None = None
