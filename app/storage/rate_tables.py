"""The ORM row of shared rate limits."""

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from app.storage.tables import Base


class RateWindowRow(Base):
    """How many requests of a project's current minute its replicas have leased."""

    __tablename__ = "rate_window"

    project_id: Mapped[str] = mapped_column(
        sa.ForeignKey("project.id", ondelete="CASCADE"), primary_key=True
    )
    minute: Mapped[int] = mapped_column(sa.BigInteger)
    taken: Mapped[int] = mapped_column(sa.Integer)
