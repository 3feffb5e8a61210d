"""Logs of Spark that are cut, named or written in unusual ways."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from client.tests.importing import Importing
from client.tests.spark_logs import SparkStory, word_count

_CUT = b'{"Event":"SparkListenerTaskStart","Stage ID":0'


@pytest.mark.parametrize("length", [1, 2, 8, 9, 10, len(_CUT)])
def test_last_line_may_be_cut_anywhere(length: int, importing: Importing, tmp_path: Path) -> None:
    log = word_count().write(tmp_path / "app-1.inprogress")
    with log.open("ab") as file:
        file.write(_CUT[:length])

    (row,) = importing.dry("spark", log)

    assert (row["status"], row["duration_seconds"]) == ("cancelled", "50.0")


@pytest.mark.parametrize("line", [b"x", b'{"event', b'{"Event_', b'{ "Event":'])
def test_last_line_that_begins_otherwise_is_refused(
    line: bytes, importing: Importing, tmp_path: Path
) -> None:
    log = word_count().write(tmp_path / "app-1.inprogress")
    with log.open("ab") as file:
        file.write(line)

    answer = importing("spark", log, "--dry-run")

    assert answer.exit_code == 1
    assert "It is not JSON" in answer.err


@pytest.mark.parametrize(
    ("size", "memory_bytes"),
    [
        ("2147483648b", 2 << 30),
        ("2097152K", 2 << 30),
        ("2048mb", 2 << 30),
        ("2048", 2 << 30),
        (" 2 GiB ", 2 << 30),
        ("1t", 1 << 40),
        ("1p", 1 << 50),
        ("2x", None),
    ],
)
def test_memory_is_in_the_unit_that_is_written(
    size: str, memory_bytes: int | None, importing: Importing, tmp_path: Path
) -> None:
    log = word_count(conf={"spark.executor.memory": size}).end(60).write(tmp_path / "a")

    (row,) = importing.dry("spark", log)

    assert row.get("param.executor_memory_bytes") == (memory_bytes and str(memory_bytes))


@pytest.mark.parametrize(
    ("setting", "parallelism"),
    [
        ("999999999", "999999999"),
        ("1000000000", "8"),
        ("9" * 5000, "8"),
        ("-1", "8"),
        ("0", "8"),
        ("many", "8"),
    ],
)
def test_parallelism_that_is_no_usual_number_is_that_of_the_cores(
    setting: str, parallelism: str, importing: Importing, tmp_path: Path
) -> None:
    log = word_count(conf={"spark.default.parallelism": setting}).end(60).write(tmp_path / "a")

    (row,) = importing.dry("spark", log)

    assert row["param.parallelism"] == parallelism


@pytest.mark.parametrize("counter", [[5], {"5": 1}, "5", True])
def test_counter_without_a_number_is_refused_by_name(
    counter: object, importing: Importing, tmp_path: Path
) -> None:
    story = word_count().add_sql("DriverAccumUpdates", accumUpdates=[[counter, 1]])
    log = story.end(60).write(tmp_path / "a")

    answer = importing("spark", log, "--dry-run")

    assert answer.exit_code == 1
    assert f"{log}:17: The event is not understood: id is " in answer.err


@pytest.mark.parametrize(
    ("numbers", "missing"), [([2], 1), ([1, 2, 4], 3), ([1, 10**18], 2), ([0, 1, 3], 2)]
)
def test_first_part_that_is_missing_is_named(
    numbers: list[int], missing: int, importing: Importing, tmp_path: Path
) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    for number in numbers:
        word_count().write(folder / f"events_{number}_app-1")

    answer = importing("spark", folder, "--dry-run")

    assert answer.exit_code == 1
    assert f"{folder}: Its part events_{missing}_... is missing." in answer.err


def test_exit_code_that_is_null_is_none(importing: Importing, tmp_path: Path) -> None:
    log = word_count().end(60, ExitCode=None).write(tmp_path / "a")

    (row,) = importing.dry("spark", log)

    assert row["status"] == "succeeded"


def test_folder_that_may_not_be_read_is_named(
    importing: Importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word_count().end(60).write(tmp_path / "b")
    (tmp_path / "a").mkdir()
    listed = Path.iterdir

    def iterdir(folder: Path) -> Iterator[Path]:
        # Permissions do not bind the superuser.
        if folder.name == "a":
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", iterdir)

    answer = importing("spark", tmp_path, "--dry-run")

    assert answer.exit_code == 1
    assert f"{tmp_path / 'a'}: It cannot be read: Permission denied." in answer.err


def test_log_without_executors_has_no_phases_of_tasks(importing: Importing, tmp_path: Path) -> None:
    story = SparkStory().job(from_s=1, to_s=2)

    (row,) = importing.dry("spark", story.end(3).write(tmp_path / "a"))

    phases = {name[6:]: cell for name, cell in row.items() if name.startswith("phase.")}
    assert phases == {"setup_seconds": "1.0", "driver_seconds": "1.0"}
    assert not {"nodes", "workers", "param.executors", "param.parallelism"} & row.keys()


@pytest.mark.parametrize(("cpus", "slots"), [("1", 4), ("2", 2), ("0", 4)])
def test_task_may_take_several_cores(
    cpus: str, slots: int, importing: Importing, tmp_path: Path
) -> None:
    story = SparkStory(conf={"spark.task.cpus": cpus}).executor("1", "node-a")
    story.job(from_s=0, to_s=40).task(from_s=0, to_s=40, run_s=40)

    (row,) = importing.dry("spark", story.end(40).write(tmp_path / "a"))

    assert float(row["phase.compute_seconds"]) == pytest.approx((40 - 0.6) / slots)


def test_attempts_of_an_application_are_runs_of_their_own(
    importing: Importing, tmp_path: Path
) -> None:
    story = word_count()
    story.events[2]["App Attempt ID"] = "2"

    (row,) = importing.dry("spark", story.end(60).write(tmp_path / "a"))

    assert row["external_id"] == "spark:app-20261101-0001/2"


def test_links_that_lead_back_are_passed_over(importing: Importing, tmp_path: Path) -> None:
    log = word_count().end(60).write(tmp_path / "2026" / "november" / "app-1")
    (log.parent / "all").symlink_to(tmp_path)
    (tmp_path / "2026" / "this").symlink_to(log.parent / "all")

    (row,) = importing.dry("spark", tmp_path)

    assert row["status"] == "succeeded"
