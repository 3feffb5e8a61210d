"""Requests and responses about grid factors."""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import BodyReadByHand, PageQuery, ResponseModel
from app.api.schemas.forecasts import Name
from app.api.schemas.instants import Instant
from app.api.schemas.quantities import UNSIGNED, number_text
from app.api.schemas.texts import Printable
from app.domain.grid_factors import GridFactor
from app.domain.pages import Page

FACTOR_EXAMPLE: dict[str, Any] = {
    "provider": "aws",
    "region": "eu-central-1",
    "kg_co2e_per_kwh": "0.38",
    "valid_from": "2026-01-01T00:00:00Z",
    "source": "our energy report of 2025",
}
FACTORS_CSV = """\
provider,region,kg_co2e_per_kwh,valid_from,source
aws,eu-central-1,0.38,2026-01-01,our energy report of 2025
lab,,0.05,2026-01-01,contract with the utility
"""


class GridFactorIn(BodyReadByHand):
    """A grid factor: kilograms of CO2-equivalent per kilowatt-hour in a provider's region."""

    kg_co2e_per_kwh: Annotated[
        Decimal,
        Field(ge=0, lt=100, max_digits=12, description="0 where it is free of carbon"),
        UNSIGNED,
    ]
    provider: Annotated[Name | None, Field(description="absent: for every provider")] = None
    region: Annotated[Name | None, Field(description="absent: for every region")] = None
    valid_from: Annotated[Instant | None, Field(description="default: now")] = None
    source: Annotated[Printable, Field(min_length=1, max_length=500)] = "own"

    def to_domain(self, now: datetime) -> GridFactor:
        """Return the factor."""
        return GridFactor(
            self.kg_co2e_per_kwh,
            self.valid_from or now,
            self.source,
            self.provider,
            self.region,
        )


class GridFactorOut(ResponseModel):
    """A grid factor; `factor_id` is null for built-in ones."""

    factor_id: str | None
    provider: str | None
    region: str | None
    kg_co2e_per_kwh: str
    valid_from: datetime
    source: str

    @classmethod
    def of(cls, factor: GridFactor) -> "GridFactorOut":
        """Return the schema of a factor."""
        return cls(
            factor_id=factor.factor_id,
            provider=factor.provider,
            region=factor.region,
            kg_co2e_per_kwh=number_text(factor.kg_co2e_per_kwh),
            valid_from=factor.valid_from,
            source=factor.source,
        )


class GridFactorsOut(ResponseModel):
    """A page of grid factors."""

    grid_factors: list[GridFactorOut]
    next_page_token: str | None

    @classmethod
    def of(cls, page: Page[GridFactor]) -> "GridFactorsOut":
        """Return the schema of a page."""
        return cls(
            grid_factors=[GridFactorOut.of(factor) for factor in page.items],
            next_page_token=page.next_key,
        )


class CreatedGridFactorsOut(ResponseModel):
    """The stored grid factors, in the order of the request."""

    created: int
    grid_factors: list[GridFactorOut]


class FactorOrigin(StrEnum):
    """Where a grid factor comes from."""

    OWN = "own"
    BUILT_IN = "built_in"


class GridFactorsQuery(PageQuery):
    """Which grid factors a list shows."""

    origin: Annotated[
        FactorOrigin, Field(description="own: the project's; built_in: those of the service")
    ] = FactorOrigin.OWN
