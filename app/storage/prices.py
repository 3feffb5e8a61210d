"""The store of a project's own prices."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.billing import Serverless
from app.domain.configurations import Purchase
from app.domain.identifiers import PriceId, ProjectId
from app.domain.pages import Page
from app.domain.prices import Price, PriceFilter
from app.storage.pages import newest_first
from app.storage.revisions import Revision, revision_of
from app.storage.tables import Json, PriceRow


def _to_terms(document: Json) -> Serverless:
    longest = document["max_call_s"]
    return Serverless(
        memory_gb=Decimal(document["memory_gb"]),
        per_gb_second=Decimal(document["per_gb_second"]),
        per_call=Decimal(document["per_call"]),
        max_call_s=None if longest is None else Decimal(longest),
        step_s=Decimal(document["step_s"]),
    )


def _to_document(terms: Serverless) -> Json:
    return {
        "memory_gb": str(terms.memory_gb),
        "per_gb_second": str(terms.per_gb_second),
        "per_call": str(terms.per_call),
        "max_call_s": None if terms.max_call_s is None else str(terms.max_call_s),
        "step_s": str(terms.step_s),
    }


def _to_price(row: PriceRow) -> Price:
    terms = None if row.serverless is None else _to_terms(row.serverless)
    return Price(
        price_per_hour=row.price_per_hour if terms is None else terms.per_hour,
        currency=row.currency,
        purchase=Purchase(row.purchase),
        valid_from=row.valid_from,
        source=row.source,
        provider=row.provider,
        region=row.region,
        instance_type=row.instance_type,
        gpu_type=row.gpu_type,
        gpu_count=row.gpu_count,
        price_id=PriceId(row.id),
        withdrawn_at=row.withdrawn_at,
        minimum_billed_s=row.minimum_billed_s,
        billing_step_s=row.billing_step_s,
        serverless=terms,
    )


class PriceStore:
    """Reads and writes a project's own prices in one session; none is ever deleted."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add_many(self, project_id: ProjectId, prices: Sequence[Price], now: datetime) -> None:
        """Store new prices, each with its identifier."""
        self._session.add_all(
            PriceRow(
                id=price.price_id,
                project_id=project_id,
                provider=price.provider,
                region=price.region,
                instance_type=price.instance_type,
                gpu_type=price.gpu_type,
                gpu_count=price.gpu_count,
                price_per_hour=price.price_per_hour,
                purchase=price.purchase,
                currency=price.currency,
                valid_from=price.valid_from,
                source=price.source,
                created_at=now,
                minimum_billed_s=price.minimum_billed_s,
                billing_step_s=price.billing_step_s,
                serverless=None if price.serverless is None else _to_document(price.serverless),
            )
            for price in prices
        )
        self._session.flush()

    def revision(self, project_id: ProjectId) -> Revision:
        """Return what every change of a project's prices changes."""
        return revision_of(self._session, PriceRow, project_id)

    def in_force(self, project_id: ProjectId) -> list[Price]:
        """Return the prices of a project that are not withdrawn, oldest first."""
        rows = self._session.scalars(
            sa.select(PriceRow)
            .where(PriceRow.project_id == project_id, PriceRow.withdrawn_at.is_(None))
            .order_by(PriceRow.id)
        )
        return [_to_price(row) for row in rows]

    def page(
        self,
        project_id: ProjectId,
        wanted: PriceFilter,
        *,
        limit: int,
        before: str | None = None,
    ) -> Page[Price]:
        """Return a project's prices, the newest first, starting after the key `before`."""
        query = sa.select(PriceRow).where(PriceRow.project_id == project_id, *_conditions(wanted))
        return newest_first(
            self._session, query, PriceRow.id, _to_price, limit=limit, before=before
        )

    def withdraw(self, project_id: ProjectId, price_id: PriceId, at: datetime) -> bool:
        """Withdraw a price; return whether there was one in force."""
        withdrawn = self._session.execute(
            sa.update(PriceRow)
            .where(
                PriceRow.project_id == project_id,
                PriceRow.id == price_id,
                PriceRow.withdrawn_at.is_(None),
            )
            .values(withdrawn_at=at)
            .returning(PriceRow.id)
        )
        return withdrawn.one_or_none() is not None


def _conditions(wanted: PriceFilter) -> Iterator[sa.ColumnElement[bool]]:
    for name in ("provider", "region", "gpu_type", "instance_type"):
        value: str | None = getattr(wanted, name)
        if value is not None:
            column = getattr(PriceRow, name)
            # Databases may fold only ASCII: then a name is still found as it is written.
            yield sa.or_(column == value, sa.func.lower(column) == value.lower())
    if wanted.purchase is not None:
        yield PriceRow.purchase == wanted.purchase
    if wanted.as_of is not None:
        yield PriceRow.valid_from <= wanted.as_of
    if not wanted.include_withdrawn:
        yield PriceRow.withdrawn_at.is_(None)
