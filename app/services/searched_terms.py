"""Where and how a search buys hardware: what it names, as far as its pricing allows it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from app.domain.configurations import Configuration, Purchase
from app.domain.errors import Fault, InvalidRequestError
from app.domain.prices import PriceQuery
from app.domain.recommendations import ANYWHERE, Search
from app.pricing.resolution import PriceBook
from app.services.questions import Hardware

Place = tuple[str | None, str | None]
"""A provider and a region."""

Terms = tuple[Place, Purchase | None]
"""Where hardware is bought, and how."""

_Name = TypeVar("_Name", str, Purchase)


@dataclass(frozen=True, slots=True)
class Buying:
    """Where a search buys, each of its lists with None for what is left open.

    Parameters
    ----------
    providers, regions, ways
        What is searched; `ANYWHERE` among the places makes each that sells hardware one.
    pricing, book
        Which prices count, and those that there are.
    is_everywhere
        Whether every place counts all the same.
    """

    providers: Sequence[str | None]
    regions: Sequence[str | None]
    ways: Sequence[Purchase | None]
    pricing: PriceQuery
    book: PriceBook
    is_everywhere: bool = False

    @property
    def fewest(self) -> int:
        """How many terms one piece of hardware has at least."""
        places = 1 if self._is_anywhere else len(self.providers) * len(self.regions)
        return places * len(self.ways)

    def placed(self, hardware: Sequence[Hardware]) -> list[tuple[Hardware, Terms]]:
        """Return hardware with its terms, each once."""
        return [(pair, terms) for pair in hardware for terms in self._terms(pair)]

    @property
    def _is_anywhere(self) -> bool:
        return self.is_everywhere or ANYWHERE in {*self.providers, *self.regions}

    def _terms(self, pair: Hardware) -> list[Terms]:
        """Return where and how to buy hardware; without any place the cheapest will be found."""
        if not self._is_anywhere:
            return list(product(product(self.providers, self.regions), self.ways))
        return self._on_sale(pair) or [((None, None), way) for way in self.ways]

    def _on_sale(self, pair: Hardware) -> list[Terms]:
        """Return where hardware is on sale; a place may sell it in one of the ways alone."""
        return [
            (place, way)
            for way in self.ways
            for place in self.book.places(Configuration(*pair, purchase=way), self.pricing)
            if _is_among(place[0], self.providers) and _is_among(place[1], self.regions)
        ]


def _is_among(name: str | None, wanted: Sequence[str | None]) -> bool:
    folded = {None if each is None else each.casefold() for each in wanted}
    return not folded.isdisjoint({ANYWHERE, None, (name or "").casefold()})


def refuse_beyond(most: int, total: int) -> None:
    """Refuse a search of more configurations than `most`.

    Raises
    ------
    InvalidRequestError
        If it has.
    """
    if total > most:
        raise InvalidRequestError(
            f"The search has {total} configurations; at most {most}.",
            [
                Fault(
                    "The lists multiply, each place of `*` too.",
                    "Shorten them; without places the cheapest counts.",
                    field="search",
                    pointer="/search",
                )
            ],
        )


def narrowed(search: Search, pricing: PriceQuery) -> Search:
    """Return a search with those of its places and purchases that pricing allows.

    Raises
    ------
    InvalidRequestError
        If they have none in common.
    """
    found = replace(
        search,
        providers=_allowed(search.providers, pricing.provider),
        regions=_allowed(search.regions, pricing.region),
        purchase=_allowed(search.purchase, pricing.purchase),
    )
    apart = [
        ("providers", "provider", search.providers, pricing.provider, found.providers),
        ("regions", "region", search.regions, pricing.region, found.regions),
        ("purchase", "purchase", search.purchase, pricing.purchase, found.purchase),
    ]
    faults = [
        fault
        for name, single, searched, priced, common in apart
        if searched and not common
        for fault in _faults_of(name, single, searched, priced)
    ]
    if faults:
        raise InvalidRequestError(faults[0].message, faults)
    return found


def _allowed(searched: tuple[_Name, ...], priced: str | None) -> tuple[_Name, ...]:
    if priced is None or ANYWHERE in searched:
        return searched
    return tuple(each for each in searched if each.casefold() == priced.casefold())


def _faults_of(
    name: str, single: str, searched: Sequence[str], priced: str | None
) -> tuple[Fault, Fault]:
    listed = ", ".join(map(str, searched))
    message = f"search.{name} ({listed}) and pricing.{single} ({priced}) have nothing in common."
    remedy = f"Leave one of them out, or name {priced} in search.{name} too."
    return (
        Fault(message, remedy, f"search.{name}", list(searched), pointer=f"/search/{name}"),
        Fault(message, remedy, f"pricing.{single}", priced, pointer=f"/pricing/{single}"),
    )
