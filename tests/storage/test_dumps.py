"""Rows with artefacts or answers are copied few at a time: each may have megabytes."""

import base64
import json
from typing import Any

import orjson
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from app.domain.access import DEFAULT_PROJECT
from app.storage.database import Database
from app.storage.stores import Stores

_AT_ONCE = 10
_NOW = "2026-11-01T12:00:00+00:00"


def _answers(columns: tuple[str, ...], count: int) -> list[list[Any]]:
    """Return rows of stored answers, as a backup holds them."""
    values = {
        "project_id": DEFAULT_PROJECT, "path": "/v1/runs", "body_sha256": "0" * 64,
        "created_at": _NOW, "fence": "f", "locked_until": _NOW, "status": 200, "headers": {},
        "body": base64.b64encode(b"answer").decode(),
    }  # fmt: skip
    return [
        [f"key-{number}" if name == "key" else values[name] for name in columns]
        for number in range(count)
    ]


def _recorded_sizes(database: Database) -> tuple[list[int], list[object]]:
    """Return lists that collect how many rows are inserted and fetched at once from now on."""
    inserted: list[int] = []
    fetched: list[object] = []

    def record_insert(
        _connection: sa.Connection, _cursor: Any, text: str, values: Any, *others: Any
    ) -> None:
        if text.startswith("INSERT INTO idempotency"):
            inserted.append(len(values) if others[-1] else 1)

    def record_fetch(
        _connection: sa.Connection, statement: Any, _many: Any, _values: Any, options: Any
    ) -> None:
        if isinstance(statement, sa.Select):
            fetched.append(options.get("yield_per"))

    event.listen(database.engine, "before_cursor_execute", record_insert)
    event.listen(database.engine, "before_execute", record_fetch)
    return inserted, fetched


def test_rows_with_bytes_are_copied_few_at_a_time(database: Database) -> None:
    inserted, fetched = _recorded_sizes(database)

    with database.transaction() as stores:
        [table] = [table for table in stores.dumps.tables() if table.name == "idempotency"]
        rows = _answers(table.columns, 25)
        assert stores.dumps.write(table, iter(rows)) == 25
        read = [json.loads(orjson.dumps(row)) for row in stores.dumps.read(table)]
        assert sorted(read) == sorted(rows)

    assert max(inserted) <= _AT_ONCE
    assert fetched[-1] == _AT_ONCE


@pytest.mark.parametrize("check", ["damaged_artifacts", "published_artifacts"])
def test_artefacts_are_checked_few_at_a_time(database: Database, check: str) -> None:
    _, fetched = _recorded_sizes(database)

    with database.reading() as stores:
        list(_checked(stores, check))

    assert fetched == [_AT_ONCE]


def _checked(stores: Stores, check: str) -> Any:
    store = stores.diagnosis
    return (
        store.damaged_artifacts() if check == "damaged_artifacts" else store.published_artifacts(1)
    )
