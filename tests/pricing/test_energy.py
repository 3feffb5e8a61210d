"""The power of a worker: from what is given, measured, or on the data sheet."""

from app.domain.energy import EnergyTerms, MeasuredPower, PowerDraw
from app.pricing.energy import MeasuredPowers, power_draw


def test_type_without_a_told_power_has_none_from_its_data_sheet() -> None:
    assert power_draw("TPU-v5e", EnergyTerms(utilization=0.5), {}) is None


def test_type_without_a_told_power_has_what_is_given_or_measured() -> None:
    measured: MeasuredPowers = {("TPU-v5e", None): MeasuredPower(watts=150.0, utilization=None)}

    assert power_draw("TPU-v5e", EnergyTerms(), measured) == PowerDraw(150.0, "measured")
    given = power_draw("TPU-v5e", EnergyTerms(watts_per_worker=120.0), measured)
    assert given == PowerDraw(120.0, "given")
