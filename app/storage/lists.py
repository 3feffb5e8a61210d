"""Long lists of values in a query, whatever their length: databases limit bound parameters."""

from collections.abc import Iterable
from typing import Any, TypeVar

import orjson
import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.storage.dialects import is_sqlite
from app.storage.types import JSON_DOCUMENT

Value = TypeVar("Value", int, str)


def texts_subquery(session: Session, texts: Iterable[str]) -> sa.Select[tuple[str]]:
    """Return a subquery of the given texts as one bound parameter.

    For thousands of texts PostgreSQL hashes it three times as fast as it plans `is_one_of`.
    """
    document = _document(list(texts))
    if is_sqlite(session):
        return _json_values(document)
    elements = sa.func.jsonb_array_elements_text(sa.cast(document, JSON_DOCUMENT))
    return sa.select(elements.column_valued())


def pairs_subquery(session: Session, pairs: Iterable[tuple[int, str]]) -> sa.Subquery:
    """Return a subquery of pairs of a `number` and a `text` as one bound parameter."""
    document = _document(list(pairs))
    if is_sqlite(session):
        pair = sa.func.json_each(document).table_valued("value").c.value
        number: sa.ColumnElement[int] = sa.func.json_extract(pair, "$[0]")
        text: sa.ColumnElement[str] = sa.func.json_extract(pair, "$[1]")
    else:
        pair = sa.func.jsonb_array_elements(sa.cast(document, JSON_DOCUMENT)).column_valued()
        number, text = sa.cast(pair.op("->>")(0), sa.BigInteger), pair.op("->>")(1)
    return sa.select(number.label("number"), text.label("text")).subquery()


def is_one_of(
    session: Session, column: InstrumentedAttribute[Value], values: Iterable[Value]
) -> sa.ColumnElement[bool]:
    """Return the condition that a column has one of the given values, as one bound parameter."""
    given = list(values)
    if is_sqlite(session):
        return column.in_(_json_values(_document(given)))
    # An array, for whose elements PostgreSQL looks up how many rows they have: for a subquery of
    # one or two values it would read all workloads of a project, or all runs.
    is_text = column.type.python_type is str
    array = sa.ARRAY(sa.Text() if is_text else sa.BigInteger())
    return column == sa.any_(sa.literal(given, array))


def _document(values: list[str] | list[Value] | list[tuple[int, str]]) -> sa.BindParameter[str]:
    return sa.literal(orjson.dumps(values).decode(), sa.Text)


def _json_values(document: sa.BindParameter[str]) -> sa.Select[Any]:
    return sa.select(sa.func.json_each(document).table_valued("value").c.value)
