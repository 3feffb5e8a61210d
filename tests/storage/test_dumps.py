"""Rows with artefacts or answers are copied few at a time: each may have megabytes."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from app.domain.access import DEFAULT_PROJECT
from app.storage import dumps
from app.storage.bulk import insert_columns
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


@pytest.fixture
def inserted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that collects how many rows are inserted at once from now on."""
    sizes: list[int] = []

    def insert(connection: sa.Connection, table: str, columns: Mapping[str, Any]) -> None:
        sizes.append(len(columns["key"]))
        insert_columns(connection, table, columns)

    monkeypatch.setattr(dumps, "insert_columns", insert)
    return sizes


def _fetched_sizes(database: Database) -> list[object]:
    """Return a list that collects how many rows are fetched at once from now on."""
    fetched: list[object] = []

    def record_fetch(
        _connection: sa.Connection, statement: Any, _many: Any, _values: Any, options: Any
    ) -> None:
        if isinstance(statement, sa.Select):
            fetched.append(options.get("yield_per"))

    event.listen(database.engine, "before_execute", record_fetch)
    return fetched


def test_rows_with_bytes_are_copied_few_at_a_time(database: Database, inserted: list[int]) -> None:
    fetched = _fetched_sizes(database)

    with database.transaction() as stores:
        [table] = [table for table in stores.dumps.tables() if table.name == "idempotency"]
        rows = _answers(table.columns, 25)
        assert stores.dumps.write(table, iter(rows)) == 25
        read = [json.loads(orjson.dumps(row)) for row in stores.dumps.read(table)]
        assert sorted(read) == sorted(rows)

    assert inserted == [10, 10, 5]
    assert fetched[-1] == _AT_ONCE


@pytest.mark.parametrize("check", ["damaged_artifacts", "published_artifacts"])
def test_artefacts_are_checked_few_at_a_time(database: Database, check: str) -> None:
    fetched = _fetched_sizes(database)

    with database.reading() as stores:
        list(_checked(stores, check))

    assert fetched == [_AT_ONCE]


def _checked(stores: Stores, check: str) -> Any:
    store = stores.diagnosis
    return (
        store.damaged_artifacts() if check == "damaged_artifacts" else store.published_artifacts(1)
    )
