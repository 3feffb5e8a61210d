"""The ORM row of runs that were included in fits later than they were stored."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables import Base
from app.storage.types import BIG_ID, UtcDateTime


class InclusionRow(Base):
    """When an excluded run was included: from then on it is new to fits.

    The workload is the run's; the row is removed with it.
    """

    __tablename__ = "run_inclusion"
    __table_args__ = (
        sa.Index("ix_run_inclusion_workload_id_included_at", "workload_id", "included_at"),
    )

    run_id: Mapped[str] = mapped_column(
        sa.String(40), sa.ForeignKey("run.id", ondelete="CASCADE"), primary_key=True
    )
    workload_id: Mapped[int] = mapped_column(BIG_ID)
    included_at: Mapped[datetime] = mapped_column(UtcDateTime)
