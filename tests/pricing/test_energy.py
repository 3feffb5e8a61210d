"""The power of a worker: from what is given, measured, or on the data sheet; the grid factor."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from app.domain.energy import EnergyTerms, MeasuredPower, PowerDraw
from app.domain.grid_factors import GridFactor
from app.pricing.energy import MeasuredPowers, power_draw
from app.pricing.grid import GridBook


def test_type_without_a_told_power_has_none_from_its_data_sheet() -> None:
    assert power_draw("TPU-v5e", EnergyTerms(utilization=0.5), {}) is None


def test_type_without_a_told_power_has_what_is_given_or_measured() -> None:
    measured: MeasuredPowers = {("TPU-v5e", None): MeasuredPower(watts=150.0, utilization=None)}

    assert power_draw("TPU-v5e", EnergyTerms(), measured) == PowerDraw(150.0, "measured")
    given = power_draw("TPU-v5e", EnergyTerms(watts_per_worker=120.0), measured)
    assert given == PowerDraw(120.0, "given")


def test_power_of_runs_without_hardware_is_no_power_of_a_gpu() -> None:
    measured: MeasuredPowers = {(None, None): MeasuredPower(watts=150.0, utilization=None)}

    assert power_draw("T4", EnergyTerms(), measured) == PowerDraw(70.0, "data_sheet")
    assert power_draw(None, EnergyTerms(), measured) == PowerDraw(150.0, "measured")


def test_power_without_a_gpu_is_that_of_the_instance_type_where_runs_measured_it() -> None:
    measured: MeasuredPowers = {
        (None, None): MeasuredPower(watts=200.0, utilization=0.5),
        (None, "c5.large"): MeasuredPower(watts=40.0, utilization=None),
        (None, "m5.large"): MeasuredPower(watts=None, utilization=0.9),
    }

    draws = [
        power_draw(None, EnergyTerms(), measured, instance_type=name)
        for name in ("c5.large", "m5.large", "r5.large", None)
    ]
    of_all = PowerDraw(200.0, "measured")
    assert draws == [PowerDraw(40.0, "measured"), of_all, of_all, of_all]


def test_given_utilization_goes_before_the_power_and_utilization_that_runs_measured() -> None:
    measured: MeasuredPowers = {
        ("V100", None): MeasuredPower(watts=120.0, utilization=None),
        ("A100", None): MeasuredPower(watts=None, utilization=None),
        (None, "box"): MeasuredPower(watts=None, utilization=0.25),
    }

    given = power_draw("V100", EnergyTerms(utilization=0.5), measured)
    of_machine = power_draw("A100", EnergyTerms(), measured, instance_type="box")

    # Of the boards that a name may mean, that with the largest design power counts.
    assert given == PowerDraw(150.0, "utilization")
    assert of_machine == PowerDraw(100.0, "utilization")


def test_power_of_a_gpu_goes_before_that_of_its_machine() -> None:
    measured: MeasuredPowers = {
        ("T4", None): MeasuredPower(watts=50.0, utilization=None),
        (None, "g4dn.xlarge"): MeasuredPower(watts=60.0, utilization=None),
    }

    draws = [
        power_draw(gpu, EnergyTerms(), measured, instance_type="g4dn.xlarge")
        for gpu in ("T4", "L4")
    ]
    assert draws == [PowerDraw(50.0, "measured"), PowerDraw(60.0, "measured")]


@pytest.mark.parametrize(
    ("provider", "region", "source"),
    [
        ("lab", "north", "lab north"),
        ("other", "north", "any north"),
        ("lab", "south", "lab 2024"),
        ("other", "south", "any any"),
        (None, None, "any any"),
    ],
)
def test_factor_of_the_most_specific_place_counts_then_the_latest(
    provider: str | None, region: str | None, source: str
) -> None:
    places = [("Lab", "North"), (None, "north"), ("lab", None), ("lab", None), (None, None)]
    names = ["lab north", "any north", "lab 2023", "lab 2024", "any any"]
    years = [2021, 2022, 2023, 2024, 2025]
    book = GridBook(
        GridFactor(Decimal(1), datetime(year, 1, 1, tzinfo=UTC), name, *place)
        for year, name, place in zip(years, names, places, strict=True)
    )

    factor = book.factor(provider, region, datetime(2026, 1, 1, tzinfo=UTC))

    assert factor is not None
    assert factor.source == source


def test_factor_that_is_stored_last_corrects_another_of_its_date() -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    wrong, right = (GridFactor(Decimal(text), day, text, "lab", "north") for text in ("5", "0.05"))

    factor = GridBook([wrong, right]).factor("lab", "north", day)

    assert factor == right
