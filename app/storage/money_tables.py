"""The ORM rows of exchange rates and grid factors."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables import Base
from app.storage.types import UtcDateTime


class DatedRow(Base):
    """A dated, sourced fact of a project; withdrawn, never deleted."""

    __abstract__ = True

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    project_id: Mapped[str] = mapped_column(sa.ForeignKey("project.id", ondelete="CASCADE"))
    valid_from: Mapped[datetime] = mapped_column(UtcDateTime)
    source: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    withdrawn_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class ExchangeRateRow(DatedRow):
    """A project's exchange rate, an exact decimal as text."""

    __tablename__ = "exchange_rate"
    __table_args__ = (
        sa.Index("ix_exchange_rate_project_id_id", "project_id", "id"),
        sa.CheckConstraint("CAST(rate AS NUMERIC) > 0", name="rate_positive"),
    )

    from_currency: Mapped[str] = mapped_column(sa.String(3))
    to_currency: Mapped[str] = mapped_column(sa.String(3))
    rate: Mapped[str] = mapped_column(sa.String(40))


class GridFactorRow(DatedRow):
    """A project's grid factor, an exact decimal as text."""

    __tablename__ = "grid_factor"
    __table_args__ = (
        sa.Index("ix_grid_factor_project_id_id", "project_id", "id"),
        sa.CheckConstraint("CAST(kg_co2e_per_kwh AS NUMERIC) >= 0", name="factor_not_negative"),
    )

    provider: Mapped[str | None] = mapped_column(sa.String(100))
    region: Mapped[str | None] = mapped_column(sa.String(100))
    kg_co2e_per_kwh: Mapped[str] = mapped_column(sa.String(40))
