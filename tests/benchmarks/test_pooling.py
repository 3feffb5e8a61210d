"""The comparison of priors: what it leaves out, what it writes, what it prints."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.pooling.__main__ import main
from benchmarks.pooling.arms import ARMS, Priors, summarise_all
from benchmarks.pooling.workloads import first_runs_tasks, read_workloads, unseen_type_tasks

pytestmark = pytest.mark.lengthy

COLUMNS = (
    "run_id", "workload", "gpu_type", "workers", "batch_size", "duration_seconds", "param.depth",
)  # fmt: skip
RATES = {"V100-16GB": 1.0, "Tesla T4": 0.4}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for folder, names in (("first", ("a", "b")), ("second", ("c",))):
        (tmp_path / folder).mkdir()
        with (tmp_path / folder / "runs.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(COLUMNS)
            for name in names:
                for index, (gpu, rate) in enumerate(RATES.items()):
                    for workers in (1, 2, 4, 8):
                        seconds = (900 / workers + 20) / rate * (1 + 0.01 * index)
                        row = f"{name}-{gpu}-{workers}"
                        writer.writerow((row, name, gpu, workers, 32 * workers, seconds, 50))
    return tmp_path


def test_every_task_and_prior_is_a_row_of_the_file(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = data / "result.csv"

    main(["--data", str(data), "--only", "second", "--draws", "1", "--out", str(out)])

    with out.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["arm"] for row in rows} == set(ARMS)
    assert {row["kind"] for row in rows} == {"first 1", "first 3", "first 6", "unseen type"}
    assert len(rows) == len(ARMS) * 5
    assert all(float(row["mape"]) >= 0 and float(row["fit_seconds"]) > 0 for row in rows)
    assert "worse" in capsys.readouterr().out


def test_priors_that_are_asked_for_are_compared_with_none(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = data / "result.csv"
    options = ["--only", "second", "--draws", "1", "--types", "1", "--arms", "both"]

    main(["--data", str(data), *options, "--out", str(out)])

    with out.open(newline="") as stream:
        assert {row["arm"] for row in csv.DictReader(stream)} == {"alone", "both"}
    assert "factory" not in capsys.readouterr().out


def test_folder_without_enough_configurations_is_refused(data: Path) -> None:
    (data / "first" / "runs.csv").unlink()

    with pytest.raises(SystemExit, match="enough configurations"):
        main(["--data", str(data), "--only", "third", "--out", str(data / "result.csv")])


def test_tasks_hold_out_configurations_and_types(data: Path) -> None:
    workload = read_workloads(data, only=["second"])[0]

    first = next(first_runs_tasks(workload, (3,), 1))
    unseen = list(unseen_type_tasks(workload))

    assert (len(first.train), len(first.test)) == (3, 5)
    assert {row["run_id"] for row in first.train}.isdisjoint(row["run_id"] for row in first.test)
    assert {row["gpu_type"] for task in unseen for row in task.test} == {"T4", "V100-16GB"}
    assert all(
        {row["gpu_type"] for row in task.train}.isdisjoint(row["gpu_type"] for row in task.test)
        for task in unseen
    )


def test_as_many_types_are_left_out_as_asked_for(data: Path) -> None:
    workload = read_workloads(data, only=["second"])[0]

    names = [task.name for task in unseen_type_tasks(workload)]

    assert [task.name for task in unseen_type_tasks(workload, 1)] == names[:1]


def test_prior_of_a_workload_never_holds_itself_nor_its_data_set_as_public(data: Path) -> None:
    priors = Priors(summarise_all(read_workloads(data)), {})

    reports = {}
    for arm in ARMS:
        prior = priors.prior(arm, "first", "a")
        if prior is not None:
            reports[arm] = prior.report.contributors, prior.report.factory

    assert reports == {"factory": ((), 1), "project": (("b",), 0), "both": (("b",), 1)}


def test_only_so_many_other_workloads_of_a_project_contribute(data: Path) -> None:
    summaries = summarise_all(read_workloads(data))
    least = replace(summaries["first", "b"], workload="least", n_configurations=2)

    priors = Priors({("first", "least"): least, **summaries}, {}, max_contributors=1)

    prior = priors.prior("project", "first", "a")
    assert prior is not None
    assert prior.report.contributors == ("b",)


def test_configurations_are_those_of_completed_runs_whatever_else_a_row_tells(
    tmp_path: Path,
) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "runs.csv").write_text(
        "workload,status,started_at,duration_seconds,workers,label.git_sha\n"
        "one,succeeded,2026-11-01T10:00:00Z,50,1,a1\n"
        "one,,2026-11-02T10:00:00Z,52,1,b2\n"
        "one,preempted,2026-11-03T10:00:00Z,9,1,c3\n"
        "one,out_of_memory,2026-11-03T10:00:00Z,,2,c3\n"
    )

    workload = read_workloads(tmp_path)[0]

    assert [len(rows) for rows in workload.configurations()] == [2]
    assert workload.table().duration_seconds.tolist() == [50, 52]
