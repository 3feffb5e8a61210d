"""Lets tests share compiled statements: each has engines of its own, which would compile anew."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

_CAPACITY = 4096


def share_compiled_statements() -> None:
    """Take dialects of one class for the same: all of them are configured alike.

    Statements are remembered under their dialect, by engines and by mappers.
    """
    statements: LRUCache[Any, Any] = LRUCache(_CAPACITY)

    @sa.event.listens_for(sa.Engine, "engine_connect")
    def _share(connection: sa.Connection) -> None:
        connection.execution_options(compiled_cache=statements)

    def is_alike(dialect: DefaultDialect, other: object) -> bool:
        return type(dialect) is type(other)

    def hash_of(dialect: DefaultDialect) -> int:
        return hash(type(dialect))

    DefaultDialect.__eq__ = is_alike  # type: ignore[method-assign,assignment]
    DefaultDialect.__hash__ = hash_of  # type: ignore[method-assign,assignment]
