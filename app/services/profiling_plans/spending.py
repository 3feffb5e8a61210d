"""The cost of the runs already made on a plan's budget, and what is unknown about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from app.domain.forecasts import ForecastWarning
from app.domain.profiling import MadeRun, ProfilingRequest
from app.domain.wording import say_count
from app.pricing.billing import bill
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook
from app.services.profiling_plans.grounds import are_nodes_open


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of the runs already made, in one currency.

    Attributes
    ----------
    amount, currency
        The sum of the bills; None where no price is known.
    runs, unpriced
        How many were made, and for how many no price is known.
    foreign
        The currency of each price that no exchange rate converts.
    """

    amount: Decimal
    currency: str | None
    runs: int
    unpriced: int
    foreign: tuple[str, ...]

    def warnings(self) -> Iterator[ForecastWarning]:
        """Warn of the runs that the amount leaves out."""
        of_all = f"of {say_count(self.runs, 'run')} made"
        if self.unpriced:
            yield ForecastWarning(
                "price_unknown",
                f"What was spent leaves out {self.unpriced} {of_all}: no price is known for what"
                " they ran on.",
                "Store one with POST /v1/prices, give pricing.price_per_hour, or ask with a smaller"
                " budget.",
            )
        if self.foreign:
            names = ", ".join(sorted(set(self.foreign)))
            yield ForecastWarning(
                "currency_not_converted",
                f"What was spent leaves out {len(self.foreign)} {of_all}: prices are in {names}, no"
                f" exchange rate to {self.currency} is known.",
                "Store one with POST /v1/exchange-rates, or ask with a smaller budget.",
            )


def spending_of(request: ProfilingRequest, book: PriceBook, currency: str | None) -> Spending:
    """Return the cost of the runs already made, in a currency.

    None stands for the currency of their prices. They are priced like the plan's candidates, each
    at the price that held when it started.
    """
    offers = [_offer_of(run, request, book) for run in request.made]
    currency = currency or currency_of(request, offers)
    priced = [
        (offer, run.duration_seconds)
        for offer, run in zip(offers, request.made, strict=True)
        if offer is not None
    ]
    bills = (
        bill(offer, duration_s, duration_s, duration_s).median
        for offer, duration_s in priced
        if offer.price.currency == currency
    )
    return Spending(
        amount=sum(bills, Decimal(0)),
        currency=currency,
        runs=len(offers),
        unpriced=len(offers) - len(priced),
        foreign=tuple(
            offer.price.currency for offer, _ in priced if offer.price.currency != currency
        ),
    )


def _offer_of(run: MadeRun, request: ProfilingRequest, book: PriceBook) -> Offer | None:
    """Return what a run was bought at.

    Where no price is known for its start, or no exchange rate, it is the plan's own.
    """
    as_of = request.pricing.as_of
    fallback: Offer | None = None
    for instant in dict.fromkeys((as_of or run.started_at, as_of)):
        [offer] = book.resolve_all(
            [run.scenario.configuration],
            replace(request.pricing, as_of=instant),
            seconds=[run.duration_seconds],
            nodes_assumed=are_nodes_open(request),
        )
        if offer is not None and offer.is_as_asked:
            return offer
        fallback = fallback or offer
    return fallback


def currency_of(request: ProfilingRequest, offers: Sequence[Offer | None]) -> str | None:
    """Return the requested currency of prices, or another where no price converts to it."""
    currencies = {offer.price.currency for offer in offers if offer is not None}
    requested = request.pricing.currency
    return requested if requested in currencies else min(currencies, default=None)
