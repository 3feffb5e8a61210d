"""Recorded forecasts for tests."""

from datetime import datetime

from app.domain.forecasts import LedgerQuestion, LedgerRecord
from app.domain.identifiers import ForecastId, WorkloadId, new_identifier
from app.services.context import ServiceContext


def record_forecasts(
    context: ServiceContext, workload_id: WorkloadId, *instants: datetime
) -> list[ForecastId]:
    """Record a forecast of a workload at each instant; return their ids."""
    question = LedgerQuestion(workload_id, 1, b"{}", None)
    names = [ForecastId(new_identifier("fc", now=instant)) for instant in instants]
    records = [
        LedgerRecord(question, name, instant, b"{}")
        for name, instant in zip(names, instants, strict=True)
    ]
    with context.database.transaction() as stores:
        stores.forecasts.add_many(records)
    return names
