"""Where and how a search buys hardware: what it names, within the limits of its pricing."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from app.domain.configurations import Configuration, Purchase
from app.domain.errors import Fault, InvalidRequestError
from app.domain.prices import PriceQuery
from app.domain.recommendations import ANYWHERE, Search
from app.pricing.resolution import PriceBook, agrees
from app.services.tables.implied_gpus import Hardware

Place = tuple[str | None, str | None]
"""A provider and a region."""

Terms = tuple[Place, Purchase | None]
"""Where hardware is bought, and how."""

_Name = TypeVar("_Name", str, Purchase)


@dataclass(frozen=True, slots=True)
class Buying:
    """Where a search buys; each of its lists holds None for what is left open.

    Parameters
    ----------
    providers, regions, ways
        What is searched; `ANYWHERE` stands for every place that sells the hardware.
    pricing, book
        The rules that select prices, and the prices that there are.
    is_everywhere
        Whether every place is searched anyway.
    measured
        Measured hardware; where it is not on sale, its GPU in other machines may stand for it.
    needs_price
        Whether hardware that no place sells is left out, where no place is named.
    """

    providers: Sequence[str | None]
    regions: Sequence[str | None]
    ways: Sequence[Purchase | None]
    pricing: PriceQuery
    book: PriceBook
    is_everywhere: bool = False
    measured: Collection[Hardware] = ()
    needs_price: bool = False

    @property
    def min_terms(self) -> int:
        """The minimum number of terms of one piece of hardware, without places to be looked up."""
        places = 1 if self._is_anywhere else len(self.providers) * len(self.regions)
        return places * len(self.ways)

    def placed(self, hardware: Sequence[Hardware]) -> list[tuple[Hardware, Terms]]:
        """Return hardware with its terms, each once."""
        movable = {pair for pair in hardware if self._may_move(pair)}
        sold = {pair: self._sold(pair) for pair in {*movable, *map(_gpu_only, movable)}}
        sold_as_measured = {(_gpu_only(pair), terms) for pair in movable for terms in sold[pair]}
        distinct: dict[tuple[Hardware, Terms], None] = {}
        for pair in hardware:
            alone = _gpu_only(pair)
            if pair in movable:
                placed = [(pair, terms) for terms in sold[pair]]
                placed += [
                    (alone, terms)
                    for terms in sold[alone]
                    if (alone, terms) not in sold_as_measured
                ]
            else:
                placed = [(pair, terms) for terms in self._sold(pair)] if self._is_anywhere else []
            distinct.update(dict.fromkeys([*placed, *self._unsold(pair, placed)]))
        return list(distinct)

    def _unsold(
        self, pair: Hardware, placed: Sequence[tuple[Hardware, Terms]]
    ) -> list[tuple[Hardware, Terms]]:
        """Return hardware where it is asked for and not on sale; no price is known there."""
        covered = {terms for _hardware, terms in placed}
        if covered and self._is_anywhere:
            return []
        return [(pair, terms) for terms in self._named if terms not in covered]

    @property
    def _is_anywhere(self) -> bool:
        return self.is_everywhere or ANYWHERE in {*self.providers, *self.regions}

    @property
    def _named(self) -> list[Terms]:
        """The terms asked for; where every place counts, the cheapest one that will be found."""
        if self._is_anywhere:
            return [((None, None), way) for way in self.ways]
        return list(product(product(self.providers, self.regions), self.ways))

    def _may_move(self, pair: Hardware) -> bool:
        pricing = self.pricing
        if None in pair or pair not in self.measured or pricing.is_inline:
            return False
        places = {*self.providers, *self.regions, pricing.provider, pricing.region}
        return self.is_everywhere or self.needs_price or places != {None}

    def _sold(self, pair: Hardware) -> list[Terms]:
        """Return where hardware is on sale; a place may sell it in only one of the ways."""
        offered = {
            way: self.book.places(Configuration(*pair, purchase=way), self.pricing)
            for way in self.ways
        }
        if not self._is_anywhere:
            return [
                (place, way)
                for place, way in self._named
                if any(_agree(offer, place) for offer in offered[way])
            ]
        return [(place, way) for way in self.ways for place in self._among(offered[way])]

    def _among(self, offered: Sequence[Place]) -> list[Place]:
        """Return the offered places that are searched, each once.

        A provider's place without a region is dropped where one of its regions is returned, since
        its price counts there.
        """
        matching = [
            place
            for place in offered
            if _is_among(place[0], self.providers) and _is_among(place[1], self.regions)
        ]
        with_regions = {provider.casefold() for provider, region in matching if provider and region}
        return [
            (provider, region)
            for provider, region in matching
            if region or (provider or "").casefold() not in with_regions
        ]


def _agree(offered: Place, searched: Place) -> bool:
    return all(map(agrees, offered, searched))


def _gpu_only(pair: Hardware) -> Hardware:
    """Return the GPU without the machine in which it was measured."""
    return pair[0], None


def _is_among(name: str | None, wanted: Sequence[str | None]) -> bool:
    folded = {None if value is None else value.casefold() for value in wanted}
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
                    "The lists multiply, and so does each place that `*` stands for.",
                    "Shorten them; without places, only the cheapest counts.",
                    field="search",
                    pointer="/search",
                )
            ],
        )


def narrowed(search: Search, pricing: PriceQuery) -> Search:
    """Return a search with those of its places and purchases that its pricing allows.

    Raises
    ------
    InvalidRequestError
        If pricing allows none of them.
    """
    limited = replace(
        search,
        providers=_allowed(search.providers, pricing.provider),
        regions=_allowed(search.regions, pricing.region),
        purchase=_allowed(search.purchase, pricing.purchase),
    )
    limits = [
        ("providers", "provider", search.providers, pricing.provider, limited.providers),
        ("regions", "region", search.regions, pricing.region, limited.regions),
        ("purchase", "purchase", search.purchase, pricing.purchase, limited.purchase),
    ]
    faults = [
        fault
        for name, single, searched, priced, common in limits
        if searched and not common
        for fault in _faults_of(name, single, searched, priced)
    ]
    if faults:
        raise InvalidRequestError(faults[0].message, faults)
    return limited


def _allowed(searched: tuple[_Name, ...], priced: str | None) -> tuple[_Name, ...]:
    """Return the names that pricing allows, each once, whatever its case."""
    first: dict[str, _Name] = {}
    for name in searched:
        first.setdefault(name.casefold(), name)
    if priced is None or ANYWHERE in searched:
        return tuple(first.values())
    return tuple(name for folded, name in first.items() if folded == priced.casefold())


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
