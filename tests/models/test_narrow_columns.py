"""Years, versions and other parameters whose values lie close together count from the smallest."""

import numpy as np

from models import FeatureTable, FittedPortfolio, FloatArray, RunTable, dumps, fit_portfolio, loads

FACTOR = 0.8


def _dated(years: FloatArray, seed: int) -> FeatureTable:
    generator = np.random.default_rng(seed)
    n = len(years)
    numeric = {
        "workers": np.exp2(generator.integers(0, 4, n)).astype(float),
        "dataset_size": np.exp(generator.uniform(7, 10, n)),
        "param.year": years,
    }
    return FeatureTable(numeric, {}, n)


def _seconds(features: FeatureTable) -> FloatArray:
    numeric = features.numeric
    work: FloatArray = numeric["dataset_size"] / numeric["workers"]
    return work * FACTOR ** (numeric["param.year"] - 2020)


def _fit() -> FittedPortfolio:
    features = _dated(np.resize([2020.0, 2021.0, 2022.0, 2023.0, 2024.0], 30), 0)
    noise = np.exp(0.03 * np.random.default_rng(1).standard_normal(30))
    runs = RunTable(features, _seconds(features) * noise, [str(row) for row in range(30)])
    return loads(dumps(fit_portfolio(runs, seed=0, time_budget_s=60)))


def test_trend_over_years_goes_on_and_is_no_interpolation() -> None:
    portfolio = _fit()
    inside, later = (_dated(np.resize(years, 20), 2) for years in ([2020.0, 2023.0], [2026.0]))

    medians = portfolio.predict(inside).median()
    np.testing.assert_allclose(medians, _seconds(inside), rtol=0.15)
    forecast = portfolio.predict(later)
    lower, upper = forecast.interval(0.9)
    truth = _seconds(later)
    assert np.abs(np.log(forecast.median() / truth)).mean() < 0.25
    assert ((lower < truth) & (truth < upper)).mean() > 0.8
    axes = portfolio.support(later)[0].axes
    assert [(axis.name, axis.measured_min, axis.measured_max) for axis in axes] == [
        ("param.year", 2020.0, 2024.0)
    ]
    assert axes[0].distance > 0.3


def test_single_rows_are_answered_as_tables_are() -> None:
    portfolio = _fit()
    questions = _dated(np.array([2018.0, 2020.0, 2022.5, 2024.0, 2030.0, 0.0]), 3)

    alone = [portfolio.predict(questions.take(np.array([row]))).median().item() for row in range(6)]
    np.testing.assert_allclose(portfolio.predict(questions).median(), alone, rtol=1e-12)
