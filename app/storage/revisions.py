"""Tells whether a project's facts of a kind have changed, without reading them."""

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.storage.money_tables import DatedRow
from app.storage.tables import PriceRow

Revision = tuple[int, int, str | None]


def revision_of(session: Session, row: type[PriceRow | DatedRow], project_id: str) -> Revision:
    """Return how many facts a project ever had, how many are withdrawn, and the newest.

    Facts are added and withdrawn, and go only with their project: each change changes this.
    """
    query = sa.select(sa.func.count(), sa.func.count(row.withdrawn_at), sa.func.max(row.id))
    added, withdrawn, newest = session.execute(query.where(row.project_id == project_id)).one()
    return added, withdrawn, newest
