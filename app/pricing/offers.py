"""An offer: a price with the number of instances that a configuration occupies."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from app.domain.billing import NO_EXTRAS, Extras
from app.domain.exchange_rates import Conversion
from app.domain.prices import Price

INLINE_SOURCE: Final = "inline"


@dataclass(frozen=True, slots=True)
class Lot:
    """Instances of one type."""

    price: Price
    instances: int


@dataclass(frozen=True, slots=True)
class Offer:
    """The terms on which a configuration is charged.

    Attributes
    ----------
    price, instances
        The price of the instances that host most workers, and their number.
    extras
        Further charges.
    others
        Further instances of other sizes; same provider, region, purchase, listed currency and
        billing rules.
    conversion, listed_per_hour
        The exchange rate by which all prices were multiplied, and the main price as listed; None
        where no rate was needed.
    asked_currency
        The requested currency; None if any will do.
    """

    price: Price
    instances: int
    extras: Extras = NO_EXTRAS
    others: tuple[Lot, ...] = ()
    conversion: Conversion | None = None
    listed_per_hour: Decimal | None = None
    asked_currency: str | None = None

    @property
    def total_instances(self) -> int:
        """The number of instances of all types."""
        if not self.others:
            return self.instances
        return self.instances + sum(lot.instances for lot in self.others)

    @property
    def machine_per_hour(self) -> Decimal:
        """The cost of an hour of one main instance: its price and the fee of the platform."""
        if self.extras is NO_EXTRAS:
            return self.price.price_per_hour
        return self.price.price_per_hour + self.extras.platform_per_instance_hour

    @property
    def per_hour(self) -> Decimal:
        """The cost of one hour of the whole configuration, with all hourly charges."""
        machines = self.price.price_per_hour * self.instances
        for lot in self.others:
            machines += lot.price.price_per_hour * lot.instances
        if self.extras is NO_EXTRAS:
            return machines
        return machines + self.extras.per_hour(self.total_instances)

    @property
    def listed_currency(self) -> str:
        """The currency of the prices as they are listed."""
        return self.price.currency if self.conversion is None else self.conversion.from_currency

    @property
    def is_as_asked(self) -> bool:
        """Whether the price is in the requested currency; no others are compared."""
        return self.asked_currency is None or self.asked_currency == self.price.currency
