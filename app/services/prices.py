"""The use cases of prices: a project's own, the built-in catalogue, and which are in force."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final

from app.domain.access import Principal
from app.domain.ages import day_after
from app.domain.availability_errors import StorageUnavailableError
from app.domain.errors import NotFoundError
from app.domain.identifiers import PriceId, ProjectId, is_identifier, new_identifiers
from app.domain.instants import elapsed
from app.domain.pages import DEFAULT_PAGE_SIZE, Page
from app.domain.prices import Price, PriceFilter, PriceOrigin
from app.pricing.catalogue import built_in_prices
from app.pricing.gpus import canonical_gpu_name, canonical_gpu_names
from app.pricing.resolution import PriceBook, PricingFacts
from app.services.context import ServiceContext
from app.services.page_tokens import identifier_of, number_of
from app.services.renewals import Renewals
from app.storage.revisions import Revision
from app.storage.stores import Stores

_CATALOGUE_TOKEN = "catalogue."  # noqa: S105 - a page token, no secret
_MAX_DIGITS = 9
_MOST_BOOKS: Final = 256
_ALL_PRICES = PriceFilter()
_NEVER = datetime.max.replace(tzinfo=UTC)
_Revisions = tuple[Revision, ...]


@dataclass(slots=True)
class _CachedBook:
    """A project's prices in memory, and when they were read."""

    project_id: ProjectId
    book: PriceBook
    revisions: _Revisions
    read_at: datetime
    day_ends_at: datetime
    is_reading: bool = False

    @classmethod
    def of(
        cls, project_id: ProjectId, book: PriceBook, revisions: _Revisions, read_at: datetime
    ) -> "_CachedBook":
        """Return prices that have just been read, or are known to be unchanged."""
        return cls(project_id, book, revisions, read_at, day_after(book.now))


class PriceService:
    """Use cases of prices."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._fresh_for = timedelta(seconds=context.settings.regressor_refresh_s)
        self._renew_after = self._fresh_for / 2
        self._renewals = Renewals(patience_s=context.settings.database_patience_s)
        self._cached: dict[ProjectId, _CachedBook] = {}
        self._opening: dict[ProjectId, object] = {}
        """A mark of each project whose prices are read first, until they are or are forgotten."""
        self._lock = threading.Lock()

    def add(self, caller: Principal, prices: Sequence[Price]) -> list[Price]:
        """Store a project's own prices, all or none, and return them with identifiers. Audited."""
        now = self._context.now()
        with self._context.database.transaction() as stores:
            # Of prices of one date the last stored counts, whatever the clocks of services say.
            _, _, newest = stores.prices.revision(caller.project_id)
            keys = new_identifiers("price", len(prices), now=now, after=newest)
            named = [
                replace(
                    price,
                    price_id=PriceId(key),
                    gpu_type=None if price.gpu_type is None else canonical_gpu_name(price.gpu_type),
                )
                for key, price in zip(keys, prices, strict=True)
            ]
            stores.prices.add_many(caller.project_id, named, now)
            stores.access.record_audit(
                caller.project_id,
                caller.key_id,
                now,
                "price.add",
                keys[0] if keys else "none",
                {"count": len(keys)},
            )
        self.forget(caller.project_id)
        return named

    def withdraw(self, caller: Principal, price_id: PriceId) -> None:
        """Withdraw one of the project's own prices; it stays for the record. Audited.

        Raises
        ------
        NotFoundError
            If the project has no such price, or it was withdrawn before.
        """
        now = self._context.now()
        with self._context.database.transaction() as stores:
            is_plausible = is_identifier("price", price_id)
            if not (is_plausible and stores.prices.withdraw(caller.project_id, price_id, now)):
                raise NotFoundError("price", price_id)
            stores.access.record_audit(
                caller.project_id, caller.key_id, now, "price.withdraw", price_id
            )
        self.forget(caller.project_id)

    def list_page(
        self,
        project_id: ProjectId,
        wanted: PriceFilter = _ALL_PRICES,
        *,
        page_size: int = DEFAULT_PAGE_SIZE,
        page_token: str | None = None,
    ) -> Page[Price]:
        """Return prices: a project's own, the newest first, then those of the catalogue.

        Raises
        ------
        InvalidRequestError
            If the page token is not one of this list.
        """
        if wanted.gpu_type is not None:
            wanted = replace(wanted, gpu_type=canonical_gpu_name(wanted.gpu_type))
        offset, before = _read_token(page_token)
        own_page: Page[Price] = Page([])
        if offset is None and wanted.origin is not PriceOrigin.CATALOGUE:
            with self._context.database.reading() as stores:
                own_page = stores.prices.page(project_id, wanted, limit=page_size, before=before)
        if own_page.next_key is not None or wanted.origin is PriceOrigin.OWN:
            return own_page
        start, room = offset or 0, page_size - len(own_page.items)
        catalogue = _listed(wanted)
        items = [*own_page.items, *catalogue[start : start + room]]
        is_last = start + room >= len(catalogue)
        return Page(items, None if is_last else f"{_CATALOGUE_TOKEN}{start + room}")

    def book(self, project_id: ProjectId) -> PriceBook:
        """Return the prices in force for a project, as fresh as the settings demand.

        While the database is away, those last read stay in use.
        """
        now = self._context.now()
        fresh = self.book_in_memory(project_id, now)
        if fresh is not None:
            return fresh
        with self._lock:
            cached = self._cached.get(project_id)
        if cached is None:
            return self._open(project_id, now)
        cached.is_reading = True
        try:
            self._renewals.wait_for(project_id, lambda: self._refresh(cached))
        except StorageUnavailableError:
            self._cache(cached, cached.book.facts, cached.revisions, now)
        finally:
            cached.is_reading = False
        return self._cached.get(project_id, cached).book

    def _open(self, project_id: ProjectId, now: datetime) -> PriceBook:
        """Read the prices of a project; of too many in memory, the longest unused are dropped."""
        with self._lock:
            mark = self._opening.setdefault(project_id, object())
        facts, revisions = self._read(project_id)
        book = PriceBook(facts, now)
        with self._lock:
            if self._opening.get(project_id) is not mark:
                return book
            del self._opening[project_id]
            self._cached[project_id] = _CachedBook.of(project_id, book, revisions, now)
            if len(self._cached) > _MOST_BOOKS:
                oldest = min(self._cached.values(), key=attrgetter("read_at"))
                del self._cached[oldest.project_id]
        return book

    def book_in_memory(self, project_id: ProjectId, now: datetime) -> PriceBook | None:
        """Return a project's prices if they are in memory and fresh; never queries the database."""
        cached = self._cached.get(project_id)
        if cached is None:
            return None
        age = elapsed(cached.read_at, now)
        is_old = age > self._fresh_for or now >= cached.day_ends_at
        if is_old and not cached.is_reading:
            return None
        if age > self._renew_after:
            self._renewals.renew(project_id, lambda: self._refresh(cached))
        return cached.book

    def _refresh(self, cached: _CachedBook) -> None:
        now = self._context.now()
        self._cache(cached, *self._read(cached.project_id, cached), now)

    def _cache(
        self, cached: _CachedBook, facts: PricingFacts, revisions: _Revisions, now: datetime
    ) -> None:
        book = _renew(cached.book, facts, now)
        with self._lock:
            # If it was forgotten meanwhile, this reading may predate the change.
            if self._cached.get(cached.project_id) is cached:
                key = cached.project_id
                self._cached[key] = _CachedBook.of(key, book, revisions, now)

    def _read(
        self, project_id: ProjectId, known: _CachedBook | None = None
    ) -> tuple[PricingFacts, _Revisions]:
        """Return what a project stored, as known where it has not changed since."""
        with self._context.database.reading() as stores:
            # Read first: what changes in between is read again the next time.
            revisions = _revisions(stores, project_id)
            if known is not None and known.revisions == revisions:
                return known.book.facts, revisions
            facts = PricingFacts(
                tuple(_under_present_names(stores.prices.in_force(project_id))),
                tuple(stores.exchange_rates.in_force(project_id)),
                tuple(stores.grid_factors.in_force(project_id)),
            )
        return facts, revisions

    def forget(self, project_id: ProjectId) -> None:
        """Forget a project's prices, so that the next question reads them again."""
        with self._lock:
            self._cached.pop(project_id, None)
            # What is being read may predate the change.
            self._opening.pop(project_id, None)

    def close(self) -> None:
        """Stop reading in the background."""
        self._renewals.close()


def _under_present_names(prices: Sequence[Price]) -> Iterator[Price]:
    """Yield prices with the names by which today's catalogue, and so each question, calls GPUs."""
    names = canonical_gpu_names([price.gpu_type for price in prices])
    for price, name in zip(prices, names, strict=True):
        yield price if price.gpu_type == name else replace(price, gpu_type=name)


def _revisions(stores: Stores, project_id: ProjectId) -> _Revisions:
    kinds = stores.prices, stores.exchange_rates, stores.grid_factors
    return tuple(kind.revision(project_id) for kind in kinds)


def _renew(book: PriceBook, facts: PricingFacts, now: datetime) -> PriceBook:
    """Return the known book while its facts are unchanged; it remembers what it resolved."""
    ends_at = min(book.now + timedelta(hours=1), day_after(book.now), book.changes_at or _NEVER)
    # Of a clock that has been set back since, the book may have prices that are not valid yet.
    is_valid = book.now <= now < ends_at
    return book if book.facts == facts and is_valid else PriceBook(facts, now)


def _listed(wanted: PriceFilter) -> list[Price]:
    filters = {
        name: value.casefold()
        for name in ("provider", "region", "gpu_type", "instance_type")
        if (value := getattr(wanted, name)) is not None
    }
    return [
        price
        for price in built_in_prices()
        if all(getattr(price, name).casefold() == value for name, value in filters.items())
        and (wanted.purchase is None or price.purchase is wanted.purchase)
        and (wanted.as_of is None or price.valid_from <= wanted.as_of)
    ]


def _read_token(page_token: str | None) -> tuple[int | None, str | None]:
    """Return the index in the catalogue at which a page starts, or the own price before it."""
    if page_token is not None and page_token.startswith(_CATALOGUE_TOKEN):
        start = number_of(page_token, prefix=_CATALOGUE_TOKEN, max_digits=_MAX_DIGITS)
        return start, None
    return None, identifier_of(page_token, "price")
