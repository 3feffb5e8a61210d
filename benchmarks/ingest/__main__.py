"""Upload rows through HTTP and insert the same rows plainly, in turns; print the ratios.

Usage: ``python -m benchmarks.ingest [--rows 100000] [--format ndjson] [--postgresql-url URL]``.
PostgreSQL is measured too if the URL of a server is given whose user may create databases. The
driver's own method (executemany, COPY) is the floor of the goals: it gets rows that are ready to
store and need not be parsed, checked or named. `control` is that floor relative to itself.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import httpx2
from rich.table import Table

from app.storage.database import Database
from app.storage.migration import migrate
from benchmarks.console import table_console
from benchmarks.ingest.databases import new_postgresql, new_sqlite
from benchmarks.ingest.floors import add_workload, clear, insert_by_core, insert_by_driver
from benchmarks.ingest.rows import MeasuredRun, make_runs, to_csv, to_ndjson, to_rows
from benchmarks.ingest.service import RunningService, running_service

_GOAL = 0.4
_FORMATS = {"csv": (to_csv, "text/csv"), "ndjson": (to_ndjson, "application/x-ndjson")}
_RAW_GOALS = {"SQLite": 2.0, "PostgreSQL": 1.7}
_MEMORY_GOAL_MIB = 600.0


@dataclass(slots=True)
class Timings:
    """Seconds by round on one database."""

    name: str
    upload: list[float] = field(default_factory=list)
    core: list[float] = field(default_factory=list)
    driver: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    memory_mib: float | None = None

    def ratio(self, floor: Sequence[float]) -> float:
        """Return the upload's row rate over that of a floor, as the median of the rounds."""
        return statistics.median(
            plain / ours for plain, ours in zip(floor, self.upload, strict=True)
        )

    @property
    def raw_ratio(self) -> float:
        """The upload's time over that of the driver's own method: executemany or COPY."""
        return 1.0 / self.ratio(self.driver)

    @property
    def control(self) -> float:
        """The driver's own method relative to itself: how much the machine alone varies."""
        pairs = zip(self.again, self.driver, strict=True)
        return statistics.median(again / first for again, first in pairs)

    @property
    def is_near_raw(self) -> bool:
        """Whether the goal relative to the driver's own method is met."""
        return self.raw_ratio <= _RAW_GOALS[self.name]


def main() -> None:
    """Measure, print, and fail when a goal is missed."""
    arguments = _parse()
    runs = make_runs(arguments.rows)
    console = table_console(140)
    measured = []
    for name, opened in _databases(arguments.postgresql_url):
        with opened() as url:
            console.print(f"{name}: {arguments.rows} rows, {arguments.rounds} rounds ...")
            measured.append(_measure(name, url, runs, arguments))
    console.print(_table(measured, arguments))
    missed = [timings.name for timings in measured if not _meets_goals(timings)]
    if missed:
        raise SystemExit(f"Goal missed on {', '.join(missed)}.")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the uploaded file")
    parser.add_argument("--rounds", type=int, default=7, help="how often each way is measured")
    parser.add_argument("--format", choices=list(_FORMATS), default="csv")
    parser.add_argument("--postgresql-url", help="a server where databases may be created")
    return parser.parse_args()


def _databases(
    postgresql_url: str | None,
) -> Iterator[tuple[str, Callable[[], AbstractContextManager[str]]]]:
    yield "SQLite", new_sqlite
    if postgresql_url:
        yield "PostgreSQL", partial(new_postgresql, postgresql_url)


def _measure(
    name: str, url: str, runs: Sequence[MeasuredRun], arguments: argparse.Namespace
) -> Timings:
    write, media_type = _FORMATS[arguments.format]
    content = write(runs, "benchmark")
    database = Database(url, pool_size=2)
    migrate(database)
    timings = Timings(name)
    with running_service(url) as service:
        for _ in range(arguments.rounds):
            timings.upload.append(_upload(service, content, media_type))
            clear(database)
            rows = to_rows(runs, add_workload(database, "benchmark"))
            timings.core.append(insert_by_core(database, rows))
            clear(database)
            rows = to_rows(runs, add_workload(database, "benchmark"))
            timings.driver.append(insert_by_driver(database, rows))
            clear(database)
            rows = to_rows(runs, add_workload(database, "benchmark"))
            timings.again.append(insert_by_driver(database, rows))
            clear(database)
        timings.memory_mib = service.peak_memory_mib()
    database.close()
    return timings


def _upload(service: RunningService, content: bytes, media_type: str) -> float:
    started_at = time.perf_counter()
    answer = httpx2.post(
        f"{service.url}/v1/runs",
        content=content,
        headers={"Content-Type": media_type},
        timeout=300,
    )
    duration = time.perf_counter() - started_at
    if answer.status_code != httpx2.codes.CREATED:
        raise SystemExit(f"The upload was refused: {answer.text[:500]}")
    return duration


def _meets_goals(timings: Timings) -> bool:
    is_small = timings.memory_mib is None or timings.memory_mib < _MEMORY_GOAL_MIB
    return is_small and timings.is_near_raw and timings.ratio(timings.core) >= _GOAL


def _table(measured: Sequence[Timings], arguments: argparse.Namespace) -> Table:
    rows = arguments.rows
    table = Table(title=f"{rows} rows of {arguments.format} through HTTP (medians)")
    for heading in ("database", "upload s", "rows/s", "Core s", "driver s"):
        table.add_column(heading, justify="right")
    for heading in ("rate / Core", "time / driver", "control", "goal", "peak MiB"):
        table.add_column(heading, justify="right")
    for timings in measured:
        upload = statistics.median(timings.upload)
        table.add_row(
            timings.name,
            f"{upload:.2f}",
            f"{rows / upload:,.0f}",
            f"{statistics.median(timings.core):.2f}",
            f"{statistics.median(timings.driver):.2f}",
            f"{timings.ratio(timings.core):.2f}",
            f"{timings.raw_ratio:.2f}",
            f"{timings.control:.2f}",
            f"<= {_RAW_GOALS[timings.name]:g} {'met' if timings.is_near_raw else 'MISSED'}",
            "unknown" if timings.memory_mib is None else f"{timings.memory_mib:.0f}",
        )
    return table


if __name__ == "__main__":
    main()
