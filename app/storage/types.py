"""Column types with the same meaning on SQLite and PostgreSQL."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import orjson
import sqlalchemy as sa
from typing_extensions import override


def json_text(document: object) -> str:
    """Return a document as it is stored; parts that already are JSON are `orjson.Fragment`s."""
    try:
        return orjson.dumps(document).decode()
    except TypeError:
        # Numbers beyond 64 bits, unpaired surrogates, keys that are not strings.
        return json.dumps(document)


class UtcDateTime(sa.types.TypeDecorator[datetime]):
    """An aware instant, always in UTC; SQLite stores it without its zone."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    @override
    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            msg = f"a naive datetime was given where an aware one is needed: {value!r}"
            raise ValueError(msg)
        utc = value.astimezone(UTC)
        return utc if dialect.name == "postgresql" else utc.replace(tzinfo=None)

    @override
    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class ExactDecimal(sa.types.TypeDecorator[Decimal]):
    """Money that never passes through a float: NUMERIC on PostgreSQL, text on SQLite."""

    impl = sa.Numeric(20, 6)
    cache_ok = True

    @override
    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sa.String(32))
        return dialect.type_descriptor(sa.Numeric(20, 6))

    @override
    def process_bind_param(self, value: Decimal | None, dialect: sa.Dialect) -> Any:
        if value is None:
            return None
        return str(value) if dialect.name == "sqlite" else value

    @override
    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Decimal | None:
        return None if value is None else Decimal(str(value))


class JsonDocument(sa.types.TypeDecorator[Any]):
    """A JSON document, NULL for None: JSONB on PostgreSQL, text on SQLite."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    @override
    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name == "postgresql":
            # Imported where it is used: processes on SQLite do not need it.
            from sqlalchemy.dialects.postgresql import JSONB

            return dialect.type_descriptor(JSONB(none_as_null=True))
        return dialect.type_descriptor(sa.JSON(none_as_null=True))

    @override
    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        return self.impl_instance.coerce_compared_value(op, value)


JSON_DOCUMENT = JsonDocument()
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
