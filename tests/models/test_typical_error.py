"""What a forecast says about its own error."""

import numpy as np

from models import fit_portfolio
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
