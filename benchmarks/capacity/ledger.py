"""The number of bytes of a recorded forecast in PostgreSQL, including indexes."""

import orjson
import sqlalchemy as sa

from app.domain.forecasts import LedgerQuestion, LedgerRecord
from app.domain.identifiers import ForecastId, WorkloadId
from app.storage.database import Database
from app.storage.migration import migrate
from app.storage.tables import ForecastRow
from benchmarks.ingest.databases import new_postgresql
from benchmarks.ingest.floors import add_workload

_MAX_RECORDS, _BATCH_SIZE = 20_000, 5_000


def bytes_a_forecast(recorded_url: str, server_url: str) -> float:
    """Return the bytes of a forecast recorded by a service, on a PostgreSQL server.

    Parameters
    ----------
    recorded_url
        The database with the records, of which up to the first 20,000 are used.
    server_url
        The server on which a database is created for them and removed afterwards.

    Raises
    ------
    SystemExit
        If there is no record.
    """
    with new_postgresql(server_url) as url:
        target = Database(url, pool_size=1)
        migrate(target)
        records = _records(recorded_url, WorkloadId(add_workload(target, "recorded")))
        if not records:
            raise SystemExit("The service has recorded no forecast.")
        for start in range(0, len(records), _BATCH_SIZE):
            with target.transaction() as stores:
                stores.forecasts.add_many(records[start : start + _BATCH_SIZE])
        with target.engine.connect() as connection:
            size = connection.execute(sa.text("SELECT pg_total_relation_size('forecast')")).scalar()
        target.close()
    return float(size or 0) / len(records)


def _records(url: str, workload_id: WorkloadId) -> list[LedgerRecord]:
    database = Database(url, pool_size=1)
    columns = ForecastRow.id, ForecastRow.created_at, ForecastRow.scenario_sha256
    query = sa.select(*columns, ForecastRow.request, ForecastRow.answer)
    with database.engine.connect() as connection:
        rows = connection.execute(query.order_by(ForecastRow.id).limit(_MAX_RECORDS)).all()
    database.close()
    return [
        LedgerRecord(
            LedgerQuestion(workload_id, 1, orjson.dumps(request), digest),
            ForecastId(key),
            created_at,
            orjson.dumps(answer),
        )
        for key, created_at, digest, request, answer in rows
    ]
