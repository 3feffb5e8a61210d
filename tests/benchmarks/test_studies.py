"""What the studies of real GPUs say of forecasts, fitted again."""

import csv
from pathlib import Path

import pytest

from benchmarks.accuracy.judging import judge
from benchmarks.accuracy.profiles import read_profiles
from benchmarks.accuracy.traces import SHIPPED_HARDWARE, Task, read_hardware, read_rows
from models import PooledPrior, factory_summaries

_STUDIES = Path(__file__).parents[2] / "examples" / "studies"


def test_runs_of_a_session_on_one_gpu_forecast_another_one() -> None:
    rows = [*read_rows(_STUDIES / "profiled-gpu.csv")]
    session = tuple(row for row in rows if row["gpu_type"] == "H100")
    others = tuple(row for row in rows if row["gpu_type"] == "H200")
    hardware = read_hardware(SHIPPED_HARDWARE)
    prior = PooledPrior.from_summaries([], hardware, factory_summaries())

    asked = Task("studies", "h200", "extrapolation", "gpu_type", session, others)
    found = judge(asked, hardware, {}, 20.0, prior)

    assert (len(session), len(others)) == (5, 2)
    assert found.mape < 0.15
    assert found.coverage_90 == 1.0


@pytest.mark.parametrize("name", ["single-gpu", "profiled-gpu", "ray-train-2core"])
def test_measured_runs_are_uploads_without_doubles(name: str) -> None:
    with (_STUDIES / f"{name}.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))

    assert len({row["external_id"] for row in rows}) == len(rows) > 0
    assert all(float(row["duration_seconds"]) > 0 for row in rows)


def test_grid_holds_the_workloads_that_the_study_asks_about() -> None:
    profiles = list(read_profiles(_STUDIES / "single-gpu.csv", "single-gpu"))

    assert [profile.workload for profile in profiles] == ["cnn-gpu", "mlp-gpu", "transformer-gpu"]
    assert sum(len(profile.configurations) for profile in profiles) == 172
