"""An offer: a price with the number of instances that a configuration occupies."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from typing_extensions import override

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
    """What a configuration is charged by.

    Attributes
    ----------
    price, instances
        The price of the instances that host most workers, and their number.
    extras
        What is charged beside them.
    others
        Instances of other sizes beside them; same provider, region, purchase and billing rules.
    conversion, listed_per_hour
        The exchange rate that all prices were multiplied by, and the main price as it is listed;
        None where no rate was needed.
    asked_currency
        The currency that was asked for; None where any would do.
    """

    price: Price
    instances: int
    extras: Extras = NO_EXTRAS
    others: tuple[Lot, ...] = ()
    conversion: Conversion | None = None
    listed_per_hour: Decimal | None = None
    asked_currency: str | None = None

    @override
    def __hash__(self) -> int:
        # Looked up for each answer: of all members these tell most offers apart.
        return hash((self.price.price_per_hour, self.price.instance_type, self.instances))

    @property
    def total_instances(self) -> int:
        """The number of instances of all types."""
        if not self.others:
            return self.instances
        return self.instances + sum(lot.instances for lot in self.others)

    @property
    def machine_per_hour(self) -> Decimal:
        """What an hour of one main instance adds: its price and the fee of the platform."""
        if self.extras is NO_EXTRAS:
            return self.price.price_per_hour
        return self.price.price_per_hour + self.extras.platform_per_instance_hour

    @property
    def per_hour(self) -> Decimal:
        """What one hour of the whole configuration costs, all that is charged by the hour."""
        machines = self.price.price_per_hour * self.instances
        for lot in self.others:
            machines += lot.price.price_per_hour * lot.instances
        if self.extras is NO_EXTRAS:
            return machines
        return machines + self.extras.per_hour(self.total_instances)

    @property
    def is_as_asked(self) -> bool:
        """Whether the price is in the currency that was asked for; no others are compared."""
        return self.asked_currency in {None, self.price.currency}
