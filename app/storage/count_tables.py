"""The ORM row of counted runs."""

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables import Base
from app.storage.types import JSON_DOCUMENT


class RunCountRow(Base):
    """How many runs of each status a workload has, as of its newest run.

    Written while the workload is locked. A row that names another run than the newest was bypassed
    by a version of the service that does not count, and is ignored.
    """

    __tablename__ = "run_count"

    workload_id: Mapped[int] = mapped_column(
        sa.ForeignKey("workload.id", ondelete="CASCADE"), primary_key=True
    )
    newest_run_id: Mapped[str | None] = mapped_column(sa.String(40))
    by_status: Mapped[dict[str, int]] = mapped_column(JSON_DOCUMENT)
