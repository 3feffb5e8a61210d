"""Where and how a search buys hardware: what it names, as far as its pricing allows it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from app.domain.configurations import Purchase
from app.domain.errors import Fault, InvalidRequestError
from app.domain.prices import PriceQuery
from app.domain.recommendations import ANYWHERE, Search

_Name = TypeVar("_Name", str, Purchase)


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
