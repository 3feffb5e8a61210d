"""The accuracy benchmark: it judges, prints its goals, draws, and repeats itself."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks.accuracy.__main__ import main, sample_tasks
from benchmarks.accuracy.drawing import draw_tasks
from benchmarks.accuracy.goals import (
    Goal,
    floor_table,
    goal_table,
    goals_of,
    read_targets,
    regime_of,
)
from benchmarks.accuracy.plots import draw_curve
from benchmarks.accuracy.profiles import split_tasks
from benchmarks.accuracy.tables import geometric_mean, groups_of, median
from benchmarks.accuracy.traces import Task, read_rows, to_tables
from tests.benchmarks.judged import JUDGED


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """Return a folder with one profile: three sizes on three numbers of workers, twice each."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    rows = [
        [
            "wide",
            f"r{size}-{workers}-{run}",
            "succeeded",
            3 + size / workers * by,
            workers,
            size,
            "",
        ]
        for size in (100, 200, 400)
        for workers in (1, 2, 4)
        for run, by in ((1, 0.99), (2, 1.01))
    ]
    rows.append(["wide", "lost", "preempted", 1.0, 1, 100, "x"])
    rows.append(["tiny", "", "", 5.0, 1, 100, "x"])
    header = ["workload", "external_id", "status", "duration_seconds", "workers", "dataset_size"]
    with (folder / "own.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([[*header, "param.kind"], *rows])
    return folder


def find(goals: Sequence[Goal], name: str) -> Goal:
    return next(goal for goal in goals if goal.name.startswith(name))


def test_profiles_become_tasks_whose_sides_share_no_configuration(profiles: Path) -> None:
    tasks = [*split_tasks(profiles / "own.csv", "own")]

    assert [(task.kind, task.axis) for task in tasks] == [
        ("interpolation", "random"),
        ("interpolation", "random"),
        ("extrapolation", "workers"),
        ("extrapolation", "dataset_size"),
    ]
    for task in tasks:
        assert {row["status"] for row in (*task.train, *task.test)} == {"succeeded"}
        sides = [
            {(row["workers"], row["dataset_size"]) for row in s} for s in (task.train, task.test)
        ]
        assert not sides[0] & sides[1]
        assert len(sides[0] | sides[1]) == 9
    assert {row["workers"] for row in tasks[2].test} == {"4"}


def test_tasks_are_drawn_anew_for_each_seed_and_their_sides_share_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    rows = [
        ["w", f"{gpu}-{workers}-{run}", 1 + 8 / workers, workers, gpu]
        for gpu in ("T4", "V100-16GB")
        for workers in (1, 2, 4, 8)
        for run in (1, 2)
    ]
    with (folder / "runs.csv").open("w", newline="") as stream:
        header = ["workload", "run_id", "duration_seconds", "workers", "gpu_type"]
        csv.writer(stream).writerows([header, *rows])

    tasks = draw_tasks(folder / "runs.csv", "own", seed=1)

    assert [(task.kind, task.axis) for task in tasks[:4]] == [
        ("interpolation", "random"),
        ("few-shot", "first 3"),
        ("extrapolation", "workers above"),
        ("extrapolation", "workers below"),
    ]
    known = {task.axis: len(task.train) for task in tasks[4:]}
    assert known == {f"gpu_type from {count}": 8 + 2 * count for count in (0, 1, 3)}
    assert {row["workers"] for row in tasks[2].test} == {"4", "8"}
    assert {row["workers"] for row in tasks[3].test} == {"1", "2"}
    for task in tasks:
        sides = [{(r["workers"], r["gpu_type"]) for r in s} for s in (task.train, task.test)]
        assert not sides[0] & sides[1]
    assert draw_tasks(folder / "runs.csv", "own", seed=1) == tasks
    assert draw_tasks(folder / "runs.csv", "own", seed=2) != tasks


@pytest.mark.lengthy
def test_command_judges_profiles_prints_goals_and_draws(
    profiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, plots = tmp_path / "result.csv", tmp_path / "plots"

    command = f"--data {profiles} --out {out} --plots {plots} --prior alone --sample 3 --group own"
    main(command.split())

    printed = capsys.readouterr().out
    assert "geometric mean error over own" in printed
    assert "own error within a factor of 2" in printed
    with out.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 3
    assert all(0 < float(row["mape"]) < 1 and "points" not in row for row in rows)
    drawn = {path.name for path in plots.iterdir()}
    assert "own-extrapolation-points.svg" in drawn
    assert any(name.endswith("-curve.svg") for name in drawn)
    assert all("<svg" in path.read_text() for path in plots.iterdir())


@pytest.mark.lengthy
def test_command_judges_data_sets_with_peers_in_several_processes(
    profiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out, peers = tmp_path / "data", tmp_path / "result.csv", tmp_path / "peers.csv"
    (data / "set").mkdir(parents=True)
    tasks = [*split_tasks(profiles / "own.csv", "own")][:1]
    rows = [{"gpu_type": "", **row} for task in tasks for row in (*task.train, *task.test)]
    with (data / "set" / "runs.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    documents = [
        {
            "task": "set/wide/interpolation-random",
            "kind": task.kind,
            "axis": task.axis,
            "train": [row["run_id"] for row in task.train],
            "test": [row["run_id"] for row in task.test],
        }
        for task in tasks
    ]
    (data / "set" / "tasks.json").write_text(json.dumps(documents))
    peers.write_text("task,status,mape\nset/wide/interpolation-random,ok,90\n")

    main(["--data", str(data), "--out", str(out), "--peers", str(peers), "--jobs", "2"])

    with out.open(newline="") as stream:
        found = list(csv.DictReader(stream))
    assert [float(row["ratio"]) < 1 for row in found] == [True]
    assert "ratio to the best peer" in capsys.readouterr().out


def test_folders_without_tasks_are_split_by_rule(profiles: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "result.csv"
    (data / "set").mkdir(parents=True)
    (profiles / "own.csv").rename(data / "set" / "runs.csv")

    main(["--data", str(data), "--out", str(out), "--sample", "2", "--prior", "left-out"])

    with out.open(newline="") as stream:
        assert [row["data_set"] for row in csv.DictReader(stream)] == ["set", "set"]


def test_runs_without_an_id_are_named_by_their_row(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("workload,external_id\none,ci-4\none,\n")

    assert [row["run_id"] for row in read_rows(path)] == ["ci-4", "row-1"]


def test_gpu_types_are_read_by_the_names_of_the_service(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("run_id,gpu_type\n1,NVIDIA A100-SXM4-80GB\n2,\n3,abacus\n")

    assert [row["gpu_type"] for row in read_rows(path)] == ["A100-80GB", "", "abacus"]


def test_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("run_id,workload\n1,one\n", encoding="utf-8-sig")

    assert [row["run_id"] for row in read_rows(path)] == ["1"]


@pytest.mark.parametrize("odd", ["inf", "1e120", "1_000", "auto"])
def test_parameters_are_categories_where_an_upload_takes_a_cell_for_text(odd: str) -> None:
    rows = [
        {"run_id": str(run), "workers": "2", "duration_seconds": "3", "param.a": cell, "param.b": b}
        for run, (cell, b) in enumerate([("4", "1"), ("", "nan"), (odd, "2.5")])
    ]

    runs, _ = to_tables(Task("folder", "task", "interpolation", "random", tuple(rows), ()))

    assert runs.features.categorical["param.a"] == ["4", None, odd]
    np.testing.assert_array_equal(runs.features.numeric["param.b"], [1.0, np.nan, 2.5])


def test_other_workloads_of_a_folder_tell_how_one_scales(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    runs = [
        f"{workload}-{workers},{workload},,{workers},{seconds * workers**-0.3}\n"
        for workload, seconds in (("asked", 50), ("b", 20), ("c", 300), ("d", 90), ("e", 1000))
        for workers in (1, 2, 4, 8, 16, 32)
    ]
    header = "run_id,workload,gpu_type,workers,duration_seconds\n"
    (folder / "runs.csv").write_text(header + "".join(runs))
    tasks = [
        {
            "task": "set/asked/few-shot",
            "kind": "interpolation",
            "axis": "random",
            "train": ["asked-2"],
            "test": ["asked-8", "asked-32"],
        }
    ]
    (folder / "tasks.json").write_text(json.dumps(tasks))

    def error(prior: str) -> float:
        out = tmp_path / f"{prior}.csv"
        main(["--data", str(tmp_path), "--out", str(out), "--prior", prior])
        with out.open(newline="") as stream:
            return float(next(csv.DictReader(stream))["mape"])

    assert error("project") < 0.5 * error("left-out")


def test_command_without_any_task_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="No folder"):
        main(["--data", str(tmp_path), "--out", str(tmp_path / "result.csv")])


def test_sample_is_the_same_in_any_order_and_covers_the_groups() -> None:
    tasks = [Task("a", f"a/{n}", "extrapolation", "workers", (), ()) for n in range(9)]
    tasks.append(Task("b", "b/only", "interpolation", "random", (), ()))

    chosen = sample_tasks(tasks, 2)

    assert {task.folder for task in chosen} == {"a", "b"}
    assert sample_tasks(tasks[::-1], 2) == chosen


def test_goals_are_met_by_good_forecasts() -> None:
    judged = [JUDGED, replace(JUDGED, task="a/w/x", kind="extrapolation", axis="workers")]
    targets = {("a", "random 70/30"): 0.05, ("a", "extrap. workers"): 0.06}

    goals = goals_of(judged, group=["a"], targets=targets)

    assert all(goal.is_met for goal in goals)
    assert len(goals) == 10


def test_goals_name_what_missed_them() -> None:
    bad = replace(
        JUDGED,
        task="b/w/y",
        data_set="b",
        mape=0.5,
        coverage_90=0.5,
        peer_mape=0.1,
        own_estimate=0.1,
    )
    targets = {("b", "random 70/30"): 0.4}

    goals = goals_of([JUDGED, bad], group=["b"], unseen=["b"], targets=targets)

    assert [goal.name for goal in goals if goal.is_met] == []
    assert find(goals, "worst ratio").remark == "b/w/y"
    assert "b interpolation random 0.50" in find(goals, "coverage of the .9 interval, each").remark
    assert "50.0/40.0" in find(goals, "groups at or below").remark


def test_own_error_is_told_apart_where_many_test_runs_fix_the_true_one() -> None:
    drawn = replace(JUDGED, task="a/w/few", own_estimate=0.5)
    many = replace(JUDGED, task="a/w/many", n_test=30)

    goal = find(goals_of([drawn, many]), "own error")

    assert goal.found == "50.0%"
    bound = "exactly calibrated forecasts would know 0.0%"
    assert goal.remark == f"{bound}; 100.0% of the 1 tasks with 30 test runs or more"
    assert find(goals_of([drawn]), "own error").remark == bound


def test_goals_without_peers_group_or_targets_are_left_out() -> None:
    alone = replace(JUDGED, peer_mape=float("nan"), noise_floor=float("nan"))

    names = [goal.name for goal in goals_of([alone])]

    assert not any("peer" in name or "mean" in name for name in names)
    assert floor_table([alone]) is None


def test_noise_of_repetitions_is_shown_where_it_stands_in_the_way() -> None:
    held = replace(JUDGED, mape=0.09, noise_floor=0.1, peer_mape=0.08)

    goals = goals_of([held], group=["a"])

    console = Console(width=200, record=True, file=StringIO())
    table = floor_table([held])
    assert table is not None
    console.print(table)
    console.print(goal_table(goals))
    assert "a/w/interpolation-random" in console.export_text()
    assert find(goals, "better than").remark.startswith("1 of 1 lost tasks")
    assert "8.0%" in find(goals, "geometric mean").remark


def test_targets_are_read_from_a_table_among_other_lines(tmp_path: Path) -> None:
    path = tmp_path / "targets.md"
    path.write_text("# Title\n| set | regime | tasks | median |\n| --- | --- | --- | --- |\n")
    with path.open("a") as stream:
        stream.write("| x | transfer gpu_type | 6 | 28.5 | 3 |\n")

    assert read_targets(path) == {("x", "transfer gpu_type"): pytest.approx(0.285)}
    assert read_targets(None) == {}
    assert regime_of(("x", "interpolation", "random")) == "random 70/30"


def test_means_pass_over_what_is_unknown() -> None:
    assert np.isnan(geometric_mean([]))
    assert np.isnan(median([float("nan")]))
    assert list(groups_of([JUDGED])) == [("a", "interpolation", "random")]


def test_curves_are_not_drawn_along_categories_or_without_a_common_configuration(
    tmp_path: Path,
) -> None:
    rows = tuple(
        {"run_id": str(n), "workers": str(n), "param.a": str(n), "duration_seconds": "9"}
        for n in (1, 2, 3)
    )
    category = Task("a", "a/w/x", "extrapolation", "gpu_type", rows[:2], rows[2:])
    apart = Task("a", "a/w/x", "extrapolation", "workers", rows[:2], rows[2:])

    assert draw_curve(category, {}, None, 1.0, tmp_path) is None
    assert draw_curve(apart, {}, None, 1.0, tmp_path) is None
