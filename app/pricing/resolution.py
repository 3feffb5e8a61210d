"""Which price a configuration is charged, and on how many instances it runs.

An inline price goes before a project's own price, that before the built-in catalogue. A price
is for one hour of an instance, or of one GPU where it names no instance. An inline price is for
the whole instance where the configuration names an instance type, otherwise for each
worker.
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
_MAX_REMEMBERED: Final = 8192
_EXACT: Final = Context(prec=80)
_Question = tuple[Configuration, PriceQuery, str | None]
_Rivals = dict[Configuration, tuple[Offer, ...]]


@dataclass(frozen=True, slots=True)
class PricingFacts:
    """What a project stored about money and carbon, withdrawn facts left out."""

    prices: tuple[Price, ...] = ()
    rates: tuple[ExchangeRate, ...] = ()
    factors: tuple[GridFactor, ...] = ()

    @property
    def dates(self) -> tuple[datetime, ...]:
        """From when on each of them holds."""
        return (
            *(price.valid_from for price in self.prices),
            *(rate.valid_from for rate in self.rates),
            *(factor.valid_from for factor in self.factors),
        )


class _Wanted(NamedTuple):
    """What decides on the offers of a configuration."""

    query: PriceQuery
    currency: str | None
    nodes_assumed: bool


class PriceBook:
    """The prices and exchange rates that hold for a project at an instant.

    Parameters
    ----------
    own
        The project's own prices, withdrawn ones left out.
    now
        The instant that counts where a query names none.
    rates, factors
        The project's exchange rates and grid factors, withdrawn ones left out.
    """

    def __init__(
        self,
        own: Sequence[Price],
        now: datetime,
        rates: Sequence[ExchangeRate] = (),
        factors: Sequence[GridFactor] = (),
    ) -> None:
        self.now = now
        self.facts = PricingFacts(tuple(own), tuple(rates), tuple(factors))
        self.grid = GridBook(factors)
        self._own_index = PriceIndex.of(own)
        self._rates = RateBook(rates)
        self._remembered: dict[_Wanted, _Rivals] = {}
        self._markets: dict[_Question, Markets] = {}

    @classmethod
    def of(cls, facts: PricingFacts, now: datetime) -> "PriceBook":
        """Return the book of what a project stored."""
        return cls(facts.prices, now, facts.rates, facts.factors)

    @property
    def changes_at(self) -> datetime | None:
        """When the next of the facts begins to hold."""
        return min((date for date in self.facts.dates if date > self.now), default=None)

    def resolve(
        self,
        configuration: Configuration,
        query: PriceQuery,
        *,
        currency: str | None = None,
        seconds: float | None = None,
    ) -> Offer | None:
        """Return the offer that a configuration is charged by, None when no price is known.

        Of several the one whose bill is smallest, all rules of billing applied.

        Parameters
        ----------
        configuration, query
            What is to be bought, and which prices count.
        currency
            The currency to answer in where the query names none.
        seconds
            How long the job lasts; None compares what an hour costs.
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
        """Return the offers of many configurations, as `resolve` does each.

        `nodes_assumed` says that the questions left their nodes open and they were filled in:
        where no machine of the project's own has room for so many workers, its others count
        before the catalogue does, and where none on sale has, those of other sizes.
        """
        wanted = _Wanted(query, query.currency or currency, nodes_assumed)
        known = self._remembered.setdefault(wanted, {})
        # Most callers have one object for equal configurations, which is told sooner.
        asked = Repeated.of(configurations)
        rivals = asked.made(lambda each: self._rivals(known, each, wanted))
        if seconds is None or all(len(each) < 2 for each in rivals.distinct):  # noqa: PLR2004 - several
            return rivals.made(lambda each: each[0] if each else None)
        pairs = zip(rivals, seconds, strict=True)
        return Repeated.of(
            [
                _cheapest(each, duration) if len(each) > 1 else (each[0] if each else None)
                for each, duration in pairs
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

    def _rivals(
        self, known: _Rivals, configuration: Configuration, wanted: _Wanted
    ) -> tuple[Offer, ...]:
        """Return the offers of which the duration decides which is cheapest, by their hour."""
        rivals = known.get(configuration)
        if rivals is None:
            rivals = self._remember(known, configuration, wanted)
        return rivals

    def _remember(
        self, known: _Rivals, configuration: Configuration, wanted: _Wanted
    ) -> tuple[Offer, ...]:
        """Look up what `_rivals` returns; what is remembered is bounded."""
        if sum(map(len, self._remembered.values())) >= _MAX_REMEMBERED:
            self._remembered.clear()
            known.clear()
            self._remembered[wanted] = known
        offers = self._offers(configuration, wanted)
        known[configuration] = tuple(
            replace(offer, asked_currency=wanted.currency) for offer in offers
        )
        return known[configuration]

    def _offers(self, configuration: Configuration, wanted: _Wanted) -> list[Offer]:
        query, currency, nodes_assumed = wanted
        if query.is_inline:
            return [self._inline(configuration, query, currency)]
        asked = [configuration]
        if nodes_assumed and configuration.nodes is not None:
            asked.append(replace(configuration, nodes=None))
        offers = first_hosting(self._markets_of(configuration, query, currency), asked)
        return undominated(offers, currency, query.as_of or self.now)

    def _markets_of(
        self, configuration: Configuration, query: PriceQuery, currency: str | None
    ) -> Markets:
        """Return what is on sale; on-demand prices go before reserved ones."""
        anyone = replace(configuration, workers=1, nodes=None)
        key = (anyone, query, currency)
        if key not in self._markets:
            if len(self._markets) >= _MAX_REMEMBERED:
                self._markets.clear()
            own, listed = (
                self._opened(index, configuration, query, currency) for index in self._indices
            )
            self._markets[key] = Markets(own, listed)
        return self._markets[key]

    def _opened(
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
                    self._single(price, query, currency)
                    for price in prices
                    if price.purchase is purchase
                ),
                query.as_of or self.now,
            )
            for purchase in _purchases(configuration, query)
        ]

    def _single(self, price: Price, query: PriceQuery, currency: str | None) -> Offer:
        """Return one instance as the question pays for it."""
        offer = self._converted(_with_rules(price, query), currency, query.as_of or self.now)
        return replace(offer, extras=_extras_of(query))

    def _converted(self, price: Price, currency: str | None, as_of: datetime) -> Offer:
        """Return one instance in the wanted currency, in its own where no rate holds."""
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

    def _inline(
        self, configuration: Configuration, query: PriceQuery, currency: str | None
    ) -> Offer:
        # Nodes may have been filled in from the runs: they say nothing about what is priced.
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
        """Return how many GPUs its instance type has, None where no price or several tell."""
        if configuration.instance_type is None:
            return None
        for index in self._indices:
            counts = {price.gpu_count for price in self._held(index, configuration)} - {None}
            if len(counts) == 1:
                return counts.pop()
        return None

    def gpu_types_of(self, instance_type: str) -> set[str]:
        """Return the GPU types of an instance type; a project's own prices know its machines."""
        machine = Configuration(instance_type=instance_type)
        for index in self._indices:
            held = self._held(index, machine)
            types = {price.gpu_type for price in held if price.gpu_type is not None}
            if types:
                return types
        return set()

    @property
    def _indices(self) -> tuple[PriceIndex, PriceIndex]:
        """The project's own prices, which go before the catalogue."""
        return self._own_index, catalogue_index()

    def _held(self, index: PriceIndex, configuration: Configuration) -> list[Price]:
        """Return the prices that hold now, where there is none those that will."""
        found = index.find(configuration)
        return latest_of(found, self.now) or found

    def _eligible(
        self, prices: Iterable[Price], configuration: Configuration, query: PriceQuery
    ) -> list[Price]:
        """Return the prices that hold where the question buys."""
        provider = query.provider or configuration.provider
        region = query.region or configuration.region
        agreed = (
            price
            for price in prices
            if agrees(price.provider, provider) and agrees(price.region, region)
        )
        return latest_of(agreed, query.as_of or self.now)


def _cheapest(rivals: Sequence[Offer], seconds: float) -> Offer:
    """Return the offer whose bill of a duration is smallest."""
    return min(
        rivals, key=lambda offer: (exact_cost(offer, seconds), offer.per_hour, offer.instances)
    )


def _extras_of(query: PriceQuery) -> Extras:
    """Return what is charged beside the instances.

    The same object where that is nothing: an hour's cost is then the machines' alone.
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


def agrees(offered: str | None, asked: str | None) -> bool:
    """Whether a price is of a provider or a region that is asked for; None is of any."""
    return offered is None or asked is None or offered.casefold() == asked.casefold()


def _purchases(configuration: Configuration, query: PriceQuery) -> tuple[Purchase, ...]:
    asked = query.purchase_of(configuration)
    return _ANY_PURCHASE if asked is None else (asked,)
