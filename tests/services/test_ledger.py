"""Recorded forecasts are written behind the answers and never lost in silence."""

import orjson
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.access import DEFAULT_PROJECT
from app.domain.availability_errors import StorageUnavailableError
from app.domain.forecasts import LedgerEntry, LedgerQuestion, LedgerRecord
from app.domain.identifiers import ForecastId, Slug, WorkloadId, new_identifiers
from app.services.context import ServiceContext
from app.services.ledger import LedgerWriter
from app.services.wiring import Services
from app.storage.database import Database
from tests.support.overtaking import after_first
from tests.support.regressors import store_runs


def make_records(context: ServiceContext, workload_id: WorkloadId, n: int) -> list[LedgerRecord]:
    question = LedgerQuestion(workload_id, 1, b'{"n":1}', None)
    return [
        LedgerRecord(question, ForecastId(key), context.now(), b'{"a":2}')
        for key in new_identifiers("fc", n)
    ]


def are_stored(context: ServiceContext, records: list[LedgerRecord]) -> list[bool]:
    with context.database.reading() as stores:
        return [
            stores.forecasts.get(DEFAULT_PROJECT, record.forecast_id, str.__eq__) is not None
            for record in records
        ]


def away(context: ServiceContext) -> ServiceContext:
    """Return surroundings whose database does not answer."""
    gone = Database("postgresql://nobody@127.0.0.1:1/nothing")
    return ServiceContext(gone, context.settings, context.now)


def test_records_are_written_in_order_at_the_latest_at_the_end(services: Services) -> None:
    context = services.context
    records = make_records(context, store_runs(context, "w"), 3)
    writer = LedgerWriter(context)

    for record in records:
        writer.put(record)
    writer.close()

    assert are_stored(context, records) == [True] * 3
    assert writer.dropped == 0


def test_texts_are_kept_sign_by_sign(services: Services) -> None:
    context = services.context
    told = {"ref": "a\\b\t\n\r \\N 'ü' \"%s ?\""}
    question = LedgerQuestion(store_runs(context, "w"), 3, orjson.dumps(told), "ab" * 32)
    [key] = map(ForecastId, new_identifiers("fc", 1))
    writer = LedgerWriter(context)
    writer.put(LedgerRecord(question, key, context.now(), orjson.dumps(told)))

    writer.close()

    with context.database.reading() as stores:
        entry = stores.forecasts.get(DEFAULT_PROJECT, key, str.__eq__)
    assert entry == LedgerEntry(key, Slug("w"), 3, context.now(), told, told, ())


def test_record_that_cannot_be_stored_is_dropped_alone(
    services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    context = services.context
    first, damaged, twice, last = make_records(context, store_runs(context, "w"), 4)
    writer = LedgerWriter(context)

    for record in (first, damaged._replace(answer=b"\xff"), twice, twice, last):
        writer.put(record)
    writer.close()

    assert are_stored(context, [first, damaged, twice, last]) == [True, False, True, True]
    assert writer.dropped == 2
    named = [vars(record).get("forecast") for record in caplog.records]
    assert named == [damaged.forecast_id, twice.forecast_id]


def test_record_of_a_removed_workload_is_left_out(services: Services) -> None:
    context = services.context
    [good] = make_records(context, store_runs(context, "w"), 1)
    [orphan] = make_records(context, WorkloadId(10_000), 1)
    writer = LedgerWriter(context)
    writer.put(orphan)
    writer.put(good)

    writer.flush()

    assert are_stored(context, [orphan, good]) == [False, True]
    writer.close()


def test_records_wait_while_the_database_is_away(services: Services) -> None:
    context = services.context
    records = make_records(context, store_runs(context, "w"), 2)
    writer = LedgerWriter(away(context))
    for record in records:
        writer.put(record)

    with pytest.raises(StorageUnavailableError):
        writer.flush()

    assert writer.waiting() == records
    writer.close()
    assert writer.waiting() == records


def test_records_of_a_commit_whose_answer_was_lost_are_not_written_twice(
    services: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    context = services.context
    records = make_records(context, store_runs(context, "w"), 3)
    writer = LedgerWriter(context)
    for record in records[:2]:
        writer.put(record)

    def lose_connection() -> None:
        raise sa.exc.OperationalError("COMMIT", None, Exception("connection lost"))

    after_first(monkeypatch, Session, "commit", lose_connection)
    with pytest.raises(StorageUnavailableError):
        writer.flush()
    writer.put(records[2])
    writer.close()

    assert are_stored(context, records) == [True] * 3
    assert writer.dropped == 0
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_oldest_records_are_dropped_and_counted_when_the_queue_is_full(
    services: Services,
) -> None:
    context = services.context
    records = make_records(context, WorkloadId(1), 5)
    writer = LedgerWriter(away(context), max_queued=3)
    writer.close()

    for record in records:
        writer.put(record)

    assert writer.dropped == 2
    assert writer.waiting() == records[2:]


def test_nothing_to_write_is_no_error(services: Services) -> None:
    LedgerWriter(services.context).flush()
