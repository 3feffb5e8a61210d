"""Web processes of one port count for themselves; each tells the sums of all."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from app.api.metrics.siblings import SiblingMetrics

_ALIVE = os.getppid()


class _Process:
    """What one process counts, and what it would write."""

    def __init__(self, *, answers: int, entries: int) -> None:
        self.registry = CollectorRegistry()
        Counter("answers", "Answers.", ("route",), registry=self.registry).labels("/").inc(answers)
        Gauge("entries", "What is held.", registry=self.registry).set(entries)
        seconds = Histogram("seconds", "Durations.", buckets=(1.0,), registry=self.registry)
        for _ in range(answers):
            seconds.observe(0.5)

    def write(self, folder: Path, pid: int) -> None:
        families = [
            (each.name, each.documentation, each.type, [each[:3] for each in each.samples])
            for each in self.registry.collect()
        ]
        (folder / f"{pid}.json").write_bytes(orjson.dumps(families))


@pytest.fixture
def ended() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def _exposed(metrics: SiblingMetrics) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(metrics)
    lines = generate_latest(registry).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if line[0] != "#" and "_created" not in line)
    return {name: float(value) for name, _, value in pairs}


def test_living_processes_are_added_up(tmp_path: Path) -> None:
    _Process(answers=5, entries=7).write(tmp_path, _ALIVE)

    exposed = _exposed(SiblingMetrics(_Process(answers=2, entries=3).registry, tmp_path))

    assert exposed == {
        'answers_total{route="/"}': 7,
        "entries": 10,
        'seconds_bucket{le="1.0"}': 7,
        'seconds_bucket{le="+Inf"}': 7,
        "seconds_count": 7,
        "seconds_sum": 3.5,
    }


def test_what_ended_processes_counted_stays_and_what_they_held_does_not(
    tmp_path: Path, ended: int
) -> None:
    _Process(answers=5, entries=7).write(tmp_path, ended)

    exposed = _exposed(SiblingMetrics(_Process(answers=2, entries=3).registry, tmp_path))

    assert (exposed['answers_total{route="/"}'], exposed["seconds_count"], exposed["entries"]) == (
        7,
        7,
        3,
    )


def test_number_that_a_process_of_another_user_got_is_not_a_sibling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError(f"signal {signal} to {pid}")

    monkeypatch.setattr(os, "kill", refuse)
    _Process(answers=5, entries=7).write(tmp_path, _ALIVE)

    exposed = _exposed(SiblingMetrics(_Process(answers=2, entries=3).registry, tmp_path))

    assert (exposed["seconds_count"], exposed["entries"]) == (7, 3)


def test_what_was_told_stays_though_the_process_that_told_it_is_killed(
    tmp_path: Path, ended: int
) -> None:
    asked = SiblingMetrics(_Process(answers=5, entries=7).registry, tmp_path)
    first = _exposed(asked)
    (tmp_path / f"{os.getpid()}.json").rename(tmp_path / f"{ended}.json")

    exposed = _exposed(SiblingMetrics(_Process(answers=0, entries=3).registry, tmp_path))

    assert first['answers_total{route="/"}'] == exposed['answers_total{route="/"}'] == 5


def test_a_sibling_that_is_asked_next_tells_no_less(tmp_path: Path) -> None:
    first = _exposed(SiblingMetrics(_Process(answers=5, entries=7).registry, tmp_path))
    (tmp_path / f"{os.getpid()}.json").rename(tmp_path / f"{_ALIVE}.json")

    exposed = _exposed(SiblingMetrics(_Process(answers=2, entries=3).registry, tmp_path))

    assert (first["seconds_count"], exposed["seconds_count"]) == (5, 7)


def test_ended_processes_leave_one_file_whoever_had_the_number(tmp_path: Path, ended: int) -> None:
    _Process(answers=5, entries=7).write(tmp_path, ended)
    _Process(answers=11, entries=7).write(tmp_path, os.getpid())
    metrics = SiblingMetrics(_Process(answers=2, entries=3).registry, tmp_path)

    metrics.start()
    metrics.close()

    assert {path.name for path in tmp_path.glob("*.json")} == {"ended.json", f"{os.getpid()}.json"}
    exposed = _exposed(metrics)
    assert (exposed['answers_total{route="/"}'], exposed["entries"]) == (18, 3)


def test_the_earliest_start_is_that_of_all(tmp_path: Path) -> None:
    name = "process_start_time_seconds"
    labels: dict[str, str] = {}
    sibling = [(name, "Start.", "gauge", [(name, labels, 100.0)])]
    (tmp_path / f"{_ALIVE}.json").write_bytes(orjson.dumps(sibling))
    own = CollectorRegistry()

    class Started:
        def collect(self) -> list[GaugeMetricFamily]:
            return [GaugeMetricFamily(name, "Start.", value=200.0)]

    own.register(Started())

    assert _exposed(SiblingMetrics(own, tmp_path)) == {name: 100.0}


def test_a_process_without_the_folder_tells_what_it_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = SiblingMetrics(_Process(answers=2, entries=3).registry, tmp_path / "gone")
    metrics.start()
    metrics.close()

    assert _exposed(metrics)['answers_total{route="/"}'] == 2
    assert [record.message for record in caplog.records] == [
        "metrics are not those of all processes"
    ]
