"""Benchmark files of CI: github-action-benchmark and Bencher."""

import json
from pathlib import Path
from typing import Any

import pytest

from client.tests.importing import Importing, written


def _history(*benches: dict[str, Any], commit: str = "1f2e3d") -> dict[str, Any]:
    build = {
        "commit": {"id": commit, "timestamp": "2026-11-01T10:00:00Z"},
        "date": 1_795_259_000_000,
        "tool": "cargo",
        "benches": list(benches),
    }
    return {"lastUpdate": 1, "repoUrl": "https://example.org", "entries": {"Rust": [build]}}


def _bench(**changes: Any) -> dict[str, Any]:
    return {"name": "fit / 20", "value": 2_000_000, "unit": "ns/iter", "range": "± 3", **changes}


def _json(file: Path, document: Any) -> Path:
    return written(file, json.dumps(document))


def test_history_becomes_runs_with_their_commits(importing: Importing, tmp_path: Path) -> None:
    text = "window.BENCHMARK_DATA = " + json.dumps(_history(_bench())) + ";\n"
    file = written(tmp_path / "data.js", text)

    (row,) = importing.dry("github-action-benchmark", file)

    assert row == {
        "workload": "fit-20",
        "external_id": "github-action-benchmark:1f2e3d/1795259000000/Rust/fit / 20",
        "status": "succeeded",
        "duration_seconds": "0.002",
        "started_at": "2026-11-21T11:03:20+00:00",
        "label.benchmark": "fit / 20",
        "label.git_sha": "1f2e3d",
        "label.range": "± 3",
        "label.suite": "Rust",
    }


@pytest.mark.parametrize(
    ("value", "unit", "seconds"),
    [
        (5, "ms", "0.005"),
        (5, "us/op", "5e-06"),
        (5, "µs", "5e-06"),
        (1.5, "seconds", "1.5"),
        (2, "Minutes", "120.0"),
        (2, "mins", "120.0"),
        (8, "iter/sec", "0.125"),
        ("8", "ops/s", "0.125"),
    ],
)
def test_units_become_seconds_of_one_execution(
    value: object, unit: str, seconds: str, importing: Importing, tmp_path: Path
) -> None:
    file = _json(tmp_path / "results.json", [_bench(value=value, unit=unit)])

    (row,) = importing.dry("github-action-benchmark", file)

    assert row["duration_seconds"] == seconds


def test_what_is_no_time_is_left_out_and_counted(importing: Importing, tmp_path: Path) -> None:
    units = ("MB", "%", "sec/MB")
    other = [_bench(name=unit, unit=unit) for unit in units]
    file = _json(tmp_path / "a.json", [_bench(), *other])

    answer = importing("github-action-benchmark", file, "--dry-run")

    assert len(answer.rows) == 1
    assert "Left out: 3 benchmarks whose unit is not a time" in answer.err


@pytest.mark.parametrize(
    "changes", [{"commit": ["c"]}, {"commit": 7}, {"date": [1]}, {"date": "1"}]
)
def test_builds_without_a_commit_or_a_date_are_known_by_what_they_have(
    changes: dict[str, Any], importing: Importing, tmp_path: Path
) -> None:
    history = _history(_bench())
    build = history["entries"]["Rust"][0]
    build["commit"]["id"] = changes.get("commit", build["commit"]["id"])
    build["date"] = changes.get("date", build["date"])

    (row,) = importing.dry("github-action-benchmark", _json(tmp_path / "data.json", history))

    known = "1795259000000" if "commit" in changes else "1f2e3d"
    assert row["external_id"] == f"github-action-benchmark:{known}/Rust/fit / 20"


def test_one_workload_tells_its_benchmarks_apart(importing: Importing, tmp_path: Path) -> None:
    file = _json(tmp_path / "a.json", [_bench(), _bench(name="fit-20", extra="threads: 2")])

    refused = importing("github-action-benchmark", file, "--dry-run")
    rows = importing.dry("github-action-benchmark", file, "--workload", "all", "--key", "ci-7")

    assert "would both be the workload 'fit-20'" in refused.err
    assert [row["param.benchmark"] for row in rows] == ["fit / 20", "fit-20"]
    assert rows[1]["external_id"] == "github-action-benchmark:ci-7/fit-20"


def test_results_without_an_id_are_known_by_their_content(
    importing: Importing, tmp_path: Path
) -> None:
    once = _json(tmp_path / "a.json", [_bench(), _bench()])

    first, second = importing.dry("github-action-benchmark", once)
    again = importing.dry("github-action-benchmark", once)

    assert first["external_id"] != second["external_id"]
    assert [row["external_id"] for row in again] == [first["external_id"], second["external_id"]]


def test_importing_a_longer_history_adds_what_is_new(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    history = _history(_bench())
    file = _json(tmp_path / "data.json", history)
    uploading("github-action-benchmark", file, "--workload", workload)
    history["entries"]["Rust"] += _history(_bench(value=1), commit="2")["entries"]["Rust"]

    _json(file, history)
    answer = uploading("github-action-benchmark", file, "--workload", workload)

    assert answer.out == f"{workload}: 1 run created, 1 already there\n"


def test_latency_of_bencher_is_the_duration(importing: Importing, tmp_path: Path) -> None:
    results = {
        "Fit::small": {"latency": {"value": 88.5, "lower_value": 80}, "size": {"value": 3}},
        "nothing": {"size": {"value": 3}},
    }
    file = _json(tmp_path / "bmf.json", results)

    answer = importing("bencher", file, "--dry-run", "--map", "param.size=size.value")
    (keyed,) = importing.dry("bencher", file, "--key", "ci-7")

    (row,) = answer.rows
    assert row["workload"] == "fit-small"
    assert row["duration_seconds"] == "8.85e-08"
    assert row["param.size"] == "3"
    assert "Left out: 1 benchmarks whose unit is not a time" in answer.err
    assert keyed["external_id"] == "bencher:ci-7/Fit::small/0"


def test_another_measure_of_bencher_comes_with_its_unit(
    importing: Importing, tmp_path: Path
) -> None:
    runs = [{"fit": {"wall-time": {"value": value}}} for value in (2, 2, 3)]
    file = _json(tmp_path / "bmf.json", runs)

    rows = importing.dry("bencher", file, "--measure", "wall-time=s")

    assert [row["duration_seconds"] for row in rows] == ["2.0", "2.0", "3.0"]
    assert len({row["external_id"] for row in rows}) == 3


def test_measure_that_no_benchmark_has_is_refused_with_those_there_are(
    importing: Importing, tmp_path: Path
) -> None:
    many = {f"measure-{number}": {"value": 1} for number in range(50)}
    file = _json(tmp_path / "bmf.json", {"fit": {"wall-time": {"value": 2}, **many}})

    answer = importing("bencher", file, "--measure", "wall=s", "--dry-run")

    assert answer.exit_code == 2
    assert "--measure names the measure 'wall', which no run has." in answer.err
    assert "There are: measure-0, " in answer.err
    assert " and 11 more." in answer.err


@pytest.mark.parametrize(
    ("source", "content", "said"),
    [
        ("github-action-benchmark", "{", "It is not JSON"),
        ("github-action-benchmark", "{}", "not a file of github-action-benchmark"),
        ("github-action-benchmark", '{"entries": {"Rust": [{}]}}', 'entries["Rust"][0]: The build'),
        ("github-action-benchmark", '{"entries": {"Rust": [3]}}', "no list of benches"),
        ("github-action-benchmark", "[3]", "a.json: [0]: It is not a benchmark with a name."),
        ("github-action-benchmark", '[{"name": "a", "unit": "s"}]', "value is not a number"),
        ("github-action-benchmark", '[{"name": "a", "value": NaN}]', "value is not a number"),
        ("github-action-benchmark", '[{"name": "a", "value": "1.2.3"}]', "'1.2.3' is not a number"),
        ("github-action-benchmark", '[{"name": "a", "value": 0, "unit": "s"}]', "The duration 0.0"),
        ("bencher", "[[]]", "not in Bencher Metric Format"),
        ("bencher", "{}", "not in Bencher Metric Format"),
        ("bencher", '{"a": 3}', "It has no measures"),
        ("bencher", '{"a": {"latency": 3}}', "'latency' has no value"),
        ("bencher", '{"a": {"latency": {"value": true}}}', "value is not a number"),
        ("bencher", '{"a": {"speed": {"value": 1}}}', "There are no runs to import."),
    ],
)
def test_what_is_no_benchmark_file_is_refused(
    source: str, content: str, said: str, importing: Importing, tmp_path: Path
) -> None:
    answer = importing(source, written(tmp_path / "a.json", content), "--dry-run")

    assert answer.exit_code == 1
    assert said in answer.err


def test_name_that_no_file_can_hold_is_written_as_far_as_it_can(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.json", '[{"name": "a\\ud800", "value": 1, "unit": "s"}]')

    answer = uploading("github-action-benchmark", file, "--workload", workload)

    assert answer.exit_code == 0


def test_unit_that_is_no_time_is_wrong_usage(importing: Importing, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        importing("bencher", tmp_path / "a.json", "--measure", "size=MB")

    assert end.value.code == 2
