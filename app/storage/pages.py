"""Reads pages of lists whose keys increase with time."""

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.domain.pages import Page, page_of

Row = TypeVar("Row")
Item = TypeVar("Item")


def newest_first(
    session: Session,
    query: sa.Select[Row],
    key: InstrumentedAttribute[str],
    to_item: Callable[[Row], Item],
    *,
    limit: int,
    before: str | None,
) -> Page[Item]:
    """Return a query's results, the newest first, starting after a key.

    Parameters
    ----------
    session
        The session to read with.
    query
        The rows of the list, not yet ordered.
    key
        The column that increases with time.
    to_item
        Converts a row to an item of the list.
    limit
        The most items of the page, at least 1.
    before
        The key after which the page starts, None for the first page.
    """
    if before is not None:
        query = query.where(key < before)
    rows = session.scalars(query.order_by(key.desc()).limit(limit + 1)).all()
    page = page_of(rows, limit, key=lambda row: getattr(row, key.key))
    return Page([to_item(row) for row in page.items], page.next_key)
