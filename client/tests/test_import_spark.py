"""Spark's event logs become runs with phases, parameters and outcomes."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from trainfare_client import Client

from app.domain.zstd import zstd
from client.tests.importing import Importing
from client.tests.spark_logs import SparkStory, word_count


def test_application_becomes_a_run_with_its_platform(importing: Importing, tmp_path: Path) -> None:
    conf = {
        "spark.master": "yarn",
        "spark.default.parallelism": "16",
        "spark.sql.shuffle.partitions": "64",
        "spark.scheduler.mode": "fair",
        "spark.executor.memory": "4g",
    }
    log = word_count(conf=conf).end(60).write(tmp_path / "app-1")

    (row,) = importing.dry("spark", log)

    assert row["workload"] == "word-count"
    assert row["external_id"] == "spark:app-20261101-0001"
    assert row["status"] == "succeeded"
    assert row["duration_seconds"] == "60.0"
    assert row["started_at"] == "2026-11-21T11:03:20.000+00:00"
    assert (row["nodes"], row["workers"], row["dataset_size"]) == ("2", "2", "8000")
    assert {name[6:]: cell for name, cell in row.items() if name.startswith("param.")} == {
        "executors": "2",
        "executor_cores": "4",
        "executor_memory_bytes": str(4 << 30),
        "parallelism": "16",
        "scheduler_mode": "FAIR",
        "shuffle_partitions": "64",
    }
    assert {name[6:]: cell for name, cell in row.items() if name.startswith("label.")} == {
        "spark_version": "4.0.1",
        "stages": "1",
        "tasks": "8",
        "failed_tasks": "0",
        "input_records": "80",
        "output_bytes": "40",
        "shuffle_read_bytes": "560",
        "shuffle_write_bytes": "560",
    }


def test_phases_are_seconds_of_the_clock(importing: Importing, tmp_path: Path) -> None:
    log = word_count().end(60).write(tmp_path / "app-1")

    (row,) = importing.dry("spark", log)

    # Eight slots of which each ran one task: 39 s, of which 0.5 s moved data and 0.1 s collected.
    phases = {name[6:]: float(cell) for name, cell in row.items() if name.startswith("phase.")}
    assert phases == pytest.approx(
        {
            "setup_seconds": 10.0,
            "driver_seconds": 10.0,
            "compute_seconds": 38.4,
            "communication_seconds": 0.5,
            "garbage_collection_seconds": 0.1,
            "task_overhead_seconds": 1.0,
        }
    )


def test_settings_that_nobody_made_are_those_of_spark(importing: Importing, tmp_path: Path) -> None:
    story = SparkStory(conf={"spark.master": "local[3]", "spark.driver.memory": "512"})
    story.executor("driver", "here", cores=3).job(from_s=1, to_s=2)

    (row,) = importing.dry("spark", story.end(3).write(tmp_path / "a"))

    assert row["param.parallelism"] == "3"
    assert row["param.shuffle_partitions"] == "200"
    assert row["param.scheduler_mode"] == "FIFO"
    assert row["param.executor_memory_bytes"] == str(512 << 20)
    assert "dataset_size" not in row


@pytest.mark.parametrize(
    ("master", "memory_bytes"),
    [("local", 1 << 30), ("local[*]", 1 << 30), ("local-cluster[2,1,600]", 500 << 20)],
)
def test_memory_is_that_of_who_computes(
    master: str, memory_bytes: int, importing: Importing, tmp_path: Path
) -> None:
    conf = {"spark.master": master, "spark.executor.memory": "500m"}

    (row,) = importing.dry("spark", word_count(conf=conf).end(60).write(tmp_path / "a"))

    assert row["param.executor_memory_bytes"] == str(memory_bytes)


def test_setting_of_a_session_goes_before_that_of_the_start(
    importing: Importing, tmp_path: Path
) -> None:
    story = word_count(conf={"spark.sql.shuffle.partitions": "64"})
    changed = {"spark.sql.shuffle.partitions": "8", "spark.sql.execution.id": "3"}
    story.add("JobStart", **{"Job ID": 1, "Submission Time": 0, "Properties": changed})
    story.add("JobEnd", **{"Job ID": 1, "Job Result": {"Result": "JobSucceeded"}})

    (row,) = importing.dry("spark", story.end(60).write(tmp_path / "a"))

    assert row["param.shuffle_partitions"] == "8"


def test_executors_that_come_and_go_count_while_they_live(
    importing: Importing, tmp_path: Path
) -> None:
    story = SparkStory().executor("1", "node-a")
    story.executor_goes("1", at_s=30).executor("2", "node-a", at_s=30)
    story.task(from_s=0, to_s=40, run_s=40)
    story.job(from_s=0, to_s=40)

    (row,) = importing.dry("spark", story.end(40).write(tmp_path / "a"))

    assert row["param.executors"] == "1"
    # One task kept one of four slots busy.
    assert float(row["phase.compute_seconds"]) == pytest.approx((40 - 0.6) / 4)


def test_files_of_queries_count_where_tasks_do_not_see_them(
    importing: Importing, tmp_path: Path
) -> None:
    scan = {"metrics": [{"name": "size of files read", "accumulatorId": 5}], "children": []}
    other = {"metrics": [{"name": "number of files read", "accumulatorId": 6}]}
    story = word_count()
    story.add_sql("SQLExecutionStart", sparkPlanInfo={"children": [scan, other]}, time=0)
    story.add_sql("DriverAccumUpdates", accumUpdates=[[5, 1 << 30], [6, 4], []])

    (row,) = importing.dry("spark", story.end(60).write(tmp_path / "a"))

    assert row["dataset_size"] == str(1 << 30)


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        ("Job aborted due to stage failure: ValueError: boom", "failed"),
        ("java.lang.OutOfMemoryError: Java heap space", "out_of_memory"),
        ("Container killed by YARN for exceeding physical memory limits.", "out_of_memory"),
        ("ExecutorLostFailure Reason: Command exited with code 137", "out_of_memory"),
        ("ExecutorLostFailure Reason: Command exited with code 52", "out_of_memory"),
        ("The executor with id 1 exited with exit code 52(JVM OOM).", "out_of_memory"),
        ("ExecutorLostFailure Reason: Command exited with code 1", "failed"),
        ("ExecutorLostFailure: Container container_1 on host a was preempted.", "preempted"),
        ("Job 3 cancelled because SparkContext was shut down", "cancelled"),
    ],
)
def test_last_job_that_failed_tells_the_outcome(
    failure: str, status: str, importing: Importing, tmp_path: Path
) -> None:
    failed = word_count().job(from_s=51, to_s=55, failure=failure).add_sql("SQLExecutionEnd")
    recovered = word_count().job(from_s=51, to_s=55, failure=failure).job(from_s=56, to_s=57)

    (row,) = importing.dry("spark", failed.end(60).write(tmp_path / "failed"))
    (fine,) = importing.dry("spark", recovered.end(60).write(tmp_path / "fine"))

    assert row["status"] == status
    assert fine["status"] == "succeeded"


@pytest.mark.parametrize(
    ("exit_code", "status"),
    [(0, "succeeded"), (1, "failed"), (130, "cancelled"), (143, "preempted")],
)
def test_exit_code_tells_the_outcome_of_an_application_without_a_failed_job(
    exit_code: int, status: str, importing: Importing, tmp_path: Path
) -> None:
    story = word_count().add_sql("SQLExecutionEnd", executionId=1, errorMessage="")
    log = story.end(60, ExitCode=exit_code).write(tmp_path / "a")

    (row,) = importing.dry("spark", log)

    assert row["status"] == status


def test_query_that_failed_without_a_job_is_a_failure(importing: Importing, tmp_path: Path) -> None:
    story = word_count().add_sql("SQLExecutionEnd", executionId=1, errorMessage="no such table")

    (row,) = importing.dry("spark", story.end(60).write(tmp_path / "a"))

    assert row["status"] == "failed"


def test_application_without_an_end_is_a_lower_bound(importing: Importing, tmp_path: Path) -> None:
    story = word_count()
    story.add("JobStart", **{"Job ID": 9, "Submission Time": 1_795_259_052_000})
    log = story.write(tmp_path / "app-1.inprogress")
    with log.open("a") as file:
        file.write('{"Event":"SparkListenerTaskSta')

    (row,) = importing.dry("spark", log)

    assert row["status"] == "cancelled"
    assert row["duration_seconds"] == "52.0"
    assert row["external_id"] == "spark:app-20261101-0001/until-1795259052000"
    assert "phase.driver_seconds" not in row


def test_log_is_read_plain_and_compressed_and_in_parts(
    importing: Importing, tmp_path: Path
) -> None:
    content = word_count().end(60).write(tmp_path / "plain").read_bytes()
    (tmp_path / "packed.gz").write_bytes(gzip.compress(content))
    frames = [zstd.compress(part) for part in (content[:700], content[700:], b"")]
    (tmp_path / "packed.zstd").write_bytes(b"".join(frames))
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    lines = content.splitlines(keepends=True)
    (folder / "appstatus_app-1").touch()
    for number in range(1, len(lines) + 1):
        part = folder / f"events_{number}_app-1.zstd"
        part.write_bytes(zstd.compress(lines[number - 1]))

    rows = importing.dry(
        "spark", tmp_path / "plain", tmp_path / "packed.gz", tmp_path / "packed.zstd", folder
    )
    all_of_folder = importing.dry("spark", tmp_path)

    assert len(rows) == 4
    assert all(row == rows[0] for row in [*rows, *all_of_folder])


def test_compacted_log_keeps_silent_about_what_it_has_lost(
    importing: Importing, tmp_path: Path
) -> None:
    lines = word_count().end(60).text.splitlines(keepends=True)
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "events_1_app-1").write_text("{}")
    (folder / "events_2_app-1.compact").write_text("".join(lines[:-1]))
    (folder / "events_3_app-1").write_text(lines[-1])

    (row,) = importing.dry("spark", folder)

    assert row["duration_seconds"] == "60.0"
    assert not any(name.startswith("phase.") for name in row)
    assert "dataset_size" not in row


def test_part_that_is_missing_is_named(importing: Importing, tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    word_count().write(folder / "events_1_app-1")
    word_count().write(folder / "events_3_app-1")

    answer = importing("spark", folder, "--dry-run")

    assert answer.exit_code == 1
    assert f"{folder}: Its part events_2_... is missing." in answer.err


def test_maps_read_totals_and_settings(importing: Importing, tmp_path: Path) -> None:
    log = word_count(conf={"spark.sql.adaptive.enabled": "true"}).end(60).write(tmp_path / "a")

    (row,) = importing.dry(
        "spark",
        log,
        *("--map", "dataset_size=input_records"),
        *("--map", "workers=executors"),
        *("--map", "param.adaptive=conf.spark.sql.adaptive.enabled"),
    )

    assert (row["dataset_size"], row["workers"], row["param.adaptive"]) == ("80", "2", "true")


def _cut(content: bytes) -> bytes:
    return gzip.compress(content)[:-20]


def _with_bad_line(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines[:2], b'{"Event":\n', *lines[2:]])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_cut, "its compressed data ends too early"),
        (lambda content: zstd.compress(content)[:-20], "its compressed data ends too early"),
        (lambda content: gzip.compress(content)[:-8] + b"x" * 8, "It is broken: "),
        (lambda content: zstd.compress(content)[:4] + b"\xff" * 50, "It is broken: "),
        (lambda content: b"LZ4Block" + content, "It is compressed as lz4 blocks"),
        (_with_bad_line, ":3: It is not JSON"),
        (lambda content: content + b'{"Event":"Spark', "It is not JSON"),
        (lambda content: content + b"[" * 200_000 + b"\n{}\n", "nested too deeply"),
        (lambda content: b"26/11/01 INFO started\n" + content, ":1: It is not JSON"),
        (lambda content: b"[1]\n" + content, "not an event of a Spark log"),
        (lambda _: b'{"Event":"SparkListenerLogStart"}\n', "no start of an application"),
        (lambda _: b"", "no start of an application"),
        (lambda content: content.replace(b"1795259000000", b"true"), "not a whole number"),
        (lambda content: content.replace(b"1795259060000", b"1795258000000"), "The duration -"),
    ],
)
def test_log_that_cannot_be_read_is_refused_by_name(
    spoil: object, said: str, importing: Importing, tmp_path: Path
) -> None:
    assert callable(spoil)
    file = tmp_path / "broken"
    file.write_bytes(spoil(word_count().end(60).text.encode()))
    good = word_count(app_id="app-2").end(60).write(tmp_path / "good")

    answer = importing("spark", file, good, "--dry-run")
    skipped = importing("spark", file, good, "--dry-run", "--skip-invalid")

    assert answer.exit_code == 1
    assert str(file) in answer.err
    assert said in answer.err
    assert answer.out == ""
    assert [row["external_id"] for row in skipped.rows] == ["spark:app-2"]


def test_end_that_spark_was_still_compressing_is_no_fault(
    importing: Importing, tmp_path: Path
) -> None:
    content = word_count().text.encode()
    packer = zstd.ZstdCompressor()
    begun = packer.compress(content, packer.FLUSH_BLOCK)
    file = tmp_path / "app-1.zstd.inprogress"
    file.write_bytes(begun)

    (row,) = importing.dry("spark", file)

    assert (row["status"], row["duration_seconds"]) == ("cancelled", "50.0")


@pytest.mark.parametrize(
    ("pack", "stuff", "said"),
    [
        (gzip.compress, b" " * (20 << 20), "more than 1,000 times its size"),
        (zstd.compress, b"\0" * (20 << 20), "more than 1,000 times its size"),
        (bytes, b"\0" * (65 << 20), "longer than 64 MiB"),
    ],
)
def test_bomb_is_refused_before_it_bursts(
    pack: object, stuff: bytes, said: str, importing: Importing, tmp_path: Path
) -> None:
    assert callable(pack)
    file = tmp_path / "bomb"
    file.write_bytes(pack(stuff))

    answer = importing("spark", file, "--dry-run")

    assert answer.exit_code == 1
    assert said in answer.err


def test_paths_without_logs_are_refused(importing: Importing, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    empty = importing("spark", tmp_path / "empty", "--dry-run")
    gone = importing("spark", tmp_path / "gone", "--dry-run")

    assert "The folder is empty." in empty.err
    assert "It cannot be read: No such file or directory." in gone.err
    assert (empty.exit_code, gone.exit_code) == (1, 1)


@pytest.mark.lengthy
def test_memory_does_not_grow_with_the_log(importing: Importing, tmp_path: Path) -> None:
    def peak_bytes(tasks: int) -> int:
        story = word_count()
        task = json.dumps(story.events[-1]) + "\n"
        file = story.write(tmp_path / f"of-{tasks}")
        with file.open("a") as log:
            log.writelines(task for _ in range(tasks))
        tracemalloc.start()
        importing.dry("spark", file)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    small, large = peak_bytes(1_000), peak_bytes(20_000)

    assert large < small * 1.5


def test_uploading_twice_creates_nothing_new(
    uploading: Importing, client: Client, workload: str, tmp_path: Path
) -> None:
    for number in range(3):
        word_count(app_id=f"app-{number}").end(60 + number).write(tmp_path / f"app-{number}")

    first = uploading("spark", tmp_path, "--workload", workload)
    second = uploading("spark", tmp_path, "--workload", workload)

    assert first.out == f"{workload}: 3 runs created, 0 already there\n"
    assert second.out == f"{workload}: 0 runs created, 3 already there\n"
    (newest, *_) = client.runs.all(workload)
    assert newest["phases"]["setup_seconds"] == 10.0
    assert newest["parameters"]["scheduler_mode"] == "FIFO"
