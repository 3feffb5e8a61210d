"""The floors: the same rows by plain SQLAlchemy Core in batches, and by the bare driver."""

import sqlite3
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import psycopg
import sqlalchemy as sa

from app.storage.database import Database
from app.storage.tables import Base, WorkloadRow
from benchmarks.ingest.rows import Row, to_driver_values

BATCH_ROWS = 1000


def add_workload(database: Database, slug: str) -> int:
    """Create the workload of the rows of a floor, and return its key."""
    now = datetime.now(UTC)
    statement = sa.insert(WorkloadRow).values(
        project_id="default",
        slug=slug,
        description="",
        currency="USD",
        labels={},
        refit_mode="manual",
        refit_min_new_runs=1,
        pooling="off",
        created_at=now,
        updated_at=now,
    )
    with database.engine.begin() as connection:
        return int(connection.execute(statement.returning(WorkloadRow.id)).scalar_one())


def clear(database: Database) -> None:
    """Remove all workloads and their runs, so that each measurement finds an empty table."""
    with database.engine.begin() as connection:
        connection.execute(sa.delete(WorkloadRow))


def insert_by_core(database: Database, rows: Sequence[Row]) -> float:
    """Insert rows by Core in one transaction; return the seconds it took."""
    statement = sa.insert(Base.metadata.tables["run"])
    started_at = time.perf_counter()
    with database.engine.begin() as connection:
        for start in range(0, len(rows), BATCH_ROWS):
            connection.execute(statement, rows[start : start + BATCH_ROWS])
    return time.perf_counter() - started_at


def insert_by_driver(database: Database, rows: Sequence[Row]) -> float:
    """Insert rows by executemany (SQLite) or COPY (PostgreSQL); return the seconds it took."""
    values = [to_driver_values(row) for row in rows]
    names = list(rows[0])
    started_at = time.perf_counter()
    with database.engine.begin() as connection:
        driver = connection.connection.driver_connection
        if isinstance(driver, sqlite3.Connection):
            marks = ", ".join("?" * len(names))
            driver.executemany(f"INSERT INTO run ({', '.join(names)}) VALUES ({marks})", values)
        else:
            assert isinstance(driver, psycopg.Connection)
            statement = f"COPY run ({', '.join(names)}) FROM STDIN"
            with driver.cursor() as cursor, cursor.copy(statement.encode()) as copy:
                for row in values:
                    copy.write_row(row)
    return time.perf_counter() - started_at
