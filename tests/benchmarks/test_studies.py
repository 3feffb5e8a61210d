"""What the studies of real GPUs say of forecasts, fitted again."""

import csv
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy.judging import Judgement, judge
from benchmarks.accuracy.profiles import read_profiles
from benchmarks.accuracy.traces import (
    SHIPPED_HARDWARE,
    Task,
    read_hardware,
    read_rows,
    to_tables,
)
from models import ConvergenceRuns, MemoryRuns, PooledPrior, factory_summaries
from models.accelerator_memory.fit import fit_memory_law
from models.convergence import ConvergenceLaw, fit_convergence

_STUDIES = Path(__file__).parents[2] / "examples" / "studies"


def test_runs_of_a_session_on_one_gpu_forecast_another_one() -> None:
    task = _other_gpu_task("profiled-gpu", "succeeded")

    found = _judge(task)

    assert (len(task.train), len(task.test)) == (5, 2)
    assert found.mape < 0.15
    assert found.coverage_90 == 1.0


@pytest.mark.parametrize(
    "name", ["single-gpu", "profiled-gpu", "ray-train-2core", "language-model"]
)
def test_measured_runs_are_uploads_without_doubles(name: str) -> None:
    with (_STUDIES / f"{name}.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))

    assert len({row["external_id"] for row in rows}) == len(rows) > 0
    assert all(float(row["duration_seconds"]) > 0 for row in rows)


def test_grid_holds_the_workloads_that_the_study_asks_about() -> None:
    profiles = list(read_profiles(_STUDIES / "single-gpu.csv", "single-gpu"))

    assert [profile.workload for profile in profiles] == ["cnn-gpu", "mlp-gpu", "transformer-gpu"]
    assert sum(len(profile.configurations) for profile in profiles) == 172


@pytest.mark.lengthy
def test_trainings_of_language_models_on_one_gpu_forecast_another_one() -> None:
    task = _other_gpu_task("language-model", "succeeded")

    found = _judge(task)

    assert (len(task.train), len(task.test)) == (54, 63)
    assert found.mape < 0.12
    assert found.coverage_90 > 0.95


def test_outcomes_on_one_gpu_say_what_fits_into_another_one() -> None:
    task = _other_gpu_task("language-model", "succeeded", "out_of_memory")
    train, test = to_tables(task)
    are_out, will_be_out = (
        np.array([row["status"] == "out_of_memory" for row in rows])
        for rows in (task.train, task.test)
    )
    evidence = MemoryRuns(train.features, are_out, np.full(len(are_out), np.nan))

    law = fit_memory_law(evidence, read_hardware(SHIPPED_HARDWARE))

    assert law is not None
    assert (are_out.sum(), will_be_out.sum()) == (7, 3)
    assert ((law.feasibility(test.features).probability < 0.5) == will_be_out).all()


def test_samples_to_a_target_follow_the_law_of_the_noise_scale() -> None:
    measured = {target: _convergence_runs(target) for target in ("2.4", "2.1", "1.8")}
    laws = {target: _law_of(runs) for target, runs in measured.items()}

    errors = [
        np.abs(laws[target].moments(runs.batch_size)[0] - np.log(runs.samples))
        for target, runs in measured.items()
    ]
    noise_scales = [law.noise_scale().median for law in laws.values()]

    assert np.median(np.concatenate(errors)) < 0.04
    assert noise_scales == sorted(noise_scales)
    between = _law_of(_chosen(measured["1.8"], (32, 128)))
    asked = _chosen(measured["1.8"], (64,))
    assert np.abs(between.moments(asked.batch_size)[0] - np.log(asked.samples)).max() < 0.1


def _other_gpu_task(name: str, *statuses: str) -> Task:
    """Return the task that knows a study's runs on the H100 and is asked about those on the H200.

    Runs that ended in another way than one of the statuses are left out.
    """
    rows = [row for row in read_rows(_STUDIES / f"{name}.csv") if row["status"] in statuses]
    h100, h200 = (tuple(row for row in rows if row["gpu_type"] == gpu) for gpu in ("H100", "H200"))
    return Task("studies", "h200", "extrapolation", "gpu_type", h100, h200)


def _judge(task: Task) -> Judgement:
    """Judge a task with the package's prior."""
    hardware = read_hardware(SHIPPED_HARDWARE)
    prior = PooledPrior.from_summaries([], hardware, factory_summaries())
    return judge(task, hardware, {}, 20.0, prior)


def _convergence_runs(target: str) -> ConvergenceRuns:
    """Return the samples to a target of the smaller of the two models."""
    with (_STUDIES / "convergence.csv").open(newline="") as stream:
        rows = [
            row
            for row in csv.DictReader(stream)
            if (row["layers"], row["target_nats_per_byte"]) == ("2", target)
        ]
    columns = (
        np.array([float(row[name]) for row in rows]) for name in ("batch_size", "samples_to_target")
    )
    return ConvergenceRuns(*columns)


def _chosen(runs: ConvergenceRuns, batch_sizes: tuple[int, ...]) -> ConvergenceRuns:
    is_chosen = np.isin(runs.batch_size, batch_sizes)
    return ConvergenceRuns(runs.batch_size[is_chosen], runs.samples[is_chosen])


def _law_of(runs: ConvergenceRuns) -> ConvergenceLaw:
    law = fit_convergence(runs)
    assert law is not None
    return law
