"""What is on sale by one kind of purchase, and which of it can host a configuration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from app.domain.configurations import Configuration
from app.pricing.holding import is_stale
from app.pricing.offers import Offer
from app.pricing.shelves import Shelf, cheapest_first, rules_of, shelves_of, undercut_none


@dataclass(frozen=True, slots=True)
class Market:
    """What is on sale by one kind of purchase; `best` suffices where instances are left open."""

    shelves: Sequence[Shelf]
    best: Sequence[Shelf]

    @classmethod
    def of(cls, singles: Iterable[Offer], as_of: datetime) -> "Market":
        """Return the market of some instances; stale ones are on other shelves than fresh ones."""
        offers = list(singles)
        fresh = shelves_of(offer for offer in offers if not is_stale(offer.price, as_of))
        stale = shelves_of(offer for offer in offers if is_stale(offer.price, as_of))
        return cls([*fresh, *stale], [*undercut_none(fresh), *undercut_none(stale)])

    def offers_for(self, configuration: Configuration) -> list[Offer]:
        """Return the offers that host all workers, the cheapest by the hour of each shelf."""
        is_open = configuration.instance_type is None and configuration.nodes is None
        shelves = self.best if is_open else self.shelves
        offers = [shelf.offer_for(configuration) for shelf in shelves]
        return [offer for offer in offers if offer is not None]


class Markets(NamedTuple):
    """The markets of a project's own prices and those of the catalogue, each by preference."""

    own: Sequence[Market]
    listed: Sequence[Market]

    @property
    def n_singles(self) -> int:
        """The number of offers of single instances."""
        return sum(
            len(shelf.singles) for group in self for market in group for shelf in market.shelves
        )


def first_hosting(markets: Markets, configurations: Sequence[Configuration]) -> list[Offer]:
    """Return the offers of the first market that can host the first possible configuration.

    All configurations are tried with a project's own prices before the catalogue.
    """
    for group in markets:
        for configuration in configurations:
            for market in group:
                offers = market.offers_for(configuration)
                if offers:
                    return offers
    return []


def undominated(offers: Sequence[Offer], currency: str | None, as_of: datetime) -> list[Offer]:
    """Return the cheapest offer of each billing rule; the duration decides between these.

    An offer in another currency or with a stale price counts only if there is no better one.
    """
    if len(offers) <= 1:
        return list(offers)

    def flaws(offer: Offer) -> tuple[bool, bool]:
        return offer.price.currency != (currency or offer.price.currency), is_stale(
            offer.price, as_of
        )

    fewest = min(map(flaws, offers))
    cheapest: dict[object, Offer] = {}
    for offer in sorted(
        (candidate for candidate in offers if flaws(candidate) == fewest), key=cheapest_first
    ):
        cheapest.setdefault(rules_of(offer.price), offer)
    return list(cheapest.values())
