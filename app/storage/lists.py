"""Long lists of values in a query, whatever their length."""

from collections.abc import Sequence

import orjson
import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.storage.dialects import is_sqlite
from app.storage.types import JSON_DOCUMENT


def texts_subquery(session: Session, texts: Sequence[str]) -> sa.Select[tuple[str]]:
    """Return a subquery of the given texts as one bound parameter."""
    document = sa.literal(orjson.dumps(list(texts)).decode(), sa.Text)
    if is_sqlite(session):
        return sa.select(sa.func.json_each(document).table_valued("value").c.value)
    elements = sa.func.jsonb_array_elements_text(sa.cast(document, JSON_DOCUMENT))
    return sa.select(elements.column_valued())
