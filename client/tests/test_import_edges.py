"""What imports say where sources or services are unusual."""

from pathlib import Path

import pytest
from trainfare_client.importers.naming import run_key

from client.tests.importing import Importing, written
from client.tests.spark_logs import START_MS, SparkStory


def test_key_that_is_too_long_or_unprintable_is_a_digest_of_itself() -> None:
    long, unprintable = run_key("slurm", "x" * 1000), run_key("slurm", "a\nb")

    assert run_key("slurm", "x" * 1000) == long
    assert len(long) < 100
    assert long.startswith("slurm:")
    assert unprintable.isprintable()
    assert len({long, unprintable, run_key("slurm", "x" * 1001)}) == 3


def test_driver_s_time_has_none_of_jobs_that_overlap(importing: Importing, tmp_path: Path) -> None:
    story = SparkStory()
    for number, seconds in ((1, 10), (2, 20)):
        at_ms = START_MS + seconds * 1000
        story.add("JobStart", **{"Job ID": number, "Submission Time": at_ms})
    for number, seconds in ((1, 30), (2, 40)):
        at_ms = START_MS + seconds * 1000
        story.add("JobEnd", **{"Job ID": number, "Completion Time": at_ms})

    (row,) = importing.dry("spark", story.end(60).write(tmp_path / "a"))

    assert (row["phase.setup_seconds"], row["phase.driver_seconds"]) == ("10.0", "20.0")


def test_task_that_failed_counts_with_its_time_alone(importing: Importing, tmp_path: Path) -> None:
    story = SparkStory().executor("1", "a", cores=1).job(from_s=0, to_s=50)
    story.task(from_s=0, to_s=20, run_s=20, reason="ExceptionFailure")
    story.task(from_s=20, to_s=50, run_s=30)

    (row,) = importing.dry("spark", story.end(60).write(tmp_path / "a"), "--map", "epochs=run_ms")

    assert (row["label.tasks"], row["label.failed_tasks"]) == ("2", "1")
    assert (row["dataset_size"], row["label.input_records"]) == ("1000", "10")
    assert row["epochs"] == "50000"


def test_service_that_is_none_is_told_without_rows(
    importing: Importing, service_url: str, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.csv", "workload,duration_seconds\nw,2.5\n")

    result = importing("csv", file, "--url", f"{service_url}/elsewhere")

    assert result.exit_code != 0
    assert "404" in result.err


@pytest.mark.parametrize("line", ["sep=;,", 'sep="', 'sep=""'])
def test_line_that_states_no_separator_is_a_header(
    importing: Importing, tmp_path: Path, line: str
) -> None:
    file = written(tmp_path / "a.csv", f"{line}\nworkload,duration_seconds\nw,1.5\n")

    answer = importing("csv", file, "--dry-run")

    assert answer.exit_code == 1
    assert f"{file}:" in answer.err


@pytest.mark.parametrize("rows_behind", [3, 20_000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_quote_that_nothing_closes_is_named_by_the_line_in_which_its_row_begins(
    importing: Importing, tmp_path: Path, end: str, rows_behind: int
) -> None:
    lines = ["workload,duration_seconds,label.note", 'w,1,"a', 'b"', 'w,2,"c']
    file = tmp_path / "a.csv"
    file.write_text(end.join([*lines, *["w,3,d"] * rows_behind]), newline="")

    answer = importing("csv", file, "--dry-run")

    assert answer.exit_code == 1
    assert f"{file}:4: It is not CSV" in answer.err
