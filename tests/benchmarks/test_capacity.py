"""The simulated queue of fits agrees with what can be worked out by hand."""

import math
import re
from pathlib import Path

import pytest

from benchmarks.capacity.__main__ import parse
from benchmarks.capacity.refits import Demand, simulate


def test_refit_of_all_takes_the_work_divided_by_the_cores() -> None:
    demand = Demand(workloads=100, fits_per_hour=1e-6, fit_s=36.0, spread=0.0)

    outcome = simulate(demand, cores=4, hours=24)

    assert outcome.drained_h == pytest.approx(100 * 36 / 4 / 3600)
    assert math.isnan(outcome.wait_during_s)


def test_cores_that_do_not_suffice_never_drain() -> None:
    demand = Demand(workloads=100, fits_per_hour=1e-6, fit_s=3600.0, spread=0.0)

    assert simulate(demand, cores=1, hours=24).drained_h == math.inf


def test_mean_of_the_fits_is_the_one_asked_for() -> None:
    demand = Demand(workloads=4000, fits_per_hour=1e-6, fit_s=10.0, spread=0.7)

    outcome = simulate(demand, cores=1, hours=24)

    assert outcome.drained_h * 3600 == pytest.approx(40_000, rel=0.05)


def test_portions_shorten_the_wait_of_those_who_ask_meanwhile() -> None:
    demand = Demand(workloads=1000, fits_per_hour=60, fit_s=30.0, spread=0.5)

    at_once = simulate(demand, cores=4, hours=24)
    in_portions = simulate(demand, cores=4, hours=24, portions=24)

    assert in_portions.wait_during_s < at_once.wait_during_s / 5
    assert at_once.wait_after_s < 60


def test_plan_takes_the_bytes_of_a_run_that_were_measured() -> None:
    told = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")

    measured = re.search(r"^A run takes (\d+) bytes", told, re.MULTILINE)

    assert measured is not None
    assert parse([]).bytes_a_run == float(measured[1])
