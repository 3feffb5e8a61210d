"""Which price a configuration is charged, and on how many instances it runs.

An inline price takes precedence over a project's own price, and that over the built-in catalogue. A
price is for one hour of an instance, or of one GPU if it names no instance. An inline price is for
the whole instance if the configuration names an instance type, otherwise for each worker.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Context
from typing import Final, NamedTuple

from app.domain.ages import day_of
from app.domain.billing import NO_EXTRAS, Extras
from app.domain.columns import Repeated
from app.domain.configurations import Configuration, Purchase
from app.domain.exchange_rates import ExchangeRate
from app.domain.grid_factors import GridFactor
from app.domain.prices import Price, PriceQuery
from app.pricing.billing import exact_cost
from app.pricing.currencies import RateBook
from app.pricing.grid import GridBook
from app.pricing.holding import latest_of
from app.pricing.markets import Market, Markets, first_hosting, undominated
from app.pricing.offers import INLINE_SOURCE, Offer
from app.pricing.price_index import PriceIndex, catalogue_index
from app.pricing.shelves import instances_needed

_ANY_PURCHASE: Final = (Purchase.ON_DEMAND, Purchase.RESERVED, Purchase.OWNED)
_MAX_CACHED: Final = 8192
_MAX_SINGLES: Final = 65_536
"""The most offers of single instances in the markets that are cached: some 25 MB."""

_EXACT: Final = Context(prec=80)
_MarketKey = tuple[Configuration, PriceQuery, str | None]
_Candidates = dict[Configuration, tuple[Offer, ...]]


@dataclass(frozen=True, slots=True)
class PricingFacts:
    """What a project stored about money and carbon, without withdrawn facts."""

    prices: tuple[Price, ...] = ()
    rates: tuple[ExchangeRate, ...] = ()
    factors: tuple[GridFactor, ...] = ()

    @property
    def dates(self) -> tuple[datetime, ...]:
        """The instants from which each of them is valid."""
        return (
            *(price.valid_from for price in self.prices),
            *(rate.valid_from for rate in self.rates),
            *(factor.valid_from for factor in self.factors),
        )


class _OfferKey(NamedTuple):
    """What determines the offers of a configuration."""

    query: PriceQuery
    currency: str | None
    nodes_assumed: bool


class PriceBook:
    """The prices and exchange rates that are valid for a project at an instant.

    Parameters
    ----------
    facts
        What the project stored.
    now
        The instant that counts if a query names none.
    """

    def __init__(self, facts: PricingFacts, now: datetime) -> None:
        self.facts, self.now = facts, now
        self.grid = GridBook(facts.factors)
        self._own_index = PriceIndex.of(facts.prices)
        self._rates = RateBook(facts.rates)
        self._cache: dict[_OfferKey, _Candidates] = {}
        self._markets: dict[_MarketKey, Markets] = {}
        self._n_cached = self._n_singles = 0

    @property
    def changes_at(self) -> datetime | None:
        """The instant at which the next fact becomes valid, None if there is none."""
        return min((date for date in self.facts.dates if date > self.now), default=None)

    def resolve(
        self,
        configuration: Configuration,
        query: PriceQuery,
        *,
        currency: str | None = None,
        seconds: float | None = None,
    ) -> Offer | None:
        """Return the offer for a configuration, None if no price is known.

        Of several offers, it is the one with the smallest bill under its billing rules.

        Parameters
        ----------
        configuration, query
            What is bought, and which prices count.
        currency
            The currency of the answer if the query names none.
        seconds
            Duration of the job; None compares the costs of an hour.
        """
        durations = None if seconds is None else [seconds]
        return self.resolve_all([configuration], query, currency=currency, seconds=durations)[0]

    def resolve_all(
        self,
        configurations: Sequence[Configuration],
        query: PriceQuery,
        *,
        currency: str | None = None,
        seconds: Sequence[float] | None = None,
        nodes_assumed: bool = False,
    ) -> Repeated[Offer | None]:
        """Return the offers for many configurations, each as by `resolve`.

        `nodes_assumed` says that the nodes were not given but filled in. If none of the project's
        own machines has room for that many workers per node, they count with any number of nodes
        before the catalogue does, and likewise the catalogue's machines if none of them has.
        """
        key = _OfferKey(query, query.currency or currency, nodes_assumed)
        cache = self._cache.get(key, {})
        # Most callers use one object for equal configurations, which is faster to recognise.
        repeated = Repeated.of(configurations)
        candidates = repeated.made(lambda item: self._candidates(cache, item, key))
        if seconds is None or all(len(item) < 2 for item in candidates.distinct):  # noqa: PLR2004 - several
            return candidates.made(lambda item: item[0] if item else None)
        pairs = zip(candidates, seconds, strict=True)
        return Repeated.of(
            [
                _cheapest(item, duration) if len(item) > 1 else (item[0] if item else None)
                for item, duration in pairs
            ]
        )

    def places(
        self, configuration: Configuration, query: PriceQuery
    ) -> list[tuple[str | None, str | None]]:
        """Return the providers and regions where hardware is on sale, sorted by name."""
        found = {
            offer.price.place: (offer.price.provider, offer.price.region)
            for markets in self._markets_of(configuration, query, query.currency)
            for market in markets
            for shelf in market.shelves
            for offer in shelf.singles
        }
        return [found[place] for place in sorted(found)]

    def _candidates(
        self, cache: _Candidates, configuration: Configuration, key: _OfferKey
    ) -> tuple[Offer, ...]:
        """Return the offers between which the duration decides, by the cost of an hour."""
        candidates = cache.get(configuration)
        if candidates is None:
            candidates = self._cache_candidates(cache, configuration, key)
        return candidates

    def _cache_candidates(
        self, cache: _Candidates, configuration: Configuration, key: _OfferKey
    ) -> tuple[Offer, ...]:
        """Compute and cache what `_candidates` returns; the cache is bounded."""
        if self._n_cached >= _MAX_CACHED:
            self._n_cached = 0
            self._cache.clear()
            cache.clear()
        self._n_cached += 1
        self._cache[key] = cache
        offers = self._offers(configuration, key)
        candidates = tuple(replace(offer, asked_currency=key.currency) for offer in offers)
        cache[configuration] = candidates
        return candidates

    def _offers(self, configuration: Configuration, key: _OfferKey) -> list[Offer]:
        query, currency, nodes_assumed = key
        if query.is_inline:
            return [self._inline_offer(configuration, query, currency)]
        configurations = [configuration]
        if nodes_assumed and configuration.nodes is not None:
            configurations.append(replace(configuration, nodes=None))
        offers = first_hosting(self._markets_of(configuration, query, currency), configurations)
        return undominated(offers, currency, query.as_of or self.now)

    def _markets_of(
        self, configuration: Configuration, query: PriceQuery, currency: str | None
    ) -> Markets:
        """Return what is on sale; on-demand prices take precedence over reserved ones."""
        single_worker = replace(configuration, workers=1, nodes=None)
        key = (single_worker, query, currency)
        markets = self._markets.get(key)
        if markets is None:
            own, listed = (
                self._open_markets(index, configuration, query, currency) for index in self._indices
            )
            markets = Markets(own, listed)
            self._n_singles += markets.n_singles
            if len(self._markets) >= _MAX_CACHED or self._n_singles > _MAX_SINGLES:
                self._n_singles = markets.n_singles
                self._markets.clear()
            self._markets[key] = markets
        return markets

    def _open_markets(
        self,
        index: PriceIndex,
        configuration: Configuration,
        query: PriceQuery,
        currency: str | None,
    ) -> list[Market]:
        prices = self._eligible(index.find(configuration), configuration, query)
        return [
            Market.of(
                (
                    self._single_instance(price, query, currency)
                    for price in prices
                    if price.purchase is purchase
                ),
                query.as_of or self.now,
            )
            for purchase in _purchases(configuration, query)
        ]

    def _single_instance(self, price: Price, query: PriceQuery, currency: str | None) -> Offer:
        """Return one instance on the terms of the question."""
        offer = self._converted(_with_rules(price, query), currency, query.as_of or self.now)
        return replace(offer, extras=_extras_of(query))

    def _converted(self, price: Price, currency: str | None, as_of: datetime) -> Offer:
        """Return one instance in the wanted currency, or in its own if no rate is known."""
        if currency is None or currency == price.currency:
            return Offer(price, 1)
        rate = self._rates.conversion(price.currency, currency, as_of)
        if rate is None:
            return Offer(price, 1)
        per_hour = _EXACT.multiply(price.price_per_hour, rate.rate)
        terms = price.serverless
        if terms is not None:
            terms = replace(
                terms,
                per_gb_second=_EXACT.multiply(terms.per_gb_second, rate.rate),
                per_call=_EXACT.multiply(terms.per_call, rate.rate),
            )
        converted = replace(price, price_per_hour=per_hour, currency=currency, serverless=terms)
        return Offer(converted, 1, conversion=rate, listed_per_hour=price.price_per_hour)

    def _inline_offer(
        self, configuration: Configuration, query: PriceQuery, currency: str | None
    ) -> Offer:
        # Nodes may have been filled in from the runs, so they say nothing about what is priced.
        terms = query.serverless
        is_whole = configuration.instance_type is not None and terms is None
        gpu_count = self.gpus_of(configuration) if is_whole else 1
        price_per_hour = query.price_per_hour if terms is None else terms.per_hour
        assert price_per_hour is not None
        price = Price(
            price_per_hour=price_per_hour,
            currency=currency or "USD",
            purchase=query.purchase_of(configuration) or Purchase.ON_DEMAND,
            valid_from=query.as_of or day_of(self.now),
            source=INLINE_SOURCE,
            provider=query.provider or configuration.provider,
            region=query.region or configuration.region,
            instance_type=configuration.instance_type,
            gpu_type=configuration.gpu_type,
            gpu_count=gpu_count,
            serverless=terms,
        )
        instances = instances_needed(configuration, gpu_count) if is_whole else None
        count = configuration.workers if instances is None else instances
        return Offer(_with_rules(price, query), count, extras=_extras_of(query))

    def gpus_of(self, configuration: Configuration) -> int | None:
        """Return the number of GPUs of its instance type, None if prices give none or several."""
        if configuration.instance_type is None:
            return None
        for index in self._indices:
            counts = {price.gpu_count for price in self._valid_or_all(index, configuration)} - {
                None
            }
            if len(counts) == 1:
                return counts.pop()
        return None

    def gpu_types_of(self, instance_type: str) -> set[str]:
        """Return the GPU types of an instance type, from a project's own prices if they tell."""
        machine = Configuration(instance_type=instance_type)
        for index in self._indices:
            prices = self._valid_or_all(index, machine)
            types = {price.gpu_type for price in prices if price.gpu_type is not None}
            if types:
                return types
        return set()

    @property
    def _indices(self) -> tuple[PriceIndex, PriceIndex]:
        """The project's own prices, which take precedence, and the catalogue."""
        return self._own_index, catalogue_index()

    def _valid_or_all(self, index: PriceIndex, configuration: Configuration) -> list[Price]:
        """Return the prices that are valid now, or if there are none, all that are known."""
        prices = index.find(configuration)
        return latest_of(prices, self.now) or prices

    def _eligible(
        self, prices: Iterable[Price], configuration: Configuration, query: PriceQuery
    ) -> list[Price]:
        """Return the prices that are valid where the question buys."""
        provider = query.provider or configuration.provider
        region = query.region or configuration.region
        matching = (
            price
            for price in prices
            if agrees(price.provider, provider) and agrees(price.region, region)
        )
        return latest_of(matching, query.as_of or self.now)


def _cheapest(candidates: Sequence[Offer], seconds: float) -> Offer:
    """Return the offer with the smallest bill for a duration."""
    return min(
        candidates, key=lambda offer: (exact_cost(offer, seconds), offer.per_hour, offer.instances)
    )


def _extras_of(query: PriceQuery) -> Extras:
    """Return the charges besides the instances.

    If there are none, it is always the same object, which marks an hour's cost as that of the
    machines alone.
    """
    return NO_EXTRAS if query.extras == NO_EXTRAS else query.extras


def _with_rules(price: Price, query: PriceQuery) -> Price:
    """Return the price with the billing rules of the question."""
    minimum_s, step_s = query.minimum_billed_s, query.billing_step_s
    if minimum_s is not None:
        price = replace(price, minimum_billed_s=minimum_s)
    if step_s is not None:
        price = replace(price, billing_step_s=step_s)
    return price


def agrees(offered: str | None, requested: str | None) -> bool:
    """Return whether a price is of the requested provider or region; None matches any."""
    return offered is None or requested is None or offered.casefold() == requested.casefold()


def _purchases(configuration: Configuration, query: PriceQuery) -> tuple[Purchase, ...]:
    purchase = query.purchase_of(configuration)
    return _ANY_PURCHASE if purchase is None else (purchase,)
