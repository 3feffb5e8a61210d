"""Which price a configuration is charged, and on how many instances it runs.

An inline price goes before a project's own price, that before the built-in catalogue. A price
is for one hour of an instance, or of one GPU where it names no instance. An inline price is for
the whole instance where the configuration names an instance type, otherwise for each
worker.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Final

from app.domain.billing import NO_EXTRAS, Extras
from app.domain.configurations import Configuration, Purchase
from app.domain.prices import Price, PriceQuery
from app.pricing.catalogue import built_in_prices
from app.pricing.gpus import variants_of

STALE_AFTER: Final = timedelta(days=180)
"""A price whose date is longer ago is served with its age and a warning."""

INLINE_SOURCE: Final = "inline"
_ANY_PURCHASE: Final = (Purchase.ON_DEMAND, Purchase.RESERVED, Purchase.OWNED)
_MAX_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class Offer:
    """A price with the number of instances that the workers need."""

    price: Price
    instances: int
    extras: Extras = NO_EXTRAS

    @property
    def per_hour(self) -> Decimal:
        """What one hour of the whole configuration costs, all that is charged by the hour."""
        return self.price.price_per_hour * self.instances + self.extras.per_hour(self.instances)


@dataclass(frozen=True, slots=True)
class PriceIndex:
    """Prices by what they are for, names folded."""

    by_instance: Mapping[str, Sequence[Price]]
    by_gpu: Mapping[str, Sequence[Price]]

    @classmethod
    def of(cls, prices: Iterable[Price]) -> "PriceIndex":
        """Return the index of prices."""
        by_instance: defaultdict[str, list[Price]] = defaultdict(list)
        by_gpu: defaultdict[str, list[Price]] = defaultdict(list)
        for price in prices:
            if price.instance_type is not None:
                by_instance[price.instance_type.casefold()].append(price)
            if price.gpu_type is not None:
                by_gpu[price.gpu_type.casefold()].append(price)
        return cls(dict(by_instance), dict(by_gpu))

    def find(self, configuration: Configuration) -> list[Price]:
        """Return the prices of the instance type, or of the GPU where no instance is named."""
        gpus = gpu_names(configuration.gpu_type)
        if configuration.instance_type is None:
            return [price for name in gpus for price in self.by_gpu.get(name, ())]
        found = self.by_instance.get(configuration.instance_type.casefold(), ())
        return [
            price
            for price in found
            if not gpus or price.gpu_type is None or price.gpu_type.casefold() in gpus
        ]


def gpu_names(gpu_type: str | None) -> tuple[str, ...]:
    """Return the folded names under which a GPU may be priced: its own, those of its variants.

    Examples
    --------
    >>> gpu_names("V100")
    ('v100', 'v100-16gb', 'v100-32gb')
    """
    if gpu_type is None:
        return ()
    names = (gpu_type, *variants_of(gpu_type))
    return tuple(dict.fromkeys(name.casefold() for name in names))


@cache
def catalogue_index() -> PriceIndex:
    """Return the index of the built-in catalogue."""
    return PriceIndex.of(built_in_prices())


def gpu_of_instance(instance_type: str) -> set[str]:
    """Return the GPU types that the built-in catalogue knows of an instance type.

    Examples
    --------
    >>> gpu_of_instance("p3.16xlarge"), gpu_of_instance("m5.large")
    ({'V100-16GB'}, set())
    """
    found = catalogue_index().by_instance.get(instance_type.casefold(), ())
    return {price.gpu_type for price in found if price.gpu_type is not None}


def instances_needed(configuration: Configuration, gpu_count: int | None) -> int | None:
    """Return how many instances a configuration occupies, None when the workers do not fit.

    `gpu_count` is None or 0 for an instance of unknown or no GPUs: it hosts one worker, unless
    the configuration says how many nodes there are.
    """
    nodes, workers = configuration.nodes, configuration.workers
    if nodes is None:
        return -(-workers // gpu_count) if gpu_count else workers
    if configuration.instance_type is None and gpu_count and nodes * gpu_count < workers:
        return None
    return nodes


class PriceBook:
    """The prices that hold for a project at an instant.

    Parameters
    ----------
    own
        The project's own prices, withdrawn ones left out.
    now
        The instant that counts where a query names none.
    """

    def __init__(self, own: Sequence[Price], now: datetime) -> None:
        self.own, self.now = tuple(own), now
        self._own_index = PriceIndex.of(own)
        self._remembered: dict[tuple[Configuration, PriceQuery], Offer | None] = {}

    @property
    def changes_at(self) -> datetime | None:
        """When the next own price begins to hold."""
        return min(
            (each.valid_from for each in self.own if each.valid_from > self.now), default=None
        )

    def resolve(self, configuration: Configuration, query: PriceQuery) -> Offer | None:
        """Return the offer that a configuration is charged by, None when no price is known."""
        key = (configuration, query)
        if key not in self._remembered:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            offer = self._resolve(configuration, query)
            self._remembered[key] = None if offer is None else _with_terms(offer, query)
        return self._remembered[key]

    def _resolve(self, configuration: Configuration, query: PriceQuery) -> Offer | None:
        if query.price_per_hour is not None:
            return self._inline(configuration, query, query.price_per_hour)
        for index in (self._own_index, catalogue_index()):
            prices = self._eligible(index.find(configuration), configuration, query)
            for purchase in _purchases(configuration, query):
                bought = [price for price in prices if price.purchase is purchase]
                offer = _cheapest(configuration, bought, query.as_of or self.now)
                if offer is not None:
                    return offer
        return None

    def _inline(
        self, configuration: Configuration, query: PriceQuery, price_per_hour: Decimal
    ) -> Offer:
        # Nodes may have been filled in from the runs: they say nothing about what is priced.
        is_whole = configuration.instance_type is not None
        gpu_count = self._gpu_count(configuration) if is_whole else 1
        price = Price(
            price_per_hour=price_per_hour,
            currency=query.currency or "USD",
            purchase=query.purchase or configuration.purchase or Purchase.ON_DEMAND,
            valid_from=query.as_of or self.now,
            source=INLINE_SOURCE,
            provider=query.provider or configuration.provider,
            region=query.region or configuration.region,
            instance_type=configuration.instance_type,
            gpu_type=configuration.gpu_type,
            gpu_count=gpu_count,
        )
        instances = instances_needed(configuration, gpu_count) if is_whole else None
        return Offer(price, configuration.workers if instances is None else instances)

    def _gpu_count(self, configuration: Configuration) -> int | None:
        for index in (self._own_index, catalogue_index()):
            counts = {price.gpu_count for price in index.find(configuration)} - {None}
            if configuration.instance_type is not None and len(counts) == 1:
                return counts.pop()
        return None

    def _eligible(
        self, prices: Iterable[Price], configuration: Configuration, query: PriceQuery
    ) -> list[Price]:
        """Return the prices that hold, the latest of each offer."""
        provider = query.provider or configuration.provider
        region = query.region or configuration.region
        as_of = query.as_of or self.now
        latest: dict[tuple[object, ...], Price] = {}
        for price in prices:
            if price.valid_from > as_of:
                continue
            if not (_agrees(price.provider, provider) and _agrees(price.region, region)):
                continue
            key = (
                price.provider,
                price.region,
                price.instance_type,
                price.gpu_type,
                price.gpu_count,
                price.purchase,
                price.currency,
            )
            if key not in latest or latest[key].valid_from <= price.valid_from:
                latest[key] = price
        return list(latest.values())


def _with_terms(offer: Offer, query: PriceQuery) -> Offer:
    """Return the offer with the billing rules and further charges of the question."""
    minimum_s, step_s = query.minimum_billed_s, query.billing_step_s
    price = offer.price
    if minimum_s is not None:
        price = replace(price, minimum_billed_s=minimum_s)
    if step_s is not None:
        price = replace(price, billing_step_s=step_s)
    return Offer(price, offer.instances, query.extras)


def is_in_currency(query: PriceQuery, offer: Offer) -> bool:
    """Whether an offer is in the currency that was asked for; amounts of two never compare."""
    return query.currency is None or query.currency == offer.price.currency


def is_stale(price: Price, as_of: datetime) -> bool:
    """Whether a price is so old that it comes with a warning."""
    return as_of - price.valid_from > STALE_AFTER


def _agrees(offered: str | None, asked: str | None) -> bool:
    return offered is None or asked is None or offered.casefold() == asked.casefold()


def _purchases(configuration: Configuration, query: PriceQuery) -> tuple[Purchase, ...]:
    asked = query.purchase or configuration.purchase
    return _ANY_PURCHASE if asked is None else (asked,)


def _cheapest(
    configuration: Configuration, prices: Iterable[Price], as_of: datetime
) -> Offer | None:
    """Return the cheapest offer; a stale one only where there is no other."""
    offers = []
    for price in prices:
        gpu_count = price.gpu_count
        if price.instance_type is None and gpu_count is None:
            gpu_count = 1
        instances = _instances(configuration, price, gpu_count)
        if instances is not None:
            offers.append(Offer(price, instances))
    if not offers:
        return None
    return min(
        offers,
        key=lambda offer: (is_stale(offer.price, as_of), offer.per_hour, offer.instances),
    )


def _instances(configuration: Configuration, price: Price, gpu_count: int | None) -> int | None:
    if price.instance_type is None and gpu_count:
        # A price of GPUs, not of machines: what counts is how many GPUs the workers use.
        return -(-configuration.workers // gpu_count)
    return instances_needed(configuration, gpu_count)
