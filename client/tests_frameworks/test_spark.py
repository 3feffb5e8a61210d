"""Event logs that a real local Spark writes here, imported into the real service."""

import gzip
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from trainfare_client import Client
from trainfare_client.console import main

# A kilobyte: what is read ahead of a split must not be most of it.
_LINE = "the quick brown fox jumps over the lazy dog " * 23 + "\n"
_PARTITIONS = 8
_PLAIN = {"spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"}


@dataclass
class Measured:
    """What a clock beside Spark says, from the call that starts it to the one that ends it."""

    seconds: float = 0.0


@pytest.fixture(autouse=True)
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's workers run this Python; its virtual machine starts before any clock does."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    SparkContext._ensure_initialized()


@contextmanager
def _spark(folder: Path, *, master: str = "local[2]", **settings: str) -> Iterator[Any]:
    """A session that logs to a folder; yields it with the clock that times it."""
    folder.mkdir(exist_ok=True)
    named = {name.replace("__", "."): value for name, value in settings.items()}
    conf = SparkConf().setMaster(master).setAppName("Word Count")
    conf.setAll(
        {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": folder.as_uri(),
            "spark.ui.enabled": "false",
            **named,
        }.items()
    )
    measured = Measured()
    started = time.monotonic()
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    try:
        yield session, measured
    finally:
        measured.seconds = time.monotonic() - started
        session.stop()


def _text_file(file: Path, lines: int) -> Path:
    file.write_text(_LINE * lines)
    return file


def _slow_words(seconds_per_line: float) -> Callable[[Iterator[str]], Iterator[str]]:
    # Waiting takes no core, so that more workers help on a machine of any size.
    def words(lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            time.sleep(seconds_per_line)
            yield from line.split()[:9]

    return words


def _count_words(session: Any, file: Path, *, seconds_per_line: float) -> int:
    lines = session.sparkContext.textFile(file.as_uri(), _PARTITIONS)
    pairs = lines.mapPartitions(_slow_words(seconds_per_line)).map(lambda word: (word, 1))
    counts: dict[str, int] = pairs.reduceByKey(lambda one, two: one + two).collectAsMap()
    return counts["fox"]


def _import(*arguments: object) -> None:
    assert main(["import", "spark", *(str(word) for word in arguments)]) == 0


def test_run_agrees_with_the_clock_and_tells_its_platform(
    client: Client, workload: str, tmp_path: Path
) -> None:
    file = _text_file(tmp_path / "words.txt", 4000)
    settings = {
        "spark.sql.shuffle.partitions": "16",
        "spark.default.parallelism": "6",
        "spark.scheduler.mode": "FAIR",
    }
    with _spark(tmp_path / "log", **settings) as (session, clock):
        assert _count_words(session, file, seconds_per_line=0.006) == 4000
        session.conf.set("spark.sql.shuffle.partitions", "12")
        session.range(1000).groupBy("id").count().collect()

    _import(tmp_path / "log", "--workload", workload)
    (run,) = client.runs.all(workload)

    assert run["duration_seconds"] == pytest.approx(clock.seconds, rel=0.03)
    assert run["status"] == "succeeded"
    assert run["configuration"]["workers"] == 1
    assert run["work"]["dataset_size"] == pytest.approx(file.stat().st_size, rel=0.2)
    assert run["parameters"] == {
        "executors": 1,
        "executor_cores": 2,
        "executor_memory_bytes": 1 << 30,
        "parallelism": 6,
        "shuffle_partitions": 12,
        "scheduler_mode": "FAIR",
    }
    assert int(run["labels"]["shuffle_write_bytes"]) > 0
    phases = run["phases"]
    assert phases["compute_seconds"] > 4000 * 0.006 / 2 * 0.9
    assert sum(phases.values()) < run["duration_seconds"] * 1.05


def test_three_levels_of_parallelism_and_two_sizes_are_ranked_right(
    client: Client, workload: str, tmp_path: Path
) -> None:
    clocks = {}
    for lines in (2000, 12_000):
        file = _text_file(tmp_path / f"{lines}.txt", lines)
        for slots in (1, 2, 4):
            with _spark(tmp_path / "logs", master=f"local[{slots}]") as (session, clock):
                _count_words(session, file, seconds_per_line=0.004)
            clocks[slots, lines] = clock

    _import(tmp_path / "logs", "--workload", workload)
    _import(tmp_path / "logs", "--workload", workload)
    runs = list(client.runs.all(workload))
    fit = client.fits.wait(client.fits.request(workload, time_budget_s=20, seed=1)["fit_id"])
    forecasts = [
        client.forecasts.make(
            workload,
            configuration=run["configuration"],
            work=run["work"],
            parameters=run["parameters"],
        )["duration_seconds"]["median"]
        for run in runs
    ]

    assert len(runs) == len(clocks) == 6
    assert fit["state"] == "succeeded"
    measured = [run["duration_seconds"] for run in runs]
    assert sorted(measured) == pytest.approx(
        sorted(clock.seconds for clock in clocks.values()), rel=0.05
    )
    told_apart = [
        (shorter, longer)
        for shorter, longer in itertools.permutations(range(6), 2)
        if measured[longer] > 1.2 * measured[shorter]
    ]
    assert len(told_apart) >= 12
    assert all(forecasts[shorter] < forecasts[longer] for shorter, longer in told_apart)


def test_log_in_many_parts_and_logs_in_all_packings_tell_the_same_kind_of_run(
    client: Client, workload: str, tmp_path: Path
) -> None:
    parts = {"spark.eventLog.rolling.maxFileSize": "10m", "spark.eventLog.compress": "false"}
    with _spark(tmp_path / "rolling", **parts) as (session, _):
        session.range(0, 3000, 1, 3000).count()
    with _spark(tmp_path / "plain", **_PLAIN) as (session, _):
        session.sparkContext.parallelize(range(40), 40).count()
    (folder,) = (tmp_path / "rolling").iterdir()
    (plain,) = (tmp_path / "plain").iterdir()
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    _import(folder, plain, packed, "--workload", workload)
    runs = {run["labels"]["tasks"]: run for run in client.runs.all(workload)}

    assert len(list(folder.glob("events_*"))) > 1
    assert set(runs) == {"40", "3001"}


def test_job_that_failed_is_a_failure(client: Client, workload: str, tmp_path: Path) -> None:
    def fail(number: int) -> int:
        raise ValueError(number)

    with _spark(tmp_path / "failed") as (session, _), pytest.raises(Exception, match="ValueError"):
        session.sparkContext.parallelize(range(4), 2).map(fail).count()
    with _spark(tmp_path / "recovered") as (session, _):
        with pytest.raises(Exception, match="ValueError"):
            session.sparkContext.parallelize(range(4), 2).map(fail).count()
        session.sparkContext.parallelize(range(4), 2).count()

    _import(tmp_path / "failed", tmp_path / "recovered", "--workload", workload)
    statuses = {run["status"]: run["labels"]["failed_tasks"] for run in client.runs.all(workload)}

    assert set(statuses) == {"failed", "succeeded"}
    assert int(statuses["succeeded"]) > 0


@pytest.mark.parametrize("compress", ["true", "false"])
def test_driver_that_was_killed_leaves_a_lower_bound(
    compress: str, client: Client, workload: str, tmp_path: Path
) -> None:
    killed = Path(__file__).with_name("spark_killed.py")
    (tmp_path / "log").mkdir()

    subprocess.run(
        [sys.executable, str(killed), (tmp_path / "log").as_uri(), compress],
        env=dict(os.environ),
        check=False,
        capture_output=True,
    )
    _import(tmp_path / "log", "--workload", workload)
    (run,) = client.runs.all(workload)

    assert run["status"] == "cancelled"
    assert run["duration_seconds"] > 0


def test_block_of_the_page_runs_and_its_runs_arrive(client: Client, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "integrations" / "spark.md"
    (block,) = re.findall(r"^```bash\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    command = tmp_path / "bin" / "trainfare"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m trainfare_client "$@"\n')
    command.chmod(0o755)

    answer = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 0, answer.stderr
    cores = {run["parameters"]["executor_cores"] for run in client.runs.all("count")}
    assert cores == {1, 2}
