"""What a forecast says about its own error."""

import numpy as np

from models import fit_portfolio
from models.calibration.intervals import tempered
from tests.models.workloads import grid, make_features, make_runs


def test_typical_error_grows_with_the_distance_from_the_range() -> None:
    portfolio = fit_portfolio(make_runs(grid()), seed=0, time_budget_s=20)
    rows: list[dict[str, float | str]] = [
        {"workers": workers, "dataset_size": 1000, "epochs": 2, "gpu_type": "V100"}
        for workers in (16, 64, 256)
    ]

    errors = portfolio.predict(make_features(rows)).typical_error()

    assert (np.diff(errors) > 0).all()
    assert (errors > 0).all()


def test_typical_error_is_the_upper_half_of_the_half_interval() -> None:
    forecast = fit_portfolio(make_runs(grid()), seed=0, time_budget_s=20).predict(
        make_features([{"workers": 4, "dataset_size": 1000, "epochs": 2, "gpu_type": "V100"}])
    )

    _, upper = forecast.interval(0.5)

    np.testing.assert_allclose(upper / forecast.median() - 1, forecast.typical_error())


def test_trend_may_break_beyond_its_axis_most_of_all_beyond_one_of_two_levels() -> None:
    sizes = (1000, 2000, 4000)
    two, three = (
        fit_portfolio(make_runs(grid(workers, sizes)), seed=0, time_budget_s=20)
        for workers in ((1, 2), (1, 1.5, 2))
    )
    questions = make_features(
        [{"workers": 16, "dataset_size": 1000, "epochs": 2, "gpu_type": "V100"}]
    )

    assert two.trend_breaks[0] > three.trend_breaks[0] > 0
    assert two.predict(questions).scale[0] > tempered(np.array([0.3 * np.log(8)]))[0]


def test_few_configurations_leave_the_break_to_the_spread_of_the_exponents() -> None:
    few, more, many = (
        fit_portfolio(make_runs(grid((1, 2, 4), sizes)), seed=0, time_budget_s=20)
        for sizes in ((1000,), (1000, 2000), (1000, 2000, 4000))
    )

    assert not few.trend_breaks.any()
    assert 0 < more.trend_breaks[0] < many.trend_breaks[0]


def test_deviations_are_shrunk_to_a_typical_one_in_order() -> None:
    deviations = np.array([1e-4, 0.01, 0.12, 0.5, 5.0])

    shrunk = tempered(deviations)

    assert (np.diff(shrunk) > 0).all()
    assert (shrunk[:2] > deviations[:2]).all()
    assert (shrunk[3:] < deviations[3:]).all()
