"""Slurm's accounting as `sacct --parsable2` prints it."""

from pathlib import Path

import pytest
from trainfare_client.importers.command import main
from trainfare_client.importers.sacct import COLUMNS

from client.tests.importing import Importing, written

_COLUMNS = "Cluster|JobID|JobIDRaw|JobName|State|ElapsedRaw|Start|NNodes|AllocCPUS|AllocTRES"
_JOB = "tiger|{id}|{raw}|{name}|{state}|{elapsed}|2026-11-01T10:00:00|{nodes}|16|{tres}"
_TRES = "billing=16,cpu=16,gres/gpu:a100=8,gres/gpu=8,mem=256G,node=2"


def _job(job_id: object = 7, **changes: object) -> str:
    values = {
        "id": job_id,
        "raw": job_id,
        "name": "train",
        "state": "COMPLETED",
        "elapsed": 3600,
        "nodes": 2,
        "tres": _TRES,
    }
    return _JOB.format(**{**values, **changes})


def _output(folder: Path, *lines: str, columns: str = _COLUMNS) -> Path:
    return written(folder / "sacct.txt", "\n".join([columns, *lines, ""]))


def test_job_becomes_a_run_on_its_gpus_and_nodes(importing: Importing, tmp_path: Path) -> None:
    (row,) = importing.dry("sacct", _output(tmp_path, _job()))

    assert row == {
        "workload": "train",
        "external_id": "slurm:tiger/7",
        "status": "succeeded",
        "duration_seconds": "3600.0",
        "started_at": "2026-11-01T10:00:00+00:00",
        "gpu_type": "a100",
        "nodes": "2",
        "workers": "8",
        "label.cluster": "tiger",
        "label.job_name": "train",
        "param.cpus": "16",
    }


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("COMPLETED", "succeeded"),
        ("FAILED", "failed"),
        ("NODE_FAIL", "failed"),
        ("TIMEOUT", "timed_out"),
        ("DEADLINE", "timed_out"),
        ("PREEMPTED", "preempted"),
        ("OUT_OF_MEMORY", "out_of_memory"),
        ("OUT_OF_ME+", "out_of_memory"),
        ("CANCELLED", "cancelled"),
        ("CANCELLED by 1000", "cancelled"),
        ("REQUEUED", "cancelled"),
    ],
)
def test_states_become_outcomes(
    state: str, status: str, importing: Importing, tmp_path: Path
) -> None:
    (row,) = importing.dry("sacct", _output(tmp_path, _job(state=state)))

    assert row["status"] == status


def test_steps_and_jobs_that_go_on_are_left_out_and_counted(
    importing: Importing, tmp_path: Path
) -> None:
    file = _output(
        tmp_path,
        _job(),
        _job("7.batch"),
        _job("7.extern"),
        _job("7.0"),
        _job(8, state="RUNNING"),
        _job(9, state="PENDING", elapsed=0),
        _job("10_[3-9]", state="PENDING"),
        _job("11+0"),
        _job(12, state="CANCELLED by 0", elapsed=0),
    )

    answer = importing("sacct", file, "--dry-run")

    assert [row["external_id"] for row in answer.rows] == ["slurm:tiger/7"]
    assert "Left out: 3 steps of jobs" in answer.err
    assert "Left out: 3 jobs that have not ended" in answer.err
    assert "Left out: 1 parts of heterogeneous jobs" in answer.err
    assert "Left out: 1 jobs that never ran, or for less than a second" in answer.err


def test_tasks_of_an_array_are_runs_of_their_own(importing: Importing, tmp_path: Path) -> None:
    file = _output(tmp_path, _job("20_1", raw=21), _job("20_2", raw=20))

    first, second = importing.dry("sacct", file)

    assert first["external_id"] == "slurm:tiger/21"
    assert first["label.array_job"] == "20"
    assert second["label.array_task"] == "2"


def test_job_that_was_requeued_is_a_run_each_time_that_it_started(
    importing: Importing, tmp_path: Path
) -> None:
    begun = _job(state="PREEMPTED", elapsed=60)

    counted = importing.dry("sacct", _output(tmp_path, begun, _job()))
    file = _output(tmp_path, begun + "|0", _job() + "|1", columns=_COLUMNS + "|Restarts")
    rows = importing.dry("sacct", file)

    keys = ["slurm:tiger/7", "slurm:tiger/7/restart-1"]
    assert [row["external_id"] for row in counted] == keys
    assert [row["external_id"] for row in rows] == keys
    assert [row["status"] for row in rows] == ["preempted", "succeeded"]


def test_job_that_was_resized_is_no_run_of_its_last_configuration(
    importing: Importing, tmp_path: Path
) -> None:
    file = _output(
        tmp_path,
        *[_job(state="RESIZING", elapsed=900) + "|0", _job(nodes=1, state="PREEMPTED") + "|0"],
        *[_job(elapsed=5000) + "|1", _job(8) + "|0"],
        columns=_COLUMNS + "|Restarts",
    )

    answer = importing("sacct", file, "--dry-run")

    kept = [(row["external_id"], row["duration_seconds"]) for row in answer.rows]
    assert kept == [("slurm:tiger/7/restart-1", "5000.0"), ("slurm:tiger/8", "3600.0")]
    assert "Left out: 2 parts of jobs that were resized" in answer.err


@pytest.mark.parametrize(("columns", "ending"), [(_COLUMNS, ""), (_COLUMNS + "|Restarts", "|0")])
def test_job_in_several_exports_is_one_run(
    columns: str, ending: str, importing: Importing, tmp_path: Path
) -> None:
    (tmp_path / "february").mkdir()
    january = _output(tmp_path, _job() + ending, columns=columns)
    february = _output(tmp_path / "february", _job() + ending, _job(8) + ending, columns=columns)

    answer = importing("sacct", january, february, "--dry-run")

    assert [row["external_id"] for row in answer.rows] == ["slurm:tiger/7", "slurm:tiger/8"]
    assert "Left out: 1 jobs that were read before" in answer.err


@pytest.mark.parametrize(
    ("columns", "cells", "gpu_type", "workers"),
    [
        ("AllocTRES", "cpu=4,gres/gpu=4", None, "4"),
        ("AllocTRES", "cpu=4,gres/gpu:h100_1g.5gb=2,gres/gpu=2", "h100_1g.5gb", "2"),
        ("AllocTRES", "cpu=4,mem=1G", None, "2"),
        ("ReqTRES", "cpu=4,gres/gpu:v100=2", "v100", "2"),
        ("AllocTRES|ReqGRES|", "cpu=4|gpu:1|", None, "2"),
        ("AllocGRES", "gpu:tesla:4(S:0-1)", "tesla", "4"),
        ("AllocGRES", "gpu:tesla:3(IDX:0,2-3),nic:1", "tesla", "3"),
        ("ReqGRES", "gpu:tesla:4", "tesla", "8"),
    ],
)
def test_gpus_are_counted_in_every_spelling_of_slurm(
    columns: str,
    cells: str,
    gpu_type: str | None,
    workers: str,
    importing: Importing,
    tmp_path: Path,
) -> None:
    file = _output(
        tmp_path,
        f"5|train|COMPLETED|1-00:00:30|2|{cells}",
        columns=f"JobID|JobName|State|Elapsed|NNodes|{columns}",
    )

    (row,) = importing.dry("sacct", file)

    assert row.get("gpu_type") == gpu_type
    assert row["workers"] == workers
    assert row["duration_seconds"] == "86430.0"
    assert row["external_id"] == "slurm:5"


@pytest.mark.parametrize("options", [(), ("--delimiter", r"\t")])
def test_columns_may_be_separated_by_what_no_name_holds(
    options: tuple[str, ...], importing: Importing, tmp_path: Path
) -> None:
    columns, job = (line.replace("|", "\t") for line in (_COLUMNS, _job(name="NAME")))
    file = _output(tmp_path, job.replace("NAME", "a|b"), columns=columns)

    (row,) = importing.dry("sacct", file, *options)

    assert row["label.job_name"] == "a|b"


def test_columns_that_are_not_needed_may_be_missing_or_empty(
    importing: Importing, tmp_path: Path
) -> None:
    columns = "JobIDRaw|JobName|State|ElapsedRaw|NNodes|ReqGRES"
    lines = ["5|train|COMPLETED|60|0|gpu:t4:2", "6|train|COMPLETED|60||gpu:t4:2"]
    file = _output(tmp_path, *lines, "6.batch|train|COMPLETED|60|1|", columns=columns)

    answer = importing("sacct", file, "--dry-run")

    assert [(row["external_id"], row["workers"]) for row in answer.rows] == [
        ("slurm:5", "2"),
        ("slurm:6", "2"),
    ]
    assert all("nodes" not in row for row in answer.rows)
    assert "Left out: 1 steps of jobs" in answer.err


def test_comment_tells_the_work_and_maps_what_they_want(
    importing: Importing, tmp_path: Path
) -> None:
    file = _output(
        tmp_path,
        _job() + "|dataset_size=50000,batch_size=256 depth=50",
        columns=_COLUMNS + "|Comment",
    )

    (row,) = importing.dry("sacct", file, "--map", "param.depth=comment.depth")

    assert (row["dataset_size"], row["batch_size"], row["param.depth"]) == ("50000", "256", "50")


def test_instants_are_read_in_the_zone_that_is_named(importing: Importing, tmp_path: Path) -> None:
    file = _output(tmp_path, _job())

    (row,) = importing.dry("sacct", file, "--timezone", "Europe/Berlin")

    assert row["started_at"] == "2026-11-01T09:00:00+00:00"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (_job(state="MELTED"), "Slurm has no state 'MELTED'."),
        (_job(elapsed="soon"), "The elapsed time 'soon' is not understood."),
        (_job(tres="gres/gpu:a100=2,gres/gpu:v100=2"), "several types of GPU: a100, v100"),
        (_job(name="a|b"), "by '|' alone; if cells hold it, by another --delimiter."),
        (_job(name="***"), "The run's workload is not known."),
        (_job().replace("2026-11-01T10", "yesterday"), "The time 'yesterday:00:00'"),
    ],
)
def test_bad_line_is_named(line: str, said: str, importing: Importing, tmp_path: Path) -> None:
    file = _output(tmp_path, _job(), line)

    answer = importing("sacct", file, "--dry-run")

    assert answer.exit_code == 1
    assert f"{file}:3: " in answer.err
    assert said in answer.err


def test_columns_that_are_missing_are_named_with_the_command(
    importing: Importing, tmp_path: Path
) -> None:
    file = _output(tmp_path, "1|train|COMPLETED", columns="JobID|JobName|State")

    answer = importing("sacct", file, "--dry-run")

    assert answer.exit_code == 1
    assert "There is no column ElapsedRaw." in answer.err
    assert "sacct --parsable2 --duplicates --format=" in answer.err


def test_help_names_each_needed_column_in_one_piece(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    with pytest.raises(SystemExit):
        main(["sacct", "--help"])

    words = capsys.readouterr().out.replace(",", " ").replace(";", " ").split()
    assert set(COLUMNS.split(",")) <= set(words)


def test_other_attempt_under_the_same_id_is_told_by_what_differs(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    job = _job(name=workload, raw=f"{workload}-7", state="FAILED", elapsed=60)
    requeued = _job(name=workload, raw=f"{workload}-7")

    uploading("sacct", _output(tmp_path, job))
    refused = uploading("sacct", _output(tmp_path, requeued))
    skipped = uploading("sacct", _output(tmp_path, requeued), "--skip-invalid")

    assert (refused.exit_code, skipped.exit_code) == (1, 0)
    assert "import the others with --skip-invalid" in refused.err
    for answer in (refused, skipped):
        assert "sacct.txt:2: duration_seconds 3600.0: " in answer.err
        assert "sacct.txt:2: status 'succeeded': " in answer.err
