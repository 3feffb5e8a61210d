"""Fills a separate PostgreSQL database with runs of many workloads and projects."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import ALPHABET
from app.storage.database import Database, make_engine
from app.storage.migration import migrate

ORDINARY: Final = "workload-0"
LARGEST: Final = "largest"
RUNS_A_WORKLOAD: Final = 900
"""Runs of every workload except the largest one, which has a tenth of all runs."""
_RUNS_AN_UPLOAD: Final = 30
_WORKLOADS_A_PROJECT: Final = 100
_FITS_A_WORKLOAD: Final = 10
_RUNS_A_FORECAST: Final = 20
_BATCH_RUNS: Final = 500_000

_PROJECTS: Final = """
INSERT INTO project (id, name, created_at)
SELECT 'project-' || k, 'project-' || k, now() FROM generate_series(1, :n / :a_project) k
"""
_WORKLOADS: Final = """
INSERT INTO workload (id, project_id, slug, description, currency, labels, refit_mode,
    refit_min_new_runs, pooling, created_at, updated_at)
SELECT 1 + j,
    CASE WHEN j < :a_project OR j = :n THEN :default ELSE 'project-' || j / :a_project END,
    CASE WHEN j = :n THEN :largest ELSE 'workload-' || j END,
    '', 'USD', '{}', 'manual', 1, 'project', now(), now()
FROM generate_series(0, :n) j
"""
_PARAMETERS: Final = """
INSERT INTO workload_parameter (workload_id, name, type)
SELECT id, name, type FROM workload, (VALUES ('precision', 'category'), ('seq_len', 'number'))
    parameter (name, type)
"""
# An upload brings 30 runs of a workload; every tenth upload is of the largest workload.
# Identifiers are like the service's: 10 characters of milliseconds, 15 random ones.
_RUNS: Final = """
INSERT INTO run (id, workload_id, external_id, content_sha256, status, duration_seconds, gpu_type,
    instance_type, nodes, workers, dataset_size, batch_size, epochs, parameters, phases, resources,
    excluded, created_at)
SELECT 'run_' || (
        SELECT string_agg(substr(:alphabet, 1 + ((ms >> 5 * k) % 32)::int, 1), '' ORDER BY k DESC)
        FROM generate_series(0, 9) k
    ) || left(md5(i::text), 15),
    CASE WHEN i / :upload % 10 = 0 THEN :n + 1
        ELSE 1 + (i / :upload / 10 * 9 + i / :upload % 10 - 1) % :n END,
    'run-' || i,
    encode(sha256(i::text::bytea), 'hex'),
    CASE WHEN i % 50 = 7 THEN 'failed' ELSE 'succeeded' END,
    (20 + 0.5 * size / workers) * (0.97 + 0.06 * random()),
    'T4', 'g4dn.12xlarge', greatest(1, workers / 4), workers, size, 32, 1,
    jsonb_build_object('precision', CASE WHEN i % 3 = 0 THEN 'fp32' ELSE 'fp16' END,
        'seq_len', 64 << (i % 4)::int),
    jsonb_build_object('sync_seconds', round((10 * random())::numeric, 4)),
    jsonb_build_object('peak_gpu_memory_bytes', 4e9 + 1e5 * size / workers),
    false,
    to_timestamp(ms / 1e3)
FROM (
    SELECT i, 1 << (i % 5)::int AS workers, 1000.0 * (1 + i / 5 % 8) AS size,
        CAST(1000 * (extract(epoch FROM now()) - 365 * 86400 * (1 - i::float / :total)) AS bigint)
            AS ms
    FROM generate_series(CAST(:first AS bigint), :last) i
) measured
"""
_COUNTS: Final = """
INSERT INTO run_count (workload_id, newest_run_id, by_status)
SELECT workload_id, max(newest), jsonb_object_agg(status, number)
FROM (SELECT workload_id, status, count(*) AS number, max(id) AS newest FROM run GROUP BY 1, 2) each
GROUP BY workload_id
"""
_FITS: Final = """
INSERT INTO fit (id, workload_id, state, request, progress, requested_at, started_at, ended_at,
    attempts, regressor_version, published, cancel_requested)
SELECT 'fit_' || lpad((w.id * 100 + k)::text, 10, '0') || left(md5((w.id * 100 + k)::text), 15),
    w.id, 'succeeded', '{"time_budget_s": 60, "publish": "auto"}', 1, at, at, at, 1, 1, true, false
FROM workload w, generate_series(1, :fits) k, (SELECT now() - interval '30 days' AS at) instant
"""
_FORECASTS: Final = """
INSERT INTO forecast (id, workload_id, regressor_version, scenario_sha256, created_at, request,
    answer)
SELECT 'fc_' || lpad(i::text, 10, '0') || left(md5(i::text), 15),
    1 + i % (:n + 1), 1, left(encode(sha256(i::text::bytea), 'hex'), 16),
    now() - interval '365 days' * (1 - i::float / :forecasts),
    jsonb_build_object('configuration', jsonb_build_object('workers', 1 + i % 16)),
    jsonb_build_object('duration_seconds', jsonb_build_object('median', 20 + i % 1000,
        'lower', 10 + i % 1000, 'upper', 40 + i % 1000))
FROM generate_series(1, :forecasts) i
"""
_REGRESSORS: Final = (
    """
INSERT INTO regressor (workload_id, version, fit_id, created_at, artifact, artifact_sha256,
    artifact_bytes, report, summary)
SELECT w.id, 1, fit_id, r.created_at, artifact, artifact_sha256, artifact_bytes, report, summary
FROM workload w, regressor r
WHERE r.workload_id = 1 AND w.id NOT IN (SELECT workload_id FROM regressor)
""",
    """
INSERT INTO publication (workload_id, version, published_at)
SELECT id, 1, now() FROM workload WHERE id NOT IN (SELECT workload_id FROM publication)
""",
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is in a database."""

    runs: int

    @property
    def workloads(self) -> int:
        """The number of workloads besides the largest one."""
        return max(self.runs * 9 // (10 * RUNS_A_WORKLOAD), 1)

    @property
    def projects(self) -> int:
        """The number of projects, of a hundred workloads each."""
        return -(-self.workloads // _WORKLOADS_A_PROJECT)

    @property
    def forecasts(self) -> int:
        """The number of recorded forecasts."""
        return self.runs // _RUNS_A_FORECAST


@contextmanager
def own_database(server_url: str, size: Size, *, is_kept: bool) -> Iterator[str]:
    """Yield the URL of a database with our tables, possibly a kept one; then drop or keep it."""
    name = f"trainfare_scale_{size.runs}"
    engine = make_engine(server_url).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        matches = connection.exec_driver_sql(f"SELECT FROM pg_database WHERE datname = '{name}'")
        if not matches.rowcount:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
    try:
        url = engine.url.set(database=name).render_as_string(hide_password=False)
        database = Database(url)
        migrate(database)
        database.close()
        yield url
    finally:
        if not is_kept:
            with engine.connect() as connection:
                connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        engine.dispose()


def fill(engine: sa.Engine, size: Size) -> Iterator[int]:
    """Store runs, workloads, fits and forecasts; yield the number of runs so far.

    All indexes exist from the start, not only those for uniqueness, as in a running service.
    """
    with engine.begin() as connection:
        # All rows are valid by construction; checking foreign keys would take half of the time.
        connection.exec_driver_sql("ALTER TABLE run DISABLE TRIGGER ALL")
        shared = {"n": size.workloads, "a_project": _WORKLOADS_A_PROJECT}
        connection.execute(sa.text(_PROJECTS), shared)
        named = {"default": DEFAULT_PROJECT, "largest": LARGEST}
        connection.execute(sa.text(_WORKLOADS), {**shared, **named})
        connection.execute(sa.text(_PARAMETERS))
    for first in range(0, size.runs, _BATCH_RUNS):
        last = min(first + _BATCH_RUNS, size.runs) - 1
        with engine.begin() as connection:
            bounds = {"first": first, "last": last, "total": size.runs}
            shape = {"n": size.workloads, "upload": _RUNS_AN_UPLOAD, "alphabet": ALPHABET}
            connection.execute(sa.text(_RUNS), {**bounds, **shape})
        yield last + 1
    with engine.begin() as connection:
        connection.execute(sa.text(_COUNTS))
        connection.execute(sa.text(_FITS), {"fits": _FITS_A_WORKLOAD})
        forecasts = {"n": size.workloads, "forecasts": size.forecasts}
        connection.execute(sa.text(_FORECASTS), forecasts)
        connection.exec_driver_sql("ALTER TABLE run ENABLE TRIGGER ALL")
        connection.exec_driver_sql("SELECT setval('workload_id_seq', max(id)) FROM workload")


def is_filled(engine: sa.Engine) -> bool:
    """Whether the database was filled before."""
    with engine.connect() as connection:
        return connection.exec_driver_sql("SELECT FROM forecast LIMIT 1").rowcount > 0


def share(engine: sa.Engine) -> None:
    """Give every workload without a regressor that of the first one, then vacuum the database."""
    with engine.begin() as connection:
        n_shared = sum(connection.execute(sa.text(statement)).rowcount for statement in _REGRESSORS)
    if not n_shared:
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
        connection.exec_driver_sql("CHECKPOINT")


def bytes_of_runs(engine: sa.Engine) -> dict[str, int]:
    """Return the bytes on disk of the table of runs and of each of its indexes."""
    query = """
        SELECT 'table', pg_table_size('run') UNION ALL
        SELECT indexrelid::regclass::text, pg_relation_size(indexrelid)
        FROM pg_index WHERE indrelid = 'run'::regclass ORDER BY 2 DESC
    """
    with engine.connect() as connection:
        rows = connection.execute(sa.text(query)).all()
    return {str(name): int(size) for name, size in rows}
