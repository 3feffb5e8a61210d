"""Writes the database that newer versions of MLflow keep, as far as the importer reads it."""

import sqlite3
from contextlib import closing
from pathlib import Path

STARTED_MS = 1_795_259_000_000


def written_database(file: Path, experiment: str = "Digits", **params: str) -> Path:
    """Write a run that ended, with parameters and metrics, and one that goes on."""
    with closing(sqlite3.connect(file)) as database, database:
        database.executescript(
            f"""
            CREATE TABLE experiments (experiment_id INTEGER, name TEXT);
            CREATE TABLE runs (run_uuid TEXT, status TEXT, start_time BIGINT, end_time BIGINT,
                lifecycle_stage TEXT, experiment_id INTEGER);
            CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);
            CREATE TABLE tags (key TEXT, value TEXT, run_uuid TEXT);
            CREATE TABLE metrics (key TEXT, value DOUBLE, is_nan BOOLEAN, run_uuid TEXT);
            CREATE TABLE latest_metrics (key TEXT, value DOUBLE, is_nan BOOLEAN, run_uuid TEXT);
            INSERT INTO runs
                VALUES ('r1', 'FINISHED', {STARTED_MS}, {STARTED_MS + 500}, 'active', 7);
            INSERT INTO runs VALUES ('r2', 'RUNNING', {STARTED_MS}, NULL, 'active', 7);
            INSERT INTO tags VALUES ('mlflow.source.git.commit', '1f2e3d', 'r1');
            INSERT INTO metrics VALUES ('peak_memory_bytes', 7, 0, 'r1');
            INSERT INTO metrics VALUES ('peak_memory_bytes', 5, 0, 'r1');
            INSERT INTO latest_metrics VALUES ('peak_memory_bytes', 5, 0, 'r1');
            INSERT INTO latest_metrics VALUES ('loss', 0, 1, 'r1');
            """
        )
        database.execute("INSERT INTO experiments VALUES (7, ?)", (experiment,))
        database.executemany("INSERT INTO params VALUES (?, ?, 'r1')", params.items())
    return file
