"""The stores of dated facts: exchange rates and grid factors; none is ever deleted."""

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.orm import Session
from typing_extensions import override

from app.domain.exchange_rates import ExchangeRate
from app.domain.grid_factors import GridFactor
from app.domain.identifiers import ExchangeRateId, GridFactorId, ProjectId
from app.domain.pages import Page
from app.storage.money_tables import DatedRow, ExchangeRateRow, GridFactorRow
from app.storage.pages import newest_first
from app.storage.revisions import Revision, revision_of

Row = TypeVar("Row", bound=DatedRow)
Fact = TypeVar("Fact")


class DatedStore(Generic[Row, Fact]):
    """Reads and writes the dated facts of one kind in one session."""

    def __init__(self, session: Session, row: type[Row]) -> None:
        self._session = session
        self._row: type[Row] = row

    def add_many(self, project_id: ProjectId, facts: Sequence[Fact], now: datetime) -> None:
        """Store new facts, each with its identifier."""
        self._session.add_all(
            self._row(project_id=project_id, created_at=now, **self.to_columns(fact))
            for fact in facts
        )
        self._session.flush()

    def revision(self, project_id: ProjectId) -> Revision:
        """Return what every change of a project's facts changes."""
        return revision_of(self._session, self._row, project_id)

    def in_force(self, project_id: ProjectId) -> list[Fact]:
        """Return the facts of a project that are not withdrawn, oldest first."""
        row = self._row
        rows = self._session.scalars(
            sa.select(row)
            .where(row.project_id == project_id, row.withdrawn_at.is_(None))
            .order_by(row.id)
        )
        return [self.to_fact(fact_row) for fact_row in rows]

    def page(self, project_id: ProjectId, *, limit: int, before: str | None = None) -> Page[Fact]:
        """Return a project's facts in force, the newest first, starting after a key."""
        row = self._row
        query = sa.select(row).where(row.project_id == project_id, row.withdrawn_at.is_(None))
        return newest_first(self._session, query, row.id, self.to_fact, limit=limit, before=before)

    def withdraw(self, project_id: ProjectId, key: str, at: datetime) -> bool:
        """Withdraw a fact; return whether there was one in force."""
        row = self._row
        fact = self._session.scalars(
            sa.select(row)
            .where(row.project_id == project_id, row.id == key, row.withdrawn_at.is_(None))
            .with_for_update()
        ).one_or_none()
        if fact is not None:
            fact.withdrawn_at = at
        return fact is not None

    @abstractmethod
    def to_fact(self, row: Row) -> Fact:
        """Return the fact in a row."""

    @abstractmethod
    def to_columns(self, fact: Fact) -> dict[str, Any]:
        """Return the columns of a fact."""


class ExchangeRateStore(DatedStore[ExchangeRateRow, ExchangeRate]):
    """Reads and writes a project's exchange rates."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, ExchangeRateRow)

    @override
    def to_fact(self, row: ExchangeRateRow) -> ExchangeRate:
        return ExchangeRate(
            row.from_currency,
            row.to_currency,
            Decimal(row.rate),
            row.valid_from,
            row.source,
            ExchangeRateId(row.id),
            row.withdrawn_at,
        )

    @override
    def to_columns(self, fact: ExchangeRate) -> dict[str, Any]:
        return {
            "id": fact.rate_id,
            "from_currency": fact.from_currency,
            "to_currency": fact.to_currency,
            "rate": format(fact.rate, "f"),
            "valid_from": fact.valid_from,
            "source": fact.source,
        }


class GridFactorStore(DatedStore[GridFactorRow, GridFactor]):
    """Reads and writes a project's grid factors."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, GridFactorRow)

    @override
    def to_fact(self, row: GridFactorRow) -> GridFactor:
        return GridFactor(
            Decimal(row.kg_co2e_per_kwh),
            row.valid_from,
            row.source,
            row.provider,
            row.region,
            GridFactorId(row.id),
            row.withdrawn_at,
        )

    @override
    def to_columns(self, fact: GridFactor) -> dict[str, Any]:
        return {
            "id": fact.factor_id,
            "provider": fact.provider,
            "region": fact.region,
            "kg_co2e_per_kwh": format(fact.kg_co2e_per_kwh, "f"),
            "valid_from": fact.valid_from,
            "source": fact.source,
        }
