"""The cost of a recorded forecast as the ledger grows, and the time of `accuracy` to search it.

Each forecast asks for a different scenario, as in the sweeps of a scheduler. Rows are stored as by
the service, 800 per transaction; the ratio compares the last tenth with the first.

    python -m benchmarks.ledger --forecasts 400000
    python -m benchmarks.ledger --url postgresql+psycopg://USER@HOST/EMPTY_DATABASE
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from app.domain.forecasts import LedgerQuestion, LedgerRecord
from app.domain.identifiers import ForecastId, WorkloadId, new_identifiers
from app.services.context import utc_now
from app.storage.database import Database
from app.storage.migration import migrate
from benchmarks.ingest.floors import add_workload

_GOAL = 1.3
_ROWS = 800
_ANSWER = orjson.dumps({"duration_seconds": [0.25] * 380})
_REQUEST = orjson.dumps({"workload": "scheduled", "configuration": {"workers": 4}, "work": 1e6})
_N_SEARCHED = 10_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds per row: of CPU time and of wall-clock time."""

    cpu_us: float
    wall_us: float


def main() -> None:
    """Measure, print, and fail when the goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--forecasts", type=int, default=400_000)
    parser.add_argument("--url", help="an empty database; a SQLite file that is removed if omitted")
    arguments = parser.parse_args()
    console = Console(width=110)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(arguments.url or f"sqlite:///{folder}/ledger.db", pool_size=1)
        migrate(database)
        workload_id = WorkloadId(add_workload(database, "scheduled"))
        began_at = utc_now()
        batches = max(arguments.forecasts // _ROWS, 20)
        costs = [
            _store(database, records)
            for records in track(
                _records(workload_id, batches), "storing", batches, console=console
            )
        ]
        search_s = _search_seconds(database, workload_id, batches * _ROWS, began_at)
        database.close()
    sys.exit(int(_print(console, costs, search_s)))


def _records(workload_id: WorkloadId, batches: int) -> Iterator[list[LedgerRecord]]:
    for batch in range(batches):
        instant = utc_now()
        yield [
            LedgerRecord(
                LedgerQuestion(workload_id, 1, _REQUEST, _digest(batch * _ROWS + row)),
                ForecastId(key),
                instant,
                _ANSWER,
            )
            for row, key in enumerate(new_identifiers("fc", _ROWS))
        ]


def _digest(number: int) -> str:
    return sha256(str(number).encode()).hexdigest()


def _store(database: Database, records: list[LedgerRecord]) -> Cost:
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    with database.transaction() as stores:
        stores.forecasts.add_many(records)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    return Cost(1e6 * cpu_s / len(records), 1e6 * wall_s / len(records))


def _search_seconds(
    database: Database, workload_id: WorkloadId, forecasts: int, since: datetime
) -> float:
    """Return the seconds to look up the scenarios of as many runs as `accuracy` reads."""
    step = max(forecasts // _N_SEARCHED, 1)
    digests = [_digest(number) for number in range(0, forecasts, step)][:_N_SEARCHED]
    start = time.perf_counter()
    with database.reading() as stores:
        stores.forecasts.recorded(workload_id, [], digests, since)
    return time.perf_counter() - start


def _print(console: Console, costs: list[Cost], search_s: float) -> bool:
    tenth = len(costs) // 10
    first, last = costs[:tenth], costs[-tenth:]
    table = Table("microseconds a recorded forecast", "first tenth", "last tenth", "ratio", "goal")
    ratios = []
    for name in ("cpu_us", "wall_us"):
        early, late = (statistics.fmean(getattr(c, name) for c in part) for part in (first, last))
        ratios.append(late / early)
        table.add_row(
            "process" if name == "cpu_us" else "clock",
            *(f"{early:.1f}", f"{late:.1f}", f"{ratios[-1]:.2f}"),
            f"<= {_GOAL}" if name == "cpu_us" else "",
        )
    console.print(table)
    console.print(f"{_N_SEARCHED:,} scenarios were looked for in {search_s:.2f} s")
    return ratios[0] > _GOAL


if __name__ == "__main__":
    main()
