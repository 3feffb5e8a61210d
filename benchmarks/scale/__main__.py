"""Measure the service with few and with many stored runs, in turns; print the ratios.

Usage: ``python -m benchmarks.scale --postgresql-url URL [--runs 100000 10000000] [--keep]``.
The URL is that of a server whose user may create databases; each size gets its own database, which
is dropped at the end (10 million runs take 10 minutes and 9 GB) or kept for the next time.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from app.storage.database import make_engine
from benchmarks.scale.filling import (
    RUNS_A_WORKLOAD,
    Size,
    bytes_of_runs,
    fill,
    is_filled,
    own_database,
)
from benchmarks.scale.measuring import OPERATIONS, Operation, Subject, opened

_GOAL = 1.3
_SECONDS_BETWEEN_LINES = 30.0


def main() -> None:
    """Measure, print, and fail when a goal is missed."""
    arguments = _parse()
    console = Console(width=110)
    with ExitStack() as stack:
        subjects = []
        for runs in sorted(arguments.runs):
            size = Size(runs)
            url = stack.enter_context(
                own_database(arguments.postgresql_url, size, is_kept=arguments.keep)
            )
            _fill(console, url, size)
            subject = stack.enter_context(opened(url))
            _describe(console, subject, size)
            subjects.append(subject)
        measured = {
            name: _measure(operation, subjects, arguments) for name, operation in OPERATIONS.items()
        }
        fit_s = subjects[-1].fit_cpu_s()
    missed = _print(console, measured, sorted(arguments.runs))
    console.print(f"A fit of {RUNS_A_WORKLOAD} runs with all regressors: {fit_s:.1f} s of a core")
    sys.exit(int(missed))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql-url", required=True)
    parser.add_argument("--runs", type=int, nargs=2, default=[100_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=20, help="of an operation in a round")
    parser.add_argument("--keep", action="store_true", help="keep the databases for the next time")
    return parser.parse_args()


def _fill(console: Console, url: str, size: Size) -> None:
    engine = make_engine(url)
    if not is_filled(engine):
        started_at = reported_at = time.monotonic()
        for stored in fill(engine, size):
            if time.monotonic() - reported_at > _SECONDS_BETWEEN_LINES:
                reported_at = time.monotonic()
                console.print(f"  {stored:,} runs after {reported_at - started_at:.0f} s")
    engine.dispose()


def _describe(console: Console, subject: Subject, size: Size) -> None:
    by_name = bytes_of_runs(subject.database.engine)
    total = sum(by_name.values())
    console.print(
        f"{size.runs:,} runs of {size.workloads + 1:,} workloads in {size.projects:,} projects:"
        f" {total / 2**20:,.0f} MiB, {total / size.runs:.0f} bytes a run, of which "
        + ", ".join(f"{name} {n_bytes / size.runs:.0f}" for name, n_bytes in by_name.items())
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """The seconds of each round for each subject, and the CPU time of one operation."""

    rounds: list[list[float]]
    cpu_s: float


def _measure(
    operation: Operation, subjects: Sequence[Subject], arguments: argparse.Namespace
) -> Measured:
    """Measure an operation on all subjects in turns; the first round warms up.

    A round counts by its fastest repetition, since others may use the machine.
    """
    rounds: list[list[float]] = [[] for _ in subjects]
    before = sum(subject.cpu_s() for subject in subjects)
    for number in range(1 + arguments.rounds):
        taken: list[list[float]] = [[] for _ in subjects]
        for repeat in range(arguments.repeats):
            for seconds, subject in zip(taken, subjects, strict=True):
                seconds.append(operation(subject, number * arguments.repeats + repeat))
        for fastest, seconds in zip(rounds, taken, strict=True):
            fastest.append(min(seconds))
    count = (1 + arguments.rounds) * arguments.repeats * len(subjects)
    used_s = sum(subject.cpu_s() for subject in subjects) - before
    return Measured([times[1:] for times in rounds], used_s / count)


def _print(console: Console, measured: Mapping[str, Measured], sizes: Sequence[int]) -> bool:
    named = (f"{size:,} runs" for size in sizes)
    table = Table("operation", *named, "ratio", f"goal {_GOAL}", "core of the service")
    missed = False
    for name, result in measured.items():
        few, many = result.rounds
        ratio = statistics.median(b / a for a, b in zip(few, many, strict=True))
        missed |= ratio > _GOAL
        times = [f"{1e3 * statistics.median(seconds):.2f} ms" for seconds in result.rounds]
        verdict = "met" if ratio <= _GOAL else "missed"
        table.add_row(name, *times, f"{ratio:.2f}", verdict, f"{1e3 * result.cpu_s:.2f} ms")
    console.print(table)
    return missed


if __name__ == "__main__":
    main()
