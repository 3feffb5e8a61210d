"""Prices: dated, sourced, per hour of one instance (or of one GPU where there is no instance)."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from app.domain.billing import NO_EXTRAS, Extras, Serverless
from app.domain.configurations import Configuration, Purchase
from app.domain.identifiers import PriceId


class PriceOrigin(StrEnum):
    """Where a price comes from."""

    OWN = "own"
    CATALOGUE = "catalogue"


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one hour of an instance with `gpu_count` GPUs from `valid_from` on.

    `price_id` is None for a row of the built-in catalogue. A duration is billed for at least
    `minimum_billed_s` seconds and rounded up to a multiple of `billing_step_s`; None if it is
    billed as it is. A `serverless` price is for one worker and billed by its own terms, in addition
    to these rules.
    """

    price_per_hour: Decimal
    currency: str
    purchase: Purchase
    valid_from: datetime
    source: str
    provider: str | None = None
    region: str | None = None
    instance_type: str | None = None
    gpu_type: str | None = None
    gpu_count: int | None = None
    price_id: PriceId | None = None
    withdrawn_at: datetime | None = None
    minimum_billed_s: int | None = None
    billing_step_s: int | None = None
    serverless: Serverless | None = None

    @property
    def origin(self) -> PriceOrigin:
        """The project or the built-in catalogue, whose prices have no identifier."""
        return PriceOrigin.CATALOGUE if self.price_id is None else PriceOrigin.OWN

    @property
    def place(self) -> tuple[str, str]:
        """Provider and region, case-folded, so that case does not matter; "" for any."""
        return _folded(self.provider), _folded(self.region)

    @property
    def hardware(self) -> tuple[str, str]:
        """Instance type and GPU, case-folded like the place."""
        return _folded(self.instance_type), _folded(self.gpu_type)


def _folded(name: str | None) -> str:
    return (name or "").casefold()


@dataclass(frozen=True, slots=True)
class PriceQuery:
    """Which price a caller wants: `price_per_hour` is an inline price and overrides all others.

    Billing rules, where given, override those of the price; `extras` are added to it, in the
    currency of the answer, which is `currency`. `serverless` is an inline price too.
    """

    provider: str | None = None
    region: str | None = None
    purchase: Purchase | None = None
    price_per_hour: Decimal | None = None
    currency: str | None = None
    as_of: datetime | None = None
    minimum_billed_s: int | None = None
    billing_step_s: int | None = None
    extras: Extras = NO_EXTRAS
    serverless: Serverless | None = None

    @property
    def is_inline(self) -> bool:
        """Whether the query itself contains the price."""
        return self.price_per_hour is not None or self.serverless is not None

    def purchase_of(self, configuration: Configuration) -> Purchase | None:
        """Return how a configuration is bought: the query's purchase overrides its own."""
        return self.purchase or configuration.purchase


ANY_PRICE = PriceQuery()
"""Any price will do."""


@dataclass(frozen=True, slots=True)
class PriceFilter:
    """Which prices a list shows; `as_of` excludes those that become valid later."""

    provider: str | None = None
    region: str | None = None
    gpu_type: str | None = None
    instance_type: str | None = None
    purchase: Purchase | None = None
    as_of: datetime | None = None
    origin: PriceOrigin | None = None
    include_withdrawn: bool = False
