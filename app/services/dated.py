"""The use cases of a project's dated facts: exchange rates and grid factors."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from app.domain.access import Principal
from app.domain.errors import NotFoundError
from app.domain.identifiers import ProjectId, is_identifier, new_identifiers
from app.domain.pages import DEFAULT_PAGE_SIZE, Page
from app.services.context import ServiceContext
from app.services.page_tokens import identifier_of
from app.storage.dated import DatedStore, Row
from app.storage.stores import Stores

Fact = TypeVar("Fact")


class DatedFactService(Generic[Row, Fact]):
    """Use cases of one kind of dated fact.

    Parameters
    ----------
    context
        The surroundings of the service.
    kind, prefix
        The name of such a fact, and the prefix of its identifiers.
    store
        Returns their store.
    name
        Returns a copy of a fact with an identifier.
    forget
        Called with the project whose facts have changed.
    """

    def __init__(
        self,
        context: ServiceContext,
        *,
        kind: str,
        prefix: str,
        store: Callable[[Stores], DatedStore[Row, Fact]],
        name: Callable[[Fact, str], Fact],
        forget: Callable[[ProjectId], None],
    ) -> None:
        self._context = context
        self._kind, self._prefix = kind, prefix
        self._name, self._forget = name, forget
        self._store: Callable[[Stores], DatedStore[Row, Fact]] = store

    def add(self, caller: Principal, facts: Sequence[Fact]) -> list[Fact]:
        """Store facts, all or none, and return them with identifiers. Audited."""
        now = self._context.now()
        with self._context.database.transaction() as stores:
            store = self._store(stores)
            # Of facts of one date the last stored counts, whatever the clocks of services say.
            _, _, newest = store.revision(caller.project_id)
            keys = new_identifiers(self._prefix, len(facts), now=now, after=newest)
            named = [self._name(fact, key) for key, fact in zip(keys, facts, strict=True)]
            store.add_many(caller.project_id, named, now)
            stores.access.record_audit(
                caller.project_id,
                caller.key_id,
                now,
                f"{self._kind}.add",
                keys[0] if keys else "none",
                {"count": len(keys)},
            )
        self._forget(caller.project_id)
        return named

    def withdraw(self, caller: Principal, key: str) -> None:
        """Withdraw a fact; it stays for the record. Audited.

        Raises
        ------
        NotFoundError
            If the project has no such fact, or it was withdrawn before.
        """
        now = self._context.now()
        with self._context.database.transaction() as stores:
            is_plausible = is_identifier(self._prefix, key)
            if not (is_plausible and self._store(stores).withdraw(caller.project_id, key, now)):
                raise NotFoundError(self._kind.replace("_", " "), key)
            stores.access.record_audit(
                caller.project_id, caller.key_id, now, f"{self._kind}.withdraw", key
            )
        self._forget(caller.project_id)

    def list_page(
        self,
        project_id: ProjectId,
        *,
        page_size: int = DEFAULT_PAGE_SIZE,
        page_token: str | None = None,
    ) -> Page[Fact]:
        """Return a project's facts in force, the newest first.

        Raises
        ------
        InvalidRequestError
            If the page token is not one of this list.
        """
        before = identifier_of(page_token, self._prefix)
        with self._context.database.reading() as stores:
            return self._store(stores).page(project_id, limit=page_size, before=before)
